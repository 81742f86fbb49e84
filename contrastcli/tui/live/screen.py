"""Live: a run as it trains, or as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize

from contrastcli.runs.directory import Run
from contrastcli.runs.status import Status
from contrastcli.tui.feed import Feed
from contrastcli.tui.live.header import RunHeader, Snapshot, poll, progress_text, summary
from contrastcli.tui.live.panels import SHARES, LogPanel, NumbersPanel, Panel, View, all_panels, run_numbers
from contrastcli.tui.run_screen import RunScreen
from contrastcli.tui.widgets import PlainText, hidden_key

DRAW_EVERY = 0.25  # seconds between two drawings of what has changed
POLL_EVERY = 1.0  # seconds between two looks at the run's status

_FRAME = 0.02  # seconds from one panel to the next, so that no frame has to draw two
_SHORT = 34  # rows below which the panels scroll
_STRIDES = 40  # presses of [ from the end of a run to its beginning

NO_RUN = "No run is shown.\n\nPress 1 to set up and start a run, or 3 to choose one."


class Panels(VerticalScroll, can_focus=False, inherit_bindings=False):
    """All panels. Arrow keys go from one to the next, so it has no keys of its own."""

    def on_resize(self) -> None:
        """Keep the focused panel in sight when the header grows."""
        if (focused := self.screen.focused) and focused.parent is self:
            focused.scroll_visible(animate=False)


class LiveScreen(RunScreen):
    """A run: its state, its panels, and what can be done with it."""

    CSS_PATH = "screen.tcss"
    mode = "live"
    help_text = (
        "A run as it trains, or as it was. The angles are those between the sentences of a batch: positives should "
        "come closer than every negative. ◆ marks the best dev score; the model of that step is kept. Alignment and "
        "uniformity are both better when lower; their path goes from ○ to ●.\n\n"
        "Training is a process of its own: it continues when you leave the app, and can be watched again later."
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "detach", "detach", tooltip="show no run any more; training continues"),
        Binding("p", "pause", "pause view", tooltip="stop redrawing, or continue; training continues"),
        Binding("z", "zoom", "zoom", tooltip="one panel on the whole screen, and back"),
        hidden_key("l", "log", "log scale", "logarithmic axis for the loss"),
        hidden_key(
            "plus,equals_sign", "share(1)", "fewer steps", "show the last third or the last tenth of the steps", "+"
        ),
        hidden_key("minus", "share(-1)", "more steps", "show more of the steps", "-"),
        hidden_key("left_square_bracket", "go(-1)", "earlier", "show everything as of an earlier step", "["),
        hidden_key("right_square_bracket", "go(1)", "later", "and forward again", "]"),
        hidden_key("tab,right", "panel(1)", "next panel", "to the next panel", "Tab →"),
        hidden_key("shift+tab,left", "panel(-1)", "previous panel", "to the previous panel", "⇧Tab ←"),
        hidden_key("escape", "leave_field", "all panels", "all panels again, none focused"),
        hidden_key("down", "panel(1, True)", "panel below", "to the panel below"),
        hidden_key("up", "panel(-1, True)", "panel above", "to the panel above"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._run: Run | None = None
        self.feed: Feed | None = None
        self._snapshot: Snapshot | None = None
        self.view = View()
        self._paused = False
        self._news = asyncio.Event()
        self._header, self._area = RunHeader(), Panels(id="panels")
        self._panels = {panel.id or "": panel for panel in all_panels()}

    @property
    def chosen_run(self) -> Run | None:
        return self._run

    @property
    def chosen_status(self) -> Status | None:
        return self._snapshot.status if self._snapshot else None

    @property
    def chosen_is_saved(self) -> bool:
        return self._snapshot is not None and self._snapshot.is_saved

    def body(self) -> ComposeResult:
        yield PlainText(NO_RUN, id="nothing")
        yield self._header
        with self._area:
            yield from self._panels.values()

    def on_mount(self) -> None:
        self.view = View(log=self.contrast.remembered.log_scale)
        self._zoom(zoomed if (zoomed := self.contrast.remembered.zoomed) in self._panels else "")
        self.add_class("-empty")
        if self.contrast.run_shown:
            self.choose(self.contrast.run_shown)
        self._draw()

    def on_resize(self, event: Resize) -> None:
        self._area.set_class(event.size.height < _SHORT, "-short")
        self._news.set()

    def on_screen_resume(self) -> None:
        self._news.set()

    def choose(self, run: Run) -> None:
        """Follow a run, in progress or ended; one that is followed already stays as it is."""
        if self._run == run:
            return
        self.contrast.run_shown = self._run = run
        self._snapshot, self._paused = None, False
        self.view = replace(self.view, end=None)
        self.feed = Feed(run.events_path, self._news.set)
        self.remove_class("-empty")
        self.refresh_bindings()
        self._follow(self.feed)
        self._poll(run, self.feed)

    @work(group="feed", exclusive=True)
    async def _follow(self, feed: Feed) -> None:
        await feed.follow()

    @work(group="poll", exclusive=True)
    async def _poll(self, run: Run, feed: Feed) -> None:
        while True:
            before, known = self._snapshot, copy(feed.history)  # events arrive while the thread looks
            self._snapshot = snapshot = await asyncio.to_thread(poll, run, known, before)
            if snapshot is None:
                if run != self._deleted:
                    self.contrast.fail(f"{run.path} no longer exists")
                self._show_no_run()
                return
            self.contrast.watched = summary(run, snapshot)
            if before is None or (snapshot.status.state, snapshot.is_saved) != (before.status.state, before.is_saved):
                self.refresh_bindings()
            self._news.set()
            await asyncio.sleep(POLL_EVERY)

    @work(group="drawing")
    async def _draw(self) -> None:
        """Draw what has changed and can be seen, one panel at a time, so that keys are answered in between."""
        while True:
            await self._news.wait()
            self._news.clear()
            run, feed, snapshot = self._run, self.feed, self._snapshot
            if run and feed and snapshot and self.is_current:
                progress = progress_text(snapshot, feed.history, self.view, paused=self._paused, earlier=feed.earlier)
                self._header.show(run, snapshot, feed.history.best, progress)
                for panel in self.visible_panels():
                    if self._paused or feed is not self.feed:
                        break
                    if panel.show_history(feed.history, self.view):
                        await asyncio.sleep(_FRAME)
            await asyncio.sleep(DRAW_EVERY)

    def visible_panels(self) -> Iterator[Panel | NumbersPanel | LogPanel]:
        """The panels of which some row is on the screen."""
        for panel in self._panels.values():
            if panel.display and panel.region.overlaps(self._area.region):
                yield panel

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "pause" | "detach":
                return self.chosen_status is not None and not self.chosen_status.ended
            case "zoom" | "log" | "share" | "go" | "panel" | "leave_field":
                return self._run is not None
        return super().check_action(action, parameters)

    def action_detach(self) -> None:
        if self._run:
            self.app.notify(f"{self._run.name} continues training; 3 lists it", markup=False)
            self._show_no_run()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._news.set()

    def action_log(self) -> None:
        self._change_view(replace(self.view, log=not self.view.log))
        self.contrast.remembered.log_scale = self.view.log

    def action_share(self, by: int) -> None:
        shares = list(SHARES)
        number = shares.index(self.view.share) + by
        self._change_view(replace(self.view, share=shares[min(max(number, 0), len(shares) - 1)]))

    def action_go(self, by: int) -> None:
        """All panels as of an earlier or a later step, up to the newest."""
        if self.feed is None:
            return
        steps = [angles.step for angles in self.feed.history.histograms]
        here = len(steps) if self.view.end is None else steps.index(max(s for s in steps if s <= self.view.end))
        there = max(0, here + by * max(1, len(steps) // _STRIDES))
        self._change_view(replace(self.view, end=steps[there] if there < len(steps) else None))

    def action_zoom(self) -> None:
        focused = next((name for name, panel in self._panels.items() if panel is self.focused), "loss")
        self._zoom("" if self.contrast.remembered.zoomed else focused)

    def action_panel(self, by: int, rows: bool = False) -> None:
        """Go to the next panel or the previous one; with `rows`, to another row where panels are side by side."""
        names, zoomed = list(self._panels), self.contrast.remembered.zoomed
        current = zoomed or (self.focused.id if self.focused else None)
        stride = 3 if rows and not zoomed and self.has_class("-wide") else 1
        there = (names.index(current) + by * stride) % len(names) if current in names else min(by, 0)
        if zoomed:
            self._zoom(names[there])
        else:
            self._panels[names[there]].focus()

    def action_leave_field(self) -> None:
        self._zoom("")
        super().action_leave_field()

    def run_deleted(self) -> None:
        self._show_no_run()

    def clipboard_text(self) -> str:
        if not (self._run and self.feed and self._snapshot):
            return ""
        history = self.feed.history
        numbers = "\n".join(f"{name:<14} {value}" for name, value, _ in run_numbers(history, self.view))
        return "\n\n".join([summary(self._run, self._snapshot), numbers, "\n".join(history.log)])

    def _change_view(self, view: View) -> None:
        self.view = view
        self._news.set()

    def _zoom(self, name: str) -> None:
        """Let one panel fill the screen; all of them where there is no name."""
        self.contrast.remembered.zoomed = name
        self._area.set_class(bool(name), "-zooming")
        for panel in self._panels.values():
            panel.set_class(panel.id == name, "-zoomed")
        if name:
            self._panels[name].focus()
        self._news.set()

    def _show_no_run(self) -> None:
        self.workers.cancel_group(self, "feed")
        self.workers.cancel_group(self, "poll")
        self._run = self.feed = self._snapshot = None
        self.contrast.run_shown, self.contrast.watched = None, ""
        self.add_class("-empty")
        self.refresh_bindings()
