"""The summary of what would be trained, from a dry run of the command line."""

import asyncio
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text
from textual import work
from textual.containers import Vertical
from textual.message import Message

from contrastcli.boundary import printable
from contrastcli.runs.results import Preview
from contrastcli.show.format import Fields
from contrastcli.show.settings import planned
from contrastcli.tui import processes
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.widgets import PlainText

PAUSE_SECONDS = 0.4  # without a key
READING = "reading the data…"


class DryRunPanel(Vertical):
    """Reads the data in a process of its own; a later dry run ends the process of an earlier one."""

    class Changed(Message):
        """A dry run has begun or ended."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._summary, self._rows = PlainText(id="summary"), PlainText(id="rows")
        super().__init__(self._summary, self._rows, id="dry-run", classes="panel")
        self.border_title = "Summary"
        self.error = ""  # of dry run or start
        self._preview: Preview | None = None
        self._planned: object = None

    def show(self, draft: Draft) -> None:
        """Summarise a draft, unless that is what is shown or being read."""
        if not draft.problem and draft.planned != self._planned:
            self.run(draft)

    @work(exclusive=True)
    async def run(self, draft: Draft) -> None:
        self._planned, self._preview, self.error = draft.planned, None, ""
        self._show(READING)
        self.post_message(self.Changed())
        await asyncio.sleep(PAUSE_SECONDS)
        words = ("train", *draft.words, "--dry-run", "--json")
        done = await processes.run_command(self._directory, *words, on_progress=self._show)
        self.error = done.error
        if done.error:
            self._show(done.error)
        else:
            self._preview = msgspec.json.decode(done.stdout, type=Preview)
            rows = [pair for row in self._preview.rows for pair in row.items()]
            self._show(_table(planned(self._preview)), _table(rows))
        self.post_message(self.Changed())

    @property
    def state(self) -> str:
        """Whether training can start, as far as the data says."""
        preview = self._preview
        if preview is None:
            return READING
        if preview.missing:
            return preview.missing[0]
        return f"ready: {preview.steps:,} steps of {preview.sentences_per_step:,} sentences"

    def _show(self, text: str | Table, rows: str | Table = "") -> None:
        self._summary.update(text)
        self._summary.set_class(bool(self.error), "wrong")
        self._rows.update(rows)
        self._rows.display = bool(rows)


def _table(pairs: Fields) -> Table:
    """Names, and next to each its text, which wraps in its own column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in pairs:
        table.add_row(Text(name), Text(printable(" ".join(text.split()))))
    return table
