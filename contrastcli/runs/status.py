"""The state of a run, which is never stored but derived from its last events, its heartbeat and its process.

The process that trains writes its host, pid and start to `alive` and touches that file every second. Systems reuse
pids, so a process is identified by its start as well.
"""

import math
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from contrastcli.errors import DataError
from contrastcli.files import read_json
from contrastcli.runs.event import Count, Event, Number, Pid
from contrastcli.runs.event_file import read_from_end
from contrastcli.runs.events import Done, Queued, Started
from contrastcli.runs.measured import Angles, Evaluated, Step
from contrastcli.runs.text import Numeral, score
from contrastcli.settings.metrics import metric_title

State = Literal["queued", "starting", "running", "silent", "killed", "stopped", "finished", "failed", "diverged"]

SILENT_AFTER = 5.0
"""Seconds without a heartbeat after which a training process is silent."""
STARTING_GRACE = 60.0
"""The same before the first event: starting the process, imports and loading take time."""

IN_PROGRESS: tuple[State, ...] = ("queued", "starting", "running")
"""A process works on the run, and shows that it does."""

_ENDS: tuple[State, ...] = ("stopped", "finished", "failed", "diverged")
ENDED: tuple[State, ...] = (*_ENDS, "killed")
"""The run has ended; it may still be resumed."""

_WORDS: dict[State, tuple[str, str, int]] = {
    "killed": ("the training process was killed", "to continue: contrast train --resume {run}", 1),
    "failed": (
        "the training process ended and could not say why",
        "was its disk full? Make room, and continue: contrast train --resume {run}",
        1,
    ),
    "silent": (
        "the training process does not respond",
        "it hangs, or its disk or host is unreachable; to end it on {at.host}: kill -KILL {at.pid}",
        0,
    ),
}
_SAME_START_SECONDS = 3.0
"""Systems round the start of a process, and shift it when they correct the clock."""


class Writer(msgspec.Struct, omit_defaults=True):
    """A training process, as `alive` has it; its start is in seconds since the epoch.

    `step` is its last one, logged or not, 0 before the first, and `seconds_left` those to its end.
    """

    host: str
    pid: Pid
    process_start: float
    step: Count = 0
    seconds_left: Number | None = None

    def same_as(self, other: "Writer | None") -> bool:
        return (
            other is not None
            and (self.host, self.pid) == (other.host, other.pid)
            and abs(self.process_start - other.process_start) < _SAME_START_SECONDS
        )


