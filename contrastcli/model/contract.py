"""A model's contract: all that makes embeddings of a backbone's token vectors, read, changed and written here.

    modules.json                        the chain: Transformer, pooling, then dense layers, layer norms, unit length
    1_…/config.json                     a folder for each module after the first
    sentence_bert_config.json           the longest text in tokens, and whether texts are lowercased
    config_sentence_transformers.json   prompts by name, the similarity function, and the numbers that are kept

This is sentence-transformers' layout. `mean-no-cls` is written as WordWeights with 0 for CLS before mean pooling,
`mask` as WordWeights with 1 for the mask token and 0 for all others, a suffix into the tokenizer's template,
`first-last` and `last-mean` as WeightedLayerPooling before it, SimCSE's head as Dense with Tanh after it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from contrastcli.data.tokens import Tokenizer, special_names
from contrastcli.errors import DataError, UsageError, Use, error_text
from contrastcli.files import json_bytes, read_json
from contrastcli.model.backbone import attention_of, is_classifier, longest_of, read_config
from contrastcli.model.pooling import Dense, Normalize, in_words, width_after
from contrastcli.model.prompts import MASK_PROMPT, MASK_SUFFIX, PROMPT_NAMES, all_named, read_prompts
from contrastcli.model.weights import DOWNLOAD, config_file, read_weights
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Attention, Kind, Model, Pooling

_PACKAGE = "sentence_transformers."
# The names of modules in sentence-transformers 2 to 6.
_MODULES = f"{_PACKAGE}models."
_CHAIN = re.compile(
    "(StaticEmbedding|Transformer( WordWeights| WeightedLayerPooling)? Pooling)( Dense| LayerNorm| Normalize)*"
)
"""The supported modules up to the pooling, and those that may follow, any number of each in any order."""
_LAYERS: dict[Pooling, int] = {"first-last": 0, "last-mean": -2}
"""The layer that is averaged with the last one."""
_MODES: Mapping[str, Pooling] = {"cls": "cls", "mean": "mean", "lasttoken": "last"}
"""Poolings by their names in files."""
_ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    kind.__name__: kind
    for kind in (nn.Tanh, nn.Identity, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Softplus)
}
"""Activations of a dense layer. No other class is made from a name in a file."""
_DIMS = "matryoshka_dimensions"
"""The key of config.json by which vLLM and others know the sizes at which a model was trained."""
CLASSIFIER = "{} is a classifier, such as a cross-encoder: what it has on top is not used, and it was no embedder"
# transformers writes 1e30 tokens where there is no limit.
_NO_LIMIT = 1e9


@dataclass(frozen=True, eq=False)
class Contract:
    """How a backbone's token vectors become embeddings, and what it reads.

    `backbone` is its folder, `after` the layers that follow the pooling. `prompts` are texts by name, of which
    `default` names the one that texts of no kind get. Without `include_prompt` no prompt's tokens are pooled.
    `max_length` counts a text's tokens, None for as many as the backbone reads. `attention` says which tokens a token
    sees, in the backbone's config.json. Of a folder's `truncate_dim`, only so many first numbers are kept.
    """

    backbone: Path
    pooling: Pooling = "mean"
    after: nn.Sequential = field(default_factory=nn.Sequential)
    prompts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    include_prompt: bool = True
    similarity: str = "cosine"
    dims: tuple[int, ...] = ()
    """The sizes below the whole at which embeddings were trained, the smallest first."""
    max_length: int | None = None
    lowercase: bool = False
    attention: Attention = "bidirectional"
    suffix: str = ""
    """What follows every text. A tokenizer that was saved with it has it already."""
    is_stated: bool = True
    """Whether the folder states it; else it is a bare backbone."""
    is_classifier: bool = False
    """Whether a bare backbone comes with a classifier on top, which no embedding uses."""
    truncate_dim: int | None = None
    is_static: bool = False
    """Whether the backbone is a vector for each token."""

    def prompt(self, kind: Kind | None = None) -> str:
        """What stands before a text of a kind; without a prompt for that kind, or for none, the default one."""
        names = [name for name in PROMPT_NAMES[kind] if name in self.prompts] if kind else []
        name = next(iter(names), self.default)
        return self.prompts[name] if name is not None else ""

    def prompts_of(self, words: str, own: Mapping[str, str], form: Form, views: Iterable[str]) -> dict[str, str]:
        """What stands before the texts of each view in training, by model.prompts, once `adapted` to it.

        `own` are the backbone's prompts, which it may name. By default the anchors of pairs and triplets are queries,
        and the other texts documents; where the rows are of another form, all are texts of no kind.
        """
        roles = {view: view.partition("_")[0] for view in views}
        kinds: dict[str, Kind | None] = dict.fromkeys(roles.values())
        if form in ("pairs", "triplets", "scored-triplets"):
            kinds = {role: "query" if role == "anchor" else "document" for role in kinds}
        typed = {role: own.get(text, text) for role, text in read_prompts(words).items()}
        texts = {role: self.prompt(kind) for role, kind in kinds.items()}
        return {view: (texts | typed)[role] for view, role in roles.items()}

    @property
    def normalizes(self) -> bool:
        """Whether embeddings have unit length."""
        return len(self.after) > 0 and isinstance(self.after[-1], Normalize)

    def with_pooling(self, pooling: Pooling) -> tuple["Contract", list[str]]:
        """The contract with another pooling, and what it drops in words: the layers that were trained for its own.

        Raises UsageError for a decoder, of whose tokens only the last has seen the text.
        """
        if pooling == self.pooling:
            return self, []
        if self.attention == "causal" and pooling != "last":
            what = f"the backbone is a decoder: a token sees those before it, so {pooling} pooling is not its own"
            remedies = [Use("--pooling", self.pooling, "use"), Use("--attention", "bidirectional", "train it with")]
            raise UsageError(what, remedies, key="model.pooling")
        kept = [module for module in self.after if isinstance(module, Normalize)]
        dropped = [in_words(module) for module in self.after if not isinstance(module, Normalize)]
        contract = replace(self, pooling=pooling, after=nn.Sequential(*kept))
        if pooling == "mask" and not self.suffix:
            prompts = dict.fromkeys(("query", "document"), MASK_PROMPT)
            contract = replace(contract, prompts=prompts, default="query", suffix=MASK_SUFFIX, include_prompt=True)
        return contract, dropped

    def shortened(self, dim: int, width: int, *, rescale: bool = True) -> "Contract":
        """The contract of the first `dim` numbers of a width, kept by a dense layer; `rescale` restores unit length."""
        layer = Dense(width, dim, False, nn.Identity())
        nn.init.eye_(layer.linear.weight)
        after = nn.Sequential(*self.after).insert(len(self.after) - (rescale and self.normalizes), layer)
        return replace(self, after=after, dims=tuple(less for less in self.dims if less < dim), truncate_dim=None)

    def truncate(self, vectors: Tensor, dim: int) -> Tensor:
        """Embeddings as `shortened` makes them: (B, d) → (B, dim)."""
        return nn.functional.normalize(vectors[:, :dim], dim=1) if self.normalizes else vectors[:, :dim]

    def steps(self) -> list[str]:
        """From token vectors to an embedding, in words, a step each."""
        return [f"{self.pooling} pooling", *map(in_words, self.after)]

    def __str__(self) -> str:
        cut = [f"first {self.truncate_dim} numbers"] * bool(self.truncate_dim)
        words = [" → ".join(["causal attention"] * (self.attention == "causal") + self.steps() + cut)]
        words += [f"trained at {', '.join(map(str, self.dims))} numbers too"] * bool(self.dims)
        words += [f"{name} prompt {text!r}" for name, text in self.prompts.items() if text]
        words += [f"then {self.suffix!r}"] * bool(self.suffix)
        words += ["prompts are not pooled"] * (not self.include_prompt)
        return "; ".join(words)


def adapted(contract: Contract, settings: Model) -> tuple[Contract, list[str]]:
    """The contract to train under, and what the settings change of the one that a folder states, in words."""
    own, notes = contract, [CLASSIFIER.format("the backbone")] * contract.is_classifier
    if settings.attention not in ("auto", own.attention):
        contract = own = _opened(own)
        notes.append("model.attention is bidirectional instead of the backbone's causal")
    if settings.pooling != "auto":
        contract, dropped = own.with_pooling(settings.pooling)
        if contract is not own and own.is_stated:
            without = f", without the backbone's {' and '.join(dropped)}" if dropped else ""
            notes.append(f"model.pooling is {settings.pooling} instead of the backbone's {own.pooling}{without}")
    if own.max_length and settings.max_length > own.max_length:
        contract = replace(contract, max_length=settings.max_length)
        notes.append(f"model.max_length is {settings.max_length:,} instead of the backbone's {own.max_length:,} tokens")
    contract = _with_words(contract, own.prompts, settings)
    if own.suffix not in ("", contract.suffix):
        notes.append(f"model.suffix is {contract.suffix!r} instead of the backbone's {own.suffix!r}")
    if changed := [name for name, text in own.prompts.items() if text and contract.prompts.get(name) != text]:
        notes.append(f"model.prompts replaces the backbone's prompt{'s' * (len(changed) > 1)} {', '.join(changed)}")
    if contract.similarity != "cosine" and not contract.normalizes:
        notes.append(f"the backbone compares by {contract.similarity}: training and its scores compare by cosine")
        contract = replace(contract, similarity="cosine")
    if lost := [str(dim) for dim in own.dims if dim not in settings.sizes]:
        words = ",".join(map(str, own.dims))
        notes.append(f"the backbone was trained at {', '.join(lost)} numbers too, and this run is not: --dims {words}")
    return replace(contract, dims=tuple(sorted(settings.sizes))), notes


def _with_words(contract: Contract, own: Mapping[str, str], settings: Model) -> Contract:
    """The contract with the prompts, by text or by name among a backbone's `own`, and the suffix of the settings."""
    if settings.suffix:
        # What follows a text is pooled, and so is its prompt.
        contract = replace(contract, suffix=settings.suffix, include_prompt=True)
    if typed := read_prompts(settings.prompts):
        query, document = (own.get(typed[role], typed[role]) for role in ("anchor", "positive"))
        # Texts of no kind would lack the words that the suffix continues.
        default = "query" if contract.suffix else contract.default
        return replace(contract, prompts={**contract.prompts, "query": query, "document": document}, default=default)
    if settings.prompts in ("auto", "none"):
        return contract if settings.prompts == "auto" else replace(contract, prompts={}, default=None)
    prompts = dict.fromkeys(("default", "query", "document"), own.get(settings.prompts, settings.prompts))
    return replace(contract, prompts=prompts, default="default")


