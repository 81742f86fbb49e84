"""The cells of a sweep or of a paper's table: runs that one command trains, each in a process of its own.

The state of a cell is that of its run directory, so that the command may be killed at any moment and repeated, and
several processes, of several machines, may train the cells of one sweep: each takes one by the lock of its run.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import msgspec
import tomli_w

from contrastcli.errors import InUse, Preempted, RunError, Use
from contrastcli.files import atomic_write, decoding, read_bytes, writing_to
from contrastcli.runs import directory, process
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Started
from contrastcli.runs.status import STARTING_GRACE
from contrastcli.settings import config as configs
from contrastcli.settings import sections
from contrastcli.settings.config import Config

WAITING = "waiting"
"""The state of a cell that has no run yet."""

_RELEASE_SECONDS = 60.0
"""How long a process may take to release its run after the last event."""

T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """A run that may not exist yet, its settings, and the title that tells it from the other cells."""

    run: Run
    title: str
    config: Config

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

    @property
    def is_free(self) -> bool:
        """Whether no process trains it; of a silent one, which may be on another machine, this needs a minute."""
        with contextlib.suppress(FileNotFoundError):
            if self.state == "silent":
                return time.time() - self.run.alive_path.stat().st_mtime > STARTING_GRACE
        return self.state in (WAITING, "stopped", "failed", "killed")


@dataclass
class Signals:
    """Counts Ctrl-C, SIGTERM and SIGUSR1: the first stops the running cell and the rest, the second exits at once.

    The processes of other `workers` get them too. `code` is the exit code of the command that was stopped.
    """

    workers: Sequence[int] = ()
    count: int = 0
    code: int = 0

    def __call__(self, number: int) -> None:
        self.count += 1
        self.code = Preempted.code if number != signal.SIGINT else self.code
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def start(cell: Cell) -> float | None:
    """Start or resume a cell; returns when that was, None where another process was first. Raises RunError."""
    run = cell.run
    if not run.exists():
        directory.create(cell.config, run.path.parent, cell.name, shared=True)
    began = time.time()
    try:
        process.launch(run, ["train", "--resume", str(run.path.resolve()), "--no-ui"])
    except InUse:
        return None
    return began


def wait_for(cell: Cell, show: Callable[[Event], object], signals: Signals) -> None:
    """Show the events of a cell that another process trains, until it ends, or is free, or a signal comes.

    Of those before, its start: it says how many steps there are.
    """
    began = time.time()
    for event in cell.run.follow():
        if event is not None and (event.time >= began or isinstance(event, Started)):
            show(event)
        if signals.count or (event is None and cell.is_free):
            return


def follow(run: Run, began: float, show: Callable[[Event], object], signals: Signals) -> None:
    """Show the events of a cell since it began, until it ends. Raises RunError if its process reports nothing."""
    reported = stopping = False
    for event in run.follow():
        if event is not None and event.time >= began:
            show(event)
            reported = True
        if signals.count and not stopping:
            process.request_stop(run)
            stopping = True
        if signals.count > 1:
            return
    process.wait_for_end(run, _RELEASE_SECONDS)
    if not reported and not signals.count:
        raise RunError(f"the process of {run.name} ended and reported nothing", f"see {run.log_path}")


def save_request(path: Path, request: Mapping[str, object], command: str) -> None:
    """Write next to the runs what cells a command trains, so that `command` continues it.

    Raises RunError, and UsageError for too many.
    """
    fewer = "give fewer values or seeds, in several sweeps", Use("--data", "DIR", "a folder instead of many files:")
    text = configs.checked(f"# To continue: {command}\n\n{tomli_w.dumps(request)}", fewer)
    with writing_to(path.parent):
        directory.make_runs_dir(path.parent)
        private = sections.hold_secret(cast(Mapping[str, object], request["settings"]))
        atomic_write(path, text.encode(), private=private)


def read_request(path: Path, kind: type[T], **more: object) -> T:
    """What `save_request` has written, with `more` that the file does not have. Raises DataError."""
    with decoding(path):
        return msgspec.convert(msgspec.toml.decode(read_bytes(path, configs.LARGEST)) | more, kind)
