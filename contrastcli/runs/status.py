"""The state of a run: derived from its last events, its heartbeat and its process, never stored.

The process that trains writes who it is (host, pid, start of the process) to `alive` and touches that file every
second. A pid alone proves nothing, since systems give it out again; the start of the process tells the two apart.
"""

from __future__ import annotations

import math
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from contrastcli.runs.event_file import read_from_end
from contrastcli.runs.events import Angles, Done, Evaluated, Event, Started, Step

State = Literal["starting", "running", "silent", "killed", "stopped", "finished", "failed", "diverged"]

SILENT_AFTER = 5.0
"""Seconds without a heartbeat after which a training process counts as silent."""
STARTING_GRACE = 60.0
"""The same before the first event: imports and loading may delay the heartbeat, and the process its start."""

_ENDS: tuple[State, ...] = ("stopped", "finished", "failed", "diverged")
_WORDS: dict[State, tuple[str, str, int]] = {
    "killed": ("the training process was killed", "`contrast train --resume` continues; see also its train.log", 1),
    "silent": (
        "no sign of life from the training process",
        "the process hangs, or its disk or host is unreachable",
        0,
    ),
}
_SAME_START = 3.0  # seconds; systems round the start of a process, and shift it as they correct their clock


class Writer(msgspec.Struct, frozen=True):
    """A training process, told from a later one with the same pid by its start (seconds since the epoch)."""

    host: str
    pid: int
    process_start: float

    def same_as(self, other: Writer | None) -> bool:
        """Whether both are one process."""
        return (
            other is not None
            and (self.host, self.pid) == (other.host, other.pid)
            and abs(self.process_start - other.process_start) < _SAME_START
        )


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run, by its name, and its latest numbers.

    `best` is the dev Spearman in −1..1 and `best_step` its step; `code` the exit code of an end; times are seconds
    since the epoch.
    """

    name: str
    state: State
    step: int
    steps: int
    loss: float | None
    best: float | None
    best_step: int | None
    message: str
    hint: str
    code: int
    created: float
    updated: float

    @classmethod
    def of(cls, name: str, known: Digest, state: State, created: float) -> Status:
        """The status of a run with these events."""
        done = known.done if state in _ENDS else None
        message, hint, code = (done.message, done.hint, done.code) if done else _WORDS.get(state, ("", "", 0))
        return cls(
            name=name,
            state=state,
            step=known.last.step if known.last else 0,
            steps=known.started.steps if known.started else 0,
            loss=known.step.loss if known.step else None,
            best=known.best.spearman if known.best else None,
            best_step=known.best.step if known.best else None,
            message=message,
            hint=hint,
            code=code,
            created=created,
            updated=known.last.time if known.last else created,
        )

    @property
    def ended(self) -> bool:
        """Whether the run has come to an end: it says no more unless it is resumed."""
        return self.state == "killed" or self.state in _ENDS


def this_process() -> Writer:
    """The calling process."""
    import psutil  # a tenth of a second, and only processes that train or are judged need it

    return Writer(socket.gethostname(), os.getpid(), psutil.Process().create_time())


@dataclass
class Digest:
    """What a status needs of a run's events: the last of each kind. Filled from the last event to the first."""

    last: Event | None = None
    started: Started | None = None
    step: Step | None = None
    angles: Angles | None = None
    evaluated: Evaluated | None = None
    best: Evaluated | None = None
    done: Done | None = None

    def add_earlier(self, event: Event) -> None:
        """Take in the event before those already taken in."""
        self.last = self.last or event
        match event:
            case Started():
                self.started = self.started or event
            case Step():
                self.step = self.step or event
            case Angles():
                self.angles = self.angles or event
            case Evaluated():
                self.evaluated = self.evaluated or event
                self.best = self.best or (event if event.best else None)
            case Done():
                self.done = self.done or event

    def missing(self) -> list[bytes]:
        """What the line of an event that is still missing holds."""
        if self.last is None:
            return [b"{"]
        wanted = {
            b'"started"': self.started,
            b'"done"': self.done or self.started,
            b'"step"': self.step,
            b'"angles"': self.angles,
            b'"evaluated"': self.best,
        }
        return [pattern for pattern, event in wanted.items() if event is None]

    @property
    def writer(self) -> Writer | None:
        """The process that trained last."""
        started = self.started
        return Writer(started.host, started.pid, started.process_start) if started else None


def digest(path: Path) -> Digest:
    """The digest of a file of events, read from its end as far as needed."""
    known = Digest()
    for event in read_from_end(path, known.missing):
        known.add_earlier(event)
    return known


def state_of(known: Digest, alive: Path, config: Path) -> State:
    """The state of the run that has these events, this heartbeat and these settings."""
    trained = known.writer
    writer = _writer(alive) or trained
    begun = trained is not None and trained.same_as(writer)
    fresh = _age(alive, config, begun) <= (SILENT_AFTER if begun else STARTING_GRACE)
    gone = _is_gone(writer, fresh) if writer else not fresh
    resuming = writer is not None and not begun and not gone  # a process that is about to resume an ended run
    if known.done and not resuming:
        return next((state for state in _ENDS if state == known.done.status), "failed")
    if gone:
        return "killed"
    if not fresh:
        return "silent"
    return "running" if begun else "starting"


def _writer(alive: Path) -> Writer | None:
    try:
        return msgspec.json.decode(alive.read_bytes(), type=Writer)
    except (OSError, msgspec.DecodeError):
        return None  # touched by hand or by another version: its time still counts


def _age(alive: Path, config: Path, begun: bool) -> float:
    """Seconds since the last heartbeat; before the first one, since the run was made."""
    try:
        return time.time() - alive.stat().st_mtime
    except FileNotFoundError:
        return math.inf if begun else time.time() - config.stat().st_mtime


def _is_gone(writer: Writer, fresh: bool) -> bool:
    """Whether the process has certainly ended; of one on another host that cannot be told from here."""
    import psutil  # as above

    if writer.host != socket.gethostname():
        return False
    try:
        process = psutil.Process(writer.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        # A process with a fresh heartbeat lives, even if a corrected clock has moved its start.
        return not fresh and abs(process.create_time() - writer.process_start) > _SAME_START
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
