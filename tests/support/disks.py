"""A disk that fills up or fails at a chosen moment, in this process: for files written by Python and by libraries."""

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

FULL = errno.EFBIG
"""No file grows from then on, by the system's own limit: what a full disk does, to safetensors too."""

_hooks: list[Callable[[Path], None]] = []
"""What is told of each change before it happens."""


def full_disk(*_: object) -> None:
    """In place of what writes: there is no room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if not _hooks or event not in ("open", "os.mkdir", "os.rename") or isinstance(args[0], int):
        return
    if event != "open" or args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        _hooks[-1](Path(os.fsdecode(args[0])))


@cache
def _install() -> None:
    sys.addaudithook(_watch)  # for good: Python removes none


@contextmanager
def failing_disk(folder: Path, fails_at: int, error: int) -> Iterator[None]:
    """In the body, the n-th change below a folder and all later ones fail: a file opened, a folder made, a rename."""
    place, numbers, limits = str(folder.resolve()), count(1), resource.getrlimit(resource.RLIMIT_FSIZE)

    def change(path: Path) -> None:
        if str(path.absolute()).startswith(place) and next(numbers) >= fails_at:
            if error != FULL:
                raise OSError(error, os.strerror(error), str(path))
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))

    _install()
    _hooks.append(change)
    try:
        yield
    finally:
        _hooks.clear()
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
