"""The panels of Live: what each makes of a run's history. They draw only what has changed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from contrastcli.tui.history import History, Metric, Table
from contrastcli.tui.widgets import PlainText, styled

SHARES = {"all steps": 1.0, "the last third": 1 / 3, "the last tenth": 0.1}
"""How much of the steps charts show, by what the header says of it."""

_SPARK = "▁▂▃▄▅▆▇█"
_SPARKS = 8  # characters


@dataclass(frozen=True)
class View:
    """How panels look at a history: `share` is a name in SHARES, `end` the last step shown, None the newest."""

    log: bool = False
    share: str = "all steps"
    end: int | None = None

    def steps(self, history: History) -> tuple[float, float]:
        """The first and the last step that are shown."""
        end = float(history.last_step if self.end is None else self.end)
        return max(end * (1 - SHARES[self.share]), min(history.begin, end - 1)), max(end, 1.0)

    def over_steps(self, metric: Metric, history: History, width: int) -> Picture:
        """A metric over these steps."""
        steps = self.steps(history)
        series = tuple(metric.series(history, width, steps))
        return Picture(metric.kind, metric.title, "lines", "step", "", series, x_range=steps)


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
    if view.end is not None:
        row = bisect_right(history.histograms, view.end, key=lambda event: event.step) - 1
        batch = history.histograms[row] if row >= 0 else None
    if batch is None or not batch.positive_histogram:
        return Picture("angles", "% of pairs by angle", "histogram", "", "", ())
    return angle_histogram(f"% of pairs, step {batch.step:,}", batch.positive_histogram, batch.negative_histogram)


def dev(history: History, view: View, width: int) -> Picture:
    """The dev score × 100 with the best marked."""
    picture = view.over_steps(Metric("Dev score, Spearman × 100", "evaluated", ("spearman",)), history, width)
    best = max((e for e in history.bests if e.step <= view.steps(history)[1]), key=lambda e: e.step, default=None)
    marked = (best.step, 100 * best.spearman) if best and best.spearman is not None else None
    return replace(picture, series=tuple(replace(one, name="") for one in picture.series), best=marked)


def plane(history: History, view: View, width: int) -> Picture:
    """Alignment against uniformity, as the path from the start to now."""
    steps = (0.0, view.steps(history)[1])
    (_, x), (_, y) = (history.tables["evaluated"].line(name, steps, width) for name in ("uniformity", "alignment"))
    return Picture("plane", "Alignment, uniformity", "path", "uniformity", "alignment", (Series("", x, y),))


class Panel(ChartView, can_focus=True):
    """A chart of a history, drawn again only after an event of the kind that it shows, or for another view."""

    def __init__(self, id: str, kind: str, make: Callable[[History, View, int], Picture], waiting: str) -> None:
        super().__init__(waiting, id=id)
        self._kind, self._make = kind, make
        self._shown: object = None

    def show_history(self, history: History, view: View) -> bool:
        """Show a history; returns whether there was something new to draw."""
        new = (id(history), history.tables[self._kind].changes, history.last_step, view, self.size.width)
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
    first, end = view.steps(history)

    def row(name: str, table: Table, column: str, form: Callable[[float], str]) -> tuple[str, str, str]:
        value = table.at(column, end)
        return name, "–" if value is None else form(value), spark(table.sampled(column, (first, end), _SPARKS))

    memory = step.memory_mb if step else None
    return [
        row("learning rate", history.tables["step"], "lr", number),
        row("gradient norm", history.tables["step"], "grad_norm", number),
        row("satisfied", history.tables["angles"], "satisfied", lambda value: f"{100 * value:.0f} %"),
        row("sentences/s", history.tables["step"], "sentences_per_s", lambda value: f"{value:,.0f}"),
        ("epoch", f"{end / max(1, started.steps_per_epoch):.2f}", ""),
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
                styled((f" {name:<14}", "$text-muted"), f"{value:<8}", (drawn, "$text-primary"))
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
    return [
        Panel("loss", "step", loss, f"the loss and its parts, {logged}"),
        Panel("angles", "angles", angles, f"positive, negative and hardest negative angle, {logged}"),
        Panel("histogram", "angles", histogram, f"the angles of a batch, {logged}"),
        Panel("dev", "evaluated", dev, "the dev score, from the first evaluation on"),
        Panel(
            "plane", "evaluated", plane, "the path from start ○ to now ●, a point each evaluation; lower left is better"
        ),
        NumbersPanel(f"rates, memory and device, {logged}"),
        LogPanel(),
    ]
