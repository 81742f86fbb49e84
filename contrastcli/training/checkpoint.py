"""Checkpoints: a model folder, and what it takes to continue exactly. Nothing in them is pickled.

    checkpoints/000120/            a model folder in sentence-transformers' layout; never changed once it has its name
    checkpoints/000120/training/   heads, optimiser and position; only in the last one
    checkpoints.json               {"last": "000120", "best": "000100"}

A checkpoint is written under a temporary name, flushed to disk and renamed once; then checkpoints.json is replaced;
then older ones are removed. A kill at any moment leaves the folders that checkpoints.json names whole.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from contrastcli.errors import DataError
from contrastcli.files import atomic_write, flush_tree, fsync_dir, read_json, writing_to
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import save_encoder

TRAINING = "training"


@dataclass
class Position:
    """Where a run is: the steps done, and what the dev set has said so far."""

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    evaluations_without_best: int = 0


def save(
    run: Path,
    encoder: SentenceEncoder,
    heads: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    *,
    best: bool,
) -> str:
    """Write a full checkpoint, point `last` (and `best`) at it, and remove what no longer is either."""
    name = f"{position.step:06d}"
    target = run / "checkpoints" / name
    with writing_to(target):
        if not target.exists():
            _write(target, encoder, heads, optimizer, position)
        named = pointers(run) | {"last": name} | ({"best": name} if best else {})
        atomic_write(run / "checkpoints.json", (json.dumps(named) + "\n").encode())
        prune(run)
    return name


def _write(
    target: Path, encoder: SentenceEncoder, heads: nn.Module, optimizer: torch.optim.Optimizer, position: Position
) -> None:
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        save_encoder(encoder, temporary)
        training = temporary / TRAINING
        training.mkdir()
        save_file(_tensors(heads), training / "heads.safetensors")
        save_file(_optimizer_tensors(optimizer), training / "optimizer.safetensors")
        (training / "position.json").write_text(json.dumps(asdict(position)) + "\n")
        flush_tree(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    os.rename(temporary, target)
    fsync_dir(target.parent)


def pointers(run: Path) -> dict[str, str]:
    """The names of `last` and `best`, where there are any. Raises DataError."""
    return read_json(run / "checkpoints.json", dict[str, str]) or {}


def disk_bytes(backbone: Path, with_best: bool, encoders: int = 1) -> int:
    """What a run's checkpoints take: weights and two moments of all encoders in `last`, one's weights in `best`."""
    with safe_open(backbone / "model.safetensors", framework="pt") as file:
        shapes: list[list[int]] = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118  not a mapping
    return 4 * sum(math.prod(shape) for shape in shapes) * (3 * encoders + with_best)


def prune(run: Path) -> None:
    """Remove what checkpoints.json does not name, such as what a killed process had begun."""
    named = pointers(run)
    for folder in (run / "checkpoints").glob("*"):
        if folder.name not in named.values():
            shutil.rmtree(folder)
        elif folder.name != named.get("last"):
            shutil.rmtree(folder / TRAINING, ignore_errors=True)  # best keeps the model only


def restore(folder: Path, heads: nn.Module, optimizer: torch.optim.Optimizer) -> Position:
    """Load heads and optimiser in place and return the position. The encoder is loaded from the folder itself.

    Raises DataError where something is missing, torn or of another run.
    """
    training = folder / TRAINING
    for name in ("position.json", "heads.safetensors", "optimizer.safetensors"):
        if not (training / name).is_file():
            raise DataError(f"{training / name} is missing", "this checkpoint keeps the model only; start a new run")
    try:
        position = Position(**json.loads((training / "position.json").read_text()))
        heads.load_state_dict(load_file(training / "heads.safetensors"))
        _load_optimizer(optimizer, load_file(training / "optimizer.safetensors"))
    except Exception as error:  # safetensors, JSON and torch each have their own
        reason = str(error).splitlines()[0]
        raise DataError(f"{training} cannot be read: {reason}", "start a new run from this model folder") from None
    return position


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Its state as tensors named `<parameter number>.<name>`."""
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {f"{n}.{key}": torch.as_tensor(v).cpu().contiguous() for n, s in state.items() for key, v in s.items()}


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