def _opened(contract: Contract) -> Contract:
    """The contract of a decoder whose tokens see all others from now on. Raises UsageError for an encoder."""
    if contract.attention == "bidirectional":
        what = "model.attention is causal, and each token of this backbone sees all others"
        raise UsageError(what, Use("--attention", "auto", "use"), key="model.attention")
    return replace(contract, attention="bidirectional", pooling=contract.pooling if contract.is_stated else "mean")


class _Module(msgspec.Struct):
    """A line of the chain in modules.json."""

    type: str
    path: str

    @property
    def kind(self) -> str:
        """The name of the class; with its package where that is another."""
        return self.type.rpartition(".")[2] if self.type.startswith(_PACKAGE) else self.type


def read_contract(folder: Path) -> Contract:
    """The contract of a folder. Raises DataError.

    A bare backbone, which has no modules.json, has mean pooling, and a bare decoder that of the last token. A
    cross-encoder is one too, also where sentence-transformers 6 has saved it with a chain of the Transformer alone.
    """
    modules = read_json(folder / "modules.json", list[_Module], DOWNLOAD)
    alone = modules is not None and [module.kind for module in modules] == ["Transformer"]
    is_bare = modules is None or (alone and is_classifier(_json(config_file(folder))))
    try:
        return _read_bare(folder) if is_bare else _read_chain(folder, modules or [])
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise DataError(f"the modules of {folder} are malformed: {error_text(error)}", DOWNLOAD) from None


