"""A runs directory as a stream: `contrast runs serve` sends it, and then its changes, to a mirror on another machine.

    → {"contrast": "0.1.0", "directory": "/home/u/runs"}     a Hello
    ← {"simace-7f3a/events.jsonl": [120000, 3735928559]}     what the mirror has
    → {"run": "simace-7f3a", "file": "events.jsonl", "size": 512, "at": 120000}, and 512 bytes     a Frame

A file that grows is sent from where the copy ends, others whole. Models stay where they are.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from contrastcli.boundary import __version__
from contrastcli.errors import ContrastError
from contrastcli.runs.directory import Run, list_runs
from contrastcli.runs.status import ENDED, Copied

CONFIG, STATE = "config.toml", "state.json"
GROWING = ("events.jsonl", "train.log")
WHOLE = ("stop.request", "checkpoints.json", "scores.json", "note.txt", "environment.json", CONFIG)
"""In the order of sending: without its settings a copy is no run yet."""

INTERVAL = 0.3  # seconds between two looks
_BLOCK = 1 << 18  # bytes of a frame
_BEGINNING = 4096  # bytes by which a copy is told from that of another file

Have = dict[str, tuple[int, int]]
"""The size of each growing file in a mirror, and the checksum of its beginning."""


class Hello(msgspec.Struct):
    """The first line."""

    contrast: str
    directory: str


class Frame(msgspec.Struct):
    """What precedes `size` bytes of a file, from the byte `at` on or all of it; the file is gone if that is negative.

    Without a run the bytes are the names of all runs, the newest first; without bytes too, there is nothing new.
    """

    run: str = ""
    file: str = ""
    size: int = -1
    at: int | None = None


Frames = Iterator[tuple[Frame, bytes]]


def serve(directory: Path, stdin: BinaryIO, stdout: BinaryIO) -> None:
    """Send a runs directory and its changes. Raises BrokenPipeError as soon as nobody reads them."""
    _send(stdout, Hello(__version__, str(directory.resolve())))
    source = Source(directory, msgspec.json.decode(stdin.readline() or b"{}", type=Have))
    while True:
        for frame, data in source.changes():
            _send(stdout, frame, data)
        _send(stdout, Frame())
        time.sleep(INTERVAL)


def _send(stdout: BinaryIO, head: Hello | Frame, data: bytes = b"") -> None:
    stdout.write(msgspec.json.encode(head) + b"\n" + data)
    stdout.flush()


class Source:
    """A runs directory, and what of it was sent."""

    def __init__(self, directory: Path, have: Have) -> None:
        self._directory, self._have = directory, have
        self._names: list[str] | None = None
        self._places: dict[Path, int] = {}  # the bytes that were sent of each file that grows
        self._runs: dict[str, tuple[Mapping[str, object], Copied]] = {}  # the stamps of its files, and its state

    def changes(self) -> Frames:
        """All that is new, the newest run first."""
        present = {path.parent.name for path in self._directory.glob(f"[!.]*/{CONFIG}")}
        if self._names is None or present != set(self._names):
            self._names = [run.path.name for run in list_runs(self._directory)]
            names = msgspec.json.encode(self._names)
            yield Frame(size=len(names)), names
        for name in self._names:
            with suppress(OSError, ContrastError):  # it is being deleted, or a shared disk fails for a moment
                yield from self._of_run(Run(self._directory / name), name)

    def _of_run(self, run: Run, name: str) -> Frames:
        before, last = self._runs.get(name, ({}, None))
        stats = {entry.name: entry.stat() for entry in os.scandir(run.path) if entry.is_file()}
        stamps = {file: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for file, stat in stats.items()}
        if stamps == before and last and last.state in ENDED:
            return
        state = Copied(run.status().state, run.size_bytes())  # before the events, which say no less then
        for file in GROWING:
            if file in stamps:
                yield from self._grown(run.path / file, Frame(name, file))
        if state != last:
            data = msgspec.json.encode(state)
            yield Frame(name, STATE, len(data)), data
        for file in WHOLE:
            if last is None or stamps.get(file) != before.get(file):
                data = (run.path / file).read_bytes() if file in stamps else b""
                yield Frame(name, file, len(data) if file in stamps else -1), data
        self._runs[name] = stamps, state

    def _grown(self, path: Path, frame: Frame) -> Frames:
        """Whole lines, since a resume cuts an incomplete one."""
        with open(path, "rb") as file:
            place = self._places.get(path)
            place = self._shared(file, f"{frame.run}/{frame.file}") if place is None else place
            place = 0 if place > os.fstat(file.fileno()).st_size else place
            file.seek(place)
            while data := file.read(_BLOCK):
                lines = data[: data.rfind(b"\n") + 1] or (data if len(data) == _BLOCK else b"")
                if not lines:
                    break
                yield Frame(frame.run, frame.file, len(lines), place), lines
                place += len(lines)
                file.seek(place)
            self._places[path] = place

    def _shared(self, file: BinaryIO, key: str) -> int:
        """The bytes of a file that the mirror has; 0 if what it has is another file, or ends within a line."""
        size, checksum = self._have.get(key, (0, 0))
        is_same = size and zlib.crc32(file.read(min(size, _BEGINNING))) == checksum
        file.seek(size - 1 if is_same else 0)
        return size if is_same and file.read(1) == b"\n" else 0


def copied(mirror: Path) -> Have:
    """What a mirror has."""
    have: Have = {}
    for path in [path for name in GROWING for path in mirror.glob(f"*/{name}")]:
        with open(path, "rb") as file:
            have[f"{path.parent.name}/{path.name}"] = path.stat().st_size, zlib.crc32(file.read(_BEGINNING))
    return have
