"""What of a backbone is trained: LoRA by peft (Hu et al. 2022, "LoRA: Low-Rank Adaptation"), or all but lower layers.

    adapter_config.json, adapter_model.safetensors   the adapter as peft writes it, by transformers' names of layers
    base.json                                        the config of the model that it is added to, and its name

Only training keeps an adapter apart; to encode, it is added to the weights of its base. The BERT family is shown to
peft as a tree of its linear layers under transformers' names, so that it stays fast and its adapters fit elsewhere.
"""

import importlib
import re
import shlex
import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from contrastcli.data.tokens import transformers
from contrastcli.errors import DataError, Remedy, UsageError, Use, failing_as
from contrastcli.files import checksum_of, json_bytes, read_json
from contrastcli.model.backbone import AutoBackbone, Backbone, BertBackbone, load_backbone, outline, read_config
from contrastcli.model.bert.cpu import Linear, dropout
from contrastcli.model.locate import PICKLED, STARTER, resolve, revision
from contrastcli.model.weights import BASE, DOWNLOAD
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Attention, Model

_ADAPTER = "adapter_model.safetensors"


class Base(msgspec.Struct, frozen=True):
    """The model that an adapter is added to: `starter`, a folder, or a name on the hub with its revision."""

    name: str
    checksum: str = ""
    """Of its weights; empty where the revision fixes them."""


@dataclass(frozen=True)
class Adapter:
    """LoRA in training: peft's model around the layers of a backbone."""

    model: Any
    base: Base


class _Config(msgspec.Struct):
    base: Base


def base_folder(folder: Path) -> Path:
    """The folder with the weights of a model: of an adapter that of its base, which its run may keep, else its own.

    Raises DataError if the base is missing, or is not what it was.
    """
    if (base := _read_base(folder)) is None:
        return folder
    what = f"{folder} is an adapter of {base.name}, which"
    if Path(base.name).is_absolute() and not Path(base.name).is_dir():
        link = f"ln -s FOLDER {shlex.quote(base.name)}"
        raise DataError(f"{what} is missing", f"put that model back, or link to it: {link}")
    found = resolve(base.name).folder()
    if base.checksum and _checksum(found) != base.checksum:
        raise DataError(f"{what} has other weights now", "put those back, or train an adapter of the new ones")
    return found


def _read_base(folder: Path) -> Base | None:
    """The base of an adapter, in its run where that keeps it; None of other models. Raises DataError."""
    config = read_json(folder / BASE, _Config, DOWNLOAD)
    run = Run(folder.resolve().parent.parent)
    if config and folder.resolve().parent == run.checkpoints_dir and run.exists() and run.base_dir.is_dir():
        return Base(str(run.base_dir), config.base.checksum)
    return config.base if config else None


def base_here(folder: Path) -> str:
    """What an adapter calls a base that this machine alone has; "" of one on the hub, and of other models."""
    base = _read_base(folder)
    return base.name if base and (base.checksum or base.name == "starter") else ""


def _base(word: str, folder: Path) -> Base:
    """The model that a word names, or its folder, by what still names it later, on other machines if it can."""
    if folder == STARTER:
        return Base("starter")
    if (commit := revision(folder)) and not Path(word).exists():
        return Base(f"{word.partition('@')[0]}@{commit}")
    return Base(str(folder.resolve()), _checksum(folder))


def _checksum(folder: Path) -> str:
    files = sorted(folder.glob("model*.safetensors")) or [folder / PICKLED]
    return "+".join(map(checksum_of, files))


def add_lora(backbone: Backbone, settings: Model, folder: Path) -> None:
    """Put an adapter into linear layers of the model in a folder, which begins as no change; it alone is trained then.

    Raises UsageError where peft is not installed, no such layers are there, or the backbone is an adapter itself.
    """
    word = settings.backbone
    if _read_base(folder):
        what = f"the backbone {word} is an adapter already, and another needs its weights merged"
        raise UsageError(what, f"contrast export {word} FOLDER, then --backbone FOLDER")
    peft, view = _peft(), _view(backbone)
    targets = _targets(view, settings.lora_targets)
    # Where peft loads an adapter, the base's own config.json decides.
    if backbone.config.get("is_causal") != read_config(folder).get("is_causal"):
        what = f"model.attention is {settings.attention}, and an adapter has the attention of its base"
        remedies: list[Remedy] = [Use("--lora", "0", "use"), 'put "is_causal": false into the config.json of the base']
        raise UsageError(what, remedies, key="model.attention")
    alpha = settings.lora_alpha or 2 * settings.lora
    config = peft.LoraConfig(
        r=settings.lora, lora_alpha=alpha, lora_dropout=settings.lora_dropout, target_modules=targets
    )
    with warnings.catch_warnings(action="ignore"):  # of transformers, about peft
        model = peft.get_peft_model(view, config)
    _keep_apart(backbone, model, _base(word, folder))