def _read_bare(folder: Path) -> Contract:
    config, stated = read_config(folder), _json(folder / "tokenizer_config.json").get("model_max_length")
    longest = stated if isinstance(stated, int) and 1 < stated < longest_of(folder, config) else None
    bare = Contract(folder, max_length=longest, dims=_dims(folder), attention=attention_of(config), is_stated=False)
    return replace(bare, pooling="last" if bare.attention == "causal" else "mean", is_classifier=is_classifier(config))


def _read_chain(folder: Path, modules: Sequence[_Module]) -> Contract:
    kinds = [module.kind for module in modules]
    if _CHAIN.fullmatch(" ".join(kinds)) is None:
        raise _unsupported(folder / "modules.json", f"a chain of {', '.join(kinds) or 'nothing'}")
    for path in (Path(module.path) for module in modules):
        if path.is_absolute() or ".." in path.parts:
            raise _unsupported(folder / "modules.json", f"the path {path}, which leaves the folder")
    is_static = kinds[0] == "StaticEmbedding"
    settings = _json(folder / "config_sentence_transformers.json")
    prompts, default = dict(settings.get("prompts") or {}), settings.get("default_prompt_name")
    msgspec.convert(prompts, dict[str, str])
    if default is not None and default not in prompts:
        raise LookupError(f"there is no prompt '{default}'")
    backbone = folder / modules[0].path
    longest, lowercase = _reading(backbone)
    if is_static and not [*backbone.glob("sentence_*_config.json")]:
        longest = (_json(backbone / "tokenizer.json").get("truncation") or {}).get("max_length")
    contract = Contract(
        backbone,
        prompts=prompts,
        default=default,
        similarity=settings.get("similarity_fn_name") or "cosine",
        dims=_dims(backbone),
        max_length=longest,
        lowercase=lowercase,
        suffix=str(settings.get("suffix", "")),
        attention="bidirectional" if is_static else attention_of(read_config(backbone)),
        truncate_dim=msgspec.convert(settings.get("truncate_dim"), int | None),
        is_static=is_static,
    )
    for module in modules[1:]:
        contract = _with_module(contract, module.kind, folder / module.path)
    return contract


