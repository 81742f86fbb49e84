"""The command line as the app uses it: `contrast …` in child processes, so that no work is done on the UI's thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contrastcli.runs import events
from contrastcli.runs.events import Progress
from contrastcli.show.console import PROGRESS

OnProgress = Callable[[Progress], None]

_LINE = 1 << 24  # bytes of the longest answer


@dataclass(frozen=True)
class Finished:
    """What a child left: its exit code, its result, and its narration."""

    code: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """What went wrong and the remedy, as the command line says it; empty where it went well."""
        if self.code == 0:
            return ""
        lines = [line.removeprefix("contrast: error: ") for line in self.stderr.splitlines() if line.strip()]
        return "\n".join(lines[-2:]) or f"it ended with code {self.code} and no word"


async def contrast(directory: Path, *words: str, on_progress: OnProgress | None = None) -> Finished:
    """Run `contrast` with these words on a runs directory. Being cancelled ends the child too."""
    process = await _start(directory, words)
    out, said = b"", ""
    try:
        assert process.stdout and process.stderr
        out, said = await asyncio.gather(process.stdout.read(), _narration(process.stderr, on_progress))
        code = await process.wait()
    finally:
        await _end(process)
    return Finished(code, out.decode(errors="replace"), said)


async def _narration(stream: asyncio.StreamReader, on_progress: OnProgress | None) -> str:
    """What a child says on stderr, to its end, without its progress."""
    said: list[str] = []
    async for line in stream:
        event = events.decode(line)
        if not isinstance(event, Progress):
            said.append(line.decode(errors="replace"))
        elif on_progress:
            on_progress(event)
    return "".join(said)


class Conversation:
    """A `contrast` that stays: a line in, an answer out. Slow to start and quick to answer."""

    def __init__(self, directory: Path, *words: str, on_progress: OnProgress | None = None) -> None:
        self._directory, self._words, self._on_progress = directory, words, on_progress
        self._process: Process | None = None
        self._narration: asyncio.Task[str] | None = None
        self._turn = asyncio.Lock()

    async def ask(self, line: str, answers: int = 1) -> list[str]:
        """The lines that answer one line. Raises ChildEnded, with what it said, where it has ended."""
        async with self._turn:
            process = self._process or await self._begin()
            assert process.stdin and process.stdout
            try:
                process.stdin.write(line.encode() + b"\n")
                await process.stdin.drain()
                found = [await process.stdout.readline() for _ in range(answers)]
            except OSError:
                found = [b""]
            if not all(found):
                raise ChildEnded(await self._last_words(process))
            return [answer.decode() for answer in found]

    async def close(self) -> None:
        """End the child, if there is one."""
        if self._process:
            await _end(self._process)
            self._process = None

    async def _begin(self) -> Process:
        self._process = await _start(self._directory, self._words, stdin=PIPE)
        assert self._process.stderr
        # Read all the while: a child waits as soon as the pipe of what it says is full.
        self._narration = asyncio.create_task(_narration(self._process.stderr, self._on_progress))
        return self._process

    async def _last_words(self, process: Process) -> str:
        assert self._narration
        said, code = await self._narration, await process.wait()
        if self._process is process:
            self._process = None
        return Finished(code or 1, "", said).error


class ChildEnded(Exception):
    """A conversation is over: the words say why."""


async def _start(directory: Path, words: tuple[str, ...], stdin: int = DEVNULL) -> Process:
    command = (sys.executable, "-m", "contrastcli", "--runs-dir", str(directory.resolve()), *words)
    environment = os.environ | {PROGRESS: "json", "PYTHONUNBUFFERED": "1"}
    return await asyncio.create_subprocess_exec(
        *command, stdin=stdin, stdout=PIPE, stderr=PIPE, env=environment, limit=_LINE
    )


async def _end(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
