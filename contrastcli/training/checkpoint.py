"""Checkpoints: a model folder, and what it takes to continue exactly. Nothing in them is pickled.

    checkpoints/000120/            a model folder in sentence-transformers' layout; never changed once it has its name
    checkpoints/000120/training/   heads, optimiser, position and scores; only in the last ones, as train.keep says
    checkpoints.json               {"last": "000120", "best": "000100"}

A checkpoint is written under a temporary name, with the checksums of its files, flushed to disk and renamed once; then
checkpoints.json is replaced; then older ones are removed. A kill at any moment leaves all others whole.
"""

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors.numpy
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from contrastcli.errors import DataError, failing_as
from contrastcli.files import atomic_write, draft_of, flush, flush_tree, fsync_dir, json_bytes, read_json, writing_to
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import save_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.weights import count_parameters
from contrastcli.runs import checksums
from contrastcli.runs.directory import POSITION, TRAINING, Run, discard
from contrastcli.runs.event import Count
from contrastcli.runs.events import Saved
from contrastcli.runs.scores import forget_suites
from contrastcli.settings.config import Config
from contrastcli.training.dev import DevSet

_SCORES = "dev.safetensors"


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

    def is_better(self, score: float | None) -> bool:
        """Whether a dev score of this step is above all since the first update."""
        return self.step > 0 and score is not None and (self.best is None or score > self.best)


def save(
    run: Run,
    encoder: SentenceEncoder,
    extras: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    dev: DevSet | None,
    *,
    best: bool,
    keep: int,
) -> str:
    """Write a full checkpoint, point `last` (and `best`) at it, and prune the others. Raises RunError."""
    name = f"{position.step:06d}"
    target, draft = run.checkpoints_dir / name, run.checkpoints_dir / f".{name}.tmp"
    with writing_to(target):
        try:
            # What led to a checkpoint outlives a power cut as the checkpoint does.
            if run.events_path.exists():
                flush(run.events_path)
            # A stop in an evaluation, which is done now, saved it.
            if target.exists():
                for file, data in _evaluation(position, dev).items():
                    checksums.replace(target / TRAINING, file, data)
            else:
                # Not the run's own folder, which may be gone.
                run.checkpoints_dir.mkdir(exist_ok=True)
                save_encoder(encoder, draft)
                checksums.write(draft)
                _write_training(draft / TRAINING, extras, optimizer, _evaluation(position, dev))
                flush_tree(draft)
                os.rename(draft, target)
                fsync_dir(target.parent)
            before = run.checkpoints()
            names = before | {"last": name} | ({"best": name} if best else {})
            if before and before.get("best", before.get("last")) != names.get("best", name):
                forget_suites(run.scores_path)
            atomic_write(run.checkpoints_path, json_bytes(names))
        finally:
            prune(run, keep)
    return name


