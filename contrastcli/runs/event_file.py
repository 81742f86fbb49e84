"""`events.jsonl`: appended to by the process that trains; read from either end, and followed, by everyone else.

A resume makes void what an earlier process reported beyond the step that it continues from, and the end that was
reported. Readers leave that out, in whichever direction they read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from contrastcli.runs.events import Event, Started, decode, encode

_BLOCK = 1 << 18  # bytes


class EventWriter:
    """Appends events to a file, each at once and whole; cuts a line that a killed writer left torn."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        _cut_torn_line(path)

    def __call__(self, event: Event) -> bytes:
        """Write the event, stamped with the time if it has none, and return the line as written."""
        stamped = event if event.time else msgspec.structs.replace(event, time=round(time.time(), 3))
        line = encode(stamped)
        self._file.write(line)
        return line

    def close(self) -> None:
        self._file.close()


def _cut_torn_line(path: Path) -> None:
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)


def current(events: Iterable[Event]) -> list[Event]:
    """The events, first to last, without those that a resume made void."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Started):
            kept = [earlier for earlier in kept if not event.voids(earlier)]
        kept.append(event)
    return kept


def current_from_end(events: Iterable[Event]) -> Iterator[Event]:
    """The events, last to first, without those that a resume made void."""
    resume: Started | None = None  # the one that continues from the lowest step so far
    for event in events:
        if resume is None or not resume.voids(event):
            if isinstance(event, Started) and event.resumed_from is not None:
                resume = event
            yield event


def read(path: Path) -> list[Event]:
    """All events of a run, without those that a resume made void."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        return current(event for line in file if line.endswith(b"\n") and (event := decode(line)) is not None)


def read_from_end(path: Path, wanted: Callable[[], list[bytes]]) -> Iterator[Event]:
    """The events of a run, last to first, without those that a resume made void.

    Only lines that hold one of the `wanted` bytes are decoded, which is far quicker than decoding all of a million.
    It is called again for each line; none wanted ends the reading.
    """
    if path.exists():
        yield from current_from_end(event for line in _lines_from_end(path, wanted) if (event := decode(line)))


def _lines_from_end(path: Path, wanted: Callable[[], list[bytes]]) -> Iterator[bytes]:
    with open(path, "rb") as file:
        position = file.seek(0, os.SEEK_END)
        head = b""  # of a line that continues in the block after
        while position and wanted():
            size = min(_BLOCK, position)
            position -= size
            file.seek(position)
            data = file.read(size) + head
            cut = data.find(b"\n") + 1 if position else 0
            head, body = (data[:cut], data[cut:]) if cut or not position else (data, b"")
            yield from _lines_with(wanted, body)


def _lines_with(wanted: Callable[[], list[bytes]], data: bytes) -> Iterator[bytes]:
    end = data.rfind(b"\n") + 1  # before a torn last line
    last: dict[bytes, int] = {}  # where each of the wanted bytes stands last before `end`, −1 where nowhere
    while patterns := wanted():
        for pattern in patterns:
            if last.get(pattern, end) >= end:
                last[pattern] = data.rfind(pattern, 0, end)
        at = max(last[pattern] for pattern in patterns)
        if at < 0:
            break
        start = data.rfind(b"\n", 0, at) + 1
        yield data[start : data.find(b"\n", at)]
        end = start


def follow(path: Path, interval: float = 0.1) -> Iterator[Event | None]:
    """Events as they are written, from the first on; None whenever nothing is new, after waiting `interval` seconds.

    The file need not exist yet: a run exists a moment before its first event.
    """
    position = 0
    while True:
        lines, position = read_lines(path, position)
        for line in lines:
            if (event := decode(line)) is not None:
                yield event
        if not lines:
            yield None
            time.sleep(interval)


def read_lines(path: Path, position: int, size: int = -1) -> tuple[list[bytes], int]:
    """The whole lines in so many bytes from a position on, by default in all, and the position after them.

    A torn last line may still be completed, or cut. A file that is not there has no lines yet.
    """
    try:
        with open(path, "rb") as file:
            file.seek(position)
            data = file.read(size)
    except OSError:  # not made yet, or a shared disk that fails for a moment
        return [], position
    whole = data[: data.rfind(b"\n") + 1]
    return whole.splitlines(), position + len(whole)
