"""`contrast runs verify`: the settings, checkpoints, events and scores of a run are read, and checksums compared."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from contrastcli.errors import ContrastError, DataError
from contrastcli.model.folder import load_encoder
from contrastcli.runs import checksums
from contrastcli.runs.directory import TRAINING, Run
from contrastcli.runs.event_file import LONGEST_LINE_BYTES, every_line
from contrastcli.runs.events import Saved, decode, is_foreign
from contrastcli.runs.results import Check
from contrastcli.training.checkpoint import read_position
from contrastcli.training.environment import check_settings

_RESTORE = "restore the file from a copy"


def verify(run: Run) -> list[Check]:
    """Check a run, which may be in training; what matters most comes first."""
    checks = _checks(run)
    if all(check.ok for check in checks) or run.status().ended:
        return checks
    # Training may have replaced a checkpoint while it was read.
    return _checks(run)


def raise_first_fault(checks: Sequence[Check]) -> None:
    """Raises DataError where something is damaged."""
    for check in checks:
        if not check.ok:
            raise DataError(check.text, check.hint)


def _checks(run: Run) -> list[Check]:
    parts: Mapping[str, Callable[[], str]] = {
        "settings": partial(_settings, run),
        "checkpoints.json": partial(_names, run),
        **{f"checkpoints/{folder.name}": partial(_checkpoint, folder) for folder in run.all_checkpoints()},
        "events.jsonl": partial(_events, run),
        "scores.json": lambda: ", ".join(run.scores().get("suites", {})) or "none yet",
    }
    return [_check(what, examine) for what, examine in parts.items()]


def _check(what: str, examine: Callable[[], str]) -> Check:
    try:
        return Check(what, examine())
    except ContrastError as error:
        return Check(what, error.what, error.hint, ok=False)


def _settings(run: Run) -> str:
    """They are also in the run's environment.json, which tells of those that are lost."""
    config = run.config()
    if run.all_checkpoints() and not run.environment_path.exists():
        raise DataError(f"{run.environment_path} is missing, and there are checkpoints", _RESTORE)
    check_settings(run.environment_path, config)
    return f"{len(config.sources)} in config.toml"


def _names(run: Run) -> str:
    names = run.checkpoints()
    if "last" not in names and next(run.latest(Saved), None):
        raise DataError(f"{run.checkpoints_path} does not name the last checkpoint", _RESTORE)
    for name in names.values():
        if not (run.checkpoints_dir / name).is_dir():
            raise DataError(f"the checkpoint {run.checkpoints_dir / name} is missing", _RESTORE)
    return ", ".join(f"{which} {name}" for which, name in names.items()) or "nothing is saved yet"


def _checkpoint(folder: Path) -> str:
    parts = [part for part in (folder, folder / TRAINING) if part.is_dir()]
    for part in parts:
        if not (part / checksums.CHECKSUMS).is_file():
            raise DataError(f"{part / checksums.CHECKSUMS} is missing", _RESTORE)
        checksums.check(part)
    load_encoder(folder)
    if len(parts) > 1:
        read_position(folder)
    return ", ".join(["model", *(part.name for part in parts[1:])])


def _events(run: Run) -> str:
    path, count, rest = run.events_path, 0, ""
    for line in every_line(path) if path.exists() else ():
        if not line.endswith(b"\n") and len(line) < LONGEST_LINE_BYTES:
            rest = ", and an incomplete line, which a resume removes"
            break
        count += 1
        if decode(line) is None and not is_foreign(line):
            raise DataError(f"{path}, line {count:,}: this is no event", f"{_RESTORE}, or remove the line")
    if not count and run.all_checkpoints():
        raise DataError(f"{path} has no events, and there are checkpoints", _RESTORE)
    return f"{count:,} events{rest}"
