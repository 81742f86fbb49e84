"""The papers' pictures as data: what runs reported while they trained, and what the suite geometry measured.

Each but t-SNE's overlays several runs or models. `chart` draws them as text, `plots` as PNG and SVG.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import asdict

from contrastcli.runs.event import Event
from contrastcli.runs.events import training_seconds
from contrastcli.runs.measured import HISTOGRAM_BINS, Angles, Evaluated
from contrastcli.runs.results import ScoreName
from contrastcli.settings.similarity import SIMILARITIES
from contrastcli.show.curve import ANGLES, curve

GREY, POSITIVE, NEGATIVE, HARDEST = -1, 2, 3, 4
"""Inks of what is compared with, and of the three angles, the same in every picture."""

PlotKind = Literal["lines", "path", "points", "histogram", "bars", "heat"]
"""Curves over x; paths through a plane; points in it; heights between edges; one value each; shares over a plane."""

Events = Sequence[Event]
Range = tuple[float, float]
Point = Sequence[float | None]
"""x and y."""

EDGES = tuple(180.0 * n / HISTOGRAM_BINS for n in range(HISTOGRAM_BINS + 1))
"""Of the bins of a histogram, in degrees."""

_ANGLE, _SHARE = "angle in degrees", "% of pairs"
_LAST = 10
"""Logged batches that the histogram of a run sums: a batch alone has few positives."""


@dataclass(frozen=True)
class Series:
    """One run, model or class. A histogram has its edges in x, one more than heights in y; a bar has one y.

    `value` colours its points where the picture says what that is. `ink` is a colour by number, 0 the next one, and
    GREY that of axes. `readings` say what one wants to know of it, the longest first: a legend takes one that fits.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    value: float | None = None
    ink: int = 0
    readings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Band:
    """The area between two curves over x; where the second is below the limit, what is missing to that."""

    x: Sequence[float]
    first: Sequence[float]
    second: Sequence[float]
    limit: Sequence[float]


@dataclass(frozen=True)
class Heat:
    """How often positives and negatives lie in each bin between `edges` of y, for places of x at equal distances."""

    edges: Sequence[float]
    counts: Sequence[tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True)
class Picture:
    """Series to draw. `name` is that of its files; `colours` says what the series' values are, if anything.

    Ranges that are None are those of the data. `log` is for the y axis, `y_unit` of its ticks; `best` is a point to
    mark, `cursor` an x; a `note` stands below. Behind lines there may be a `band`. Of `heat` the series are the names.
    """

    name: str
    title: str
    kind: PlotKind
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    colours: str = ""
    x_range: Range | None = None
    y_range: Range | None = None
    log: bool = False
    y_unit: str = ""
    best: tuple[float, float] | None = None
    cursor: float | None = None
    note: str = ""
    band: Band | None = None
    heat: Heat | None = None

    @property
    def empty(self) -> bool:
        """Whether there is no point to show."""
        return self.heat is None and not any(math.isfinite(y) for series in self.series for y in series.y)

    def occupied(self) -> Range:
        """From the first to the last edge of a histogram's bins that are not empty; 0 to 1 if all are."""
        edges = [edge for s in self.series for n, share in enumerate(s.y) if share for edge in s.x[n : n + 2]]
        return (min(edges), max(edges)) if edges else (0.0, 1.0)


