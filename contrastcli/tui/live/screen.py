"""Live: a run as it trains, or as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.widgets import Static

from contrastcli.runs.directory import Run
from contrastcli.tui.children import contrast
from contrastcli.tui.dialogs import Choice, Question
from contrastcli.tui.feed import Feed
from contrastcli.tui.live import panels
from contrastcli.tui.live.header import IN_PROGRESS, RESUMABLE, Above, Standing, how_far, in_brief, look
from contrastcli.tui.live.panels import SHARES, Log, Numbers, Panel, View, all_panels, facts
from contrastcli.tui.screen import ModeScreen

DRAW_EVERY = 0.25
"""Seconds between two drawings of what has changed."""
LOOK_EVERY = 1.0
"""Seconds between two looks at how the run is."""

_FRAME = 0.02  # seconds from one panel to the next, so that no frame has to draw two
_SHORT = 34  # rows below which the panels scroll
_STRIDES = 40  # presses of [ from the end of a run to its beginning

NOTHING = "No run is shown.\n\nPress 1 to set up and start one, 3 to choose one of those there are."


class Panels(VerticalScroll, can_focus=False, inherit_bindings=False):
    """Holds the panels. Arrow keys go from one to the next, so it has no keys of its own."""

    def on_resize(self) -> None:
        """Keep the chosen panel in sight when words above take room."""
        if (chosen := self.screen.focused) and chosen.parent is self:
            chosen.scroll_visible(animate=False)


class LiveScreen(ModeScreen):
    """A run: its panels, how it is, and what can be done about it."""

    CSS_PATH = "screen.tcss"
    mode = "live"
    help_text = (
        "Training as it goes on, or as it went. The angles are those between the sentences of a batch: positives "
        "should come closer than every negative. ◆ marks the best dev score; the model of that step is kept. "
        "Alignment and uniformity are both better when lower; their path goes from ○ to ●.\n\n"
        "Training is a process of its own: it goes on when this app is left, and can be watched again later."
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "stop", id="live.stop", tooltip="end the step, save and stop; asks first"),
        Binding("r", "resume", "resume", id="live.resume", tooltip="go on from the last checkpoint"),
        Binding("d", "detach", "detach", id="live.detach", tooltip="show no run any more; training goes on"),
        Binding("p", "pause", "hold view", id="live.pause", tooltip="hold the view still; training goes on"),
        Binding("z", "zoom", "zoom", id="live.zoom", tooltip="one panel on the whole screen, and back"),
        Binding("e", "evaluate", "evaluate", id="live.evaluate", tooltip="evaluate this run"),
        Binding("u", "query", "ask it", id="live.query", tooltip="ask this run about sentences"),
        Binding("l", "log", "log scale", id="live.log", tooltip="logarithmic axis for the loss", show=False),
        Binding(
            "plus,equals_sign",
            "share(1)",
            "fewer steps",
            key_display="+",
            tooltip="the last third, the last tenth of the steps",
            show=False,
        ),
        Binding("minus", "share(-1)", "more steps", key_display="-", tooltip="back to all steps", show=False),
        Binding(
            "left_square_bracket",
            "then(-1)",
            "earlier",
            key_display="[",
            tooltip="the histogram and all else as of an earlier step",
            show=False,
        ),
        Binding("right_square_bracket", "then(1)", "later", key_display="]", tooltip="and forward again", show=False),
        Binding("tab,right", "panel(1)", "next panel", key_display="Tab →", tooltip="to the next panel", show=False),
        Binding(
            "shift+tab,left",
            "panel(-1)",
            "previous panel",
            key_display="⇧Tab ←",
            tooltip="to the panel before",
            show=False,
        ),
        Binding("escape", "leave_field", "all panels", tooltip="all panels again, none of them chosen", show=False),
        Binding("down", "panel(1, True)", "panel below", tooltip="to the panel below", show=False),
        Binding("up", "panel(-1, True)", "panel above", tooltip="to the panel above", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._run: Run | None = None
        self._feed: Feed | None = None
        self._standing: Standing | None = None
        self._view = View()
        self._paused = False
        self._words = ""  # of an action that goes on or has failed
        self._news = asyncio.Event()
        self._above, self._area = Above(), Panels(id="panels")
        self._panels = {panel.id or "": panel for panel in all_panels()}

    def body(self) -> ComposeResult:
        yield Static(NOTHING, id="nothing", markup=False)
        yield self._above
        with self._area:
            yield from self._panels.values()

    def on_mount(self) -> None:
        self._view = View(log=self.contrast.remembered.log_scale)
        self._zoom(zoomed if (zoomed := self.contrast.remembered.zoomed) in self._panels else "")
        if self.contrast.run_shown:
            self.attach(self.contrast.run_shown)
        else:
            self.add_class("-empty")
        self._draw()

    def on_resize(self, event: Resize) -> None:
        self._area.set_class(event.size.height < _SHORT, "-short")
        self._news.set()

    def on_screen_resume(self) -> None:
        self._news.set()

    def attach(self, run: Run) -> None:
        """Follow a run, in progress or ended; one that is followed already goes on."""
        self._words = ""
        if self._run == run and self._feed:
            return
        self._run, self._standing, self._paused = run, None, False
        self._view = replace(self._view, end=None)
        self._feed = Feed(run.events_path, self._news.set)
        self.remove_class("-empty")
        self.refresh_bindings()
        self._follow(self._feed)
        self._watch(run, self._feed)

    @work(group="feed", exclusive=True)
    async def _follow(self, feed: Feed) -> None:
        await feed.follow()

    @work(group="standing", exclusive=True)
    async def _watch(self, run: Run, feed: Feed) -> None:
        """Look at how the run is, again and again."""
        while True:
            standing = await asyncio.to_thread(look, run, feed.history, self._standing)
            if standing is None:
                self.contrast.fail(f"{run.path} is no longer there")
                self._leave()
                return
            new = self._standing is None or standing.status.state != self._standing.status.state
            self._standing = standing
            self.contrast.watched = in_brief(run, standing)
            if new:
                self.refresh_bindings()
            self._news.set()
            await asyncio.sleep(LOOK_EVERY)

    @work(group="drawing")
    async def _draw(self) -> None:
        """Draw what has changed and is to be seen: one panel at a time, and the loop has its way in between."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._feed and self.is_current:
                self._say()
                await self._draw_panels(self._feed)
            await asyncio.sleep(DRAW_EVERY)

    async def _draw_panels(self, feed: Feed) -> None:
        for panel in self._visible():
            if self._paused or feed is not self._feed:
                return
            if panel.look(feed.history, self._view):
                await asyncio.sleep(_FRAME)

    def _visible(self) -> Iterator[Panel | Numbers | Log]:
        for panel in self._panels.values():
            if panel.display and panel.region.overlaps(self._area.region):
                yield panel

    def _say(self) -> None:
        """Say how the run is, and name in the titles what they show."""
        if self._run and self._feed and self._standing:
            history = self._feed.history
            words = how_far(self._standing, history, self._view, paused=self._paused, earlier=self._feed.earlier)
            self._above.say(self._run, self._standing, history.best, words, self._words)
            then = panels.shown_angles(history, self._view)
            if not self._paused:
                self._panels["loss"].border_title = "Loss, logarithmic" if self._view.log else "Loss"
                self._panels["histogram"].border_title = (
                    f"% of pairs, step {then.step:,}" if then else "% of pairs by angle"
                )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        state = self._standing.status.state if self._standing else None
        match action:
            case "stop" | "pause" | "detach":
                return state in IN_PROGRESS
            case "resume":
                return state in RESUMABLE
            case "evaluate" | "query":
                return state is not None and state not in IN_PROGRESS
            case "zoom" | "log" | "share" | "then" | "panel" | "leave_field":
                return self._run is not None
        return super().check_action(action, parameters)

    @work
    async def action_stop(self) -> None:
        """Ask whether to stop, and stop."""
        if (run := self._run) is None:
            return
        choices = (Choice("s", "stop it", "stop"), Choice("k", "keep it running", ""))
        if await self.app.push_screen_wait(Question(f"Stop {run.name}?\nIt saves first, and can be resumed.", choices)):
            await self.contrast.stop_run(run)

    @work(group="resume", exclusive=True)
    async def action_resume(self) -> None:
        """Let a child go on with the run."""
        if (run := self._run) is None:
            return
        self._tell("Resuming: the model and the data are being loaded …")
        done = await contrast(self.contrast.directory, "train", "--resume", str(run.path.resolve()), "--detach")
        if self._run == run:
            self._tell(f"It could not be resumed: {done.error}" if done.error else "")

    def action_detach(self) -> None:
        """Show no run any more; training goes on."""
        if self._run:
            self.app.notify(f"{self._run.name} goes on training; 3 lists it", markup=False)
            self._leave()

    def action_pause(self) -> None:
        """Hold the view still, or let it go on."""
        self._paused = not self._paused
        self._news.set()

    def action_log(self) -> None:
        """Logarithmic or linear axis for the loss."""
        self._look(replace(self._view, log=not self._view.log))
        self.contrast.remembered.log_scale = self._view.log

    def action_share(self, by: int) -> None:
        """Fewer or more of the steps."""
        self._look(replace(self._view, share=min(max(self._view.share + by, 0), len(SHARES) - 1)))

    def action_then(self, by: int) -> None:
        """All panels as of an earlier or a later step, up to the newest."""
        if self._feed is None:
            return
        steps = [angles.step for angles in self._feed.history.histograms]
        here = len(steps) if self._view.end is None else steps.index(max(s for s in steps if s <= self._view.end))
        there = max(0, here + by * max(1, len(steps) // _STRIDES))
        self._look(replace(self._view, end=steps[there] if there < len(steps) else None))

    def action_zoom(self) -> None:
        """The focused panel on the whole screen, or all panels again."""
        focused = next((name for name, panel in self._panels.items() if panel is self.focused), "loss")
        self._zoom("" if self.contrast.remembered.zoomed else focused)

    def action_panel(self, by: int, rows: bool = False) -> None:
        """Go to the next panel or the one before; to another row where panels stand side by side."""
        shown, zoomed = list(self._panels.values()), self.contrast.remembered.zoomed
        current = self._panels[zoomed] if zoomed else self.focused
        stride = 3 if rows and not zoomed and self.has_class("-wide") else 1
        there = 0 if by > 0 else len(shown) - 1
        if current in shown:
            there = (shown.index(current) + by * stride) % len(shown)
        if zoomed:
            self._zoom(shown[there].id or "")
        else:
            shown[there].focus()

    def action_leave_field(self) -> None:
        """All panels again, and the keys back to the screen."""
        self._zoom("")
        super().action_leave_field()

    async def action_evaluate(self) -> None:
        """Go to Evaluate with this run."""
        if self._run:
            await self.contrast.evaluate_model(self._model())

    async def action_query(self) -> None:
        """Go to Query with this run."""
        if self._run:
            await self.contrast.query_model(self._model())

    def copied(self) -> str:
        """How the run is, its numbers and its log."""
        if not (self._run and self._feed and self._standing):
            return ""
        numbers = "\n".join(f"{name:<14} {value}" for name, value, _ in facts(self._feed.history, self._view))
        brief = in_brief(self._run, self._standing)
        return "\n\n".join([brief, numbers, "\n".join(self._feed.history.log)])

    def _model(self) -> str:
        """The run as other screens know it: by its name, or by its path if it lies elsewhere."""
        assert self._run
        here = self._run.path.resolve().parent == self.contrast.directory.resolve()
        return self._run.name if here else str(self._run.path)

    def _look(self, view: View) -> None:
        self._view = view
        self._news.set()

    def _tell(self, words: str) -> None:
        self._words = words
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

    def _leave(self) -> None:
        """Show no run."""
        self.workers.cancel_group(self, "feed")
        self.workers.cancel_group(self, "standing")
        self._run = self._feed = self._standing = None
        self._words = ""
        self.contrast.run_shown, self.contrast.watched = None, ""
        self.add_class("-empty")
        self.refresh_bindings()
