"""Model folders in sentence-transformers' layout, which have the pooling contract on disk.

    config.json, model.safetensors, tokenizer files     the backbone
    modules.json                                         the chain: Transformer, pooling, dense, normalise
    sentence_bert_config.json                            the longest text, in tokens
    1_…/config.json                                      a folder for each further module

`mean-no-cls` is written as WordWeights with 0 for CLS before mean pooling, `first-last` and `last-mean` as
WeightedLayerPooling before it, SimCSE's head as Dense with Tanh after it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from contrastcli.data.sources import load_examples
from contrastcli.data.tokens import Tokenizer, special_names
from contrastcli.errors import DataError, Use, error_text
from contrastcli.files import json_bytes, read_json
from contrastcli.model.backbone import POOLER, BertBackbone, load_backbone
from contrastcli.model.devices import choose_device
from contrastcli.model.encoder import Dense, SentenceEncoder
from contrastcli.model.locate import ModelRef
from contrastcli.model.weights import DOWNLOAD, read_weights
from contrastcli.runs import checksums
from contrastcli.settings.sections import Data, Pooling, Precision

_PACKAGE = "sentence_transformers."
# The names of modules in sentence-transformers 2 to 6.
_MODULES = f"{_PACKAGE}models."
_PLACES = {"Transformer": 0, "WordWeights": 1, "WeightedLayerPooling": 1, "Pooling": 2, "Dense": 3, "Normalize": 4}
"""The supported modules, and their places in the chain."""
_LAYERS: dict[Pooling, int] = {"first-last": 0, "last-mean": -2}
"""The layer that is averaged with the last one."""


class _Module(msgspec.Struct):
    """A line of the chain in modules.json."""

    type: str
    path: str

    @property
    def kind(self) -> str:
        return self.type.rpartition(".")[2]


@dataclass
class Contract:
    """The folder of the backbone, and all else that a model folder defines."""

    backbone: Path
    pooling: Pooling = "mean"
    dense: Dense | None = None
    normalize: bool = False
    prompt: str = ""
    max_length: int | None = None
    lowercase: bool = False


def load_model(
    model: ModelRef, *, pooling: Pooling | None = None, precision: Precision = "fp32", dim: int | None = None
) -> SentenceEncoder:
    """A model ready to encode on this machine's device in some precision; `pooling` overrides the model's.

    Raises DataError if it does not exist or cannot be read, UsageError if its embeddings are shorter than `dim`.
    """
    encoder = load_encoder(model.folder(), pooling).to(choose_device("auto")).eval()
    encoder.name, encoder.precision = model.name, precision
    if dim is not None:
        encoder.set_dim(dim)
    if precision == "int8":
        encoder.usual_texts = usual_texts()
    return encoder


def usual_texts() -> list[str]:
    """Texts of the starter, short ones and one that is long."""
    texts = load_examples(Data(train="starter"), ("triplets",), ()).views["anchor"]
    return [*texts[:: max(1, len(texts) // 64)], " ".join(texts[:32])]


_ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    kind.__name__: kind
    for kind in (nn.Tanh, nn.Identity, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Softplus)
}
"""Activations of a dense layer. No other class is made from a name in a file."""
_MOST_FEATURES = 1 << 16
# transformers writes 1e30 tokens where there is no limit.
_NO_LIMIT = 1e9


def load_encoder(folder: Path, pooling: Pooling | None = None) -> SentenceEncoder:
    """The model in a folder; another `pooling` overrides the folder's and drops its dense layer, but for a pooler.

    Raises DataError for missing, damaged or broken files and for unsupported modules.
    """
    checksums.check(folder)
    contract = read_contract(folder)
    if pooling is not None and pooling != contract.pooling:
        contract = replace(contract, pooling=pooling, dense=None)
    # In memory and in a saved folder the pooler is CLS and a dense layer.
    if contract.pooling == "pooler":
        contract = replace(contract, pooling="cls", dense=_pooler(contract.backbone))
    backbone = load_backbone(contract.backbone)
    if pooling == "pooler" and isinstance(backbone, BertBackbone):
        backbone.pooler = {}
    tokenizer = Tokenizer(contract.backbone, lowercase=contract.lowercase)
    if tokenizer.largest_id >= backbone.vocab_size:
        what = f"the tokenizer of {folder} has the id {tokenizer.largest_id}, the model {backbone.vocab_size} tokens"
        raise DataError(what, DOWNLOAD)
    limit = min(backbone.max_length, contract.max_length or backbone.max_length)
    if len(tokenizer.added) >= limit:
        what = f"texts of {folder} have at most {limit} tokens, of which its tokenizer adds {len(tokenizer.added)}"
        raise DataError(what, DOWNLOAD)
    if contract.pooling == "mean-no-cls" and tokenizer.cls_id < 0:
        raise DataError(f"the tokenizer of {folder} has no CLS token to leave out", Use("--pooling", "mean", "use"))
    encoder = SentenceEncoder(backbone, tokenizer, contract.pooling)
    encoder.dense, encoder.normalize, encoder.prompt = contract.dense, contract.normalize, contract.prompt
    encoder.max_length = limit
    return encoder


def _pooler(folder: Path) -> Dense:
    """BERT's own layer on CLS, which comes with some weights."""
    names = {name[name.find("pooler.dense.") :]: tensor for name, tensor in read_weights(folder).items()}
    weight, bias = (names.get(name) for name in POOLER)
    if weight is None or bias is None or weight.shape != (len(bias), len(bias)):
        raise DataError(f"{folder} has no weights of a pooler", Use("--pooling", "cls", "use"))
    dense = Dense(len(bias), len(bias))
    dense.linear.load_state_dict({"weight": weight, "bias": bias})
    return dense


