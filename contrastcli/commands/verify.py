"""`contrast runs verify`: every file of a run checked, and steps of it trained again and compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from safetensors import SafetensorError, safe_open

from contrastcli.errors import ContrastError, DataError, RunError
from contrastcli.files import check_regular, error_text, read_json
from contrastcli.model.folder import load_encoder
from contrastcli.runs import checksums
from contrastcli.runs.directory import TRAINING, Run
from contrastcli.runs.event_file import read_lines
from contrastcli.runs.events import Evaluated, Event, Saved, Started, Step, decode, encode
from contrastcli.runs.results import Check
from contrastcli.show import console
from contrastcli.training.checkpoint import read_position
from contrastcli.training.replay import replay

Outcome = str | ContrastError
"""What is in order, in words, or a fault."""

_REPLAY = "replay"
_RESTORE = "restore the file from a copy"


def verify(run: Run, steps: int | None) -> list[Check]:
    """Check a run, which may be in training, and train that many steps again; a fault that matters more comes first."""
    checks = [*_checks(run)]
    if not _good(checks) and not run.status().ended:  # training may have replaced a checkpoint while it was read
        checks = [check for check in _checks(run) if check.ok or check in checks]
    if steps and _good(checks):
        checks += _check(_REPLAY, _replay(run, steps))
    return checks


def raise_first_fault(checks: Sequence[Check]) -> None:
    """Raises DataError where something is damaged, RunError where training it again gave something else."""
    for check in checks:
        if not check.ok:
            raise (RunError if check.what == _REPLAY else DataError)(check.text, check.hint)


def _good(checks: Sequence[Check]) -> bool:
    return all(check.ok for check in checks)


def _checks(run: Run) -> Iterator[Check]:
    yield from _check("config.toml", _config(run))
    yield from _check("checkpoints.json", _names(run))
    for folder in _folders(run):
        yield from _check(f"checkpoints/{folder.name}", _checkpoint(run, folder))
    parts: dict[str, Callable[[Run], Iterator[Outcome]]] = {
        "events.jsonl": _events,
        "environment.json": _environment,
        "scores.json": _scores,
        "other files": _others,
    }
    for what, part in parts.items():
        yield from _check(what, part(run))


def _check(what: str, outcomes: Iterator[Outcome]) -> list[Check]:
    """The faults of one thing, or that it is in order."""
    made: list[Outcome] = []
    try:
        made.extend(outcomes)
    except ContrastError as error:
        made.append(error)
    faults = [Check(what, one.what, one.hint, ok=False) for one in made if isinstance(one, ContrastError)]
    return faults or [Check(what, one) for one in made if isinstance(one, str)]


def _config(run: Run) -> Iterator[Outcome]:
    yield f"{len(run.config().flat())} settings"


def _names(run: Run) -> Iterator[Outcome]:
    names = run.checkpoints()
    if "last" not in names and (names or any(isinstance(event, Saved) for event in run.events())):
        yield DataError(f"{run.checkpoints_path} does not name the last checkpoint", _RESTORE)
    for name in names.values():
        if not (folder := run.checkpoints_dir / name).is_dir():
            yield DataError(f"the checkpoint {folder} is missing", f"restore it: {run.checkpoints_path} names it")
    yield ", ".join(f"{which} {name}" for which, name in names.items()) or "nothing is saved yet"


def _folders(run: Run) -> list[Path]:
    try:
        named = [run.checkpoints_dir / name for name in run.checkpoints().values()]
    except DataError:  # is reported under checkpoints.json
        return []
    return sorted({folder for folder in (*named, *run.full_checkpoints()) if folder.is_dir()})


def _checkpoint(run: Run, folder: Path) -> Iterator[Outcome]:
    parts = [part for part in (folder, folder / TRAINING) if part.is_dir()]
    has_checksums = any(run.checkpoints_dir.rglob(checksums.CHECKSUMS))  # an older version writes none
    faults = [fault for part in parts for fault in checksums.faults(part)]
    files = [part / checksums.CHECKSUMS for part in parts if has_checksums]
    faults += [DataError(f"{file} is missing", _RESTORE) for file in files if not file.exists()]
    yield from faults
    if faults:
        return
    load_encoder(folder)
    tensors = 0
    for file in sorted(folder.rglob("*.safetensors")):
        for name, finite in _tensors(file):
            tensors += 1
            if not finite:
                yield DataError(f"{file} has numbers in '{name}' that are not finite", "use another checkpoint")
    if len(parts) > 1:
        yield from _position(run, folder)
    words = ["model", *(part.name for part in parts[1:]), f"{tensors} tensors"]
    yield ", ".join(words if has_checksums else [*words, "no checksums"])


def _tensors(file: Path) -> Iterator[tuple[str, bool]]:
    """Each tensor of a file by its name, and whether its numbers are finite."""
    try:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  not a mapping
                yield name, bool(tensors.get_tensor(name).isfinite().all())
    except (SafetensorError, OSError) as error:
        raise DataError(f"{file} cannot be read: {error_text(error)}", _RESTORE) from None


def _position(run: Run, folder: Path) -> Iterator[Outcome]:
    """Faults in the position of a checkpoint: it must agree with the folder's name and with the events."""
    position, names = read_position(folder), run.checkpoints()
    file = folder / TRAINING / "position.json"
    if position.step != int(folder.name):
        yield DataError(f"{file} is of step {position.step:,}, its folder of step {int(folder.name):,}", _RESTORE)
    scores = [event for event in run.events() if isinstance(event, Evaluated) and event.best]
    best = [(None, None), *((event.spearman, event.step) for event in scores if event.step <= position.step)]
    recorded, saved = best[-1], (position.best, position.best_step)
    stopped = recorded[1] == position.step and best[-2] == saved  # in an evaluation, which a resume then repeated
    if recorded != saved and not stopped:
        what = f"{file} has the best score {saved[0]} at step {saved[1]}, {run.events_path.name} {recorded[0]} at step"
        yield DataError(f"{what} {recorded[1]}", _RESTORE)
    if folder.name == names.get("last") and int(names.get("best", 0)) != (position.best_step or 0):
        yield DataError(f"{run.checkpoints_path} does not name the best step, {position.best_step}", _RESTORE)


def _events(run: Run) -> Iterator[Outcome]:
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


def _environment(run: Run) -> Iterator[Outcome]:
    recorded = read_json(run.environment_path, dict[str, Any])
    if recorded is None and run.checkpoints():
        yield DataError(f"{run.environment_path} is missing", _RESTORE)
    yield ", ".join(str((recorded or {}).get(key, "")) for key in ("device", "precision")) if recorded else "none yet"


class _Scores(msgspec.Struct):
    model: str
    suites: dict[str, dict[str, Any]]


def _scores(run: Run) -> Iterator[Outcome]:
    scores = read_json(run.scores_path, _Scores)
    yield ", ".join(scores.suites) if scores else "none yet"


def _others(run: Run) -> Iterator[Outcome]:
    """Files that a kill left; of a run in training they may be in use."""
    if run.status().ended:
        checkpoints = {folder.name for folder in _folders(run)}
        unnamed = [path for path in run.checkpoints_dir.glob("[0-9]*") if path.name not in checkpoints]
        for path in sorted([*run.path.rglob(".*.tmp"), *unnamed]):
            yield DataError(f"{path} is left of a process that was killed", "remove it")
    yield "no half-written files"


def _replay(run: Run, steps: int) -> Iterator[Outcome]:
    shown = console.IgnoreClosedStream(console.console())
    try:
        yield replay(run, steps, lambda event: shown(event, encode(event)))
    finally:
        shown.close()
