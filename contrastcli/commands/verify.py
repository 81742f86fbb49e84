"""`contrast runs verify`: every file of a run checked, and steps of it trained again and compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from contrastcli.errors import ContrastError, DataError, RunError
from contrastcli.files import check_regular, read_json
from contrastcli.model.folder import load_encoder
from contrastcli.model.weights import read_tensors
from contrastcli.runs import checksums
from contrastcli.runs.directory import TRAINING, Run
from contrastcli.runs.event_file import read_lines
from contrastcli.runs.events import Evaluated, Event, Saved, Started, Step, decode, encode
from contrastcli.runs.results import Check
from contrastcli.show import console
from contrastcli.training.checkpoint import read_position
from contrastcli.training.replay import replay

Findings = Iterator[str | ContrastError]
"""The faults of something, or how it is in words."""

_REPLAY = "replay"
_RESTORE = "restore the file from a copy"


def verify(run: Run, steps: int | None) -> list[Check]:
    """Check a run, which may be in training, and train that many steps again; a fault that matters more comes first."""
    checks = [*_checks(run)]
    if not _good(checks) and not run.status().ended:  # training may have replaced a checkpoint while it was read
        checks = [check for check in _checks(run) if check.ok or check in checks]
    if steps and _good(checks):
        checks += _check(_REPLAY, partial(_replay, steps=steps), run)
    return checks


def raise_first_fault(checks: Sequence[Check]) -> None:
    """Raises DataError where something is damaged, RunError where training it again gave something else."""
    for check in checks:
        if not check.ok:
            raise (RunError if check.what == _REPLAY else DataError)(check.text, check.hint)


def _good(checks: Sequence[Check]) -> bool:
    return all(check.ok for check in checks)


def _checks(run: Run) -> Iterator[Check]:
    folders = _folders(run)
    parts: Mapping[str, Callable[[Run], Findings]] = {
        "config.toml": _config,
        "checkpoints.json": _names,
        **{f"checkpoints/{folder.name}": partial(_checkpoint, folder=folder) for folder in folders},
        "events.jsonl": _events,
        "environment.json": _environment,
        "scores.json": _scores,
        "other files": partial(_others, folders=folders),
    }
    for what, part in parts.items():
        yield from _check(what, part, run)


def _check(what: str, part: Callable[[Run], Findings], run: Run) -> list[Check]:
    """The faults of one thing, or that it is in order."""
    checks: list[Check] = []
    try:
        for one in part(run):
            checks.append(Check(what, one) if isinstance(one, str) else Check(what, one.what, one.hint, ok=False))
    except ContrastError as error:
        checks.append(Check(what, error.what, error.hint, ok=False))
    return [check for check in checks if not check.ok] or checks


def _config(run: Run) -> Findings:
    yield f"{len(run.config().flat())} settings"


def _names(run: Run) -> Findings:
    names = run.checkpoints()
    if "last" not in names and (names or any(isinstance(event, Saved) for event in run.events())):
        yield DataError(f"{run.checkpoints_path} does not name the last checkpoint", _RESTORE)
    for name in names.values():
        if not (folder := run.checkpoints_dir / name).is_dir():
            yield DataError(f"the checkpoint {folder} is missing", f"restore it: {run.checkpoints_path} names it")
    yield ", ".join(f"{which} {name}" for which, name in names.items()) or "nothing is saved yet"


def _folders(run: Run) -> list[Path]:
    """The checkpoints that the run names or can continue from."""
    try:
        named = [run.checkpoints_dir / name for name in run.checkpoints().values()]
    except DataError:  # is reported under checkpoints.json
        return []
    return sorted({folder for folder in (*named, *run.full_checkpoints()) if folder.is_dir()})


def _checkpoint(run: Run, folder: Path) -> Findings:
    parts = [part for part in (folder, folder / TRAINING) if part.is_dir()]
    has_checksums = any(run.checkpoints_dir.rglob(checksums.CHECKSUMS))  # an older version writes none
    if faults := [fault for part in parts for fault in checksums.faults(part, required=has_checksums)]:
        yield from faults
        return
    load_encoder(folder)
    tensors = 0
    for file in sorted(folder.rglob("*.safetensors")):
        for name, tensor in read_tensors(file).items():
            tensors += 1
            if not tensor.isfinite().all():
                yield DataError(f"{file} has numbers in '{name}' that are not finite", "use another checkpoint")
    if len(parts) > 1:
        yield from _position(run, folder)
    words = ["model", *(part.name for part in parts[1:]), f"{tensors} tensors"]
    yield ", ".join(words if has_checksums else [*words, "no checksums"])


def _position(run: Run, folder: Path) -> Findings:
    """The position of a checkpoint must agree with the folder's name, the events and the run's best."""
    position, names = read_position(folder), run.checkpoints()
    file = folder / TRAINING / "position.json"
    evaluated = position.step - position.to_evaluate  # a stop in an evaluation saves, and a resume repeats it
    scores = [event for event in run.events() if isinstance(event, Evaluated) and event.best]
    best = [(None, None), *((event.score, event.step) for event in scores if event.step <= evaluated)][-1]
    if best != (position.best, position.best_step):
        what = f"{file} has the best score {position.best} at step {position.best_step}"
        yield DataError(f"{what}, {run.events_path.name} {best[0]} at step {best[1]}", _RESTORE)
    named = int(names.get("best", 0))
    if folder.name == names.get("last") and named <= evaluated and named != (position.best_step or 0):
        yield DataError(f"{run.checkpoints_path} does not name the best step, {position.best_step}", _RESTORE)


def _events(run: Run) -> Findings:
    path, step = run.events_path, None
    if not path.exists():
        yield "none yet"
        return
    check_regular(path)
    kinds = {kind.kind() for kind in Event.__subclasses__()}
    lines, end = read_lines(path, 0)
    for number, line in enumerate(lines, 1):
        where, event = f"{path}, line {number:,}:", decode(line)
        if event is None and _kind(line) in (None, *kinds):
            yield DataError(f"{where} this is no event", f"{_RESTORE}, or remove the line")
        elif isinstance(event, Started):
            step = event.resumed_from or 0
        elif isinstance(event, Step | Evaluated | Saved):
            if step is None or event.step < step:
                after = "no start" if step is None else f"step {step:,}"
                yield DataError(f"{where} step {event.step:,} after {after}", _RESTORE)
            step = event.step
    torn = ", and an incomplete line, which a resume removes" if path.stat().st_size > end else ""
    yield f"{len(lines):,} events{torn}"


def _kind(line: bytes) -> object:
    """The kind of event of a line, also of a newer version; None if it is no event."""
    try:
        return msgspec.json.decode(line, type=dict[str, Any]).get("event")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _environment(run: Run) -> Findings:
    recorded = read_json(run.environment_path, dict[str, Any])
    if recorded is None and run.checkpoints():
        yield DataError(f"{run.environment_path} is missing", _RESTORE)
    yield ", ".join(str(recorded.get(key, "")) for key in ("device", "precision")) if recorded else "none yet"


def _scores(run: Run) -> Findings:
    yield ", ".join(run.scores().get("suites", {})) or "none yet"


def _others(run: Run, folders: Sequence[Path]) -> Findings:
    """Files that a kill left; of a run in training they may be in use."""
    if run.status().ended:
        unnamed = set(run.checkpoints_dir.glob("[0-9]*")) - set(folders)
        for path in sorted([*run.path.rglob(".*.tmp"), *unnamed]):
            yield DataError(f"{path} is left of a process that was killed", "remove it")
    yield "no half-written files"


def _replay(run: Run, steps: int) -> Findings:
    with console.showing(console.console()) as shown:
        yield replay(run, steps, lambda event: shown(event, encode(event)))
