"""The panels of Live: what each makes of a run's history. They draw only what has changed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from contrastcli.runs.measured import Step, System
from contrastcli.show.chart import number
from contrastcli.show.pictures import Picture, Series, angle_histogram
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.history.history import History, Metric
from contrastcli.tui.history.series import Axis, SeriesGroup
from contrastcli.tui.live.view import LiveView
from contrastcli.tui.widgets import PlainText, styled

_SPARK = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH = 8


def loss(history: History, view: LiveView, width: int) -> Picture:
    """The loss and its parts."""
    names = tuple(name for name in history.series["step"].by_name if name not in Step.rates)
    metric = Metric("Loss, logarithmic" if view.log else "Loss", "step", names)
    return replace(view.over_steps(metric, history, width), log=view.log)


def angles(history: History, view: LiveView, width: int) -> Picture:
    """Mean positive, mean negative and hardest negative angle."""
    return view.over_steps(Metric("Angles, degrees", "angles", ("positive", "negative", "hardest")), history, width)


def histogram(history: History, view: LiveView, width: int) -> Picture:
    """The angles of one batch, the newest or the last of the view: the share of its pairs in each 5°, in per cent."""
    batch = view.sample(history.histograms, history)
    if batch is None or not batch.positive_histogram:
        return Picture("angles", "% of pairs by angle", "histogram", "", "", ())
    return angle_histogram(f"% of pairs, step {batch.step:,}", batch.positive_histogram, batch.negative_histogram)


def dev(history: History, view: LiveView, width: int) -> Picture:
    """The dev score × 100 with the best marked, those of shorter embeddings, and the general score."""
    title = f"dev {history.evaluated.title if history.evaluated else 'score'}"
    shown = [name for name in history.series["evaluated"].by_name if name.startswith(("score", "general"))]
    names = tuple(shown) or ("score",)
    picture = view.over_steps(Metric(title, "evaluated", names), history, width)
    if (best := history.best) is None or best.score is None:
        return picture
    place = history.series["evaluated"].place(best.step, history.axis(view.axis))
    return replace(picture, best=(place, 100 * best.score))


def plane(history: History, view: LiveView, width: int) -> Picture:
    """Alignment against uniformity, as the path from the start to now."""
    until, axis = (0.0, math.inf if view.cursor is None else view.cursor), history.axis(view.axis)
    group = history.series["evaluated"]
    (_, x), (_, y) = (group.line(name, until, width, axis) for name in ("uniformity", "alignment"))
    return Picture("plane", "Alignment, uniformity", "path", "uniformity", "alignment", (Series("", x, y),))


class Panel(ChartView, can_focus=True):
    """A chart of a history, drawn again only after an event of the kind that it shows, or for another view."""

    def __init__(self, id: str, kind: str, make: Callable[[History, LiveView, int], Picture], waiting: str) -> None:
        super().__init__(waiting, make(History(), LiveView(), 1).title, id)
        self._kind, self._make = kind, make
        self._shown: object = None

    def show_history(self, history: History, view: LiveView) -> bool:
        """Show a history; returns whether there was something new to draw."""
        histories = [
            (id(one), one.series[self._kind].changes, one.last_step) for one in (history, view.baseline) if one
        ]
        new = (histories, view, self.size.width)
        if new == self._shown:
            return False
        self._shown = new
        self.show(self._make(history, view, 2 * self.size.width))
        self.prepare()
        return True


Reading = tuple[str, str, str]
"""A name, a value, and what is drawn behind it."""


def run_readings(history: History, view: LiveView) -> list[Reading]:
    """What Live shows as numbers: a name, the value at the end of the view, and what may be drawn behind it."""
    started, step = history.started, history.step
    if started is None:
        return []
    axis, (first, end) = history.axis(view.axis), view.x_range(history)
    end = end if view.cursor is None else view.cursor
    until = history.step_at(end, axis)

    def row(name: str, group: SeriesGroup, series: str, form: Callable[[float], str]) -> Reading:
        value, drawn = group.at(series, end, axis), spark(group.sampled(series, (first, end), _SPARK_WIDTH, axis))
        return name, "–" if value is None else form(value), drawn

    memory = step.memory_mb if step else None
    dims = history.histograms.newest.shorter if history.histograms.newest else ()
    return [
        row("learning rate", history.series["step"], "lr", number),
        row("gradient norm", history.series["step"], "grad_norm", number),
        row("batch accuracy", history.series["angles"], "satisfied", lambda value: f"{100 * value:.0f} %"),
        row("sentences/s", history.series["step"], "sentences_per_s", lambda value: f"{value:,.0f}"),
        ("dimensions", _dimensions(history, end, axis), ""),
        *(row(f"dev at {k}", history.series["evaluated"], f"score@{k}", number) for k in dims),
        *(row(f"hardest at {k}", history.series["angles"], f"hardest@{k}", "{:.1f}°".format) for k in dims),
        ("epoch", f"{until / max(1, started.steps_per_epoch):.2f}", ""),
        ("memory", "–" if memory is None else f"{memory:,.0f} MB", ""),
        *_takes(step.takes if step else {}),
        ("negatives", f"{started.negatives_per_anchor:,} per anchor", ""),
        ("batch", f"{started.batch_size:,} rows", ""),
        ("a step", f"{started.sentences_per_step:,} sentences", ""),
        ("device", f"{started.device} in {started.precision}", ""),
        ("objective", started.objective, ""),
        ("backbone", started.backbone, ""),
    ]


def _dimensions(history: History, end: float, axis: Axis) -> str:
    """How many dimensions the embeddings use, and the norm of their mean."""
    rank, mean = (history.series["evaluated"].at(name, end, axis) for name in ("rank", "mean_norm"))
    width = history.evaluated.width if history.evaluated else 0
    return "–" if rank is None or mean is None else f"{rank:.0f} of {width}; mean {mean:.2f}"


def _takes(seconds: Mapping[str, float]) -> list[Reading]:
    """What a step takes, and the shares of that, the largest first."""
    total = sum(seconds.values())
    shares = sorted(((spent / total, what) for what, spent in seconds.items() if spent >= total / 100), reverse=True)
    takes = ("a step takes", f"{1000 * total:,.0f} ms" if total < 1 else f"{total:,.1f} s", "")
    rows = [(f"  {what}", f"{100 * share:.0f} %", "━" * round(_SPARK_WIDTH * share)) for share, what in shares]
    return [takes, *rows] if total else []


def spark(values: Sequence[float]) -> str:
    """A line in a few characters."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2 or min(finite) == max(finite):
        return ""
    low, scale = min(finite), (len(_SPARK) - 1) / (max(finite) - min(finite))
    return "".join(_SPARK[round((value - low) * scale)] if math.isfinite(value) else " " for value in values)


