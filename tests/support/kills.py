"""SIGKILL to commands: at any moment, before any of their changes of the disk, while a draft is written."""

import ctypes
import mmap
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from support.forked import TIMEOUT, Outcome, start, wait
from support.waiting import wait_until

DRAFTS = (".", "pictures", "runs", "runs/*", "runs/*/checkpoints", "cache/*", "cache/checksums/*")
"""Folders in which files are written under a temporary name."""
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


class Course(NamedTuple):
    """How a command ran undisturbed: the seconds that it took, and how often it changed the disk."""

    outcome: Outcome
    seconds: float
    changes: int


def drafts() -> list[Path]:
    """What is being written below the working folder, or was when its writer died."""
    hidden: list[Path] = []
    for folder in DRAFTS:
        with suppress(FileNotFoundError):  # a folder that is renamed while it is searched
            hidden += Path().glob(f"{folder}/.*")
    return [path for path in hidden if path.name != ".gitignore" and not path.name.endswith(".lock")]


def observe(command: Sequence[str]) -> Course:
    """Run a command undisturbed."""
    began, count = time.monotonic(), ctypes.c_long.from_buffer(mmap.mmap(-1, 8))  # shared with its process
    outcome = wait(start(command, before=lambda: _count_changes(count)))
    return Course(outcome, time.monotonic() - began, count.value)


def kill_somewhere(draw: random.Random, command: Sequence[str], course: Course) -> tuple[str, Outcome]:
    """Start a command and kill it somewhere in its course, unless it ends before; returns where, and how it ended."""
    match draw.randrange(5):
        case 0 | 1:
            change, count = draw.randint(1, course.changes), ctypes.c_long()
            where = f"before change {change} of {course.changes}"
            return where, wait(start(command, before=lambda: _count_changes(count, fatal=change)))
        case 2 | 3:
            seconds = draw.uniform(0, 1.1 * course.seconds)
            return f"after {seconds:.3f} s of {course.seconds:.3f}", _kill_when(start(command), lambda: True, seconds)
        case _:
            seconds, old = draw.uniform(0, 0.02), set(drafts())
            outcome = _kill_when(start(command), lambda: not old.issuperset(drafts()), seconds)
            return f"{seconds:.3f} s after a draft was begun", outcome


def _count_changes(count: ctypes.c_long, fatal: int = 0) -> None:
    """Count the changes of the disk that this process is about to make, but other libraries', and die before one."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in _CHANGES or (event == "open" and int(str(arguments[2] or 0)) & (os.O_WRONLY | os.O_RDWR)):
            count.value += 1
            if count.value == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _kill_when(pid: int, holds: Callable[[], bool], seconds: float) -> Outcome:
    """Kill a process so many seconds after something holds."""
    while not holds() and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return wait(pid)


def detached(folder: Path) -> list[psutil.Process]:
    """The processes in a folder that commands have left there."""
    return [process for process in psutil.process_iter(["cwd", "status"]) if _works_in(process, folder)]


def _works_in(process: psutil.Process, folder: Path) -> bool:
    is_alive = process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid()
    return is_alive and process.info["cwd"] == str(folder)


@contextmanager
def a_copy(original: Path, copy: Path) -> Iterator[None]:
    """A copy of a folder to work in, which is then deleted."""
    shutil.copytree(original, copy)
    try:
        with chdir(copy):
            yield
    finally:
        for process in detached(copy):
            process.kill()
        shutil.rmtree(copy)


def kill_detached(draw: random.Random, folder: Path) -> int:
    """Kill what commands have left running, at once, later, or not before it ends; returns how many were killed."""
    deadline = time.monotonic() + draw.choice((0, draw.uniform(0, 6), TIMEOUT))
    while time.monotonic() < deadline and detached(folder):
        time.sleep(0.01)
    victims = detached(folder)
    for process in victims:
        process.kill()
    wait_until(lambda: not detached(folder))
    return len(victims)


def contents(paths: Iterable[Path]) -> dict[str, bytes]:
    """The bytes of files and of all files in folders."""
    below = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    return {str(file): file.read_bytes() for file in below if file.is_file()}