def load_with_adapter(folder: Path, *, merge: bool, attention: Attention) -> Backbone:
    """The backbone in a folder; of an adapter its base, with it in the weights, or apart for training.

    Raises DataError where one cannot be read or does not fit, UsageError where peft is not installed.
    """
    backbone, base = load_backbone(base_folder(folder), attention), _read_base(folder)
    if base is None:
        return backbone
    if not (folder / "adapter_config.json").is_file():
        raise DataError(f"the adapter in {folder} has no adapter_config.json", "copy, export or download it again")
    peft = _peft()
    with failing_as(DataError, f"the adapter in {folder} does not fit its base", DOWNLOAD):
        # What does not fit is an error below.
        with warnings.catch_warnings(action="ignore"):
            model = peft.PeftModel.from_pretrained(_view(backbone), str(folder), is_trainable=not merge)
        expected = peft.get_peft_model_state_dict(model, save_embedding_layers=False).keys()
        if other := sorted(load_file(folder / _ADAPTER).keys() ^ expected):
            raise ValueError(f"'{other[0]}' is in one of the two alone")
        if merge:
            model.merge_and_unload()
    if merge:
        # Which peft had frozen.
        backbone.requires_grad_(True)
    else:
        _keep_apart(backbone, model, base)
    return backbone


def save_adapter(backbone: Backbone, folder: Path) -> None:
    """Write the adapter of a backbone, which peft loads, and whose weights it is added to."""
    model, base = backbone.adapter.model, backbone.adapter.base
    name, _, commit = base.name.partition("@") if not base.checksum else (base.name, "", "")
    config = copy(model.peft_config["default"])
    config.base_model_name_or_path = str(STARTER) if name == "starter" else name
    config.revision, config.inference_mode, config.task_type = commit or None, True, "FEATURE_EXTRACTION"
    # A set has another order in each process.
    config.target_modules = sorted(config.target_modules)
    config.save_pretrained(folder)
    state = _peft().get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in state.items()}
    save_file(tensors, folder / _ADAPTER, metadata={"format": "pt"})
    (folder / BASE).write_bytes(json_bytes(backbone.config | {"base": msgspec.structs.asdict(base)}))


def check_trained(folder: Path, settings: Model) -> None:
    """Raises UsageError where a model of the BERT family has no layers as model.lora_targets or model.freeze say."""
    if (settings.lora or settings.freeze != "none") and (backbone := outline(folder)):
        if settings.lora:
            _targets(_view(backbone), settings.lora_targets)
        freeze(backbone, settings.freeze)


def freeze(backbone: Backbone, words: str) -> None:
    """Keep what model.freeze says from training: all that comes before the layers, and the lowest of these.

    Raises UsageError where no layer would be left.
    """
    if words == "none":
        return
    count = 0 if words == "embeddings" else int(words)
    layers = next((module for module in backbone.modules() if isinstance(module, nn.ModuleList)), nn.ModuleList())
    if count >= len(layers):
        what = f"model.freeze is {words}, and the backbone has {len(layers)} layer{'s' * (len(layers) != 1)}"
        most = ["none", "embeddings"][len(layers)] if len(layers) < 2 else f"{len(layers) - 1}"
        raise UsageError(what, Use("--freeze", most, "at most"))
    in_layers = set(layers.parameters())
    for parameter in backbone.parameters():
        if parameter in in_layers:
            break
        parameter.requires_grad_(False)
    layers[:count].requires_grad_(False)