def _with_module(contract: Contract, kind: str, path: Path) -> Contract:
    """The contract with what one module of the chain defines."""
    settings = _json(path / "config.json", required=kind != "Normalize")
    if any(settings.get(f"module_{end}_name") not in (None, "sentence_embedding") for end in ("input", "output")):
        raise _unsupported(path, "a module that does not act on the sentence's embedding")
    if kind == "WeightedLayerPooling":
        return replace(contract, pooling=_layers(settings, path))
    if kind == "WordWeights":
        special = special_names(contract.backbone)
        cls = special.get("cls_token") or special.get("bos_token")
        weights = settings["word_weights"], settings.get("unknown_word_weight", 1)
        if weights not in (({cls: 0}, 1), ({special.get("mask_token"): 1}, 0)):
            raise _unsupported(path, "weights of words other than a 0 for CLS, or a 1 for the mask token alone")
        return replace(contract, pooling="mean-no-cls" if weights[1] else "mask")
    if kind != "Pooling":
        return replace(contract, after=nn.Sequential(*contract.after, _layer(kind, settings, path)))
    pooling, include_prompt = _pooling(settings, path), settings.get("include_prompt") is not False
    # Otherwise a module before it has changed the mean.
    if contract.pooling != "mean":
        if pooling != "mean":
            raise _unsupported(path, f"pooling by {pooling} after {contract.pooling}")
        pooling = contract.pooling
    if not include_prompt and pooling in ("cls", "mean-no-cls", "mask"):
        raise _unsupported(path, f"{pooling} pooling without the prompt")
    return replace(contract, pooling=pooling, include_prompt=include_prompt)


