"""The cells of a sweep or of a paper's table: runs that one command trains, each in a process of its own.

The state of a cell is that of its run directory, so that the command may be killed at any moment and repeated.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import tomli_w

from contrastcli.errors import RunError
from contrastcli.files import atomic_write, decoding, read_bytes, writing_to
from contrastcli.runs import directory, process
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Event
from contrastcli.runs.status import IN_PROGRESS
from contrastcli.settings import config as configs
from contrastcli.settings.config import Config
from contrastcli.settings.setting import Value

WAITING = "waiting"
"""The state of a cell that has no run yet."""

_RELEASE_SECONDS = 60.0
"""How long a process may take to release its run after the last event."""

T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """A run that may not exist yet, its settings, and the title that tells it from the other cells.

    `point` has the values of the settings that vary in a sweep, other than the seed.
    """

    run: Run
    title: str
    config: Config
    point: Mapping[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.run.path.name

    @property
    def state(self) -> str:
        return self.run.status().state if self.run.exists() else WAITING

    @property
    def is_final(self) -> bool:
        """Whether training again would give the same result."""
        return self.state in ("finished", "diverged")


class Signals:
    """Counts Ctrl-C, SIGTERM and SIGUSR1: the first stops the running cell and the rest, the second exits at once."""

    count = 0

    def __call__(self, number: int) -> None:
        self.count += 1


def train(cell: Cell, show: Callable[[Event], object], signals: Signals) -> None:
    """Train or resume a cell to its end, or until the first signal. Raises RunError if its process reports nothing.

    A cell in progress is one of a command that was killed: it is followed.
    """
    run, state = cell.run, cell.state
    if state in (*IN_PROGRESS, "silent"):
        _follow(run, time.time(), show, signals)
        if run.status().state != "killed" or signals.count:
            return
    if not run.exists():
        directory.create(cell.config, run.path.parent, cell.name)
    began = time.time()
    process.launch(run, ["train", "--resume", str(run.path.resolve()), "--no-ui"])
    if not _follow(run, began, show, signals) and not signals.count:
        raise RunError(f"the process of {run.name} ended and reported nothing", f"see {run.log_path}")


def _follow(run: Run, began: float, show: Callable[[Event], object], signals: Signals) -> bool:
    """Show the events of a run from the time `began` until it ends; returns whether there were any."""
    reported = stopping = False
    for event in run.follow():
        if event is not None and event.time >= began:
            show(event)
            reported = True
        if signals.count and not stopping:
            process.request_stop(run)
            stopping = True
        if signals.count > 1:
            return reported
    process.wait_for_end(run, _RELEASE_SECONDS)
    return reported


def save_request(path: Path, request: Mapping[str, object], command: str) -> None:
    """Write next to the runs what cells a command trains, so that `command` continues it. Raises RunError."""
    with writing_to(path.parent):
        directory.make_runs_dir(path.parent)
        atomic_write(path, f"# To continue: {command}\n\n{tomli_w.dumps(request)}".encode())


def read_request(path: Path, kind: type[T], **more: object) -> T:
    """What `save_request` has written, with `more` that the file does not have. Raises DataError."""
    with decoding(path):
        return msgspec.convert(msgspec.toml.decode(read_bytes(path, configs.LARGEST)) | more, kind)
