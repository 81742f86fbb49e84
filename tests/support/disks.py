"""A disk that fills up or fails at a chosen moment, in this process: for files written by Python and by libraries."""

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contrastcli.runs.event import Event
from contrastcli.runs.event_file import EventWriter

FULL = errno.EFBIG
"""No file grows from then on, by the system's own limit: what a full disk does, to safetensors too."""


def full_disk(*_: object) -> None:
    """In place of what writes: there is no room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Disk:
    """Fails with an error at the n-th change below a folder: a file opened, a folder made, a rename, an event."""

    def __init__(self, folder: Path, fails_at: int, error: int) -> None:
        self._folder, self._fails_at, self._error = str(folder.resolve()), fails_at, error
        self.changes = 0

    @property
    def failed(self) -> bool:
        return self.changes >= self._fails_at

    def change(self, path: Path) -> None:
        if not str(path.absolute()).startswith(self._folder):
            return
        self.changes += 1
        if self._error == FULL and self.changes == self._fails_at:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        elif self._error != FULL and self.failed:
            raise OSError(self._error, os.strerror(self._error), str(path))


_mounted: Disk | None = None
_is_watched = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    """Tell the disk of a change before it happens."""
    if _mounted is None or event not in ("open", "os.mkdir", "os.rename") or isinstance(args[0], int):
        return
    if event != "open" or args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        _mounted.change(Path(os.fsdecode(args[0])))


@contextmanager
def mounted(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In the body, changes are made on this disk."""
    global _mounted, _is_watched
    if not _is_watched:
        sys.addaudithook(_watch)  # for good: Python removes none
        _is_watched = True
    write = EventWriter.__call__

    def counted(self: EventWriter, event: Event) -> Event:
        disk.change(Path(self._file.name))
        return write(self, event)

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    _mounted = disk
    with monkeypatch.context() as patched:
        patched.setattr(EventWriter, "__call__", counted)
        try:
            yield
        finally:
            _mounted = None
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
