"""The panels of Live: what each makes of a run's history. They draw when told to, and only what has changed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from contrastcli.runs.events import HISTOGRAM_BINS, Angles, Step
from contrastcli.show.chart import Cells, Chart, Line, Mark, number, staircase
from contrastcli.tui.history import History, Table
from contrastcli.tui.widgets import HARDEST, NEGATIVE, POSITIVE, ChartView

SHARES = (1.0, 1 / 3, 0.1)
"""How much of the steps charts show: all, the last third, the last tenth."""
SHARE_WORDS = ("all steps", "the last third", "the last tenth")

_SPARK = "▁▂▃▄▅▆▇█"
_SPARKS = 8  # characters
_VALUE = -1  # ink of a number
_BINS = [180 / HISTOGRAM_BINS * n for n in range(HISTOGRAM_BINS + 1)]  # degrees


@dataclass(frozen=True)
class View:
    """How panels look at a history: `share` is an index of SHARES, `end` the last step shown, None the newest."""

    log: bool = False
    share: int = 0
    end: int | None = None

    def steps(self, history: History) -> tuple[float, float]:
        """The first and the last step that are shown."""
        end = float(history.last_step if self.end is None else self.end)
        return max(end * (1 - SHARES[self.share]), min(history.begin, end - 1)), max(end, 1.0)


def loss(history: History, view: View, columns: int) -> Chart:
    """Loss and its parts."""
    table = history.tables["step"]
    names = [name for name in table.columns if name not in Step.rates]
    lines = _lines(table, names, view.steps(history), columns)
    return Chart(lines, x_label="step", x_range=view.steps(history), log=view.log)


def angles(history: History, view: View, columns: int) -> Chart:
    """Mean positive, mean negative and hardest negative angle."""
    inks = {"positive": POSITIVE, "negative": NEGATIVE, "hardest": HARDEST}
    lines = _lines(history.tables["angles"], list(inks), view.steps(history), columns, list(inks.values()))
    return Chart(lines, x_label="step", x_range=view.steps(history))


def histogram(history: History, view: View, columns: int) -> Chart:
    """How the angles of one batch lie: the share of the positives and of the negatives in each 5°, in percent."""
    then = shown_angles(history, view)
    if then is None or not then.positive_histogram:
        return Chart()
    kinds = (("positive", then.positive_histogram, POSITIVE), ("negative", then.negative_histogram, NEGATIVE))
    lines = tuple(
        Line(name, *staircase(_BINS, [100 * count / max(1, sum(counts)) for count in counts]), ink)
        for name, counts, ink in kinds
    )
    return Chart(lines, x_label="degrees", x_range=(0, 180))


def dev(history: History, view: View, columns: int) -> Chart:
    """The dev score × 100 with the best marked."""
    steps = view.steps(history)
    x, y = history.tables["evaluated"].line("spearman", steps, columns)
    best = max((e for e in history.bests if e.step <= steps[1]), key=lambda e: e.step, default=None)
    marks = () if best is None or best.spearman is None else (Mark(best.step, 100 * best.spearman, "◆", POSITIVE),)
    return Chart((Line("", x, y),), marks, x_label="step", x_range=steps)


def plane(history: History, view: View, columns: int) -> Chart:
    """Alignment against uniformity, as the path from the start to now."""
    steps = (0.0, view.steps(history)[1])
    (_, x), (_, y) = (history.tables["evaluated"].line(name, steps, columns) for name in ("uniformity", "alignment"))
    points = [(u, a) for u, a in zip(x, y, strict=True) if math.isfinite(u) and math.isfinite(a)]
    if not points:
        return Chart()
    marks = (Mark(*points[0], "○", HARDEST), Mark(*points[-1], "●", POSITIVE))
    return Chart((Line("", x, y),), marks, x_label="uniformity")


def shown_angles(history: History, view: View) -> Angles | None:
    """The angles whose histogram is shown: the newest, or those at the end of the view."""
    if view.end is None:
        return history.newest
    row = bisect_right(history.histograms, view.end, key=lambda found: found.step) - 1
    return history.histograms[row] if row >= 0 else None


def _lines(
    table: Table, names: Sequence[str], steps: tuple[float, float], columns: int, inks: Sequence[int] = ()
) -> tuple[Line, ...]:
    lines = (Line(name, *table.line(name, steps, columns)) for name in names)
    return tuple(
        Line(line.name, line.x, line.y, ink) for line, ink in zip(lines, inks or [0] * len(names), strict=True)
    )


class Panel(ChartView, can_focus=True):
    """A chart of a history: it is drawn again only when the table that it shows has changed, or the view."""

    def __init__(
        self,
        id: str,
        title: str,
        waiting: str,
        table: str,
        make: Callable[[History, View, int], Chart],
    ) -> None:
        super().__init__(title, waiting, id=id)
        self._table, self._make = table, make
        self._shown: object = None

    def look(self, history: History, view: View) -> bool:
        """Show a history; returns whether there was something new to draw."""
        new = (id(history), history.tables[self._table].changes, history.last_step, view, self.size.width)
        if new == self._shown:
            return False
        self._shown = new
        self.show(self._make(history, view, 2 * self.size.width))
        self.prepare()
        return True


def facts(history: History, view: View) -> list[tuple[str, str, str]]:
    """The numbers beside the charts: a name, the value at the end of the view, and what may be drawn behind it."""
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


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


class Numbers(ChartView, can_focus=True):
    """Numbers that need no chart, and what a few of them did."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"numbers--value"}

    def __init__(self, id: str, title: str, waiting: str) -> None:
        super().__init__(title, waiting, id=id)
        self._facts: list[tuple[str, str, str]] = []

    def look(self, history: History, view: View) -> bool:
        """Show a history; returns whether there was something new to draw."""
        found = facts(history, view)
        if found == self._facts:
            return False
        self._facts, self._rows = found, None
        self.prepare()
        self.refresh()
        return True

    def _drawn(self, width: int, height: int) -> list[Cells]:
        if not self._facts:
            return super()._drawn(width, height)
        return [
            [(f" {name:<14}", 0), (f"{value:<8}" if drawn else _cut(value, width - 15), _VALUE), (drawn, 1)]
            for name, value, drawn in self._facts
        ]

    def _style(self, ink: int) -> Style:
        return self.get_component_rich_style("numbers--value") if ink == _VALUE else super()._style(ink)


