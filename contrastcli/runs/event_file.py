"""`events.jsonl`: appended to by the process that trains; read from either end, or followed, by all others.

A resume voids the events beyond the step from which it continues, and an earlier end. Readers leave these out.
"""

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from contrastcli.errors import DataError
from contrastcli.files import check_regular
from contrastcli.runs.event import Event
from contrastcli.runs.events import Started, decode, encode

BLOCK_BYTES = 1 << 18
LONGEST_LINE_BYTES = 1 << 20
"""A longer line is no event."""
POLL_SECONDS = 0.1


class EventWriter:
    """Appends each event to a file at once; cuts an incomplete last line, which a killed writer may leave."""

    def __init__(self, path: Path) -> None:
        if path.exists():
            check_regular(path)
        self._path = path
        self._file: BinaryIO = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        if (end := _end_of_lines(self._file)) < self._file.seek(0, os.SEEK_END):
            self._file.truncate(end)

    @property
    def is_in_place(self) -> bool:
        """Whether the file was not moved, replaced or removed; true where a shared disk fails for a moment."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except OSError as error:
            return error.errno not in (errno.ENOENT, errno.ENOTDIR)

    def find(self) -> Path | None:
        """Where the file is now; None if it was removed."""
        # It takes a tenth of a second to load, and few runs are moved.
        import psutil

        number = self._file.fileno()
        return next((Path(file.path) for file in psutil.Process().open_files() if file.fd == number), None)

    def __call__(self, event: Event) -> Event:
        """Write the event, with the time if it has none, and return it so. Raises OSError, with nothing written."""
        stamped = event if event.time else msgspec.structs.replace(event, time=round(time.time(), 3))
        line = encode(stamped)
        end = os.fstat(self._file.fileno()).st_size
        try:
            # On a full disk a part is written, and the rest raises the error.
            if (written := self._file.write(line)) < len(line):
                self._file.write(line[written:])
        except OSError:
            self._file.truncate(end)
            raise
        return stamped

    def close(self) -> None:
        self._file.close()


def _end_of_lines(file: BinaryIO) -> int:
    """The position after the last complete line of a file."""
    position = file.seek(0, os.SEEK_END)
    while position:
        start = file.seek(max(0, position - BLOCK_BYTES))
        if length := file.read(position - start).rfind(b"\n") + 1:
            return start + length
        position = start
    return 0


def current_from_end(events: Iterable[Event]) -> Iterator[Event]:
    """Events, last to first, without those that a resume voids."""
    # Of the starts read so far, the one that continues from the lowest step.
    resume: Started | None = None
    for event in events:
        if resume is None or not resume.voids(event):
            if isinstance(event, Started) and event.resumed_from is not None:
                resume = event
            yield event


def read(path: Path) -> list[Event]:
    """All events of a run, without those that a resume voids. Raises DataError where they are no file."""
    return [*read_from_end(path, lambda: [b'"event"'])][::-1]


def every_line(path: Path) -> Iterator[bytes]:
    """Each line with its end, which an incomplete last one lacks, as do the parts of one that is no event's.

    Raises DataError where they are no file.
    """
    check_regular(path)
    with open(path, "rb") as file:
        yield from iter(partial(file.readline, LONGEST_LINE_BYTES), b"")


def read_from_end(path: Path, patterns: Callable[[], list[bytes]]) -> Iterator[Event]:
    """The events of a run, last to first, without those that a resume voids.

    Only lines with one of the `patterns` are decoded, which is far quicker than decoding a million lines. They are
    asked for before each line; reading ends when there are none.
    """
    if path.exists():
        check_regular(path)
        yield from current_from_end(filter(None, map(decode, _lines_from_end(path, patterns))))


def _lines_from_end(path: Path, patterns: Callable[[], list[bytes]]) -> Iterator[bytes]:
    with open(path, "rb") as file:
        position = file.seek(0, os.SEEK_END)
        # The start of a line that ends in the following block.
        head = b""
        while position and patterns():
            size = min(BLOCK_BYTES, position)
            position -= size
            file.seek(position)
            # Of a line that is too long, something that is no event stands for the end.
            data = file.read(size) + (head if len(head) < LONGEST_LINE_BYTES else b"\0\n")
            cut = data.find(b"\n") + 1 if position else 0
            head, body = (data[:cut], data[cut:]) if cut or not position else (data, b"")
            yield from _lines_with(patterns, body)


def _lines_with(patterns: Callable[[], list[bytes]], data: bytes) -> Iterator[bytes]:
    # An incomplete last line is left out.
    end = data.rfind(b"\n") + 1
    # The last position of each pattern before `end`, −1 if there is none.
    last: dict[bytes, int] = {}
    while missing := patterns():
        for pattern in missing:
            if last.get(pattern, end) >= end:
                last[pattern] = data.rfind(pattern, 0, end)
        at = max(last[pattern] for pattern in missing)
        if at < 0:
            break
        start = data.rfind(b"\n", 0, at) + 1
        yield data[start : data.find(b"\n", at)]
        end = start


def follow(path: Path, has_ended: Callable[[], bool]) -> Iterator[Event | None]:
    """Events as they are written, from the first on, until the end of the run; None whenever there is nothing new.

    The file need not exist yet.
    """
    position, ended = 0, False
    while True:
        lines, position = read_lines(path, position, LONGEST_LINE_BYTES)
        yield from filter(None, map(decode, lines))
        if ended and not lines:
            return
        # The last events may have been written after the read that found nothing.
        ended = not lines and has_ended()
        if not lines and not ended:
            yield None
            time.sleep(POLL_SECONDS)


def read_lines(path: Path, position: int, size: int = -1) -> tuple[list[bytes], int]:
    """The complete lines in `size` bytes from a position on, by default in all, and the position after them.

    A file that does not exist has no lines. A line that is longer comes in parts, none of which is an event.
    """
    try:
        check_regular(path)
        with open(path, "rb") as file:
            file.seek(position)
            data = file.read(size)
    # It does not exist yet, or a shared disk fails for a moment.
    except (OSError, DataError):
        return [], position
    whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == size else b"")
    return whole.splitlines(), position + len(whole)
