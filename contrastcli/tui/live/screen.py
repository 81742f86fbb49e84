"""Live: a run as it trains, or as it was."""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from contrastcli.runs.directory import Run, list_runs
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.dialogs import Chooser
from contrastcli.tui.fields.choice_field import ChoiceField, ChoiceList
from contrastcli.tui.history.feed import Feed
from contrastcli.tui.history.series import AXES, STEPS
from contrastcli.tui.live.area import PanelArea
from contrastcli.tui.live.header import RunHeader, Snapshot, poll, progress_text, summary
from contrastcli.tui.live.notices import Notices
from contrastcli.tui.live.panels import run_readings
from contrastcli.tui.live.view import SHARES, SMOOTHING, LiveView
from contrastcli.tui.run_screen import RunScreen
from contrastcli.tui.widgets import PlainText, after, hidden_key

DRAW_EVERY = 0.25  # seconds between two drawings of what has changed
POLL_EVERY = 1.0  # seconds between two looks at the run's status

_FRAME = 0.02  # seconds from one panel to the next, so that no frame has to draw two
_STRIDES = 40  # presses of [ from the end of what is shown to its beginning

NO_RUN = "No run is shown.\n\nPress 1 to set up and start a run, or 3 to choose one."


class LiveScreen(RunScreen):
    """A run: its state, its panels, and what can be done with it."""

    CSS_PATH = "screen.tcss"
    mode = "live"
    help_text = (
        "A run as it trains, or as it was. The angles are those between the sentences of a batch: positives should "
        "come closer than every negative, which batch accuracy counts. After each name are the newest value and, in "
        "brackets, its change over what is shown. ◆ marks the best dev score; the model of that step is kept. "
        "Alignment and uniformity are both better when lower; their path goes from ○ to ●.\n\n"
        "Hardest negatives are an anchor's closest ones of a batch. Look there for false negatives and duplicates, and "
        "among the worst dev pairs, whose ranks by score and by cosine differ most, for wrong scores.\n\n"
        "Training is a process of its own: it continues when you leave the app, and can be watched again later."
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("d", "detach", "detach", "show no run any more; training continues"),
        Binding("p", "pause", "pause view", tooltip="stop redrawing, or continue; training continues"),
        Binding("z", "zoom", "zoom", tooltip="one panel on the whole screen, and back"),
        hidden_key("l", "log", "log scale", "logarithmic axis for the loss"),
        hidden_key(
            "plus,equals_sign", "share(1)", "fewer steps", "show the last third or the last tenth of the steps", "+"
        ),
        hidden_key("minus", "share(-1)", "more steps", "show more of the steps", "-"),
        hidden_key("left_square_bracket", "go(-1)", "cursor back", "read values at an earlier place; or click", "["),
        hidden_key("right_square_bracket", "go(1)", "cursor forward", "and forward again", "]"),
        hidden_key("a", "smooth", "smooth", "average the curves over a part of what is shown"),
        hidden_key("h", "axis", "x axis", "have steps, minutes, sentences or epochs along x"),
        hidden_key("b", "baseline", "baseline", "compare every chart with another run"),
        hidden_key("c", "choose", "choose panels", "choose the panels and their order"),
        hidden_key("tab,right", "panel(1)", "next panel", "to the next panel", "Tab →"),
        hidden_key("shift+tab,left", "panel(-1)", "previous panel", "to the previous panel", "⇧Tab ←"),
        hidden_key("escape", "leave_field", "all panels", "all panels again, none focused, newest values"),
        hidden_key("down", "panel(1, True)", "panel below", "to the panel below"),
        hidden_key("up", "panel(-1, True)", "panel above", "to the panel above"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._run: Run | None = None
        self.feed: Feed | None = None
        self._snapshot: Snapshot | None = None
        self.view = LiveView()
        self._paused = False
        self._news = asyncio.Event()
        self._baseline: tuple[str, Feed] | None = None
        self._header, self._area = RunHeader(), PanelArea()

    @property
    def here(self) -> Snapshot | None:
        return self._snapshot

    def body(self) -> ComposeResult:
        yield PlainText(NO_RUN, id="nothing")
        yield self._header
        yield self._area

    def on_mount(self) -> None:
        last = self.contrast.remembered
        smoothing, axis = (last.smoothing if last.smoothing in SMOOTHING else "not smoothed"), last.axis
        self.view = LiveView(last.log_scale, smoothing=smoothing, axis=axis if axis in AXES else STEPS.name)
        self._arrange()
        self._compare_with(last.baseline)
        self._zoom(zoomed if (zoomed := last.zoomed) in self._area.shown else "")
        self.add_class("-empty")
        if self.contrast.run_shown:
            self.choose(self.contrast.run_shown)
        self._draw()

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        self._area.lay_out(self.contrast.remembered.panels, *self.app.size)
        self._news.set()

    def on_screen_resume(self) -> None:
        self._news.set()

    def choose(self, run: Run) -> None:
        """Follow a run, in progress or ended; one that is followed already stays as it is."""
        if self._run == run:
            return
        self.contrast.run_shown = self._run = run
        self._snapshot, self._paused = None, False
        self.view = replace(self.view, cursor=None)
        self.feed = Feed(run.events_path, self._news.set)
        self._header.announce(run)
        self.remove_class("-empty")
        self.refresh_bindings()
        self._follow(self.feed)
        self._poll(run, self.feed)

    @work(group="feed", exclusive=True)
    async def _follow(self, feed: Feed) -> None:
        await feed.follow()

    @work(group="poll", exclusive=True)
    async def _poll(self, run: Run, feed: Feed) -> None:
        notices = await asyncio.to_thread(Notices, run)
        while True:
            before, known = self._snapshot, copy(feed.history)  # events arrive while the thread looks
            self._snapshot = snapshot = await asyncio.to_thread(poll, run, known, before)
            if snapshot is None:
                if run not in self.contrast.deleted:
                    self.contrast.fail(f"{run.name} no longer exists")
                self._show_no_run()
                return
            self.contrast.watched = summary(run, snapshot)
            for text in notices.new(feed.history, snapshot.status):
                self.contrast.alert(text)
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
                name, other = self._baseline or ("", None)
                self.view = replace(self.view, baseline=other.history if other and name != run.name else None)
                name = name if self.view.baseline else ""
                progress = progress_text(
                    snapshot,
                    feed.history,
                    self.view,
                    self.size.width - 2,
                    paused=self._paused,
                    earlier=feed.earlier,
                    baseline=name,
                )
                self._header.show(run, snapshot, feed.history, progress)
                for panel in self._area.visible_panels():
                    if self._paused or feed is not self.feed:
                        break
                    if panel.show_history(feed.history, self.view):
                        await asyncio.sleep(_FRAME)
            await asyncio.sleep(DRAW_EVERY)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "pause" | "detach":
                return self._snapshot is not None and self._snapshot.is_live
            case "zoom" | "log" | "share" | "go" | "panel" | "leave_field" | "smooth" | "axis" | "baseline" | "choose":
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

    def action_smooth(self) -> None:
        self._change_view(replace(self.view, smoothing=after(self.view.smoothing, SMOOTHING)))
        self.contrast.remembered.smoothing = self.view.smoothing

    def action_axis(self) -> None:
        self._change_view(replace(self.view, axis=after(self.view.axis, AXES), cursor=None))
        self.contrast.remembered.axis = self.view.axis

    def action_go(self, by: int) -> None:
        """Move the cursor at which values are read."""
        if self.feed:
            first, last = self.view.x_range(self.feed.history)
            there = (last if self.view.cursor is None else self.view.cursor) + by * (last - first) / _STRIDES
            self._point(max(first, there))

    @on(ChartView.Pointed)
    def _point_at(self, event: ChartView.Pointed) -> None:
        self._point(event.x)

    def _point(self, x: float) -> None:
        """Read values at a place of the x axis, or the newest ones at its end."""
        if self.feed:
            _, last = self.view.x_range(self.feed.history)
            self._change_view(replace(self.view, cursor=x if x < last * (1 - 1e-9) else None))

    @work
    async def action_choose(self) -> None:
        chosen = await self.app.push_screen_wait(Chooser("Panels", list(self._area.panels), self._area.shown))
        self.contrast.remembered.panels = chosen
        self._zoom("")
        self._arrange()

    @work
    async def action_baseline(self) -> None:
        runs = await asyncio.to_thread(list_runs, self.contrast.directory)
        choices = [("", "no comparison"), *((str(run.path.resolve()), "") for run in runs if run != self._run)]
        field = ChoiceField("Compare every chart with", list, self.contrast.remembered.baseline, blank="none")
        chosen = await self.app.push_screen_wait(ChoiceList(field, choices))
        if chosen is not None:
            self._compare_with(chosen)

    def _compare_with(self, path: str) -> None:
        """Draw the curves of a run, by its path, below those of every run that is shown; none where empty."""
        self.workers.cancel_group(self, "baseline")
        self.contrast.remembered.baseline, self._baseline = path, None
        if path and Run(Path(path)).exists():
            run = Run(Path(path))
            self._baseline = run.name, Feed(run.events_path, self._news.set)
            self._follow_baseline(self._baseline[1])
        self._news.set()

    @work(group="baseline", exclusive=True)
    async def _follow_baseline(self, feed: Feed) -> None:
        await feed.follow()

    def action_zoom(self) -> None:
        self._zoom("" if self.contrast.remembered.zoomed else self._area.focused_name or self._area.shown[0])

    def action_panel(self, by: int, rows: bool = False) -> None:
        """Go to the next panel or the previous one; with `rows`, to the one below or above."""
        zoomed = self.contrast.remembered.zoomed
        there = self._area.neighbour(zoomed or self._area.focused_name, by, rows and not zoomed)
        if zoomed:
            self._zoom(there)
        else:
            self._area.panels[there].focus()

    def action_leave_field(self) -> None:
        self._zoom("")
        self._change_view(replace(self.view, cursor=None))
        super().action_leave_field()

    def clipboard_text(self) -> str:
        if not (self._run and self.feed and self._snapshot):
            return ""
        history = self.feed.history
        numbers = "\n".join(f"{name:<14} {value}" for name, value, _ in run_readings(history, self.view))
        return "\n\n".join([summary(self._run, self._snapshot), numbers, "\n".join(history.log)])

    def _change_view(self, view: LiveView) -> None:
        self.view = view
        self._news.set()

    def _zoom(self, name: str) -> None:
        """Let one panel fill the screen; all of them where there is no name."""
        self.contrast.remembered.zoomed = name
        self._area.zoom(name)
        self._news.set()

    def _show_no_run(self) -> None:
        self.workers.cancel_group(self, "feed")
        self.workers.cancel_group(self, "poll")
        self._run = self.feed = self._snapshot = None
        self.contrast.run_shown, self.contrast.watched = None, ""
        self.add_class("-empty")
        self.refresh_bindings()
