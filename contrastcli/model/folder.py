"""Model folders in sentence-transformers' own layout: the pooling contract on disk.

    config.json, model.safetensors, tokenizer files     the backbone
    modules.json                                         the chain: Transformer, pooling, dense, normalise
    sentence_bert_config.json                            the longest text, in tokens
    1_…/config.json                                      one folder a further module

`mean-no-cls` is written as WordWeights with 0 for CLS before mean pooling, `first-last` and `last-mean` as
WeightedLayerPooling before it, SimCSE's kept head as Dense with Tanh after it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from contrastcli.config import Pooling
from contrastcli.data.tokens import Tokenizer
from contrastcli.errors import DataError
from contrastcli.model.backbone import load_backbone
from contrastcli.model.encoder import Dense, SentenceEncoder

_PREFIX = "sentence_transformers.models."


@dataclass
class Contract:
    """What a folder says of everything after the backbone."""

    pooling: Pooling
    dense: Dense | None = None
    normalize: bool = False
    prompt: str = ""
    max_length: int | None = None
    stated: bool = field(default=True)
    """Whether the folder says so; a bare backbone says nothing, and mean pooling is assumed."""


def load_encoder(folder: Path, pooling: Pooling | None = None) -> SentenceEncoder:
    """The model in a folder. A `pooling` given overrides the folder's own and leaves its dense layer out.

    Raises DataError for missing or broken files and for modules that this project does not know.
    """
    contract = read_contract(folder)
    if pooling is not None and pooling != contract.pooling:
        contract = Contract(pooling, max_length=contract.max_length)
    return SentenceEncoder(
        load_backbone(folder),
        Tokenizer(folder),
        contract.pooling,
        dense=contract.dense,
        normalize=contract.normalize,
        prompt=contract.prompt,
        max_length=contract.max_length,
    )


def read_contract(folder: Path) -> Contract:
    """The pooling contract of a folder; mean pooling where there is no modules.json."""
    if not (folder / "modules.json").is_file():
        return Contract("mean", stated=False)
    contract = Contract("mean", max_length=_json(folder / "sentence_bert_config.json").get("max_seq_length"))
    contract.prompt = _default_prompt(folder)
    for module in _json(folder / "modules.json", []):
        _apply(contract, str(module["type"]).rpartition(".")[2], folder / module["path"])
    return contract


def _apply(contract: Contract, kind: str, path: Path) -> None:
    """Let one module of the chain say its part."""
    settings = _json(path / "config.json")
    if kind == "Pooling":
        if contract.pooling == "mean":  # else a module before it has said which mean is meant
            contract.pooling = _pooling(settings, path)
        elif _pooling(settings, path) != "mean":
            raise _unknown(path, "mean pooling is expected here")
    elif kind == "WordWeights":
        contract.pooling = _without_cls(settings, path)
    elif kind == "WeightedLayerPooling":
        contract.pooling = _layers(path)
    elif kind == "Dense" and contract.dense is None:
        contract.dense = _dense(settings, path)
    elif kind == "Normalize":
        contract.normalize = True
    elif kind != "Transformer":
        raise _unknown(path, f"modules of type {kind} are not supported")


def _unknown(path: Path, reason: str) -> DataError:
    return DataError(
        f"the model folder's {path} is not understood: {reason}", "use sentence-transformers for this model"
    )


def _pooling(settings: dict[str, Any], path: Path) -> Pooling:
    mode = settings.get("pooling_mode") or [
        name.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for name, on in settings.items()
        if name.startswith("pooling_mode_") and on
    ]
    modes = [mode] if isinstance(mode, str) else list(mode)
    if modes not in (["cls"], ["mean"]) or settings.get("include_prompt") is False:
        raise _unknown(path, f"pooling by {' and '.join(modes) or 'nothing'}")
    return "cls" if modes == ["cls"] else "mean"


def _without_cls(settings: dict[str, Any], path: Path) -> Pooling:
    off = [word for word, weight in settings.get("word_weights", {}).items() if weight == 0]
    if len(off) != 1 or len(settings["word_weights"]) != 1 or settings.get("unknown_word_weight", 1) != 1:
        raise _unknown(path, "weights of words other than a 0 for CLS")
    return "mean-no-cls"


def _layers(path: Path) -> Pooling:
    weights = _tensors(path)["layer_weights"]
    for pooling in ("first-last", "last-mean"):
        if torch.equal(weights, _layer_weights(pooling, len(weights) - 1)):
            return pooling
    raise _unknown(path, "weights of layers other than first and last, or the last two")


def _layer_weights(pooling: str, layers: int) -> Tensor:
    weights = torch.zeros(layers + 1)
    weights[[0 if pooling == "first-last" else -2, -1]] = 1
    return weights


def _dense(settings: dict[str, Any], path: Path) -> Dense:
    name = str(settings.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = getattr(nn, name.rpartition(".")[2], None)
    if not name.startswith("torch.") or activation is None or settings.get("use_residual"):
        raise _unknown(path, f"a dense layer with {name}")
    dense = Dense(settings["in_features"], settings["out_features"], settings.get("bias", True), activation())
    dense.load_state_dict(_tensors(path))
    return dense


def _default_prompt(folder: Path) -> str:
    settings = _json(folder / "config_sentence_transformers.json")
    return str((settings.get("prompts") or {}).get(settings.get("default_prompt_name"), ""))


def _tensors(path: Path) -> dict[str, Tensor]:
    file = path / "model.safetensors"
    if not file.is_file():
        pickled = (path / "pytorch_model.bin").is_file()
        what = f"{path} has pickled weights only, which can run code when read" if pickled else f"{file} is missing"
        raise DataError(what, "save the model again with safetensors" if pickled else "fetch the model folder again")
    try:
        return load_file(file)
    except SafetensorError as error:
        raise DataError(f"{file} cannot be read: {error}", "fetch the model folder again") from None


def _json(path: Path, default: Any = None) -> Any:
    if not path.is_file():
        return {} if default is None else default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}", "fetch the model folder again") from None


def save_encoder(encoder: SentenceEncoder, folder: Path) -> None:
    """Write a model folder that sentence-transformers, transformers and this project load; it must not exist."""
    folder.mkdir(parents=True)
    encoder.backbone.save(folder)
    encoder.tokenizer.save(folder)
    chain = ["Transformer"]
    for kind, settings, tensors in _modules(encoder):
        path = folder / f"{len(chain)}_{kind}"
        path.mkdir()
        _write(path / "config.json", settings)
        if tensors:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path / "model.safetensors")
        chain.append(kind)
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": _PREFIX + kind}
        for i, kind in enumerate(chain)
    ]
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": encoder.max_length, "do_lower_case": False})
    prompts = {"default": encoder.prompt} if encoder.prompt else {}
    _write(
        folder / "config_sentence_transformers.json",
        {"prompts": prompts, "default_prompt_name": "default" if prompts else None, "similarity_fn_name": "cosine"},
    )
    if encoder.pooling in ("first-last", "last-mean"):
        config = _json(folder / "config.json")
        _write(folder / "config.json", config | {"output_hidden_states": True})


def _modules(encoder: SentenceEncoder) -> list[tuple[str, dict[str, Any], dict[str, Tensor]]]:
    """The chain after the backbone: type, settings, tensors."""
    width = encoder.backbone.width
    found: list[tuple[str, dict[str, Any], dict[str, Tensor]]] = []
    if encoder.pooling == "mean-no-cls":
        found.append(_word_weights(encoder.tokenizer))
    elif encoder.pooling in ("first-last", "last-mean"):
        layers = encoder.backbone.layers
        settings = {"embedding_dimension": width, "layer_start": 0, "num_hidden_layers": layers}
        found.append(("WeightedLayerPooling", settings, {"layer_weights": _layer_weights(encoder.pooling, layers)}))
    cls = encoder.pooling == "cls"
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": cls, "pooling_mode_mean_tokens": not cls}
    found.append(("Pooling", pooling, {}))
    if encoder.dense is not None:
        found.append(_dense_module(encoder.dense))
    if encoder.normalize:
        found.append(("Normalize", {}, {}))
    return found


def _word_weights(tokenizer: Tokenizer) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    vocabulary = tokenizer.vocabulary()
    weights = torch.ones(len(vocabulary), 1)
    weights[tokenizer.cls_id] = 0
    settings = {
        "vocab": vocabulary,
        "word_weights": {vocabulary[tokenizer.cls_id]: 0},
        "unknown_word_weight": 1,
    }
    return "WordWeights", settings, {"emb_layer.weight": weights}


def _dense_module(dense: Dense) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    kind = type(dense.activation)
    settings = {
        "in_features": dense.linear.in_features,
        "out_features": dense.linear.out_features,
        "bias": dense.linear.bias is not None,
        "activation_function": f"{kind.__module__}.{kind.__qualname__}",
    }
    return "Dense", settings, dict(dense.state_dict())


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
