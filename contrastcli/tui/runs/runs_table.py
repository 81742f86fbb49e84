"""The table of runs: as wide as there is room, and the cursor stays at its run while the rest changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.widgets import DataTable

from contrastcli.tui.runs.listing import COLUMNS, Column, Entry, shortened

_PADDING = 2  # of a cell
_NARROWEST = 16  # characters of a name
_MOVES = {  # no tooltips: help is for keys that nobody would guess
    "up": "cursor_up",
    "down": "cursor_down",
    "left": "cursor_left",
    "right": "cursor_right",
    "pageup": "page_up",
    "pagedown": "page_down",
    "home": "scroll_top",
    "end": "scroll_bottom",
}


class RunsTable(DataTable[Text], inherit_bindings=False):
    """A row a run. The first column has the letters of the runs that are selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "open", tooltip="show the run in Live"),
        *(Binding(key, action, show=False) for key, action in _MOVES.items()),
    ]

    def __init__(self) -> None:
        super().__init__(id="table", cursor_type="row")
        self._entries: Sequence[Entry] = ()
        self._marks: Mapping[str, str] = {}
        self._laid_out: tuple[Column, ...] = ()
        self._name_width = 0

    @property
    def entry(self) -> Entry | None:
        """The run at the cursor."""
        return self._entries[self.cursor_row] if 0 <= self.cursor_row < len(self._entries) else None

    def show(self, entries: Sequence[Entry], marks: Mapping[str, str]) -> None:
        """Show these rows, with a mark before some names."""
        here = self.entry.run if self.entry else None
        same = [entry.run for entry in entries] == [entry.run for entry in self._entries]
        self._entries, self._marks = entries, marks
        if self._lay_out() or not same:
            self._fill(here)
        else:
            self._update()

    def on_resize(self, event: Resize) -> None:
        self.show(self._entries, self._marks)

    def _lay_out(self) -> bool:
        """Choose the columns that there is room for; returns whether they have changed."""
        bar = 0 if self.show_vertical_scrollbar else self.scrollbar_size_vertical  # which may appear
        room = self.scrollable_content_region.width - bar - 1 - _PADDING
        longest = max((len(entry.name) for entry in self._entries), default=_NARROWEST)
        columns = COLUMNS
        if _left(room, columns) < longest:
            columns = tuple(column for column in COLUMNS if not column.wide)
        width = max(_NARROWEST, min(longest, _left(room, columns)))
        if (columns, width) == (self._laid_out, self._name_width):
            return False
        self._laid_out, self._name_width = columns, width
        self.clear(columns=True)
        self.add_column(" ", width=1)
        for column in columns:
            self.add_column(_aligned(column.title, column), width=column.width or width, key=column.title)
        return True

    def _fill(self, here: object) -> None:
        """Write all rows again; the cursor follows its run, or stays at its row."""
        place = self.cursor_row
        self.clear()
        for entry in self._entries:
            self.add_row(*self._cells(entry))
        rows = [entry.run for entry in self._entries]
        self.move_cursor(row=rows.index(here) if here in rows else min(place, len(rows) - 1))

    def _update(self) -> None:
        """Write the cells that have changed."""
        for row, entry in enumerate(self._entries):
            for column, cell in enumerate(self._cells(entry)):
                place = Coordinate(row, column)
                if self.get_cell_at(place) != cell:
                    self.update_cell_at(place, cell)

    def _cells(self, entry: Entry) -> list[Text]:
        texts = [_aligned(column.text(entry), column) for column in self._laid_out]
        texts[0] = Text(shortened(entry.name, self._name_width))
        return [Text(self._marks.get(entry.name, " "), style="bold"), *texts]


def _left(room: int, columns: Sequence[Column]) -> int:
    """The room that these columns leave for a name."""
    return room - sum(column.width + _PADDING for column in columns)


def _aligned(text: str, column: Column) -> Text:
    return Text(text, justify="right" if column.right else "left")