def read_contract(folder: Path) -> Contract:
    """The pooling contract of a folder; mean pooling of a bare backbone, which has no modules.json."""
    modules = read_json(folder / "modules.json", list[_Module], DOWNLOAD)
    if modules is None:
        return Contract(folder)
    try:
        return _read_chain(folder, modules)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise DataError(f"the modules of {folder} are malformed: {error_text(error)}", DOWNLOAD) from None


def _read_chain(folder: Path, modules: Sequence[_Module]) -> Contract:
    for module in modules:
        path = Path(module.path)
        if not module.type.startswith(_PACKAGE) or module.kind not in _PLACES:
            raise _unsupported(folder / path, f"modules of type {module.type}")
        if path.is_absolute() or ".." in path.parts:
            raise _unsupported(folder / "modules.json", f"the path {path}, which leaves the folder")
    places = [_PLACES[module.kind] for module in modules]
    if places != sorted(set(places)) or not {0, 2} <= set(places):
        chain = ", ".join(module.kind for module in modules)
        raise _unsupported(folder / "modules.json", f"a chain of {chain or 'nothing'}")
    settings = _json(folder / "config_sentence_transformers.json")
    prompt = settings.get("default_prompt_name")
    contract = Contract(folder / modules[0].path, normalize=modules[-1].kind == "Normalize")
    contract.prompt = "" if prompt is None else str(settings["prompts"][prompt])
    contract.max_length, contract.lowercase = _reading(contract.backbone)
    for module in modules[1:]:
        _apply(contract, module.kind, folder / module.path)
    return contract


def _apply(contract: Contract, kind: str, path: Path) -> None:
    """Set what one module of the chain defines."""
    settings = _json(path / "config.json", required=kind != "Normalize")
    if any(settings.get(f"module_{end}_name") not in (None, "sentence_embedding") for end in ("input", "output")):
        raise _unsupported(path, "a module that does not act on the sentence's embedding")
    if kind == "Pooling":
        pooling = _pooling(settings, path)
        # Otherwise a module before it has changed the mean.
        if contract.pooling == "mean":
            contract.pooling = pooling
        elif pooling != "mean":
            raise _unsupported(path, f"pooling by {pooling} after {contract.pooling}")
    elif kind == "WordWeights":
        special = special_names(contract.backbone)
        cls = special.get("cls_token") or special.get("bos_token")
        if settings["word_weights"] != {cls: 0} or settings.get("unknown_word_weight", 1) != 1:
            raise _unsupported(path, "weights of words other than a 0 for CLS")
        contract.pooling = "mean-no-cls"
    elif kind == "WeightedLayerPooling":
        contract.pooling = _layers(settings, path)
    elif kind == "Dense":
        contract.dense = _dense(settings, path)


def _reading(path: Path) -> tuple[int | None, bool]:
    """The limit of tokens of a text, if there is one, and whether texts are lowercased."""
    # sentence_roberta_config.json and others in older versions.
    named = sorted(path.glob("sentence_*_config.json"))
    settings = _json(named[0]) if named else {}
    longest = settings.get("max_seq_length") or _json(path / "tokenizer_config.json").get("model_max_length")
    if longest and not (isinstance(longest, int | float) and longest >= 1):
        raise ValueError(f"the longest text would have {longest!r:.40} tokens")
    return (int(longest) if longest and longest < _NO_LIMIT else None), bool(settings.get("do_lower_case"))