class Environment(msgspec.Struct, frozen=True):
    """With what a run was trained, as its environment.json says; empty where it was not recorded."""

    host: str = ""
    contrast: str = ""
    commit: str | None = None
    python: str = ""
    packages: dict[str, str] = {}
    platform: str = ""
    device: str = ""
    device_name: str = ""
    processes: int = 1
    precision: str = ""
    backbone: dict[str, str | None] = {}
    data: dict[str, Any] = {}
    settings: dict[str, str] = {}

    @classmethod
    def read(cls, path: Path) -> "Environment":
        """That of a file, which may be missing. Raises DataError."""
        return read_json(path, cls) or cls()


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run, by its name, and its latest numbers.

    `best` is the best dev score in −1..1, `metric` what it is ("": none yet) and `best_step` its step; `shorter` are
    the scores of shorter embeddings there; `code` is the exit code once the run has ended; times are in seconds since
    the epoch. Of a run that trains, `step` is its last one, logged or not, and `seconds_left` those to its end.
    """

    name: str
    state: State
    step: int = 0
    steps: int = 0
    seconds_left: float | None = None
    loss: float | None = None
    best: float | None = None
    best_step: int | None = None
    metric: str = ""
    shorter: dict[int, float | None] = {}
    message: str = ""
    hint: str = ""
    code: int = 0
    created: float = 0
    updated: float = 0

    @classmethod
    def of(
        cls, name: str, word: str, events: "Digest", state: State, created: float, writer: Writer | None
    ) -> "Status":
        done = events.done if state in _ENDS else None
        trained = writer if writer and writer.step and state in ("running", "silent") else None
        latest = trained or events.step
        message, hint, code = (done.message, done.hint, done.code) if done else _WORDS.get(state, ("", "", 0))
        hint = hint if done else hint.format(run=word, at=writer or events.started)
        if state == "queued" and isinstance(events.last, Queued):
            message = f"waits for the end of {events.last.behind}"
        return cls(
            name=name,
            state=state,
            step=max(events.last.step if events.last else 0, trained.step if trained else 0),
            seconds_left=latest.seconds_left if latest and state == "running" else None,
            steps=events.started.steps if events.started else 0,
            loss=events.step.loss if events.step else None,
            best=events.best.score if events.best else None,
            best_step=events.best.step if events.best else None,
            metric=events.best.metric if events.best else "",
            shorter=events.best.shorter if events.best else {},
            message=message,
            hint=hint,
            code=code,
            created=created,
            updated=events.last.time if events.last else created,
        )

    @property
    def best_text(self) -> Numeral:
        """The best dev score × 100, with its metric unless that is Spearman."""
        return Numeral(score(self.best) + (f" {self.title}" if self.metric not in ("", "spearman") else ""))

    @property
    def title(self) -> str:
        return metric_title(self.metric)

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def this_process() -> Writer:
    """The calling process."""
    # It takes a tenth of a second to load, and few commands need it.
    import psutil

    return Writer(socket.gethostname(), os.getpid(), psutil.Process().create_time())


@dataclass
class Digest:
    """The last event of each kind of a run, which its status is derived from; `opened` if there is a file of them."""

    opened: bool = False
    last: Event | None = None
    started: Started | None = None
    step: Step | None = None
    angles: Angles | None = None
    evaluated: Evaluated | None = None
    best: Evaluated | None = None
    done: Done | None = None

    def missing(self) -> list[bytes]:
        """Patterns of which the line of each missing event has one."""
        if self.last is None:
            return [b'"event"']
        patterns = {
            b'"started"': self.started,
            b'"done"': self.done or self.started,
            b'"step"': self.step,
            b'"angles"': self.angles,
            b'"evaluated"': self.best,
        }
        return [pattern for pattern, event in patterns.items() if event is None]


def digest(path: Path) -> Digest:
    """The digest of a file of events, which is read from its end until nothing is missing."""
    events = Digest(path.exists())
    for event in read_from_end(path, events.missing):
        for kind in ("last", event.kind(), *(["best"] if isinstance(event, Evaluated) and event.best else [])):
            if getattr(events, kind, event) is None:
                setattr(events, kind, event)
    return events


def read_writer(alive: Path) -> Writer | None:
    """The process of a heartbeat file; None without one, and of one that was touched by hand."""
    with suppress(DataError):
        return read_json(alive, Writer)
    return None


def observe(path: Path, alive: Path, config: Path, known: Digest | None) -> tuple[Digest, Writer | None, State]:
    """The events of a run, which are read unless they are known, its process by its heartbeat file, and its state."""
    events, writer = known or digest(path), read_writer(alive)
    state = _state_of(events, writer, alive, config)
    # A process writes its end before it removes the heartbeat, maybe after its events were read.
    if known is None and events.done is None and state in ("silent", "failed", "killed"):
        events = digest(path)
        state = _state_of(events, writer, alive, config)
    return events, writer, state


def _state_of(events: Digest, writer: Writer | None, alive: Path, config: Path) -> State:
    """The state of the run with these events, this writer of its heartbeat file, and this file of settings."""
    started = events.started
    trained = Writer(started.host, started.pid, started.process_start) if started else None
    writer = writer or trained
    has_begun = trained is not None and trained.same_as(writer)
    try:
        beat = alive.stat().st_mtime
    except OSError:
        # A process writes the file as soon as it starts, before any event.
        unwritten = STARTING_GRACE - SILENT_AFTER
        beat = -math.inf if has_begun or events.opened else config.stat().st_mtime - unwritten
    is_fresh = time.time() - beat <= (SILENT_AFTER if has_begun else STARTING_GRACE)
    is_gone = _has_ended(writer, is_fresh) if writer else not is_fresh
    # It has not yet written an event.
    is_resuming = writer is not None and not has_begun and is_fresh and not is_gone
    if events.done and not is_resuming:
        return next((state for state in _ENDS if state == events.done.status), "failed")
    if is_gone:
        # A process that is not killed removes the file.
        return "failed" if (started or events.opened) and not alive.exists() else "killed"
    if not is_fresh:
        return "silent"
    return "queued" if isinstance(events.last, Queued) else "running" if has_begun else "starting"


def _has_ended(writer: Writer, is_fresh: bool) -> bool:
    """Whether the process has certainly ended; for one on another host this is not known."""
    import psutil

    if writer.host != socket.gethostname():
        return False
    try:
        process = psutil.Process(writer.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        # A process with a fresh heartbeat is alive, even if a corrected clock has shifted its start.
        return not is_fresh and abs(process.create_time() - writer.process_start) > _SAME_START_SECONDS
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
