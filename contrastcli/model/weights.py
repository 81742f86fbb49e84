"""The weights of a model folder: safetensors, or a pytorch_model.bin read as nothing but tensors."""

import pickle
import shlex
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from contrastcli.errors import DataError, error_text
from contrastcli.files import check_regular, read_json
from contrastcli.model.locate import PICKLED

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
BASE = "base.json"
"""An adapter's CONFIG, which also names its base: by a file of that name others take its folder for a whole model."""
DOWNLOAD = "download the model folder again"
_EXPORTS = {
    "model.onnx": "an ONNX export, which onnxruntime reads",
    "openvino_model.xml": "an OpenVINO export, which openvino reads",
}
"""What has a graph instead of weights, by the file."""
_POINTER = b"version https://git-lfs"
"""What a file of Git LFS begins with that was not downloaded."""


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder's safetensors, memory-mapped, else of its pytorch_model.bin. Raises DataError."""
    if files := _files(folder):
        return {name: tensor for file in files for name, tensor in _read_tensors(file).items()}
    if not (folder / PICKLED).is_file():
        raise _no_weights(folder)
    return _read_pickled(folder / PICKLED)


class _Index(msgspec.Struct):
    """What names the files of weights in several, by tensor."""

    weight_map: dict[str, str]


def _files(folder: Path) -> list[Path]:
    """The files of safetensors that hold a folder's weights: one, or those of its index; none without either."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = read_json(folder / f"{WEIGHTS}.index.json", _Index, DOWNLOAD)
    # No path out of the folder.
    return [folder / name for name in sorted({Path(file).name for file in index.weight_map.values()})] if index else []


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        check_regular(file)
        return load_file(file)
    except FileNotFoundError:
        raise DataError(f"there is no file {file}, which has a part of the weights", DOWNLOAD) from None
    except (SafetensorError, OSError) as error:
        if _is_pointer(file):
            pull = f"git -C {shlex.quote(str(file.parent))} lfs pull"
            raise DataError(f"{file} holds the name of a file of Git LFS, not its content", pull) from None
        raise DataError(f"{file} is truncated or corrupt: {error_text(error)}", DOWNLOAD) from None


def _is_pointer(file: Path) -> bool:
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(len(_POINTER)) == _POINTER
    return False


def _read_pickled(file: Path) -> dict[str, Tensor]:
    """The tensors of a file of torch.save; no code is run. Raises DataError for all else."""
    check_regular(file)
    try:
        # It warns of pickles that torch did not write, which are refused.
        with warnings.catch_warnings(action="ignore"):
            content: object = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    except pickle.UnpicklingError:
        raise _not_tensors(file) from None
    # Of torch, zipfile and pickle, by what is damaged.
    except Exception as error:
        raise DataError(f"{file} is truncated or corrupt: {error_text(error)}", DOWNLOAD) from None
    tensors: dict[str, Tensor] = {}
    for name, tensor in content.items() if isinstance(content, dict) else [(None, None)]:
        if not (isinstance(name, str) and isinstance(tensor, Tensor) and tensor.layout == torch.strided):
            raise _not_tensors(file)
        tensors[name] = tensor.detach().contiguous()
    return tensors


def count_parameters(folder: Path) -> int:
    """The numbers in the weights of a folder, mapped where they are safetensors. Raises DataError if it has none.

    Without those that write texts: T5's decoder, and the layer that makes words of a decoder's vectors.
    """
    items = read_weights(folder).items()
    return sum(tensor.numel() for name, tensor in items if not name.startswith(("decoder.", "lm_head.")))


def config_file(folder: Path) -> Path:
    """The config.json of a model folder, or what an adapter has instead."""
    return folder / (BASE if (folder / BASE).is_file() else CONFIG)


def no_model(folder: Path) -> DataError:
    """The error of a folder without config.json."""
    if written := read_json(folder / "adapter_config.json", dict[str, Any]):
        base = written.get("base_model_name_or_path") or "its base"
        remedy = f"merge it into {base}: merge_and_unload of peft, then save_pretrained, of that model's tokenizer too"
        return DataError(f"{folder} is an adapter that other software has trained", remedy)
    models = sorted(folder.glob("*/tokenizer_config.json"), key=lambda file: file.stat().st_mtime)
    hint = f"did you mean {models[-1].parent}?" if models else "give a folder with a model, or a name on the hub"
    return DataError(f"{folder} has no {CONFIG}", hint)


def _no_weights(folder: Path) -> DataError:
    if any(folder.glob("pytorch_model*.bin")):
        remedy = "join them: load the model in transformers and call save_pretrained, which writes safetensors"
        return DataError(f"{folder} has pickled weights in several files", remedy)
    if export := next((_EXPORTS[graph] for graph in _EXPORTS if (folder / graph).is_file()), ""):
        remedy = "use the run that was exported, or export it for sentence-transformers: contrast export RUN DIR"
        return DataError(f"{folder} is {export}", remedy)
    return DataError(f"{folder} has no {WEIGHTS} or {PICKLED}", DOWNLOAD)


def _not_tensors(file: Path) -> DataError:
    remedy = "use a model with safetensors, or convert it on a machine that may run its code"
    return DataError(f"{file} does not hold tensors alone, and reading anything else can run code", remedy)
