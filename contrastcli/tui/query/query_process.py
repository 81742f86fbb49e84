"""`contrast query -` as a process that stays: a line in, an answer out."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path

from contrastcli.tui.processes import Finished, OnProgress, end_process, read_narration, start_process

_BREAKS = str.maketrans("\t\r\n", "   ")


def query_line(*texts: str) -> str:
    """Sentences as a line of input; empty where one is blank."""
    clean = [text.translate(_BREAKS).strip() for text in texts]
    return "\t".join(clean) if all(clean) else ""


class QueryProcess:
    """Answers one line at a time, and of those that wait only the newest. Slow to start and quick to answer."""

    def __init__(
        self,
        directory: Path,
        args: Sequence[str],
        on_answer: Callable[[str], None],
        on_progress: OnProgress | None = None,
    ) -> None:
        self._directory, self.args = directory, args
        self._on_answer, self._on_progress = on_answer, on_progress
        self._waiting: asyncio.Queue[str] = asyncio.Queue(1)

    def ask(self, line: str) -> None:
        """Ask this next, in place of a line that still waits."""
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(line)

    async def run(self) -> str:
        """Ask and answer until the process ends; returns why it ended. Cancelling this ends the process."""
        process = await start_process(self._directory, "query", "-", "--json", *self.args, stdin=PIPE)
        assert process.stderr
        # Read all the while: a process waits as soon as the pipe of its narration is full.
        narration = asyncio.create_task(read_narration(process.stderr, self._on_progress))
        try:
            while answer := await _exchange(process, await self._waiting.get()):
                self._on_answer(answer.decode())
            return Finished(await process.wait() or 1, "", await narration).error
        finally:
            await end_process(process)


async def _exchange(process: Process, line: str) -> bytes:
    """The line that answers a line; empty where the process has ended."""
    assert process.stdin and process.stdout
    try:
        process.stdin.write(line.encode() + b"\n")
        await process.stdin.drain()
        return await process.stdout.readline()
    except OSError:
        return b""