class Log(ScrollView, can_focus=True):
    """What was said, the newest last; long lines go on below."""

    def __init__(self, id: str, title: str) -> None:
        super().__init__(id=id)
        self.border_title = title
        self._shown: object = None
        self._said: list[str] = []
        self._rows: list[str] = []

    def look(self, history: History, view: View) -> bool:
        """Show a history; returns whether there was something new to draw."""
        new = (id(history), history.logged)
        if new == self._shown:
            return False
        self._shown, self._said = new, list(history.log)
        self._lay_out()
        return True

    def on_mount(self) -> None:
        self.anchor()  # stays at the end until the user scrolls away from it

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Wrap the lines to the width."""
        width = max(20, self.scrollable_content_region.width - 1)
        self._rows = [row for line in self._said for row in _wrapped(line, width)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = round(self.scroll_y) + y
        text, style = f" {self._rows[row]}" if row < len(self._rows) else "", self.rich_style
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)


def _wrapped(line: str, width: int) -> list[str]:
    """A line of the log in rows, the later ones below its words."""
    return [line] if len(line) <= width else wrap(line, width, subsequent_indent=" " * 10)


def all_panels() -> list[Panel | Numbers | Log]:
    """The panels of the screen, in their order, each with the words that stand there until there is something."""
    return [
        Panel("loss", "Loss", "the loss and its parts, from the first logged step on", "step", loss),
        Panel(
            "angles",
            "Angles, degrees",
            "positives, negatives and the hardest negatives, from the first logged step on",
            "angles",
            angles,
        ),
        Panel(
            "histogram",
            "% of pairs by angle",
            "how the angles of a batch lie, from the first logged step on",
            "angles",
            histogram,
        ),
        Panel(
            "dev",
            "Dev score, Spearman × 100",
            "the dev score, at each evaluation",
            "evaluated",
            dev,
        ),
        Panel(
            "plane",
            "Alignment, uniformity",
            "a path from the start ○ to now ●, a point at each evaluation; lower left is better",
            "evaluated",
            plane,
        ),
        Numbers("numbers", "Numbers", "rates, memory and device, as soon as training begins"),
        Log("log", "Log"),
    ]
