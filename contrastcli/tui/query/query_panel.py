"""`contrast query -` as a process that stays, and what the panels that ask it have in common."""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path

import msgspec
from textual import work
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widget import Widget

from contrastcli.tui.processes import end_process, read_error, start_process
from contrastcli.tui.widgets import PlainText

_BREAKS = str.maketrans("\t\r\n", "   ")


def query_line(*texts: str) -> str:
    """Sentences as a line of input; empty where one is blank."""
    clean = [text.translate(_BREAKS).strip() for text in texts]
    return "\t".join(clean) if all(clean) else ""


class QueryPanel(Vertical):
    """Asks one process at a time, slow to start and quick to answer: a line, and of those that wait only the newest.

    A subclass chooses its arguments and shows its answers.
    """

    how_to_stop = ""
    """What is added to progress."""
    asked: tuple[Sequence[str], float] | None = None
    """The arguments of the process that there is, and when their file was written; None without one."""
    waiting: reactive[bool] = reactive(False, init=False, repaint=False, bindings=True)
    """Whether an answer is still to come."""

    def __init__(self, directory: Path, title: str, id: str, *children: Widget) -> None:
        super().__init__(*children, id=id, classes="query-panel")
        self.border_title = title
        self._directory = directory
        self._lines: asyncio.Queue[str] = asyncio.Queue(1)

    def show_answer(self, line: str) -> None:
        """Show an answer. Raises msgspec.DecodeError for one without numbers."""
        raise NotImplementedError

    def show_message(self, text: str) -> None:
        """Show this in place of an answer; nothing where it is empty."""
        self.query_one(".message", PlainText).update(text)

    def close_process(self) -> None:
        self.workers.cancel_node(self)
        self.asked, self.waiting = None, False

    def ask_process(self, line: str, *args: str, written: float = 0.0) -> None:
        """Ask `contrast query -` with these arguments, and a file `written` then: the present process, or a new one."""
        if self.asked != (args, written):
            self.show_message("loading the model…")
            self.asked, self._lines = (args, written), asyncio.Queue(1)
            self._answer(args)
        if self._lines.full():
            self._lines.get_nowait()
        self._lines.put_nowait(line)
        self.waiting = True

    @work(exclusive=True)
    async def _answer(self, args: Sequence[str]) -> None:
        """Ask and answer until the process ends. Cancelling this ends the process."""
        process = await start_process(self._directory, "query", "-", "--json", *args, stdin=PIPE)
        # Read all the while: a process waits as soon as the pipe of its errors is full.
        error = asyncio.create_task(read_error(process, self._show_progress))
        try:
            while answer := await _exchange(process, await self._lines.get()):
                self.waiting = False
                try:
                    self.show_answer(answer.decode())
                except msgspec.DecodeError:
                    self.show_message("This model returns no numbers: its training may have diverged.")
            reason, _ = await error
        finally:
            await end_process(process)
        self.asked, self.waiting = None, False
        self.process_failed(reason)

    def process_failed(self, reason: str) -> None:
        self.show_message(reason)

    def _show_progress(self, text: str) -> None:
        if self.waiting:
            self.show_message(f"{text}{self.how_to_stop}")


async def _exchange(process: Process, line: str) -> bytes:
    """The line that answers a line; empty where the process has ended."""
    assert process.stdin and process.stdout
    try:
        process.stdin.write(line.encode() + b"\n")
        await process.stdin.drain()
        return await process.stdout.readline()
    except OSError:
        return b""
