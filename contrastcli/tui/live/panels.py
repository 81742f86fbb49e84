"""The panels of Live: what each makes of a run's history. They draw only what has changed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import wrap

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from contrastcli.runs.events import Step
from contrastcli.show.chart import number
from contrastcli.show.pictures import Picture, Series, angle_histogram
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.columns import Table
from contrastcli.tui.history import History, Metric
from contrastcli.tui.live.view import View
from contrastcli.tui.widgets import PlainText, styled

_SPARK = "▁▂▃▄▅▆▇█"
_SPARKS = 8  # characters


def loss(history: History, view: View, width: int) -> Picture:
    """The loss and its parts."""
    names = tuple(name for name in history.tables["step"].columns if name not in Step.rates)
    metric = Metric("Loss, logarithmic" if view.log else "Loss", "step", names)
    return replace(view.over_steps(metric, history, width), log=view.log)


def angles(history: History, view: View, width: int) -> Picture:
    """Mean positive, mean negative and hardest negative angle."""
    return view.over_steps(Metric("Angles, degrees", "angles", ("positive", "negative", "hardest")), history, width)


def histogram(history: History, view: View, width: int) -> Picture:
    """The angles of one batch, the newest or the last of the view: the share of its pairs in each 5°, in per cent."""
    batch = history.newest
    if view.cursor is not None:
        axis = history.axis(view.axis)
        steps = [history.tables["angles"].place(event.step, axis) for event in history.histograms]
        row = bisect_right(steps, view.cursor) - 1
        batch = history.histograms[row] if row >= 0 else None
    if batch is None or not batch.positive_histogram:
        return Picture("angles", "% of pairs by angle", "histogram", "", "", ())
    return angle_histogram(f"% of pairs, step {batch.step:,}", batch.positive_histogram, batch.negative_histogram)


def dev(history: History, view: View, width: int) -> Picture:
    """The dev score × 100 with the best marked."""
    picture = view.over_steps(Metric("Dev Spearman", "evaluated", ("spearman",)), history, width)
    if (best := history.best) is None or best.spearman is None:
        return picture
    place = history.tables["evaluated"].place(best.step, history.axis(view.axis))
    return replace(picture, best=(place, 100 * best.spearman))


def plane(history: History, view: View, width: int) -> Picture:
    """Alignment against uniformity, as the path from the start to now."""
    until, axis = (0.0, math.inf if view.cursor is None else view.cursor), history.axis(view.axis)
    table = history.tables["evaluated"]
    (_, x), (_, y) = (table.line(name, until, width, axis) for name in ("uniformity", "alignment"))
    return Picture("plane", "Alignment, uniformity", "path", "uniformity", "alignment", (Series("", x, y),))


class Panel(ChartView, can_focus=True):
    """A chart of a history, drawn again only after an event of the kind that it shows, or for another view."""

    def __init__(self, id: str, kind: str, make: Callable[[History, View, int], Picture], waiting: str) -> None:
        super().__init__(waiting, id=id)
        self._kind, self._make = kind, make
        self._shown: object = None

    def show_history(self, history: History, view: View) -> bool:
        """Show a history; returns whether there was something new to draw."""
        histories = [
            (id(one), one.tables[self._kind].changes, one.last_step) for one in (history, view.baseline) if one
        ]
        new = (histories, view, self.size.width)
        if new == self._shown:
            return False
        self._shown = new
        self.show(self._make(history, view, 2 * self.size.width))
        self.prepare()
        return True


def run_numbers(history: History, view: View) -> list[tuple[str, str, str]]:
    """What Live shows as numbers: a name, the value at the end of the view, and what may be drawn behind it."""
    started, step = history.started, history.step
    if started is None:
        return []
    axis, (first, end) = history.axis(view.axis), view.x_range(history)
    end = end if view.cursor is None else view.cursor
    steps = history.tables["step"]
    until = steps.steps[max(0, steps.rows(end, axis) - 1)] if steps.steps else 0

    def row(name: str, table: Table, column: str, form: Callable[[float], str]) -> tuple[str, str, str]:
        value = table.at(column, end, axis)
        return name, "–" if value is None else form(value), spark(table.sampled(column, (first, end), _SPARKS, axis))

    memory = step.memory_mb if step else None
    return [
        row("learning rate", history.tables["step"], "lr", number),
        row("gradient norm", history.tables["step"], "grad_norm", number),
        row("batch accuracy", history.tables["angles"], "satisfied", lambda value: f"{100 * value:.0f} %"),
        row("sentences/s", history.tables["step"], "sentences_per_s", lambda value: f"{value:,.0f}"),
        ("epoch", f"{until / max(1, started.steps_per_epoch):.2f}", ""),
        ("memory", "–" if memory is None else f"{memory:,.0f} MB", ""),
        ("negatives", f"{started.negatives_per_anchor:,} per anchor", ""),
        ("batch", f"{started.batch_size:,} rows", ""),
        ("a step", f"{started.sentences_per_step:,} sentences", ""),
        ("device", f"{started.device} in {started.precision}", ""),
        ("objective", started.objective, ""),
        ("backbone", started.backbone, ""),
    ]


def spark(values: Sequence[float]) -> str:
    """A line in a few characters."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2 or min(finite) == max(finite):
        return ""
    low, scale = min(finite), (len(_SPARK) - 1) / (max(finite) - min(finite))
    return "".join(_SPARK[round((value - low) * scale)] if math.isfinite(value) else " " for value in values)