def system_readings(history: History, view: LiveView) -> list[Reading]:
    """The machine that trains, as far as it tells."""
    group, axis, (first, end) = history.series["system"], history.axis(view.axis), view.x_range(history)
    end = end if view.cursor is None else view.cursor
    return [
        (name, System.in_unit(key, value), spark(group.sampled(key, (first, end), _SPARK_WIDTH, axis)))
        for key, (name, _) in System.units.items()
        if (value := group.at(key, end, axis)) is not None
    ]


class ReadingsPanel(PlainText, can_focus=True):
    """Numbers that need no chart, and how some of them have changed."""

    def __init__(self, id: str, title: str, make: Callable[[History, LiveView], list[Reading]], waiting: str) -> None:
        super().__init__(waiting, id=id, classes="numbers -waiting")
        self.border_title = title
        self._make, self._waiting = make, waiting
        self._shown: list[Reading] = []

    def show_history(self, history: History, view: LiveView) -> bool:
        numbers = self._make(history, view)
        if numbers == self._shown:
            return False
        self._shown = numbers
        self.set_class(not numbers, "-waiting")
        rows = Content("\n").join(
            styled((f" {name:<15}", "$text-muted"), f"{value:<8}", (drawn, "$text-primary"))
            for name, value, drawn in numbers
        )
        self.update(rows if numbers else self._waiting, layout=False)
        return True


