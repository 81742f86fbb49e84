"""The table of runs: as wide as there is room, and the cursor stays at its run while the rest changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.widgets import DataTable

from contrastcli.tui.runs.columns import Column, shortened
from contrastcli.tui.runs.listing import Entry
from contrastcli.tui.widgets import hidden_key

_PADDING = 2  # of a cell
_NARROWEST, _USUAL = 16, 32  # characters of a name: at least, and before other columns are left out for it


class RunsTable(DataTable[Text]):
    """A row a run. The first column has the letters of the runs that are selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "open", tooltip="show the run in Live"),
        hidden_key("home", "scroll_top", ""),
        hidden_key("end", "scroll_bottom", ""),
    ]

    def __init__(self) -> None:
        super().__init__(id="table", cursor_type="row")
        self.entries: Sequence[Entry] = ()
        self._marks: Mapping[str, str] = {}
        self._columns: Sequence[Column] = ()
        self._laid_out: Sequence[Column] = ()
        self._name_width = 0

    @property
    def entry(self) -> Entry | None:
        return self.entries[self.cursor_row] if 0 <= self.cursor_row < len(self.entries) else None

    def show(self, entries: Sequence[Entry], columns: Sequence[Column], marks: Mapping[str, str]) -> None:
        """Show these rows, with a mark before some names; the cursor follows its run, or stays at its row."""
        before, at_cursor, place = [entry.run for entry in self.entries], self.entry, self.cursor_row
        runs = [entry.run for entry in entries]
        self.entries, self._columns, self._marks = entries, columns, marks
        if not self._lay_out() and runs == before:
            self._write_changes()
            return
        self.clear()
        self.show_cursor = bool(entries)  # else it is on the titles
        for entry in entries:
            self.add_row(*self._cells(entry))
        here = at_cursor.run if at_cursor else None
        self.move_cursor(row=runs.index(here) if here in runs else min(place, len(runs) - 1))

    def on_resize(self, event: Resize) -> None:
        self.show(self.entries, self._columns, self._marks)

    def _lay_out(self) -> bool:
        """Choose the columns that there is room for; returns whether they have changed."""
        bar = 0 if self.show_vertical_scrollbar else self.scrollbar_size_vertical  # which may appear
        room = self.scrollable_content_region.width - bar - 1 - _PADDING
        longest = max((len(entry.name) for entry in self.entries), default=_NARROWEST)
        columns = list(self._columns)
        while len(columns) > 1 and _left(room, columns) < max(_NARROWEST, min(longest, _USUAL)):
            columns.pop()
        width = max(_NARROWEST, min(longest, _left(room, columns)))
        if (columns, width) == (self._laid_out, self._name_width):
            return False
        self._laid_out, self._name_width = columns, width
        self.clear(columns=True)
        self.add_column(" ", width=1)
        for column in columns:
            self.add_column(_aligned(column.title, column), width=column.width or width, key=column.title)
        return True

    def _write_changes(self) -> None:
        for row, entry in enumerate(self.entries):
            for column, cell in enumerate(self._cells(entry)):
                place = Coordinate(row, column)
                if self.get_cell_at(place) != cell:
                    self.update_cell_at(place, cell)

    def _cells(self, entry: Entry) -> list[Text]:
        texts = [
            _aligned(column.text(entry) if column.width else shortened(entry.name, self._name_width), column)
            for column in self._laid_out
        ]
        return [Text(self._marks.get(entry.name, " "), style="bold"), *texts]


def _left(room: int, columns: Sequence[Column]) -> int:
    """The room that these columns leave for a name."""
    return room - sum(column.width + _PADDING for column in columns)


def _aligned(text: str, column: Column) -> Text:
    return Text(text, justify="right" if column.right else "left")