def _layer(kind: str, settings: dict[str, Any], path: Path) -> nn.Module:
    """A module after the pooling, with its weights, which have its sizes."""
    if kind == "Normalize":
        return Normalize()
    weights = read_weights(path)
    if kind == "LayerNorm":
        norm = nn.LayerNorm(len(weights["norm.weight"]))
        nn.ModuleDict({"norm": norm}).load_state_dict(weights)
        return norm
    name = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if not name.startswith("torch.nn.") or (activation := _ACTIVATIONS.get(name.rpartition(".")[2])) is None:
        raise _unsupported(path, f"a dense layer with {name}")
    if settings.get("use_residual"):
        raise _unsupported(path, "a dense layer with a residual")
    out, width = weights["linear.weight"].shape
    dense = Dense(width, out, "linear.bias" in weights, activation())
    dense.load_state_dict(weights)
    return dense


def _reading(path: Path) -> tuple[int | None, bool]:
    """The limit of tokens of a text, if there is one, and whether texts are lowercased."""
    # sentence_roberta_config.json and others in older versions.
    named = sorted(path.glob("sentence_*_config.json"))
    settings = _json(named[0]) if named else {}
    longest = settings.get("max_seq_length") or _json(path / "tokenizer_config.json").get("model_max_length")
    if longest and not (isinstance(longest, int | float) and longest >= 1):
        raise ValueError(f"the longest text would have {longest!r:.40} tokens")
    return (int(longest) if longest and longest < _NO_LIMIT else None), bool(settings.get("do_lower_case"))


def _dims(backbone: Path) -> tuple[int, ...]:
    """The sizes that a config.json names, but for the largest, which is the whole."""
    stated = _json(config_file(backbone)).get(_DIMS)
    return tuple(sorted(dim for dim in stated if isinstance(dim, int))[:-1]) if isinstance(stated, list) else ()