def of_runs(runs: Mapping[str, Events]) -> list[Picture]:
    """The pictures of training, from the events of runs by name. Those that no run has the events for are left out.

    Angles and alignment against uniformity over training, angles at the end, time: SimACE Figures 3-9 and Table 8.
    """
    angles = {name: [asdict(event) for event in events if isinstance(event, Angles)] for name, events in runs.items()}
    drawn = []
    for which in ("positive", "negative"):
        points = {name: [(event["step"], event[which]) for event in events] for name, events in angles.items()}
        title = f"mean angle of {which} pairs in the batch over training"
        drawn.append(Picture(f"angles-{which}", title, "lines", "step", _ANGLE, _series(points)))
    for which in ("positive", "negative"):
        counts = {name: [event[f"{which}_histogram"] for event in events[-_LAST:]] for name, events in angles.items()}
        drawn.append(_histograms(which, f"in the last logged batches, at most {_LAST}", counts))
    dev = {name: [event for event in events if isinstance(event, Evaluated)] for name, events in runs.items()}
    path = {name: [(event.uniformity, event.alignment) for event in events] for name, events in dev.items()}
    drawn.append(_plane("plane", "over training, from the open mark to the full one", "path", _series(path)))
    seconds = {name: training_seconds(reversed(events)) for name, events in runs.items()}
    longest = max(seconds.values(), default=0.0)
    unit, size = ("hours", 3600) if longest >= 7200 else ("minutes", 60) if longest >= 120 else ("seconds", 1)
    bars = tuple(Series(name, (), (time / size,)) for name, time in seconds.items() if time)
    drawn.append(Picture("time", "training time, without evaluating and saving", "bars", unit, "", bars))
    return [picture for picture in drawn if picture.series]


def of_models(suites: Mapping[str, Mapping[str, Any]]) -> list[Picture]:
    """The pictures of models, from the `suites` of each one's scores as `contrast eval --json` prints them.

    PCA, alignment against uniformity, angles (SimACE Figures 2-9), t-SNE of clustering sets (PairSupCon Figures 1b and
    3). Models that were measured on different sets are in different pictures.
    """
    averages = {model: scores.get("sts", {}).get("average") for model, scores in suites.items()}
    drawn: list[Picture] = []
    for task, models in _by_task(suites, "pca").items():
        places = _series({name: [(scores["uniformity"], scores["alignment"])] for name, scores in models.items()})
        places = tuple(replace(place, value=averages[place.name]) for place in places)
        colours = "STS average" if any(place.value is not None for place in places) else ""
        set_name = _file(task)
        drawn += [
            of_sentences({name: scores["pca"] for name, scores in models.items()}, task),
            replace(_plane(f"plane-{set_name}", f"on {task}", "points", places), colours=colours),
        ]
        for which in ("positive", "negative"):
            counts = {name: [scores[f"{which}_histogram"]] for name, scores in models.items()}
            drawn.append(_histograms(which, f"of {task}", counts, f"-{set_name}"))
    for task, models in _by_task(suites, "tsne").items():
        for model, scores in models.items():
            classes: dict[str, list[Point]] = {}
            for label, point in sorted(zip(scores["labels"], scores["tsne"], strict=True)):
                classes.setdefault(str(label), []).append(point)
            name, title = f"tsne-{_file(task)}-{_file(model)}", f"t-SNE of {task}, {model}"
            drawn.append(Picture(name, title, "points", "", "", _series(classes)))
    return [picture for picture in drawn if picture.series]


