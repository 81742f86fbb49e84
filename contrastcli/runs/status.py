"""How a run is: derived from its last events, its heartbeat and its process, never stored.

The process that trains writes who it is (host, pid, start of the process) to `alive` and touches that file every
second. A pid alone proves nothing, since systems give it out again; the start of the process tells the two apart.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from contrastcli.runs.events import Angles, AnyEvent, Done, Evaluated, Started, Step, decode

State = Literal["starting", "running", "silent", "killed", "stopped", "finished", "failed", "diverged"]

SILENT_AFTER = 5.0
"""Seconds without a heartbeat after which a training process counts as silent."""
STARTING_GRACE = 60.0
"""The same before the first step: imports and loading may hold up the heartbeat, or a process may be yet to come."""

_DONE: dict[str, State] = {"stopped": "stopped", "finished": "finished", "failed": "failed", "diverged": "diverged"}
_WORDS: dict[State, tuple[str, str, int]] = {
    "killed": ("the training process was killed", "`contrast train --resume` goes on; see also its train.log", 1),
    "silent": ("no sign of life from the training process", "it may be stuck, or its disk or host be away", 0),
}
_SAME_START = 3.0  # seconds; systems round the start of a process, and shift it as they correct their clock
_BLOCK = 1 << 18  # bytes


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


@dataclass(frozen=True)
class Status:
    """How a run is. `best` is the dev Spearman in −1..1 and `best_step` its step; `code` the exit code of an end;
    times are seconds since the epoch."""

    state: State
    step: int
    steps: int
    best: float | None
    best_step: int | None
    loss: float | None
    message: str
    hint: str
    code: int
    created: float
    updated: float

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of this run by itself."""
        return self.state == "killed" or self.state in _DONE


def this_process() -> Writer:
    """Who the calling process is."""
    import psutil

    return Writer(socket.gethostname(), os.getpid(), psutil.Process().create_time())


@dataclass
class Digest:
    """What there is to know of a run's events, taken in from the last one backwards until nothing is missing."""

    last: AnyEvent | None = None
    started: Started | None = None
    step: Step | None = None
    angles: Angles | None = None
    evaluated: Evaluated | None = None
    best: Evaluated | None = None
    done: Done | None = None
    _limit: float = math.inf  # a later resume made the steps beyond it void

    def take(self, event: AnyEvent) -> None:
        """Take in the event before those already taken."""
        if event.step > self._limit:
            return
        self.last = self.last or event
        match event:
            case Started():
                self.started = self.started or event
                self._limit = min(self._limit, math.inf if event.resumed_from is None else event.resumed_from)
            case Step():
                self.step = self.step or event
            case Angles():
                self.angles = self.angles or event
            case Evaluated():
                self.evaluated = self.evaluated or event
                self.best = self.best or (event if event.best else None)
            case Done() if self.started is None:
                self.done = self.done or event

    def missing(self) -> list[bytes]:
        """What a line that still matters holds, as bytes: looking for these is far quicker than decoding every line."""
        if self.last is None:
            return [b"{"]
        wanted = {
            b'"started"': self.started,
            b'"done"': self.done or self.started,
            b'"step"': self.step,
            b'"angles"': self.angles,
            b'"evaluated"': self.best,
        }
        return [word for word, found in wanted.items() if found is None]

    @property
    def writer(self) -> Writer | None:
        """The process that trained last."""
        started = self.started
        return Writer(started.host, started.pid, started.process_start) if started else None


def digest(path: Path) -> Digest:
    """The end of a file of events, and as much of the rest as it takes."""
    found = Digest()
    if path.exists():
        for line in _backwards(path, found.missing):
            if (event := decode(line)) is not None:
                found.take(event)
    return found


def _backwards(path: Path, words: Callable[[], list[bytes]]) -> Iterator[bytes]:
    """The lines that hold one of the words, asked for anew each time, from the last line on."""
    with open(path, "rb") as file:
        position = file.seek(0, os.SEEK_END)
        head = b""  # of a line that goes on in the block after
        while position:
            size = min(_BLOCK, position)
            position -= size
            file.seek(position)
            data = file.read(size) + head
            cut = data.find(b"\n") + 1 if position else 0
            head, body = (data[:cut], data[cut:]) if cut or not position else (data, b"")
            yield from _lines_with(words, body)


def _lines_with(words: Callable[[], list[bytes]], data: bytes) -> Iterator[bytes]:
    end = data.rfind(b"\n") + 1  # before a torn last line
    last: dict[bytes, int] = {}  # where a word stands last before `end`, −1 where it does not
    while wanted := words():
        for word in wanted:
            if last.get(word, end) >= end:
                last[word] = data.rfind(word, 0, end)
        at = max(last[word] for word in wanted)
        if at < 0:
            break
        start = data.rfind(b"\n", 0, at) + 1
        yield data[start : data.find(b"\n", at)]
        end = start


def read(events: Path, alive: Path, config: Path) -> Status:
    """The status of the run that has these files."""
    return judge(digest(events), events, alive, config)


def judge(found: Digest, events: Path, alive: Path, config: Path) -> Status:
    """The same for who knows the events already: looking for the first of a million takes half a second."""
    state = _state(found, alive, config)
    done = found.done if state in _DONE else None
    message, hint, code = (done.message, done.hint, done.code) if done else _WORDS.get(state, ("", "", 0))
    created = created_at(events, config)
    return Status(
        state=state,
        step=found.last.step if found.last else 0,
        steps=found.started.steps if found.started else 0,
        best=found.best.spearman if found.best else None,
        best_step=found.best.step if found.best else None,
        loss=found.step.loss if found.step else None,
        message=message,
        hint=hint,
        code=code,
        created=created,
        updated=found.last.time if found.last else created,
    )


def created_at(events: Path, config: Path) -> float:
    """When a run was made. The first event counts too: a copy has newer files, and a resume may write its settings."""
    made = config.stat().st_mtime
    if not events.exists():
        return made
    with open(events, "rb") as file:
        first = decode(file.readline())
    return min(made, first.time) if first and first.time else made


def _state(found: Digest, alive: Path, config: Path) -> State:
    known = found.writer
    writer = _writer(alive) or known
    begun = known is not None and known.same_as(writer)
    fresh = _age(alive, config, begun) <= (SILENT_AFTER if begun else STARTING_GRACE)
    gone = _is_gone(writer, fresh) if writer else not fresh
    successor = writer is not None and not begun and not gone  # a process that is about to resume an ended run
    if found.done and not successor:
        return _DONE.get(found.done.status, "failed")
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
    """Seconds since the last sign of life; before the first one, since the run was made."""
    try:
        return time.time() - alive.stat().st_mtime
    except FileNotFoundError:
        return math.inf if begun else time.time() - config.stat().st_mtime


def _is_gone(writer: Writer, fresh: bool) -> bool:
    """Whether the process has certainly ended; of one on another host nobody here can tell."""
    import psutil

    if writer.host != socket.gethostname():
        return False
    try:
        process = psutil.Process(writer.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        # Whoever touches the heartbeat lives, even if a corrected clock has moved the start of its process.
        return not fresh and abs(process.create_time() - writer.process_start) > _SAME_START
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