def trained_share(backbone: Backbone) -> str:
    """How many of a backbone's weights are trained, in words; empty if all are."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in backbone.parameters()]
    count, trained = sum(size for size, _ in sizes), sum(size for size, is_trained in sizes if is_trained)
    words = f"{trained:,} of the backbone's {count:,} weights are trained ({trained / count:.1%})"
    return "" if trained == count else words


def _peft() -> Any:
    """The library, which shows its progress and warnings by transformers' log. Raises UsageError without it."""
    transformers()
    try:
        return importlib.import_module("peft")
    except ImportError:
        raise UsageError("LoRA needs the package peft, which is missing", 'pip install "contrastcli[lora]"') from None


def _view(backbone: Backbone) -> Any:
    """Its linear layers under transformers' names, on the same memory, in modules that peft may replace."""
    if isinstance(backbone, AutoBackbone):
        return backbone.model
    view = nn.Module()
    for _, layer, names in _linear(backbone):
        weights = layer.weight.data.chunk(len(names))
        biases = [None] * len(names) if layer.bias is None else layer.bias.data.chunk(len(names))
        for name, weight, bias in zip(names, weights, biases, strict=True):
            part = Linear(weight.shape[1], weight.shape[0], device="meta")
            part.weight, part.bias = nn.Parameter(weight), None if bias is None else nn.Parameter(bias)
            *parents, last = name.split(".")
            place = view
            for parent in parents:
                if not hasattr(place, parent):
                    place.add_module(parent, nn.Module())
                place = place.get_submodule(parent)
            place.add_module(last, part)
    return view


def _linear(backbone: Backbone) -> Iterator[tuple[str, nn.Linear, list[str]]]:
    """The linear layers of the BERT family, by our name, with the published names of their parts."""
    if isinstance(backbone, BertBackbone):
        for name, layer in list(backbone.bert.named_modules()):
            if isinstance(layer, Linear):
                names = backbone.bert.published_names(f"{name}.weight")
                yield name, layer, [one.removesuffix(".weight") for one in names]


class _Parts(nn.Sequential):
    """A fused layer as the layers that it is published as, of which each may have an adapter."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self], -1)


class _Dropout(nn.Dropout):
    """Dropout from the random numbers of a thread, as all of a backbone's; torch's shares one stream."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x


def _keep_apart(backbone: Backbone, model: Any, base: Base) -> None:
    """Put the layers with an adapter into the backbone, and train nothing else of it."""
    view = model.get_base_model()
    for name, _, names in _linear(backbone):
        parts = [view.get_submodule(one) for one in names]
        if not all(isinstance(part, Linear) for part in parts):
            parent, _, last = name.rpartition(".")
            whole = parts[0] if len(parts) == 1 else _Parts(*parts)
            setattr(backbone.get_submodule(f"bert.{parent}"), last, whole)
    for module in list(model.modules()):
        for name, drop in getattr(module, "lora_dropout", {}).items():
            if isinstance(drop, nn.Dropout):
                module.lora_dropout[name] = _Dropout(drop.p)
    trained = {parameter for name, parameter in model.named_parameters() if ".lora_" in name}
    for parameter in backbone.parameters():
        parameter.requires_grad_(parameter in trained)
    backbone.adapter = Adapter(model, base)


def _targets(view: nn.Module, words: str) -> list[str]:
    """The layers that model.lora_targets names, as the ends of their names. Raises UsageError for one that is none."""
    names = [name for name, module in view.named_modules() if isinstance(module, nn.Linear)]
    # What follows the number of the layer; what is in none, as a pooler, is not used.
    ends = sorted({re.sub(r".*\.\d+\.", "", name) for name in names if re.search(r"\.\d+\.", name)})
    if not names:
        what = "the backbone has no linear layers, to which LoRA is added"
        raise UsageError(what, Use("--lora", "0", "use"), key="model.lora")
    if words == "auto" and ends:
        return ends
    typed = [word.strip() for word in words.split(",")]
    for word in typed:
        if not any(f".{name}".endswith(f".{word}") for name in names):
            what = f"model.lora_targets is '{words}', and no linear layer of the backbone is named '{word}'"
            raise UsageError(what, Use("--lora-targets", f"auto, or of {', '.join(ends)}", "use"))
    return typed
