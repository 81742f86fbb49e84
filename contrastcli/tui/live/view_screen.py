"""The keys of Live that change how a run is looked at, whatever it does meanwhile."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType

from contrastcli.errors import error_text
from contrastcli.runs.directory import Run, list_runs
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.dialogs import Chooser
from contrastcli.tui.fields.choice_field import ChoiceField, ChoiceList
from contrastcli.tui.history.feed import Feed
from contrastcli.tui.history.series import AXES
from contrastcli.tui.live.area import PanelArea
from contrastcli.tui.live.view import SHARES, SMOOTHING, LiveView
from contrastcli.tui.run_screen import RunScreen
from contrastcli.tui.widgets import after, hidden_key, known

_STRIDES = 40  # presses of [ to the beginning


class ViewScreen(RunScreen):
    """A view of a run's history, its panels, and another run to compare with."""

    mode = "live"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "pause view", tooltip="stop redrawing, or continue; training continues"),
        Binding("z", "zoom", "zoom", tooltip="one panel on the whole screen, and back"),
        hidden_key("l", "log", "log scale", "logarithmic axis for the loss"),
        hidden_key(
            "plus,equals_sign", "share(1)", "fewer steps", "show the last third or the last tenth of the steps", "+"
        ),
        hidden_key("minus", "share(-1)", "more steps", "show more of the steps", "-"),
        hidden_key("left_square_bracket", "go(-1)", "cursor back", "read values at an earlier place; or click", "["),
        hidden_key("right_square_bracket", "go(1)", "cursor forward", "and forward again", "]"),
        hidden_key("w", "one_batch", "one batch", "show the angles of one batch, or of all steps"),
        hidden_key("a", "smooth", "smooth", "average the curves over a part of what is shown"),
        hidden_key("h", "axis", "x axis", "have steps, minutes, sentences or epochs along x"),
        hidden_key("b", "baseline", "baseline", "compare the curves with those of another run"),
        hidden_key("c", "choose", "choose panels", "choose the panels and their order"),
        hidden_key("tab,right", "panel(1)", "next panel", "to the next panel", "Tab →"),
        hidden_key("shift+tab,left", "panel(-1)", "previous panel", "to the previous panel", "⇧Tab ←"),
        hidden_key("escape", "leave_field", "all panels", "all panels again, none focused, newest values"),
        hidden_key("down", "panel(1, True)", "panel below", "to the panel below"),
        hidden_key("up", "panel(-1, True)", "panel above", "to the panel above"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.feed: Feed | None = None
        self.view = LiveView()
        self._paused = False
        self._news = asyncio.Event()
        self._baseline: tuple[str, Feed] | None = None
        self._area = PanelArea()

    def on_mount(self) -> None:
        last = self.contrast.remembered
        smoothing, axis = known(last.smoothing, SMOOTHING), known(last.axis, AXES)
        self.view = replace(self.view, log=last.log_scale, smoothing=smoothing, axis=axis, one_batch=last.one_batch)
        self._arrange()
        self._compare_with(self.contrast.project.baseline)
        self._zoom(last.zoomed if last.zoomed in self._area.shown else "")

    def on_resize(self) -> None:
        self._arrange()

    def on_screen_resume(self) -> None:
        self._news.set()

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._news.set()

    def action_log(self) -> None:
        self._change_view(log=not self.view.log)

    def action_share(self, by: int) -> None:
        shares = list(SHARES)
        number = shares.index(self.view.share) + by
        self._change_view(share=shares[min(max(number, 0), len(shares) - 1)])

    def action_smooth(self) -> None:
        self._change_view(smoothing=after(self.view.smoothing, SMOOTHING))

    def action_one_batch(self) -> None:
        self._change_view(one_batch=not self.view.one_batch)

    def action_axis(self) -> None:
        self._change_view(axis=after(self.view.axis, AXES), cursor=None)

    def action_go(self, by: int) -> None:
        (first, last), here = self.view.x_range, self.view.place
        self._point(max(min(first, here), here + by * (last - first) / _STRIDES))

    @on(ChartView.Pointed)
    def _point_at(self, event: ChartView.Pointed) -> None:
        self._point(event.x)

    def _point(self, x: float) -> None:
        """Read values at a place of the x axis, or the newest ones at its end."""
        _, last = self.view.x_range
        self._change_view(cursor=x if x < last * (1 - 1e-9) else None)

    @work
    async def action_choose(self) -> None:
        chosen = await self.app.push_screen_wait(Chooser("Panels", list(self._area.panels), self._area.shown))
        # Unless some are chosen, probes appear by themselves.
        if [*chosen] != self._area.shown:
            self.contrast.remembered.panels = chosen
        self._zoom("")
        self._arrange()

    @work
    async def action_baseline(self) -> None:
        try:
            runs = {run.name: run for run in await asyncio.to_thread(list_runs, self.contrast.directory)}
        except OSError as error:
            self.contrast.fail(f"{self.contrast.directory} cannot be read: {error_text(error)}")
            return
        here, (now, _) = self.here and self.here.run.path.resolve(), self._baseline or ("", None)
        choices = [("", "no comparison"), *((name, "") for name, run in runs.items() if run.path.resolve() != here)]
        field = ChoiceField("Compare curves with", list, now if now in runs else "", blank="none")
        chosen = await self.app.push_screen_wait(ChoiceList(field, choices))
        if chosen is not None:
            self._compare_with(str(runs[chosen].path.resolve()) if chosen else "")

    def _compare_with(self, path: str) -> None:
        """Draw the curves of a run here, by its path, below those of every run that is shown; none where empty."""
        self.workers.cancel_group(self, "baseline")
        self.contrast.project.baseline, self._baseline = path, None
        if path and (run := Run(Path(path))).exists():
            feed = Feed(run.events_path, self._news.set)
            self._baseline = run.name, feed
            feed.start(self, "baseline")
        self._news.set()

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
        self._change_view(cursor=None)
        super().action_leave_field()

    def _change_view(self, **changes: Any) -> None:
        self.view, last = replace(self.view, **changes), self.contrast.remembered
        last.log_scale, last.smoothing, last.axis = self.view.log, self.view.smoothing, self.view.axis
        last.one_batch = self.view.one_batch
        self._news.set()

    def _zoom(self, name: str) -> None:
        """Let one panel fill the screen; all of them where there is no name."""
        self.contrast.remembered.zoomed = name
        self._area.zoom(name)
        self._news.set()

    def _arrange(self) -> None:
        self._area.lay_out(self.contrast.remembered.panels, *self.app.size)
        self._news.set()
