"""Runs: all runs of the directory in a table, several on shared axes, and what can be done with one."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from msgspec import convert, json
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Input

from contrastcli.runs.results import Bootstrap
from contrastcli.show.runs import bootstrap
from contrastcli.tui.dialogs import Chooser, show_late
from contrastcli.tui.history.history import metrics
from contrastcli.tui.run_screen import RunScreen, in_words
from contrastcli.tui.runs.columns import NEWEST, USUAL, all_columns, matching, ordered
from contrastcli.tui.runs.listing import Entry, read_entries
from contrastcli.tui.runs.overlay_panel import LETTERS, OverlayPanel
from contrastcli.tui.runs.runs_table import RunsTable
from contrastcli.tui.runs.tree import GROUPINGS, Groupings, tree
from contrastcli.tui.widgets import PlainText, after, hidden_key, known

READ_SECONDS = 3.0
PAUSE_SECONDS = 0.15  # of the cursor at a row

_KEYS = "/ filter · {} · o order · g group · c columns · n note · D delete"
_NO_RUNS = """There is no run in {directory} yet.

Press 1, choose the preset starter and start it with s: it needs no network and takes a few minutes.
In a terminal, contrast train --preset starter does the same."""


class RunsScreen(RunScreen):
    """The table of runs above, what is selected in it below."""

    mode, parts = "runs", (RunsTable,)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "select", "select", tooltip="select the run for comparing, or deselect it"),
        hidden_key("a", "select_all", "select all", "select all runs that the table shows, or none"),
        hidden_key("slash", "filter", "filter", "show only some runs, by words, tau=0.05 or dev>60; Ctrl+U all", "/"),
        hidden_key("m", "metric", "next curve", "draw the dev score, the loss, angles or uniformity"),
        hidden_key("b", "bootstrap", "bootstrap", "test the later of two selected runs against the earlier"),
        hidden_key("o", "order", "order", "sort by the next column; or click on its title"),
        hidden_key("g", "group", "group", "show the runs by method, by sweep, by table of a paper, or in one list"),
        hidden_key("c", "columns", "columns", "choose the columns and their order; every setting is one"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._entries, self._selected = list[Entry](), list[str]()
        self._filter = Input(placeholder="words, such as simace finished; Ctrl+U clears", id="filter", compact=True)
        self._table, self._overlay = RunsTable(), OverlayPanel()
        self._message, self._remark = PlainText(id="empty"), PlainText(id="remark")

    def body(self) -> ComposeResult:
        self._groupings = Groupings(self.contrast.directory)
        yield self._message
        with VerticalScroll(id="runs", can_focus=False):
            yield self._filter
            yield self._table
            yield self._remark
            yield self._overlay

    @property
    def is_ready(self) -> bool:
        return bool(self._table.border_title or self._message.display)

    def on_mount(self) -> None:
        remembered = self.contrast.remembered
        remembered.metric = known(remembered.metric, metrics())
        remembered.grouping = known(remembered.grouping, GROUPINGS)
        self._overlay.show_metric(remembered.metric)
        self._table.focus()

    def on_screen_resume(self) -> None:
        self.read()
        self._find_tables()
        self._overlay.follow()

    def on_screen_suspend(self) -> None:
        self._overlay.pause()

    @work(group="reading", exclusive=True)
    async def read(self) -> None:
        while self.is_current:
            try:
                entries = await asyncio.to_thread(read_entries, self.contrast.directory, self._entries)
                await asyncio.to_thread(self._groupings.read_sweeps)
            except OSError as error:
                self._show_message(f"{self.contrast.directory} cannot be read: {error.strerror or error}")
            else:
                self._entries = entries
                self._show_message("" if entries else _NO_RUNS.format(directory=self.contrast.directory))
                self._fill()
            await asyncio.sleep(READ_SECONDS)

    @work(group="papers", exclusive=True)
    async def _find_tables(self) -> None:
        if self.contrast.remembered.grouping == "tables":
            await self._groupings.find_tables()
            self._fill()

    def _show_message(self, text: str) -> None:
        """Show this in place of the table; nothing where it is empty."""
        if self._message.display and not text:
            self._table.focus()  # hidden, it lost the focus
        self._message.update(text)
        self._message.display, self.query_one("#runs").display = bool(text), not text

    @on(Input.Changed, "#filter")
    def _fill(self) -> None:
        words, remembered, known = self._filter.value.strip(), self.contrast.remembered, {e.name for e in self._entries}
        self._selected = [name for name in self._selected if name in known]
        columns = all_columns(self._entries)
        self._columns = [columns[one] for one in dict.fromkeys(remembered.columns) if one in columns] or list(USUAL)
        self._shown = ordered(matching(self._entries, columns, words), columns, remembered.sort)
        names = self._groupings.names(remembered.grouping, self._shown, filtered=bool(words))
        marks = {name: LETTERS[n : n + 1] or "●" for n, name in enumerate(self._selected)}
        self._table.show(tree(self._shown, names, remembered.unfolded), self._columns, marks)
        count = f"{len(self._shown)} of {len(self._entries)}" if words else f"{len(self._shown)}"
        order = f"by {remembered.sort}" if remembered.sort in columns else "newest first"
        below = f" in {'' if names else 'no '}{remembered.grouping}" * bool(remembered.grouping)
        hidden = len(marks.keys() - {entry.name for entry in self._shown})
        others = f", {hidden} selected not shown" * bool(hidden)
        self._table.border_title = f"{count} run{'s' * (len(self._entries) != 1)}{below}, {order}{others}"
        # Of two keys one: all of them have room in 80 columns.
        self._table.border_subtitle = _KEYS.format("b test" if len(self._selected) == 2 else "a all")
        self._show_chosen()

    def _show_chosen(self) -> None:
        row, grouping, typed = self._table.row, self.contrast.remembered.grouping, self._filter.value
        nothing = typed and f"no run satisfies all of this: {typed} (/ and Ctrl+U show all)"
        self._remark.update(row.remark if row else nothing)
        self._overlay.show(self.chosen)
        sweep = self._groupings.sweeps.get(row.path[0]) if row and row.path and grouping == "sweeps" else None
        here = {entry.name for entry in row.entries} if row and (row.entry or len(row.path) > 1) else set()
        self._overlay.show_sweep(sweep, self._entries, here)
        self.refresh_bindings()

    @property
    def here(self) -> Entry | None:
        return self._table.row.entry if self._table.row else None

    @property
    def chosen(self) -> Sequence[Entry]:
        entries = {entry.name: entry for entry in self._entries}
        return [entries[name] for name in self._selected] or (self._table.row.entries if self._table.row else [])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "leave_field":
                return isinstance(self.focused, Input)
            case "filter":
                return not isinstance(self.focused, Input) and not self._message.display
            case "bootstrap":
                return len(self._selected) == 2
            case "select" | "select_all" | "metric" | "order" | "columns":
                return self._table.row is not None
        return super().check_action(action, parameters)

    @on(DataTable.RowHighlighted)
    @work(group="pause", exclusive=True)
    async def _show_chosen_after_pause(self) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        self._show_chosen()

    @on(DataTable.RowSelected)
    async def _open(self) -> None:
        if self.here:
            await self.contrast.open_run(self.here.run)
        elif row := self._table.row:
            self.contrast.remembered.unfolded ^= {row.path}
            self._fill()

    @on(DataTable.HeaderSelected)
    def _sort_by_header(self, event: DataTable.HeaderSelected) -> None:
        self.contrast.remembered.sort = event.column_key.value or NEWEST
        self._fill()

    def action_order(self) -> None:
        titles, remembered = [NEWEST, *(column.title for column in self._columns)], self.contrast.remembered
        remembered.sort = after(remembered.sort if remembered.sort in titles else titles[-1], titles)
        self._fill()

    def action_group(self) -> None:
        self.contrast.remembered.grouping = after(self.contrast.remembered.grouping, GROUPINGS)
        self._fill()
        self._find_tables()

    @work
    async def action_columns(self) -> None:
        dialog = Chooser("Columns", list(all_columns(self._entries)), [column.title for column in self._columns])
        if (chosen := await self.app.push_screen_wait(dialog)) != tuple(column.title for column in self._columns):
            self.contrast.remembered.columns = chosen  # else columns of others stay
        self._fill()

    def action_metric(self) -> None:
        self.contrast.remembered.metric = metric = after(self.contrast.remembered.metric, metrics())
        self._overlay.show_metric(metric)

    @work(group="bootstrap", exclusive=True)
    async def action_bootstrap(self) -> None:
        pair = [entry.run for entry in reversed(self._entries) if entry.name in self._selected]
        words = ("compare", *(str(run.path.resolve()) for run in pair), "--bootstrap", "--json")
        if answer := await self._answer(f"comparing {in_words(pair)}", *words):
            tested = convert(json.decode(answer)["bootstrap"][0], Bootstrap)
            await show_late(self.app, bootstrap(tested))

    def action_select(self) -> None:
        self._select(self._table.row.entries if self._table.row else ())

    def action_select_all(self) -> None:
        self._select(self._shown)

    def _select(self, entries: Sequence[Entry]) -> None:
        """Select these too, or if all of them are selected, none of them."""
        names = [entry.name for entry in entries]
        more = [name for name in names if name not in self._selected]
        self._selected = [*self._selected, *more] if more else [one for one in self._selected if one not in names]
        self._fill()

    def action_filter(self) -> None:
        self._filter.display = True
        self._filter.focus()

    @on(Input.Submitted, "#filter")
    def action_leave_field(self) -> None:
        self._filter.display = bool(self._filter.value.strip())
        self._table.focus()

    def clipboard_text(self) -> str:
        return self._overlay.clipboard_text()