def _unsupported(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is not supported: {reason}", "use sentence-transformers for this model")


def _pooling(settings: dict[str, Any], path: Path) -> Pooling:
    mode = settings.get("pooling_mode") or [
        name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for name, on in settings.items()
        if name.startswith("pooling_mode_") and on
    ]
    if not mode and settings.get("pooling_mode_mean_tokens") is False:
        raise DataError(f"{path} has no pooling", "set one to true in its config.json, as pooling_mode_mean_tokens")
    modes = [mode] if isinstance(mode, str) else list(mode) or ["mean"]
    if len(modes) > 1 or modes[0] not in _MODES:
        raise _unsupported(path, f"pooling by {' and '.join(modes)}")
    return _MODES[modes[0]]


def _layers(settings: dict[str, Any], path: Path) -> Pooling:
    weights = read_weights(path)["layer_weights"]
    for pooling in _LAYERS:
        if settings["layer_start"] == 0 and torch.equal(weights, _layer_weights(pooling, len(weights) - 1)):
            return pooling
    raise _unsupported(path, "weights of layers other than first and last, or the last two")


def _layer_weights(pooling: Pooling, layers: int) -> Tensor:
    weights = torch.zeros(layers + 1)
    weights[[_LAYERS[pooling], -1]] = 1
    return weights


def _json(path: Path, required: bool = False) -> dict[str, Any]:
    settings = read_json(path, dict[str, Any], DOWNLOAD)
    if settings is None and required:
        raise DataError(f"{path} is missing", DOWNLOAD)
    return settings or {}


def write_contract(
    contract: Contract, folder: Path, tokenizer: Tokenizer, sizes: tuple[int, int], limit: int, options: dict[str, Any]
) -> None:
    """Write it into the folder of a backbone of some width and layers, whose texts have at most `limit` tokens."""
    first = "StaticEmbedding" if contract.is_static else "Transformer"
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{_MODULES}{first}"}]
    chain = [*_modules(contract, tokenizer, *sizes)][contract.is_static :]  # the mean, which StaticEmbedding takes
    for i, (kind, settings, tensors) in enumerate(chain, 1):
        path = folder / f"{i}_{kind}"
        path.mkdir()
        (path / "config.json").write_bytes(json_bytes(settings))
        if tensors:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path / "model.safetensors")
        modules.append({"idx": i, "name": str(i), "path": path.name, "type": f"{_MODULES}{kind}"})
    files: dict[str, object] = {
        "modules.json": modules,
        # The saved tokenizer lowers the case.
        "sentence_bert_config.json": {"max_seq_length": limit, "do_lower_case": False} | options,
        "config_sentence_transformers.json": {
            "prompts": all_named(contract.prompts, contract.prompt),
            "default_prompt_name": contract.default,
            "similarity_fn_name": contract.similarity,
        }
        | ({"suffix": contract.suffix} if contract.suffix else {}),
    }
    config = _json(config_file(folder)) | {_DIMS: [*contract.dims, width_after(contract.after, sizes[0])]}
    if not contract.dims:
        del config[_DIMS]
    if contract.pooling in _LAYERS:  # for WeightedLayerPooling
        config["output_hidden_states"] = True
    files[config_file(folder).name] = dict(sorted(config.items()))  # as transformers writes it
    for file, content in files.items():
        (folder / file).write_bytes(json_bytes(content))


def _modules(
    contract: Contract, tokenizer: Tokenizer, width: int, layers: int
) -> Iterator[tuple[str, dict[str, Any], dict[str, Tensor]]]:
    """The chain after the backbone: type, settings, tensors."""
    if contract.pooling in ("mean-no-cls", "mask"):
        vocabulary, others = tokenizer.vocabulary(), int(contract.pooling != "mask")
        token_id = tokenizer.cls_id if others else tokenizer.mask_id
        weights = torch.full((len(vocabulary), 1), float(others))
        weights[token_id] = 1 - others
        words = {vocabulary[token_id]: 1 - others}
        settings = {"vocab": vocabulary, "word_weights": words, "unknown_word_weight": others}
        yield "WordWeights", settings, {"emb_layer.weight": weights}
    elif contract.pooling in _LAYERS:
        settings = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": layers}
        yield "WeightedLayerPooling", settings, {"layer_weights": _layer_weights(contract.pooling, layers)}
    mode = contract.pooling if contract.pooling in ("cls", "last") else "mean"
    modes = {"pooling_mode_cls_token": mode == "cls", "pooling_mode_mean_tokens": mode == "mean"}
    modes |= {"pooling_mode_lasttoken": True} if mode == "last" else {}
    modes |= {} if contract.include_prompt else {"include_prompt": False}
    yield "Pooling", {"word_embedding_dimension": width, **modes}, {}
    for module in contract.after:
        settings, tensors = {}, dict(module.state_dict())
        if isinstance(module, Dense):
            linear, activation = module.linear, type(module.activation)
            settings = {
                "in_features": linear.in_features,
                "out_features": linear.out_features,
                "bias": linear.bias is not None,
                "activation_function": f"{activation.__module__}.{activation.__qualname__}",
            }
        elif isinstance(module, nn.LayerNorm):
            settings = {"dimension": module.normalized_shape[0]}
            tensors = nn.ModuleDict({"norm": module}).state_dict()
        yield type(module).__name__, settings, tensors
