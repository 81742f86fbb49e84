"""The rows of the training data that are unusual, over Setup: to page through, accept and reject."""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.coordinate import Coordinate
from textual.screen import ModalScreen
from textual.widgets import DataTable

from contrastcli.runs.results import Found, Inspected, Odd
from contrastcli.runs.text import excerpt
from contrastcli.tui import processes
from contrastcli.tui.dialogs import Prompt, Question, may_replace
from contrastcli.tui.setup.draft import Draft, reading_words
from contrastcli.tui.widgets import PlainText, RowTable, styled

_SHOWN = 1_000
"""Rows of each kind."""
_MARGINS = 13
"""Characters of a line that no column has, and the mark."""
_OUT, _STAYS = "✗", "·"
_KEYS = "Space leave out/keep  k all of its kind  b ask the backbone  w write  Esc back"


class Rows(ModalScreen[str]):
    """Asks `contrast data` about the data of a draft; returns the file of what remains, "" for none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back"),
        Binding("space", "mark", "leave out or keep"),
        Binding("k", "mark_kind", "the whole kind"),
        Binding("b", "ask", "ask the backbone"),
        Binding("w", "write", "write"),
    ]

    def __init__(self, directory: Path, draft: Draft) -> None:
        super().__init__()
        self._directory, self._source, self._backbone = directory, draft.config.data.train, draft.config.model.backbone
        self._status = PlainText(self._source, classes="title")
        self._words = ["data", *reading_words(draft, "data.columns", "data.labels")]
        self._rows: list[tuple[Found, Odd]] = []
        self._kinds_of: defaultdict[int, set[str]] = defaultdict(set)
        self._kinds: dict[str, bool] = {}
        """Whether the rows of a kind are left out."""
        self._marked: dict[int, bool] = {}
        """The same of rows that were marked by themselves."""
        self._is_marked = False
        self._written = ""  # the file while it is

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog unusual"):
            yield self._status
            yield RowTable("unusual")
            with VerticalScroll(id="row"):
                yield PlainText(id="texts")
            yield PlainText(_KEYS, classes="muted")

    def on_mount(self) -> None:
        self._ask()

    def action_ask(self) -> None:
        if "--backbone" not in self._words and not self._written:
            self._ask("--backbone", self._backbone)

    @work(group="ask", exclusive=True)
    async def _ask(self, *backbone: str) -> None:
        words = (*self._words, *backbone, "--json", "--show", str(_SHOWN))
        done = await processes.run_command(self._directory, *words, on_progress=self._status.update)
        if done.error:
            self._status.update(done.error)
        else:
            self._words += backbone
            self._show(msgspec.json.decode(done.stdout, type=Inspected))

    def _show(self, seen: Inspected) -> None:
        found = [one for one in seen.found if one.count]
        self._rows = [(one, row) for one in found for row in one.rows]
        self._kinds = {one.kind: one.drops for one in found} | self._kinds
        for one, row in self._rows:
            self._kinds_of[row.row].add(one.kind)
        counts = ", ".join(f"{one.kind} {one.count:,}" for one in found)
        self._status.update(f"{seen.source}: {seen.count:,} {seen.form}\n{counts or 'nothing unusual'}")
        table = self.query_one(DataTable)
        table.clear(columns=True)
        table.add_columns("", "kind", "row", "text")
        cells = [("kind", "row"), *((one.kind, row.where) for one, row in self._rows)]
        kind, where = (max(map(len, column)) for column in zip(*cells, strict=True))
        width = max(20, self.app.size.width - _MARGINS - kind - where)
        for one, row in self._rows:
            first = next(iter(row.texts.values()), "")
            table.add_row(*map(Text, (self._mark(row), one.kind, row.where, excerpt(first, width))))
        table.focus()

    def _is_out(self, row: Odd) -> bool:
        return self._marked.get(row.row, any(self._kinds[kind] for kind in self._kinds_of[row.row]))

    def _mark(self, row: Odd) -> str:
        return _OUT if self._is_out(row) else _STAYS

    @on(DataTable.RowHighlighted)
    def _show_row(self) -> None:
        if self._here:
            self.query_one("#texts", PlainText).update(Content("\n").join(_lines(*self._here)))
            self.query_one("#row").scroll_home(animate=False)

    @property
    def _here(self) -> tuple[Found, Odd] | None:
        place = self.query_one(DataTable).cursor_row
        return self._rows[place] if 0 <= place < len(self._rows) else None

    def action_mark(self) -> None:
        if self._here:
            row = self._here[1]
            self._marked[row.row] = not self._is_out(row)
            self._write_marks()
            self.query_one(DataTable).action_cursor_down()

    def action_mark_kind(self) -> None:
        if self._here:
            kind = self._here[0].kind
            self._kinds[kind] = not self._kinds[kind]
            own = {row.row for found, row in self._rows if found.kind == kind}
            self._marked = {row: out for row, out in self._marked.items() if row not in own}
            self._write_marks()

    @work
    async def action_leave(self) -> None:
        """Leave, which forgets what was marked and ends what is being written."""
        question = "Leave? What was marked is forgotten; w writes the rows that remain."
        if self._written:
            self.app.notify(f"{self._written} was not written", markup=False)
        elif self._is_marked and await self.app.push_screen_wait(Question(question, {"l": "leave"})) != "l":
            return
        self.dismiss("")

    def _write_marks(self) -> None:
        self._is_marked, table = True, self.query_one(DataTable)
        for place, (_, row) in enumerate(self._rows):
            table.update_cell_at(Coordinate(place, 0), Text(self._mark(row)))

    @work
    async def action_write(self) -> None:
        """Write what remains, and leave; asks before it replaces a file."""
        if self._written:
            return
        path = Path(self._source)
        suffix = path.suffix if path.suffix in (".csv", ".tsv", ".jsonl", ".parquet") else ".jsonl"
        question = "Write the rows that remain to which new file?"
        typed = await self.app.push_screen_wait(Prompt(question, f"{path.stem or 'rows'}-clean{suffix}"))
        output = os.path.expanduser(typed or "")
        if not output or await may_replace(self.app, output) is None:
            return
        chosen: list[str] = []
        for flag, out in (("--drop", True), ("--keep", False)):
            named = [str(name) for name, is_out in (*self._kinds.items(), *self._marked.items()) if is_out == out]
            chosen += [flag, ",".join(named)] if named else []
        words, self._written = (*self._words, "--show", "0", "--clean", output, *chosen), output
        done = await processes.run_command(self._directory, *words, on_progress=self._status.update)
        self._written = ""
        if done.error:
            self._status.update(done.error)
        else:
            self.dismiss(output)


def _lines(found: Found, row: Odd) -> Iterator[Content]:
    """Why a row is unusual, its texts, those of the row that it is compared with, and the nearest other positives."""
    why = f"{found.kind}: {row.why or found.about}"
    for heading, texts in ((why, row.texts), (row.other_where, row.other_texts)):
        if heading:
            yield styled((heading, "bold"))
            yield from (styled((f"{role}  ", "$foreground-muted"), text) for role, text in texts.items())
    if row.neighbours:
        yield styled(("the nearest positives of other anchors", "bold"))
        for near in row.neighbours:
            yield styled((f"{near.cosine:.4f}  row {near.row:,}  ", "$foreground-muted"), near.text)
