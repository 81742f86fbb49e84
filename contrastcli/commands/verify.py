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
from contrastcli.runs.status import Environment
from contrastcli.settings.config import FORMAT, read_toml
from contrastcli.training.checkpoint import read_position
from contrastcli.training.environment import check_settings

_RESTORE = "restore the file from a copy"
_ALWAYS = "objective.name", "model.backbone", "data.train", "dev.data", "train.seed"
"""Settings that the runs of every version state."""


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
        "config.toml": partial(_settings, run),
        "checkpoints.json": partial(_names, run),
        **{f"checkpoints/{folder.name}": partial(_checkpoint, folder) for folder in _folders(run)},
        "environment.json": partial(_environment, run),
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
    config = run.config()
    is_of_now = read_toml(run.config_path).get("format") == FORMAT
    for key, source in config.sources.items():
        # An objective of another package may have got settings since.
        is_stated = key in _ALWAYS or (is_of_now and not key.startswith("objective."))
        if is_stated and source == "default":
            raise DataError(f"{run.config_path} has no {key}", _RESTORE)
    check_settings(run.environment_path, config)
    return f"{len(config.sources)} settings"


def _environment(run: Run) -> str:
    if not run.environment_path.exists():
        return _none_yet(run, f"{run.environment_path} is missing")
    one = Environment.read(run.environment_path)
    return f"contrast {one.contrast}, on {one.host}"


def _none_yet(run: Run, what: str) -> str:
    """Of a run without checkpoints. Raises DataError where there are some."""
    if _folders(run):
        raise DataError(f"{what}, and there are checkpoints", _RESTORE)
    return "none yet"


def _names(run: Run) -> str:
    names = run.checkpoints()
    if "last" not in names and next(run.latest(Saved), None):
        raise DataError(f"{run.checkpoints_path} does not name the last checkpoint", _RESTORE)
    for name in names.values():
        if not (run.checkpoints_dir / name).is_dir():
            raise DataError(f"the checkpoint {run.checkpoints_dir / name} is missing", _RESTORE)
    found = "" if run.checkpoints_path.exists() else ", of the folders: the file is missing"
    return ", ".join(f"{which} {name}" for which, name in names.items()) + found if names else "nothing is saved yet"


def _folders(run: Run) -> list[Path]:
    """The checkpoints that the run names or can continue from."""
    try:
        named = [run.checkpoints_dir / name for name in run.checkpoints().values()]
    # The fault is one of checkpoints.json.
    except DataError:
        return []
    return sorted({folder for folder in (*named, *run.full_checkpoints()) if folder.is_dir()})


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
    path, count, foreign, rest = run.events_path, 0, 0, ""
    for line in every_line(path) if path.exists() else ():
        if not line.endswith(b"\n") and len(line) < LONGEST_LINE_BYTES:
            rest = ", and an incomplete line, which a resume removes"
            break
        count += 1
        if decode(line) is not None:
            continue
        if not is_foreign(line):
            raise DataError(f"{path}, line {count:,}: this is no event", f"{_RESTORE}, or remove the line")
        foreign += 1
    found = f"{count:,} events" if count else _none_yet(run, f"{path} has no events")
    return found + (f", {foreign:,} of them of kinds unknown here" if foreign else "") + rest
