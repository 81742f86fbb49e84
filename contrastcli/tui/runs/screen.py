"""Runs: all there are, in a table; several on shared axes; and what can be done with one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.timer import Timer
from textual.widgets import DataTable, Input, Static

from contrastcli.errors import ContrastError
from contrastcli.runs import directory as runs
from contrastcli.show.format import size
from contrastcli.tui.children import contrast
from contrastcli.tui.dialogs import Choice, Question
from contrastcli.tui.live.header import RESUMABLE
from contrastcli.tui.prompt import Prompt
from contrastcli.tui.runs.listing import NEWEST, ORDERS, Entry, Listing, matching, ordered
from contrastcli.tui.runs.overlay import LETTERS, Overlay, metrics
from contrastcli.tui.runs.table import RunsTable
from contrastcli.tui.screen import ModeScreen

READ_EVERY = 3.0
"""Seconds between two looks at the directory, while the screen is to be seen."""

_PAUSE = 0.15  # seconds that the cursor stays at a row before its run is shown
_FIRST = """There is no run in {directory} yet.

Press 1, choose the preset starter and start it with s: it needs no network, and takes a few minutes.
In a terminal, contrast train --preset starter does the same."""


class RunsScreen(ModeScreen):
    """The table of runs above, what is selected in it below."""

    CSS_PATH = "screen.tcss"
    mode = "runs"
    help_text = (
        "Every run of the directory. Below the table are the curves and the settings of the run at the cursor. Space "
        "selects several: they get letters, are drawn on shared axes, and only the settings in which they differ are "
        "listed. Runs in progress are followed."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "select", "select", id="runs.select", tooltip="select the run for comparing, or no more"),
        Binding("r", "resume", "resume", id="runs.resume", tooltip="go on from the last checkpoint"),
        Binding("e", "evaluate", "evaluate", id="runs.evaluate", tooltip="measure the run's model"),
        Binding("u", "query", "ask it", id="runs.query", tooltip="ask the run's model about sentences"),
        Binding("slash", "filter", "filter", id="runs.filter", key_display="/", tooltip="only runs with these words"),
        Binding("m", "metric", "next curve", id="runs.metric", tooltip="dev, loss, angles, uniformity", show=False),
        Binding("o", "order", "order", id="runs.order", tooltip="sort by the next column", show=False),
        Binding("x", "export", "export", id="runs.export", tooltip="write the run's model to a folder", show=False),
        Binding(
            "D,delete,backspace",
            "delete",
            "delete",
            id="runs.delete",
            key_display="D",
            tooltip="delete the run; asks first",
            show=False,
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[Entry] = []
        self._selected: list[str] = []
        self._listing: Listing | None = None
        self._pause: Timer | None = None

    def body(self) -> ComposeResult:
        yield Static("", id="empty", markup=False)
        with VerticalScroll(id="runs", can_focus=False):
            yield Input(placeholder="words that a run must have: simace finished", id="filter", compact=True)
            yield RunsTable()
            yield Static("", id="remark", markup=False)
            yield Overlay(self._metric)

    def on_mount(self) -> None:
        self._listing = Listing(self.contrast.directory)
        self.query_one("#filter").display = False
        self.query_one("#empty").display = False
        self._table.focus()
        self.set_interval(READ_EVERY, self.read)

    def on_screen_resume(self) -> None:
        self.read()
        self._overlay.go_on()

    def on_screen_suspend(self) -> None:
        self._overlay.rest()

    @property
    def _table(self) -> RunsTable:
        return self.query_one(RunsTable)

    @property
    def _overlay(self) -> Overlay:
        return self.query_one(Overlay)

    @property
    def _filter(self) -> str:
        return self.query_one("#filter", Input).value.strip()

    @property
    def _metric(self) -> str:
        remembered = self.contrast.remembered.metric
        return remembered if remembered in metrics() else next(iter(metrics()))

    @property
    def _order(self) -> str:
        remembered = self.contrast.remembered.sort
        return remembered if remembered in ORDERS else NEWEST

    @work(group="reading", exclusive=True)
    async def read(self) -> None:
        """See anew which runs there are, and how."""
        if self._listing is None or not self.is_current:
            return
        try:
            self._entries = await asyncio.to_thread(self._listing.read)
        except OSError as error:
            self._say(f"{self.contrast.directory} cannot be read: {error.strerror or error}")
            return
        self._say("" if self._entries else _FIRST.format(directory=self.contrast.directory))
        self._fill()
        if any(entry.status and not entry.status.ended for entry in self._chosen()):
            self._overlay.look_again()

    def _say(self, words: str) -> None:
        """Words in place of the table, or none."""
        self.query_one("#empty", Static).update(words)
        self.query_one("#empty").display = bool(words)
        self.query_one("#runs").display = not words

    def _fill(self) -> None:
        """Show the runs that pass the filter, in their order."""
        known = {entry.name for entry in self._entries}
        self._selected = [name for name in self._selected if name in known]
        shown = ordered(matching(self._entries, self._filter), self._order)
        self._table.show(shown, {name: LETTERS[n % len(LETTERS)] for n, name in enumerate(self._selected)})
        count = f"{len(shown)} of {len(self._entries)}" if self._filter else f"{len(shown)}"
        order = "newest first" if self._order == NEWEST else f"by {self._order}"
        noun = "run" if len(self._entries) == 1 else "runs"
        self._table.border_title = f"{count} {noun}, {order}"
        self._table.border_subtitle = "o order · D delete · x export"
        self._show_chosen()

    def _chosen(self) -> Sequence[Entry]:
        """The selected runs, else the one at the cursor."""
        entries = {entry.name: entry for entry in self._entries}
        here = self._table.entry
        return [entries[name] for name in self._selected] or ([here] if here else [])

    def _show_chosen(self) -> None:
        here = self._table.entry
        remark = f"{here.name}: {here.remark}" if here else f"No run has all of these words: {self._filter}"
        self.query_one("#remark", Static).update(remark)
        self._overlay.show([entry.run for entry in self._chosen()])
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave_field":
            return isinstance(self.focused, Input)
        if action in ("select", "evaluate", "query", "export", "delete", "metric", "resume", "order", "filter"):
            here = self._table.entry if self.is_mounted else None
            resumable = here is not None and here.status is not None and here.status.state in RESUMABLE
            if action == "filter":
                return bool(self._entries) and not isinstance(self.focused, Input)  # in a field / is a letter
            return resumable if action == "resume" else here is not None
        return super().check_action(action, parameters)

    @on(DataTable.RowHighlighted)
    def _moved(self) -> None:
        if self._pause:
            self._pause.stop()
        self._pause = self.set_timer(_PAUSE, self._show_chosen)

    @on(DataTable.RowSelected)
    async def _opened(self) -> None:
        if here := self._table.entry:
            await self.contrast.open_run(here.run)

    @on(DataTable.HeaderSelected)
    def _header(self, event: DataTable.HeaderSelected) -> None:
        self._sort(event.label.plain)

    def _sort(self, order: str) -> None:
        self.contrast.remembered.sort = order
        self._fill()

    def action_order(self) -> None:
        """Sort by the next column."""
        self._sort(ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)])

    def action_metric(self) -> None:
        """Draw the next curve."""
        names = list(metrics())
        self.contrast.remembered.metric = names[(names.index(self._metric) + 1) % len(names)]
        self._overlay.show_metric(self._metric)

    def action_select(self) -> None:
        """Select the run at the cursor, or no more."""
        if here := self._table.entry:
            if here.name in self._selected:
                self._selected.remove(here.name)
            else:
                self._selected.append(here.name)
            self._fill()

    def action_filter(self) -> None:
        """Type words that a run must have."""
        self.query_one("#filter").display = True
        self.query_one("#filter").focus()

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        self._fill()

    @on(Input.Submitted, "#filter")
    def action_leave_field(self) -> None:
        """Give the keys back to the table."""
        self.query_one("#filter").display = bool(self._filter)
        self._table.focus()

    async def action_evaluate(self) -> None:
        """Go to Evaluate with the run."""
        if here := self._table.entry:
            await self.contrast.evaluate_model(here.name)

    async def action_query(self) -> None:
        """Go to Query with the run."""
        if here := self._table.entry:
            await self.contrast.query_model(here.name)

    @work(group="resume", exclusive=True)
    async def action_resume(self) -> None:
        """Let a child go on with the run, and show it in Live."""
        if (here := self._table.entry) is None:
            return
        self.app.notify(f"{here.name} is being resumed: its model and data are loaded", markup=False)
        done = await contrast(self.contrast.directory, "train", "--resume", str(here.run.path.resolve()), "--detach")
        if done.error:
            self.contrast.fail(f"{here.name} could not be resumed: {done.error}")
        elif self.is_current:
            await self.contrast.open_run(here.run)

    @work
    async def action_export(self) -> None:
        """Ask for a folder, and let a child write the run's model there."""
        if (here := self._table.entry) is None:
            return
        question = f"Write the best model of {here.name} to which new folder?"
        if not (folder := await self.app.push_screen_wait(Prompt(question, f"exported/{here.name}"))):
            return
        self.app.notify(f"{here.name} is being written and checked", markup=False)
        done = await contrast(self.contrast.directory, "export", str(here.run.path.resolve()), folder)
        if done.error:
            self.contrast.fail(done.error)
        else:
            self.app.notify(f"{here.name} is in {done.stdout.strip()}", timeout=10, markup=False)

    @work
    async def action_delete(self) -> None:
        """Ask, and delete the run."""
        if (here := self._table.entry) is None:
            return
        if here.status and here.status.state in ("starting", "running"):
            self.contrast.fail(f"{here.name} is in progress: open it and stop it first")
            return
        choices = (
            Choice("d", f"delete {size(here.size)}, models and all", "delete"),
            Choice("k", "keep it", ""),
        )
        if await self.app.push_screen_wait(Question(f"Delete {here.name}?", choices)):
            try:
                await asyncio.to_thread(runs.remove, here.run)
            except ContrastError as error:
                self.contrast.fail(f"{error.what}\n{error.hint}")
            self.read()

    def copied(self) -> str:
        """What is below the table, where there is something: the comparison of the selected runs."""
        return self._overlay.copied()
