"""A copy of another machine's runs directory, without the models, kept up to date while it is open."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO

import msgspec

from contrastcli.errors import ContrastError, RunError, error_text
from contrastcli.files import cache_dir, replaced, writing_to
from contrastcli.runs.directory import match_name
from contrastcli.runs.host import Host
from contrastcli.runs.stream import CONFIG, GROWING, STATE, WHOLE, Frame, Hello, copied

FIRST_WAIT, _LAST_WAIT = 1.0, 30.0  # seconds between two tries to connect, and the most that they grow to
_PATIENCE = 2.0  # seconds with a thread that shall end
_HELLO = b'{"contrast":'  # a login may print something before it


class Mirror:
    """Connected when it is made, which raises ContrastError if that fails; a connection that ends is made again.

    `directory` is the copy, in the cache; its file says which host it is of, and what is wrong with the connection.
    """

    def __init__(self, host: Host) -> None:
        self._news, self._is_closed = threading.Condition(), threading.Event()
        self._names: Sequence[str] = ()  # of the runs there, the newest first
        self._here: set[str] = set()  # runs whose copies are complete, and "" when all are
        self._host = host
        hello = self._connect()
        self._host = msgspec.structs.replace(host, directory=hello.directory)
        name = hashlib.sha256(f"{host.address}\n{hello.directory}".encode()).hexdigest()[:12]
        self.directory = cache_dir() / "hosts" / f"{host.address}-{name}"
        with writing_to(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            self._host.save(self.directory)
        self._thread = threading.Thread(target=self._follow, name="mirror", daemon=True)
        self._thread.start()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *error: object) -> None:
        self._is_closed.set()
        self._process.kill()
        self._thread.join(_PATIENCE)

    def wait_for(self, word: str) -> str:
        """The name of the run that is meant, once it is here; without a word all runs are. Raises DataError."""
        with self._news:
            self._news.wait_for(lambda: self._names or "" in self._here)
            start = "contrast train --preset starter --no-ui"
            name = word and match_name(word, self._names, Path(self._host.directory), "run", start)
            self._news.wait_for(lambda: name in self._here)
        return name

    def _follow(self) -> None:
        while not self._is_closed.is_set():
            error = None
            try:
                self._copy()
            except (OSError, ValueError) as caught:  # no room here, or what comes is no frame
                error = RunError(f"the copy in {self.directory} fails: {error_text(caught)}", "")
                self._process.kill()
            self._reconnect(error or self._failure())

    def _copy(self) -> None:
        """Take what comes until the connection ends. Raises OSError and ValueError."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(msgspec.json.encode(copied(self.directory)) + b"\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            frame = msgspec.json.decode(line, type=Frame)
            data = self._process.stdout.read(max(frame.size, 0))
            if len(data) < frame.size:
                return
            if frame.run:
                take(self.directory, frame, data)
            with self._news:
                if data and not frame.run:
                    self._names = msgspec.json.decode(data, type=list[str])
                    for path in [path for path in self.directory.iterdir() if path.name not in self._names]:
                        shutil.rmtree(path, ignore_errors=True)  # no folder: the file of the host
                elif frame.file in ("", CONFIG):
                    self._here.add(frame.run)
                self._news.notify_all()

    def _connect(self) -> Hello:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        try:
            argv = self._host.argv(self._host.shell(["runs", "serve"], form="exec {}"))
            self._process = Popen(argv, stdin=PIPE, stdout=PIPE, stderr=self._errors)
        except FileNotFoundError:
            self._errors.close()
            raise RunError("there is no command ssh here", "install OpenSSH's client") from None
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(_HELLO):
                return msgspec.json.decode(line, type=Hello)
        raise self._failure()

    def _failure(self) -> ContrastError:
        """Why the connection has ended."""
        self._process.communicate()
        with self._errors as errors:
            errors.seek(0)
            return self._host.failure(self._process.returncode, errors.read().decode(errors="replace"))

    def _reconnect(self, error: ContrastError) -> None:
        """Connect again, as often as it takes."""
        wait = FIRST_WAIT
        while not self._is_closed.is_set():
            self._say(f"cut off, retry in {wait:.0f} s: {error.what}")
            if self._is_closed.wait(wait):
                return
            wait = min(2 * wait, _LAST_WAIT)
            try:
                self._connect()
                return self._say("")
            except ContrastError as again:
                error = again

    def _say(self, problem: str) -> None:
        self._host = msgspec.structs.replace(self._host, problem=problem)
        with suppress(OSError):
            self._host.save(self.directory)


def take(mirror: Path, frame: Frame, data: bytes) -> None:
    """Put what a frame brings into a mirror. Raises OSError, and ValueError for a path that leads elsewhere."""
    if Path(frame.run).name != frame.run or frame.run == ".." or frame.file not in (*GROWING, *WHOLE, STATE):
        raise ValueError(f"{frame.run}/{frame.file} is no file of a run")
    path = mirror / frame.run / frame.file
    path.parent.mkdir(exist_ok=True)
    if frame.at is not None:
        with open(path, "r+b" if frame.at else "wb") as file:
            file.seek(frame.at)
            file.write(data)
    elif frame.size < 0:
        path.unlink(missing_ok=True)
    else:
        with replaced(path) as draft:
            draft.write_bytes(data)
