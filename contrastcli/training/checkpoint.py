"""Checkpoints: a model folder, and what it takes to continue exactly. Nothing in them is pickled.

    checkpoints/000120/            a model folder in sentence-transformers' layout; never changed once it has its name
    checkpoints/000120/training/   heads, optimiser and position; only in the last ones, as many as train.keep says
    checkpoints.json               {"last": "000120", "best": "000100"}

A checkpoint is written under a temporary name, with the checksums of its files, flushed to disk and renamed once; then
checkpoints.json is replaced; then older ones are removed. A kill at any moment leaves all others whole.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from contrastcli.errors import DataError, error_text
from contrastcli.files import atomic_write, flush_tree, fsync_dir, json_bytes, read_json, writing_to
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import save_encoder
from contrastcli.model.weights import count_parameters
from contrastcli.runs import checksums
from contrastcli.runs.directory import TRAINING, Run, discard

_NO_STATE = "this checkpoint keeps the model only; start a new run"

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]


@dataclass
class Position:
    """Where a run is: the steps done, its dev scores so far, and what its chunks depend on (0: not recorded).

    `to_evaluate` says that the evaluation of this step is not done. `token_budget` is smaller than `first_budget`,
    that of the settings, once memory has run out.
    """

    step: Count = 0
    best: float | None = None
    best_step: Count | None = None
    evaluations_without_best: Count = 0
    to_evaluate: bool = False
    first_budget: Count = 0
    token_budget: Count = 0
    processes: Count = 0


def save(
    run: Run,
    encoder: SentenceEncoder,
    extras: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    *,
    best: bool,
    keep: int,
) -> str:
    """Write a full checkpoint, point `last` (and `best`) at it, and prune the others. Raises RunError."""
    name = f"{position.step:06d}"
    target, draft = run.checkpoints_dir / name, run.checkpoints_dir / f".{name}.tmp"
    with writing_to(target):
        try:
            # A stop in an evaluation, which is done now, saved it.
            if target.exists():
                checksums.replace(target / TRAINING, "position.json", json_bytes(asdict(position)))
            else:
                save_encoder(encoder, draft)
                checksums.write(draft)
                _write_training(draft / TRAINING, extras, optimizer, position)
                flush_tree(draft)
                os.rename(draft, target)
                fsync_dir(target.parent)
            names = run.checkpoints() | {"last": name} | ({"best": name} if best else {})
            atomic_write(run.checkpoints_path, json_bytes(names))
        finally:
            prune(run, keep)
    return name


def _write_training(folder: Path, extras: nn.Module, optimizer: torch.optim.Optimizer, position: Position) -> None:
    state: dict[int, dict[str, object]] = optimizer.state_dict()["state"]
    moments = {f"{n}.{key}": torch.as_tensor(v) for n, values in state.items() for key, v in values.items()}
    folder.mkdir()
    for file, tensors in (("heads", extras.state_dict()), ("optimizer", moments)):
        save_file({key: t.cpu().contiguous() for key, t in tensors.items()}, folder / f"{file}.safetensors")
    (folder / "position.json").write_bytes(json_bytes(asdict(position)))
    checksums.write(folder)


def prune(run: Run, keep: int) -> None:
    """Remove all but `best`, which keeps its model only, and the last `keep` checkpoints."""
    full = {folder.name for folder in run.full_checkpoints()[-keep:]}
    named = full.union(run.checkpoints().values())
    for folder in [*run.checkpoints_dir.glob("*")]:
        if not folder.is_dir() or folder.is_symlink():
            continue
        if folder.name not in named:
            discard(run, folder)
        elif folder.name not in full and (folder / TRAINING).exists():
            discard(run, folder / TRAINING)


def restore(folder: Path, extras: nn.Module, optimizer: torch.optim.Optimizer) -> Position:
    """Load heads and optimiser in place and return the position. The encoder is loaded from the folder itself.

    Raises DataError where a file is missing, damaged or of another run.
    """
    training = folder / TRAINING
    checksums.check(training)
    position = read_position(folder)
    for name in ("heads.safetensors", "optimizer.safetensors"):
        if not (training / name).is_file():
            raise DataError(f"{training / name} is missing", _NO_STATE)
    try:
        extras.load_state_dict(load_file(training / "heads.safetensors"))
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in load_file(training / "optimizer.safetensors").items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    except Exception as error:  # of any kind
        what = f"{training} cannot be read: {error_text(error)}"
        raise DataError(what, "start a new run from this model folder") from None
    return position


def check_resumable(run: Run) -> None:
    """Raises DataError for a run whose last checkpoint, if it has one, does not hold all that a resume needs."""
    if "last" in run.checkpoints():
        read_position(run.checkpoint("last"))


def read_position(folder: Path) -> Position:
    """The position of a full checkpoint. Raises DataError."""
    path = folder / TRAINING / "position.json"
    position = read_json(path, Position)
    if position is None:
        raise DataError(f"{path} is missing", _NO_STATE)
    if position.step != int(folder.name):
        raise DataError(f"{path} is of step {position.step:,}, its folder of step {int(folder.name):,}", _NO_STATE)
    return position


def disk_bytes(backbone: Path, with_best: bool, encoders: int = 1, keep: int = 1) -> int:
    """The size of a run's checkpoints: weights and two moments of all encoders in the last, one's weights in `best`."""
    return 4 * count_parameters(backbone) * (3 * encoders * keep + with_best)