def _keep_base(run: Run, folder: Path) -> None:
    """Keep the model that adapters are added to in their run, where it is of another, which may train on or be deleted.

    The files are those of the other run where the disk can do that, and take no room. Raises OSError.
    """

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    if not Run(folder.parent.parent).exists() or run.base_dir.exists():
        return
    draft = draft_of(run.base_dir)
    try:
        shutil.copytree(folder, draft, ignore=shutil.ignore_patterns(TRAINING), copy_function=link)
        flush_tree(draft)
        os.rename(draft, run.base_dir)
        fsync_dir(run.path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _evaluation(position: Position, dev: DevSet | None) -> dict[str, bytes]:
    """The files that an evaluation changes, the one that says that it is done last."""
    scores = {_SCORES: safetensors.numpy.save(dev.kept())} if dev else {}
    return scores | {"position.json": json_bytes(asdict(position))}


def _write_training(
    folder: Path, extras: nn.Module, optimizer: torch.optim.Optimizer, files: Mapping[str, bytes]
) -> None:
    state: dict[int, dict[str, object]] = optimizer.state_dict()["state"]
    moments = {f"{n}.{key}": torch.as_tensor(v) for n, values in state.items() for key, v in values.items()}
    # Heads may share a weight, which a file cannot.
    heads = {name: tensor.to("cpu", copy=True) for name, tensor in extras.state_dict().items()}
    folder.mkdir()
    for file, tensors in (("heads", heads), ("optimizer", moments)):
        save_file({key: t.cpu().contiguous() for key, t in tensors.items()}, folder / f"{file}.safetensors")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    checksums.write(folder)


def prune(run: Run, keep: int) -> None:
    """Remove all but `best`, which keeps its model only, and the last `keep` checkpoints."""
    names = run.checkpoints()
    last = int(names.get("last", -1))
    full = {folder.name for folder in [one for one in run.full_checkpoints() if int(one.name) <= last][-keep:]}
    named = full.union(names.values())
    drafts = [path for path in run.checkpoints_dir.glob(".*.tmp") if path.is_dir()]
    for folder in [*drafts, *run.all_checkpoints()]:
        if folder.is_symlink():
            continue
        if folder.name not in named:
            discard(run, folder)
        elif folder.name not in full and (folder / TRAINING).exists():
            discard(run, folder / TRAINING)


def restore(folder: Path, extras: nn.Module, optimizer: torch.optim.Optimizer, dev: DevSet | None) -> Position:
    """Load all but the encoder in place and return the position. The encoder is loaded from the folder itself.

    Raises DataError where a file is missing, damaged or of another run.
    """
    training = folder / TRAINING
    checksums.check(training)
    position = read_position(folder)
    with failing_as(DataError, f"{training} cannot be read", _start_from(folder)):
        buffers = dict(extras.named_buffers())
        # Earlier versions kept fewer of those that are saved.
        fresh = {name: tensor for name, tensor in extras.state_dict().items() if name in buffers}
        extras.load_state_dict(fresh | load_file(training / "heads.safetensors"))
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in load_file(training / "optimizer.safetensors").items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        # Earlier versions kept no scores.
        if dev and (training / _SCORES).exists():
            dev.restore(safetensors.numpy.load_file(training / _SCORES))
    return position


def to_resume(run: Run) -> Path | None:
    """The checkpoint that training continues from, None before the first save.

    Raises DataError where all keep the model only, and where a resume would delete later ones.
    """
    folders = run.all_checkpoints()
    if "last" not in run.checkpoints():
        if not folders:
            return None
        raise DataError(f"no checkpoint in {run.checkpoints_dir} has what a resume needs", _start_from(folders[-1]))
    last = run.checkpoint("last")
    later = folders[folders.index(last) + 1 :]
    saved = next((event.step for event in run.latest(Saved)), 0) if later else 0
    # A later one that no event tells of was not yet named when its process was killed.
    if kept := [str(folder) for folder in later if int(folder.name) <= saved]:
        what = f"{run.checkpoints_path} names {last.name}, but a later checkpoint is there: {kept[-1]}"
        remedies = [f"to go back, first move it away: {shlex.join(['mv', *kept, str(run.path)])}"]
        if later[-1] in run.full_checkpoints():
            forget = shlex.join(["rm", str(run.checkpoints_path)])
            remedies.insert(0, f"to continue from the later one, first {forget}")
        raise DataError(what, remedies)
    return last


def settle(run: Run, last: Path | None, config: Config) -> None:
    """Name the checkpoint that training continues from, and remove what a killed process left. Raises OSError.

    A new run whose adapters are added to the model of another keeps that.
    """
    names = run.checkpoints()
    if last is None and config.model.lora:
        _keep_base(run, resolve(config.model.backbone).folder())
    if last is not None:
        is_ahead = int(names.get("best", 0)) > int(last.name)
        atomic_write(run.checkpoints_path, json_bytes(run.names_of(last) if is_ahead else names))
    prune(run, config.train.keep)


def read_position(folder: Path) -> Position:
    """The position of a full checkpoint. Raises DataError."""
    path = folder / POSITION
    position = read_json(path, Position)
    if position is None:
        raise DataError(f"{path} is missing, as after contrast runs prune", _start_from(folder))
    if position.step != int(folder.name):
        what = f"{path} is of step {position.step:,}, its folder of step {int(folder.name):,}"
        raise DataError(what, _start_from(folder))
    return position


def _start_from(folder: Path) -> str:
    """What to do with a checkpoint that keeps the model only: the run's model is that of its best one."""
    run = Run(folder.parents[1])
    model = folder.with_name(run.checkpoints().get("best", folder.name))
    words = ["contrast", "train", "--config", str(run.config_path), "--backbone", str(model)]
    return f"start a new run from its model: {shlex.join(words)}"


def disk_bytes(backbone: Path, with_best: bool, encoders: int, keep: int) -> int:
    """The size of a run's checkpoints: weights and two moments of all encoders in the last, one's weights in `best`."""
    return 4 * count_parameters(backbone) * (3 * encoders * keep + with_best)
