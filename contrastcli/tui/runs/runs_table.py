"""The table of runs: as wide as there is room, and the cursor stays at its run while the rest changes."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate

from contrastcli.boundary import printable
from contrastcli.tui.runs.columns import RunColumn, row_text
from contrastcli.tui.runs.tree import TreeItem
from contrastcli.tui.widgets import RowTable, cut, hidden_key

_CELL_PADDING = 2
_LEAST_NAME, _USUAL_NAME, _USUAL_TITLE = 16, 32, 46
"""Cells of a name: at least, and before other columns are left out for it, or for that of a heading."""


class RunsTable(RowTable):
    """A row a run or heading. The first column has the letters of the runs that are selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "open", tooltip="show the run in Live; unfold or fold a heading"),
        hidden_key("left", "go_to_heading", "heading", "go to the heading above"),
    ]

    def __init__(self) -> None:
        super().__init__("table")
        self.shown: Sequence[TreeItem] = ()
        self._marks: Mapping[str, str] = {}
        self._columns: Sequence[RunColumn] = ()
        self._laid_out: Sequence[RunColumn] = ()
        self._name_width = 0

    @property
    def row(self) -> TreeItem | None:
        return self.shown[self.cursor_row] if 0 <= self.cursor_row < len(self.shown) else None

    def show(self, rows: Sequence[TreeItem], columns: Sequence[RunColumn], marks: Mapping[str, str]) -> None:
        """Show these rows, with a mark before some names; the cursor follows its row, or stays where it is."""
        before, at_cursor, place = [row.key for row in self.shown], self.row, self.cursor_row
        keys = [row.key for row in rows]
        self.shown, self._columns, self._marks = rows, columns, marks
        if not self._lay_out() and keys == before:
            self._write_changes()
            return
        self.clear()
        self.show_cursor = bool(rows)
        for row in rows:
            self.add_row(*self._cells(row))
        here = at_cursor.key if at_cursor else None
        self.move_cursor(row=keys.index(here) if here in keys else min(place, len(rows) - 1))

    def action_go_to_heading(self) -> None:
        above = [place for place, row in enumerate(self.shown[: self.cursor_row]) if not row.entry]
        self.move_cursor(row=above[-1] if above else None)

    def on_resize(self) -> None:
        self.show(self.shown, self._columns, self._marks)

    def _lay_out(self) -> bool:
        """Choose the columns that there is room for; returns whether they have changed."""
        possible_bar = 0 if self.show_vertical_scrollbar else self.scrollbar_size_vertical
        room = self.scrollable_content_region.width - possible_bar - 1 - _CELL_PADDING
        longest = max((cell_len("".join(row.label)) for row in self.shown), default=_LEAST_NAME)
        columns, is_headed = list(self._columns), any(row.entry is None for row in self.shown)
        usual = max(_LEAST_NAME, min(longest, _USUAL_TITLE if is_headed else _USUAL_NAME))
        # A heading has no step of its own.
        for column in sorted(reversed(columns), key=lambda column: is_headed and column.title != "step"):
            if column.width and len(columns) > 1 and _left(room, columns) < usual:
                columns.remove(column)
        width = max(_LEAST_NAME, min(longest, _left(room, columns)))
        if (columns, width) == (self._laid_out, self._name_width):
            return False
        self._laid_out, self._name_width = columns, width
        self.clear(columns=True)
        self.add_column(" ", width=1)
        for column in columns:
            self.add_column(_aligned(column.title, column), width=column.width or width, key=column.title)
        return True

    def _write_changes(self) -> None:
        for number, row in enumerate(self.shown):
            for column, cell in enumerate(self._cells(row)):
                place = Coordinate(number, column)
                if self.get_cell_at(place) != cell:
                    self.update_cell_at(place, cell)

    def _cells(self, row: TreeItem) -> list[Text]:
        marks = [self._marks.get(entry.name, " ") for entry in row.entries]
        mark = marks[0] if row.entry else "●" if marks and " " not in marks else " "
        before, name, after = row.label
        width = max(1, self._name_width - cell_len(before + after))
        name = before + cut(printable(name), width, at_start=row.entry is not None) + after
        texts = [_aligned(row_text(row, column) if column.width else name, column) for column in self._laid_out]
        return [Text(mark, style="bold"), *texts]


def _left(room: int, columns: Sequence[RunColumn]) -> int:
    """The room that these columns leave for a name."""
    return room - sum(column.width + _CELL_PADDING for column in columns)


def _aligned(text: str, column: RunColumn) -> Text:
    return Text(text, justify="right" if column.right else "left")
