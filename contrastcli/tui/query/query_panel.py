"""What the panels of Query have in common: a process that answers, its last answer, and a message in place of one."""

from __future__ import annotations

from pathlib import Path

import msgspec
from textual import work
from textual.containers import Vertical

from contrastcli.runs.events import Progress
from contrastcli.tui.query.query_process import QueryProcess
from contrastcli.tui.widgets import PlainText

NO_NUMBERS = "This model returns no numbers: its training may have diverged."


class QueryPanel(Vertical):
    """Asks one process at a time. A subclass chooses its arguments and shows its answers."""

    def __init__(self, directory: Path, title: str, id: str) -> None:
        super().__init__(id=id, classes="query-panel")
        self.border_title = title
        self._directory = directory
        self._process: QueryProcess | None = None

    def take_answer(self, line: str) -> None:
        """Show an answer. Raises msgspec.DecodeError for one without numbers."""
        raise NotImplementedError

    def show_message(self, text: str) -> None:
        """Show this in place of an answer; nothing where it is empty."""
        self.query_one(".message", PlainText).update(text)

    def close_process(self) -> None:
        """End the process."""
        self.workers.cancel_node(self)
        self._process = None

    def ask_process(self, line: str, *args: str) -> None:
        """Ask `contrast query -` with these arguments: the present process, or a new one."""
        if self._process is None or self._process.args != args:
            self.show_message("loading the model…")
            self._process = QueryProcess(self._directory, args, self._take, self._advance)
            self._run(self._process)
        self._process.ask(line)

    @work(exclusive=True)
    async def _run(self, process: QueryProcess) -> None:
        reason = await process.run()
        if self._process is process:
            self._process = None
            self.process_failed(reason)

    def process_failed(self, reason: str) -> None:
        """The process ended by itself."""
        self.show_message(reason)

    def _take(self, line: str) -> None:
        try:
            self.take_answer(line)
        except msgspec.DecodeError:
            self.show_message(NO_NUMBERS)

    def _advance(self, event: Progress) -> None:
        self.show_message(f"{event.what} {event.done:,} of {event.total:,}")
