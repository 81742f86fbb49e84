"""The panels of Live: what each makes of a run's history. They draw only what has changed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from textual.content import Content

from contrastcli.runs.measured import Probed, Step, System
from contrastcli.runs.text import fixed
from contrastcli.show.axes import number
from contrastcli.show.pictures import EDGES, Band, Heat, Picture, Series, angle_histogram
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.history.history import Metric
from contrastcli.tui.live.lines import LinesPanel, NegativesPanel, spark
from contrastcli.tui.live.view import LiveView
from contrastcli.tui.widgets import PlainText, styled

_SPARK_WIDTH = 8


def loss(view: LiveView, width: int) -> Picture:
    """The loss and its parts."""
    names = tuple(name for name in view.history.series["step"].by_name if name not in Step.rates)
    metric = Metric("Loss, logarithmic" if view.log else "Loss", "step", names)
    return replace(view.over_steps(metric, width), log=view.log)


def angles(view: LiveView, width: int) -> Picture:
    """Mean positive, mean negative and hardest negative angle, and the gap between the first and the last."""
    group = view.history.series["angles"]
    margin = ("with_margin",) if "with_margin" in group.by_name else ()
    metric = Metric("Angles", "angles", ("positive", "negative", "hardest", *margin))
    picture = replace(view.over_steps(metric, width), y_unit="°")
    positive, _, hardest, *with_margin = picture.series[: len(metric.names)]
    limit = with_margin[0] if with_margin else positive
    named = [replace(one, name="positive + m") if one in with_margin else one for one in picture.series]
    satisfied, given, effective = (view.value("angles", n) for n in ("satisfied", "negatives", "effective"))
    title = "Angles" if satisfied is None else f"Angles · {100 * (1 - satisfied):.0f} % violated"
    pull = "" if effective is None else f", {effective:,.0f} that pull"
    return replace(
        picture,
        title=title,
        note="" if given is None else f"{given:,.0f} negatives given{pull}",
        series=tuple(named),
        band=Band(positive.x, positive.y, hardest.y, limit.y) if positive.x else None,
    )


def histogram(view: LiveView, width: int) -> Picture:
    """The angles over steps as a heat map, or those of one batch: the newest, or that at the cursor."""
    if not view.one_batch:
        return waterfall(view, width // 2)
    batch = view.sample(view.history.histograms)
    if batch is None:
        return Picture("angles", "% of pairs by angle", "histogram", "", "", ())
    title = f"% of pairs, step {batch.step:,}"
    return replace(angle_histogram(title, batch.positive_histogram, batch.negative_histogram), note="w all steps")


def waterfall(view: LiveView, columns: int) -> Picture:
    """How many pairs have which angle, over what is shown of the x axis."""
    (first, last), axis, group = view.x_range, view.x_axis, view.history.series["angles"]
    counts: list[tuple[list[int], list[int]]] = [([], []) for _ in range(columns)]
    for batch in view.history.histograms.kept:
        column = math.floor((group.place(batch.step, axis) - first) / (last - first) * columns)
        if 0 <= column <= columns:
            kinds = counts[min(column, columns - 1)]
            for kind, more in zip(kinds, (batch.positive_histogram, batch.negative_histogram), strict=True):
                kind[:] = map(sum, zip(kind or [0] * len(more), more, strict=True))
    begun = next((both for both in counts if both[0]), None)
    for n, both in enumerate(counts):
        counts[n] = begun = both if both[0] else begun or both
    heat = Heat(EDGES, counts) if begun and begun[0] else None
    names = (Series("positive", (), ()), Series("negative", (), ()))
    shown = Picture("angles", "Pairs by angle", "heat", axis.name, "", names, x_range=(first, last), y_unit="°")
    return replace(shown, heat=heat, note="w one batch")


def dev(view: LiveView, width: int) -> Picture:
    """The dev score × 100 with the best marked, those of shorter embeddings, and the general score.

    A baseline that was measured on another set, or by another metric, is left out.
    """
    history = view.history
    name = history.evaluated.title if history.evaluated else "score"
    other, note = view.baseline.evaluated if view.baseline else None, ""
    if other and other.title != name:
        view, note = replace(view, baseline=None), f"the baseline has {other.title}" if history.evaluated else ""
    shown = [name for name in history.series["evaluated"].by_name if name.startswith(("score", "general"))]
    names = tuple(shown) or ("score",)
    picture = replace(view.over_steps(Metric(f"dev {name}", "evaluated", names), width), note=note)
    if (best := history.best) is None or best.score is None:
        return picture
    place = history.series["evaluated"].place(best.step, view.x_axis)
    return replace(picture, best=(place, 100 * best.score))


def probes(view: LiveView, width: int) -> Picture:
    """The angle of each probe, with what it was at first."""
    group, axis, (first, _) = view.history.series["probed"], view.x_axis, view.x_range
    metric = Metric("Probes", "probed", tuple(group.by_name))
    picture, letters = view.over_steps(metric, width), max(6, width // 4 - 12)
    named = []
    for name, one in zip(metric.names, picture.series, strict=False):
        before, now = group.first(name, first, axis), view.value("probed", name)
        angles = f"{fixed(before, 1)}° → {fixed(now, 1)}°"
        named.append(replace(one, name=Probed.short(name, letters), readings=(angles, f"{fixed(now, 0)}°")))
    return replace(picture, title=metric.title, y_unit="°", series=(*named, *picture.series[len(named) :]))


def plane(view: LiveView, width: int) -> Picture:
    """Alignment against uniformity, as the path from the start to now."""
    # From before the first step, at which the path may begin.
    until, group = (-1.0, math.inf if view.cursor is None else view.cursor), view.history.series["evaluated"]
    x, y = (group.sampled(name, until, width, view.x_axis) for name in ("uniformity", "alignment"))
    path = (Series("", x, y),)
    return Picture(
        "plane", "Alignment, uniformity", "path", "uniformity", "alignment", path, note="○ start  ● now  ↙ is better"
    )


class Panel(ChartView, can_focus=True):
    """A chart of a history, drawn again only after an event of the kind that it shows, or for another view."""

    def __init__(self, id: str, kind: str, make: Callable[[LiveView, int], Picture], waiting: str) -> None:
        super().__init__(waiting, make(LiveView(), 1).title, id)
        self._kind, self._make = kind, make
        self._shown: object = None

    def show_view(self, view: LiveView) -> bool:
        """Show a history; returns whether there was something new to draw."""
        histories = [
            (id(one), one.series[self._kind].changes, one.last_step) for one in (view.history, view.baseline) if one
        ]
        new = (histories, view, self.size.width)
        if new == self._shown:
            return False
        self._shown = new
        self.show(self._make(view, 2 * self.size.width))
        self.prepare()
        return True


class Reading(NamedTuple):
    """A name, a number with its unit or a few words, and what is drawn behind them."""

    name: str
    value: str
    unit: str = ""
    drawn: str = ""


def run_readings(view: LiveView) -> list[Reading]:
    """What Live shows as numbers, as of the end of the view."""
    history, started = view.history, view.history.started
    if started is None:
        return []
    # Of earlier steps neither the memory nor what they took is kept.
    step = history.step if view.cursor is None else None

    def row(name: str, kind: str, series: str, form: Callable[[float], str], unit: str = "") -> Reading:
        value = view.value(kind, series)
        return Reading(name, "–" if value is None else form(value), unit, _spark(view, kind, series))

    dims = history.histograms.newest.shorter if history.histograms.newest else ()
    evaluated, rank, mean = history.evaluated, view.value("evaluated", "rank"), view.value("evaluated", "mean_norm")
    spread = ("–", "")
    if evaluated and rank is not None and mean is not None:
        spread = (f"{rank:.0f}/{evaluated.width}", f"mean {mean:.2f}")
    return [
        row("learning rate", "step", "lr", number),
        row("gradient norm", "step", "grad_norm", number),
        row("batch accuracy", "angles", "satisfied", lambda share: f"{100 * share:.0f}", "%"),
        row("sentences", "step", "sentences_per_s", "{:,.0f}".format, "/s"),
        Reading("dimensions", *spread),
        *(row(f"dev at {k}", "evaluated", f"score@{k}", number) for k in dims),
        *(row(f"hardest at {k}", "angles", f"hardest@{k}", "{:.1f}".format, "°") for k in dims),
        Reading("epoch", f"{view.step / max(1, started.steps_per_epoch):.2f}"),
        Reading("memory", "–" if step is None or step.memory_mb is None else f"{step.memory_mb:,.0f}", "MB"),
        *_takes(step.takes if step else {}),
        Reading("negatives", f"{started.negatives_per_anchor:,}", "per anchor"),
        Reading("batch", f"{started.batch_size:,}", "rows"),
        Reading("a step", f"{started.sentences_per_step:,}", "sentences"),
        Reading("device", started.device, f"in {started.precision}"),
        Reading("objective", "", started.objective),
        Reading("backbone", "", started.backbone),
    ]


def _takes(seconds: Mapping[str, float]) -> list[Reading]:
    """What a step takes, and the shares of that, the largest first."""
    total = sum(seconds.values())
    shares = sorted(((spent / total, what) for what, spent in seconds.items() if spent >= total / 100), reverse=True)
    takes = (f"{1000 * total:,.0f}", "ms") if total < 1 else (f"{total:,.1f}", "s")
    rows = [Reading(f"  {what}", f"{100 * one:.0f}", "%", "━" * round(_SPARK_WIDTH * one)) for one, what in shares]
    return [Reading("a step takes", *takes), *rows] if total else []


def system_readings(view: LiveView) -> list[Reading]:
    """The machine that trains, as far as it tells."""
    return [
        Reading(name, System.rounded(value), unit, _spark(view, "system", key))
        for key, (name, unit) in System.units.items()
        if (value := view.value("system", key)) is not None
    ]


def _spark(view: LiveView, kind: str, name: str) -> str:
    """How a number of a kind of event has changed over what is shown."""
    return spark(view.history.series[kind].sampled(name, view.x_range, _SPARK_WIDTH, view.x_axis))


class ReadingsPanel(PlainText, can_focus=True):
    """Numbers that need no chart, and how some of them have changed."""

    def __init__(self, id: str, title: str, make: Callable[[LiveView], list[Reading]], waiting: str) -> None:
        super().__init__(waiting, id=id, classes="numbers -waiting")
        self.border_title = title
        self._make, self._waiting = make, waiting
        self._shown: list[Reading] = []

    def show_view(self, view: LiveView) -> bool:
        numbers = self._make(view)
        if numbers == self._shown:
            return False
        self._shown = numbers
        self.set_class(not numbers, "-waiting")
        rows = Content("\n").join(
            styled(
                (f" {n.name:<15}", "$foreground-muted"),
                f"{n.value:>8} ",
                (f"{n.unit:<3}", "$foreground-muted"),
                (n.drawn, "$text-primary"),
            )
            for n in numbers
        )
        self.update(rows if numbers else self._waiting, layout=False)
        return True


def negatives(view: LiveView) -> tuple[str, list[str]]:
    """The hardest negatives of a batch: each anchor, its negative and its positive."""
    batch, lines = view.sample(view.history.negatives), []
    for one in batch.closest if batch else ():
        positive = "the anchor itself" if one.positive == one.anchor else one.positive
        lines += [
            f"{'':10}{one.anchor}",
            f"−{one.negative_deg:>6.1f}°{'▲' if one.negative_deg < one.positive_deg else ' '} {one.negative}",
            f"+{one.positive_deg:>6.1f}°  {positive}",
        ]
    return f"Hardest negatives{f', step {batch.step:,}' if batch else ''}", lines


def dev_pairs(view: LiveView) -> tuple[str, list[str]]:
    """The dev pairs whose ranks by cosine and by score differ most."""
    event, lines = view.sample(view.history.dev_pairs), []
    for pair in event.worst if event else ():
        wrong = "too close" if pair.cosine_rank < pair.score_rank else "too far"
        score = f"score {pair.score:.4g} (rank {pair.score_rank:,})"
        cosine = f"cosine {pair.cosine:.2f} (rank {pair.cosine_rank:,})"
        lines += [f"{wrong:<10}{score}, {cosine}", f"{'':10}{pair.first}", f"{'':10}{pair.second}"]
    return f"Worst dev pairs{f', step {event.step:,}' if event else ''}", lines


def log(view: LiveView) -> tuple[str, list[str]]:
    """What happened, the newest last."""
    return "Log", [*view.history.log]


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
        NegativesPanel("negatives", negatives, f"anchors with their closest negatives, {logged}", legend),
        LinesPanel("dev-pairs", dev_pairs, "the pairs that the model ranks worst, from the first evaluation on"),
        LinesPanel("log", log, "evaluations, checkpoints and notes", follows=True),
        Panel("probes", "probed", probes, "the angles of the pairs in dev.probes, a point each evaluation"),
    ]
