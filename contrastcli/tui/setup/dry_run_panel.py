"""The summary of what would be trained, from a dry run of the command line."""

import asyncio
from pathlib import Path

import msgspec
from rich.table import Table
from textual import work
from textual.containers import Vertical
from textual.message import Message

from contrastcli.runs.results import Preview
from contrastcli.show.settings import planned
from contrastcli.tui import processes
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.widgets import PlainText, fields_table

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
        self.last = Finished("")
        """The dry run or start that has ended last."""
        self._basis: object = None  # of the summary or its error
        self._preview: Preview | None = None

    def show(self, draft: Draft) -> None:
        """Summarise a draft; what is shown or being read is not read again."""
        if self._basis_in(draft) == self._basis:
            return
        self.last, self._basis = Finished(""), None
        if draft.can_run:
            self.run(draft)
        else:
            self.workers.cancel_node(self)

    @work(exclusive=True)
    async def run(self, draft: Draft) -> None:
        self._preview = None
        self.take(Finished(""), draft)
        self._show(READING)
        await asyncio.sleep(PAUSE_SECONDS)
        words = ("train", *draft.words, "--dry-run", "--json")
        done = await processes.run_command(self._directory, *words, on_progress=self._show)
        if not done.error:
            self._preview = preview = msgspec.json.decode(done.stdout, type=Preview)
            rows = [pair for row in preview.rows for pair in row.items()]
            self._show(fields_table(planned(preview)), fields_table(rows))
        self.take(done, draft)

    def take(self, done: Finished, draft: Draft) -> None:
        """Take what came of a dry run, or of a start."""
        self.last = done
        self._basis = self._basis_in(draft)
        self.display = not done.error
        self.post_message(self.Changed())

    def _basis_in(self, draft: Draft) -> object:
        """What the summary is made from; of an error also the setting at fault, or all where none is."""
        key = self.last.record.key
        error_basis = self.last.error and (draft.typed.get(key) if key else draft.words)
        return draft.planned, draft.config.notes, error_basis

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
        self._rows.update(rows)
        self._rows.display = bool(rows)