class NumbersPanel(PlainText, can_focus=True):
    """Numbers that need no chart, and how some of them have changed."""

    def __init__(self, waiting: str) -> None:
        super().__init__(waiting, id="numbers", classes="-waiting")
        self.border_title = "Numbers"
        self._shown: list[tuple[str, str, str]] = []

    def show_history(self, history: History, view: View) -> bool:
        numbers = run_numbers(history, view)
        if numbers == self._shown:
            return False
        self._shown = numbers
        self.remove_class("-waiting")
        self.update(
            Content("\n").join(
                styled((f" {name:<15}", "$text-muted"), f"{value:<8}", (drawn, "$text-primary"))
                for name, value, drawn in numbers
            ),
            layout=False,
        )
        return True


class LogPanel(ScrollView, can_focus=True):
    """The log, the newest line last; long lines are wrapped."""

    def __init__(self) -> None:
        super().__init__(id="log")
        self.border_title = "Log"
        self._shown: object = None
        self._history = History()
        self._rows: list[str] = []

    def show_history(self, history: History, view: View) -> bool:
        new = (id(history), history.logged)
        if new == self._shown:
            return False
        self._shown, self._history = new, history
        self._lay_out()
        return True

    def on_mount(self) -> None:
        self.anchor()  # stays at the end until the user scrolls away from it

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Wrap the lines to the width, with the continued rows indented."""
        width = max(20, self.scrollable_content_region.width - 1)
        self._rows = [
            row
            for line in self._history.log
            for row in ([line] if len(line) <= width else wrap(line, width, subsequent_indent=" " * 10))
        ]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = round(self.scroll_y) + y
        text, style = f" {self._rows[row]}" if row < len(self._rows) else "", self.rich_style
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)


def all_panels() -> list[Panel | NumbersPanel | LogPanel]:
    """The panels in their order, each with what it shows while there is nothing to draw."""
    logged = "from the first logged step on"
    path = "the path from start ○ to now ●, a point each evaluation; lower left is better"
    return [
        Panel("loss", "step", loss, f"the loss and its parts, {logged}"),
        Panel("angles", "angles", angles, f"positive, negative and hardest negative angle, {logged}"),
        Panel("dev", "evaluated", dev, "the dev score, from the first evaluation on"),
        NumbersPanel(f"rates, memory and device, {logged}"),
        Panel("histogram", "angles", histogram, f"the angles of a batch, {logged}"),
        Panel("plane", "evaluated", plane, path),
        LogPanel(),
    ]