def _unsupported(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is not supported: {reason}", "use sentence-transformers for this model")


def _pooling(settings: dict[str, Any], path: Path) -> Pooling:
    mode = settings.get("pooling_mode") or [
        name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for name, on in settings.items()
        if name.startswith("pooling_mode_") and on
    ]
    modes = [mode] if isinstance(mode, str) else list(mode) or ["mean"]
    if settings.get("include_prompt") is False:
        raise _unsupported(path, "pooling without the prompt")
    if modes not in (["cls"], ["mean"]):
        raise _unsupported(path, f"pooling by {' and '.join(modes)}")
    return "cls" if modes == ["cls"] else "mean"


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


def _dense(settings: dict[str, Any], path: Path) -> Dense:
    name = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if not name.startswith("torch.nn.") or (activation := _ACTIVATIONS.get(name.rpartition(".")[2])) is None:
        raise _unsupported(path, f"a dense layer with {name}")
    if settings.get("use_residual"):
        raise _unsupported(path, "a dense layer with a residual")
    width, out = settings["in_features"], settings["out_features"]
    if not (0 < width < _MOST_FEATURES and 0 < out < _MOST_FEATURES):
        raise ValueError(f"a dense layer of {width} to {out} features")
    dense = Dense(width, out, settings.get("bias", True), activation())
    dense.load_state_dict(read_weights(path))
    return dense


def _json(path: Path, required: bool = False) -> dict[str, Any]:
    settings = read_json(path, dict[str, Any], DOWNLOAD)
    if settings is None and required:
        raise DataError(f"{path} is missing", DOWNLOAD)
    return settings or {}


def save_encoder(encoder: SentenceEncoder, folder: Path) -> None:
    """Write a new model folder, which sentence-transformers and transformers load too."""
    folder.mkdir(parents=True)
    encoder.backbone.save(folder)
    encoder.tokenizer.save(folder, encoder.max_length)
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{_MODULES}Transformer"}]
    for i, (kind, settings, tensors) in enumerate(_modules(encoder), 1):
        path = folder / f"{i}_{kind}"
        path.mkdir()
        (path / "config.json").write_bytes(json_bytes(settings))
        if tensors:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path / "model.safetensors")
        modules.append({"idx": i, "name": str(i), "path": path.name, "type": f"{_MODULES}{kind}"})
    options: dict[str, object] = {}
    if isinstance(encoder.backbone, BertBackbone) and encoder.backbone.lacks_pooler:
        options["model_args"] = {"add_pooling_layer": False}
    files: dict[str, object] = {
        "modules.json": modules,
        # The saved tokenizer lowers the case.
        "sentence_bert_config.json": {"max_seq_length": encoder.max_length, "do_lower_case": False} | options,
        "config_sentence_transformers.json": {
            "prompts": {"default": encoder.prompt} if encoder.prompt else {},
            "default_prompt_name": "default" if encoder.prompt else None,
            "similarity_fn_name": "cosine",
        },
    }
    if encoder.pooling in _LAYERS:  # for WeightedLayerPooling
        files["config.json"] = _json(folder / "config.json") | {"output_hidden_states": True}
    for file, content in files.items():
        (folder / file).write_bytes(json_bytes(content))


def _modules(encoder: SentenceEncoder) -> Iterator[tuple[str, dict[str, Any], dict[str, Tensor]]]:
    """The chain after the backbone: type, settings, tensors."""
    width = encoder.backbone.width
    if encoder.pooling == "mean-no-cls":
        vocabulary, cls_id = encoder.tokenizer.vocabulary(), encoder.tokenizer.cls_id
        weights = torch.ones(len(vocabulary), 1)
        weights[cls_id] = 0
        settings = {"vocab": vocabulary, "word_weights": {vocabulary[cls_id]: 0}, "unknown_word_weight": 1}
        yield "WordWeights", settings, {"emb_layer.weight": weights}
    elif encoder.pooling in _LAYERS:
        layers = encoder.backbone.layers
        settings = {"word_embedding_dimension": width, "layer_start": 0, "num_hidden_layers": layers}
        yield "WeightedLayerPooling", settings, {"layer_weights": _layer_weights(encoder.pooling, layers)}
    cls = encoder.pooling == "cls"
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": cls, "pooling_mode_mean_tokens": not cls}
    yield "Pooling", pooling, {}
    if encoder.dense is not None:
        linear, activation = encoder.dense.linear, type(encoder.dense.activation)
        settings = {
            "in_features": linear.in_features,
            "out_features": linear.out_features,
            "bias": linear.bias is not None,
            "activation_function": f"{activation.__module__}.{activation.__qualname__}",
        }
        yield "Dense", settings, dict(encoder.dense.state_dict())
    if encoder.normalize:
        yield "Normalize", {}, {}