def _by_task(suites: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The scores of the suite geometry that have this key, by set and model."""
    sets: dict[str, dict[str, Mapping[str, Any]]] = {}
    for model, scores in suites.items():
        for name, task in scores.get("geometry", {}).items():
            if isinstance(task, Mapping) and key in task:
                sets.setdefault(name, {})[model] = task
    return sets


def of_scores(suite: str, models: Mapping[str, Mapping[ScoreName, float]]) -> Picture:
    """The headline of each task of a suite, a bar for each model: PairSupCon Figures 1a and 3."""
    names = dict.fromkeys(name for scores in models.values() for name in scores if name.suite == suite)
    bars = [
        Series(f"{name.task}, {model}", (), (scores[name],), ink=ink)
        for name in names
        for ink, (model, scores) in enumerate(models.items(), 1)
        if name in scores
    ]
    return Picture("scores", f"scores of {suite}", "bars", "", "", tuple(bars))


def of_slopes(similarities: Sequence[str]) -> Picture:
    """How steeply similarities change with the cosine, over the angle: SimACE Figure 1b."""
    angles = [angle for angle in ANGLES if 5 <= angle <= 175]  # unbounded at the ends
    series = [Series(name, angles, curve(SIMILARITIES[name], 0.0, 1.0, angles).by_cosine) for name in similarities]
    return Picture("slope", "slope of similarities by the cosine", "lines", _ANGLE, "|ds / dcos|", tuple(series))


def of_geometry(tasks: Mapping[str, Any]) -> list[Picture]:
    """One model's angles, positive against random pairs, and its sentences in a plane, of the first set measured."""
    for name, task in tasks.items():
        if isinstance(task, Mapping) and task.get("positive_histogram"):
            counts = task["positive_histogram"], task["negative_histogram"]
            title = f"Sentences of {name} in a plane (PCA, {100 * sum(task['explained']):.0f} % of the variance)"
            return [
                angle_histogram(f"Angles of {name}, % of pairs", *counts, ("positive pairs", "random pairs")),
                Picture("pca", title, "points", "", "", _series({"": task["pca"]})),
            ]
    return []


def of_sentences(models: Mapping[str, Sequence[Point]], source: str) -> Picture:
    """The same sentences under several models, the points by model, each in the plane of its PCA."""
    title = f"sentences of {source}, each model's unit vectors in the plane of their PCA"
    return Picture(f"pca-{_file(source)}", title, "points", "component 1", "component 2", _series(models))


def angle_histogram(
    title: str, positive: Sequence[int], negative: Sequence[int], kinds: tuple[str, str] = ("positive", "negative")
) -> Picture:
    """The angles of positive and of negative pairs over each other, from counts in the bins of EDGES."""
    series = (_shares(kinds[0], positive, POSITIVE), _shares(kinds[1], negative, NEGATIVE))
    return Picture("angles", title, "histogram", "degrees", _SHARE, series, y_unit="%")


def labels(names: Sequence[str], longest: int | None = 40) -> dict[str, str]:
    """A label for each model or run: the end of its path, at most `longest` characters; numbered if two are equal."""
    ends = [Path(name).name or name for name in names]
    if longest:
        ends = [end[-longest:].lstrip("-") for end in ends]
    if len(set(ends)) < len(ends):
        ends = [f"{end}-{number}" for number, end in enumerate(ends, 1)]
    return dict(zip(names, ends, strict=True))


def _plane(name: str, title: str, kind: PlotKind, series: tuple[Series, ...]) -> Picture:
    return Picture(name, f"alignment against uniformity {title}", kind, "uniformity", "alignment", series)


def _histograms(which: str, where: str, counts: Mapping[str, Iterable[Sequence[int]]], suffix: str = "") -> Picture:
    """Sums of histograms in per cent of their pairs; models without any pair are left out."""
    sums = {name: [sum(bins) for bins in zip(*filter(None, some), strict=True)] for name, some in counts.items()}
    series = tuple(_shares(name, bins) for name, bins in sums.items() if any(bins))
    name = f"histogram-{which}{suffix}"
    return Picture(name, f"angles of {which} pairs {where}", "histogram", _ANGLE, _SHARE, series)


def _shares(name: str, counts: Sequence[int], ink: int = 0) -> Series:
    return Series(name, EDGES, tuple(100 * count / max(1, sum(counts)) for count in counts), ink=ink)


def _series(points: Mapping[str, Iterable[Point]]) -> tuple[Series, ...]:
    """A series for each name that has points; a point that lacks x or y is left out."""
    known = {
        name: [(float(x), float(y)) for x, y in some if x is not None and y is not None]
        for name, some in points.items()
    }
    return tuple(
        Series(name, tuple(x for x, _ in some), tuple(y for _, y in some)) for name, some in known.items() if some
    )


def _file(name: str) -> str:
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.").lower() or "model"
