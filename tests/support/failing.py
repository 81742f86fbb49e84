"""Commands of which the n-th write, fsync, rename, unlink or open for writing fails, of every library that they use.

A process with support/failing.c preloaded runs each in a fork. Run as a program, this file is that process.
"""

import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support import forked

POWER_CUT = -1
"""In place of an error: the process ends, and what it has not flushed to the disk is lost."""

SOURCE = Path(__file__).with_suffix(".c")


class Failed(NamedTuple):
    """How a command ended, which of its changes of the disk failed, and how many it made."""

    code: int
    out: str
    err: str
    change: str
    changes: int


class Commands:
    """The process that runs commands."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __call__(self, words: Sequence[str], n: int = 0, error: int = 0, *, stays: bool = False) -> Failed:
        """Run a command in the working folder; its n-th change fails, all that need room after it too if it `stays`."""
        assert self._process.stdin and self._process.stdout
        print(json.dumps([os.getcwd(), list(words), n, error, stays]), file=self._process.stdin, flush=True)
        return Failed(*json.loads(self._process.stdout.readline()))


@contextmanager
def commands(folder: Path) -> Iterator[Commands]:
    """A process that runs commands; what is compiled for it goes to a folder."""
    library = folder / "failing.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)}
    command, pipe = [sys.executable, "-m", "support.failing", str(library)], subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) as process:
        yield Commands(process)


def _serve(library: ctypes.CDLL) -> None:
    for line in sys.stdin:
        folder, words, n, error, stays = json.loads(line)
        os.chdir(folder)
        shared = mmap.mmap(-1, 1 << 14)  # of this process and the command's
        counter = ctypes.c_long.from_buffer(shared)

        def arm() -> None:
            signal.alarm(forked.TIMEOUT)
            library.failing_arm(os.fsencode(folder), ctypes.c_long(n), error, int(stays), ctypes.byref(counter))  # noqa: B023

        outcome = forked.wait(forked.start(words, before=arm))
        os.chdir("/")  # a process that is left in the folder is taken for one that the command started
        change = os.fsdecode(shared[8:].partition(b"\0")[0])
        print(json.dumps([outcome.code, outcome.out, outcome.err, change, counter.value]), flush=True)


if __name__ == "__main__":
    _serve(ctypes.CDLL(sys.argv[1]))