def negatives(history: History, view: LiveView) -> tuple[str, list[str]]:
    """The hardest negatives of a batch: each anchor, its negative and its positive."""
    batch, lines = view.sample(history.negatives, history), []
    for one in batch.closest if batch else ():
        positive = "the anchor itself" if one.positive == one.anchor else one.positive
        lines += [
            f"{'':10}{one.anchor}",
            f"−{one.negative_deg:>6.1f}°{'▲' if one.negative_deg < one.positive_deg else ' '} {one.negative}",
            f"+{one.positive_deg:>6.1f}°  {positive}",
        ]
    return f"Hardest negatives{f', step {batch.step:,}' if batch else ''}", lines


def dev_pairs(history: History, view: LiveView) -> tuple[str, list[str]]:
    """The dev pairs whose ranks by cosine and by score differ most."""
    event, lines = view.sample(history.dev_pairs, history), []
    for pair in event.worst if event else ():
        wrong = "too close" if pair.cosine_rank < pair.score_rank else "too far"
        score = f"score {pair.score:.4g} (rank {pair.score_rank:,})"
        cosine = f"cosine {pair.cosine:.2f} (rank {pair.cosine_rank:,})"
        lines += [f"{wrong:<10}{score}, {cosine}", f"{'':10}{pair.first}", f"{'':10}{pair.second}"]
    return f"Worst dev pairs{f', step {event.step:,}' if event else ''}", lines


def log(history: History, view: LiveView) -> tuple[str, list[str]]:
    """What happened, the newest last."""
    return "Log", [*history.log]


class LinesPanel(ScrollView, can_focus=True):
    """Lines, of which the long ones are wrapped; `follows` keeps the last one in sight until the user scrolls."""

    def __init__(
        self,
        id: str,
        make: Callable[[History, LiveView], tuple[str, list[str]]],
        waiting: str = "",
        legend: str = "",
        *,
        follows: bool = False,
    ) -> None:
        super().__init__(id=id, classes="lines")
        self.border_title, self.border_subtitle = make(History(), LiveView())[0], legend
        self._make, self._waiting, self._follows = make, waiting, follows
        self._lines: list[str] = []
        self._rows: list[str] = []

    def show_history(self, history: History, view: LiveView) -> bool:
        title, lines = self._make(history, view)
        lines = lines or [self._waiting]
        if (title, lines) == (self.border_title, self._lines):
            return False
        self.border_title, self._lines = title, lines
        self._lay_out()
        return True

    def on_mount(self) -> None:
        if self._follows:
            self.anchor()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Wrap the lines to the width, with the continued rows indented."""
        width = max(20, self.scrollable_content_region.width - 1)
        self._rows = [
            row
            for line in self._lines
            for row in ([line] if len(line) <= width else wrap(line, width, subsequent_indent=" " * 10))
        ]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = round(self.scroll_y) + y
        text, style = f" {self._rows[row]}" if row < len(self._rows) else "", self.rich_style
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)


AnyPanel = Panel | ReadingsPanel | LinesPanel


def all_panels() -> list[AnyPanel]:
    """The panels in their order, each with what it shows while there is nothing to draw."""
    logged = "from the first logged step on"
    legend = "− negative  + positive  ▲ closer than the positive"
    path = "the path from start ○ to now ●, a point each evaluation; lower left is better"
    return [
        Panel("loss", "step", loss, f"the loss and its parts, {logged}"),
        Panel("angles", "angles", angles, f"positive, negative and hardest negative angle, {logged}"),
        Panel("dev", "evaluated", dev, "the dev score, from the first evaluation on, where there is a dev set"),
        ReadingsPanel("numbers", "Numbers", run_readings, f"rates, memory and device, {logged}"),
        Panel("histogram", "angles", histogram, f"the angles of a batch, {logged}"),
        Panel("plane", "evaluated", plane, path),
        ReadingsPanel("system", "System", system_readings, "GPU, CPU, memory and disk, a few seconds after the start"),
        LinesPanel("negatives", negatives, f"anchors with their closest negatives, {logged}", legend),
        LinesPanel("dev-pairs", dev_pairs, "the pairs that the model ranks worst, from the first evaluation on"),
        LinesPanel("log", log, "evaluations, checkpoints and notes", follows=True),
    ]
