"""The papers' pictures as data: what runs said while they trained, and what the geometry suite found of models.

angles-positive, angles-negative        mean angles over training                     SimACE Figures 4 and 7
histogram-positive, histogram-negative  angles at the end of training, or of a model  SimACE Figures 5 and 8
plane                                   alignment against uniformity                  SimACE Figures 3, 6 and 9
time                                    training time                                 SimACE Table 8
pca                                     sentences of several models in a plane        SimACE Figure 2
tsne                                    a clustering set, a colour a class            PairSupCon Figures 1b and 3

Each overlays several runs or models, but for the last. `draw` makes text, PNG and SVG of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contrastcli.runs.events import HISTOGRAM_BINS, Angles, Evaluated, Event, Started, Step

POSITIVE, NEGATIVE, HARDEST = 2, 3, 4
"""Inks of the three angles, the same in every picture."""

Form = Literal["lines", "path", "points", "histogram", "bars"]
"""Curves over x; ways through a plane; points in it; heights between edges; one value each."""

Events = Sequence[Event]
Place = Sequence[float]
"""x and y."""

EDGES = tuple(180.0 * n / HISTOGRAM_BINS for n in range(HISTOGRAM_BINS + 1))
"""Of the bins of a histogram, in degrees."""

_ANGLE, _SHARE = "angle in degrees", "% of pairs"
_LAST = 10
"""Logged batches that the histogram of a run sums: a batch alone has few positives."""


@dataclass(frozen=True)
class Series:
    """One run, model or class. A histogram has its edges in x, one more than heights in y; a bar has one y.

    `value` colours its points where the picture says what that is. `ink` is a colour by number, 0 the next one.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    value: float | None = None
    ink: int = 0


@dataclass(frozen=True)
class Picture:
    """What there is to draw. `name` is that of its files; `colours` says what the series' values are, if anything.

    Ranges that are not given are those of the data. `log` is for the y axis; `best` is a point to mark.
    """

    name: str
    title: str
    form: Form
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    colours: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log: bool = False
    best: tuple[float, float] | None = None

    def extent(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """From the least to the greatest x, and y; of histograms, where there is anything, and from 0."""
        if self.form == "histogram":
            bins = [(s.x[n : n + 2], share) for s in self.series for n, share in enumerate(s.y) if share]
            return _span(edge for pair, _ in bins for edge in pair), (0.0, max((share for _, share in bins), default=0))
        columns = ([series.x for series in self.series], [series.y for series in self.series])
        x, y = (_span(value for values in column for value in values) for column in columns)
        return x, y


def _span(values: Iterable[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    return min(finite), max(finite)


def of_runs(runs: Mapping[str, Events]) -> list[Picture]:
    """The pictures of training, from the events of runs by name. Those that no run has the events for are left out."""
    angles = {name: [event for event in events if isinstance(event, Angles)] for name, events in runs.items()}
    last = {name: found[-_LAST:] for name, found in angles.items()}
    recent = f"in the last {_LAST} logged batches"
    drawn = [
        _over_steps("positive", angles, lambda event: event.positive),
        _over_steps("negative", angles, lambda event: event.negative),
        _histograms("positive", recent, {name: [e.positive_histogram for e in some] for name, some in last.items()}),
        _histograms("negative", recent, {name: [e.negative_histogram for e in some] for name, some in last.items()}),
        _paths(runs),
        _times(runs),
    ]
    return [picture for picture in drawn if picture.series]


def of_models(suites: Mapping[str, Mapping[str, Any]]) -> list[Picture]:
    """The pictures of models, from the `suites` of each one's scores as `contrast eval --json` prints them.

    Models that were measured on different sets come into different pictures.
    """
    found = {name: scores.get("geometry", {}) for name, scores in suites.items()}
    averages = {name: scores.get("sts", {}).get("average") for name, scores in suites.items()}
    drawn: list[Picture] = []
    for task, models in _by_task(found, "pca").items():
        drawn += _of_set(task, models, averages)
    for task, models in _by_task(found, "tsne").items():
        drawn += [_classes(task, name, scores) for name, scores in models.items()]
    return [picture for picture in drawn if picture.series]


def of_geometry(tasks: Mapping[str, Any]) -> list[Picture]:
    """One model's angles, positive against random pairs, and its sentences in a plane, of the first set measured."""
    for name, task in tasks.items():
        if isinstance(task, Mapping) and task.get("positive_histogram"):
            counts = task["positive_histogram"], task["negative_histogram"]
            title = f"Sentences of {name} in a plane (PCA, {100 * sum(task['explained']):.0f} % of the variance)"
            return [
                angle_histogram(f"Angles of {name}, % of pairs", *counts, ("positive pairs", "random pairs")),
                Picture("pca", title, "points", "", "", _all_points({"": task["pca"]})),
            ]
    return []


def angle_histogram(
    title: str, positive: Sequence[int], negative: Sequence[int], kinds: tuple[str, str] = ("positive", "negative")
) -> Picture:
    """The angles of positive and of negative pairs over each other, from counts in the bins of EDGES."""
    series = (_shares(kinds[0], positive, POSITIVE), _shares(kinds[1], negative, NEGATIVE))
    return Picture("angles", title, "histogram", "degrees", _SHARE, series, x_range=(0.0, 180.0))


def of_sentences(models: Mapping[str, Sequence[Place]], source: str) -> Picture:
    """The same sentences under several models, points by name, each in the plane of its own PCA."""
    return _pca(source, models)


def labels(names: Sequence[str], longest: int | None = 40) -> dict[str, str]:
    """A label for each model or run: the end of its path, at most so many letters; equal ones are numbered."""
    ends = [Path(name).name or name for name in names]
    if longest:
        ends = [end[-longest:].lstrip("-") for end in ends]
    return {
        name: end if ends.count(end) == 1 else f"{end}-{number}"
        for number, (name, end) in enumerate(zip(names, ends, strict=True), 1)
    }


def training_seconds(events: Events) -> float:
    """Seconds that the steps took, from their logged rates: without loading, evaluating and saving."""
    seconds, sentences, before = 0.0, 0, 0
    for event in events:
        if isinstance(event, Started):
            sentences, before = event.sentences_per_step, event.resumed_from or 0
        elif isinstance(event, Step):
            seconds += (event.step - before) * sentences / event.sentences_per_s if event.sentences_per_s else 0.0
            before = event.step
    return seconds


def _over_steps(which: str, runs: Mapping[str, Sequence[Angles]], read: Callable[[Angles], float | None]) -> Picture:
    curves = {
        name: [(event.step, angle) for event in events if (angle := read(event)) is not None]
        for name, events in runs.items()
    }
    title = f"mean angle of {which} pairs in the batch over training"
    return Picture(f"angles-{which}", title, "lines", "step", _ANGLE, _all_points(curves))


def _paths(runs: Mapping[str, Events]) -> Picture:
    ways = {
        name: [
            (event.uniformity, event.alignment)
            for event in events
            if isinstance(event, Evaluated) and event.uniformity is not None and event.alignment is not None
        ]
        for name, events in runs.items()
    }
    title = "alignment against uniformity over training, from the open mark to the full one"
    return Picture("plane", title, "path", "uniformity", "alignment", _all_points(ways))


def _times(runs: Mapping[str, Events]) -> Picture:
    seconds = {name: training_seconds(events) for name, events in runs.items()}
    longest = max(seconds.values(), default=0.0)
    unit, size = ("hours", 3600) if longest >= 7200 else ("minutes", 60) if longest >= 120 else ("seconds", 1)
    bars = tuple(Series(name, (), (time / size,)) for name, time in seconds.items() if time)
    return Picture("time", "training time, without evaluating and saving", "bars", unit, "", bars)


def _histograms(which: str, where: str, counts: Mapping[str, Iterable[Sequence[int]]], suffix: str = "") -> Picture:
    """Sums of histograms in per cent of their pairs; models without any pair are left out."""
    sums = {name: [sum(bins) for bins in zip(*filter(None, some), strict=True)] for name, some in counts.items()}
    series = tuple(_shares(name, bins) for name, bins in sums.items() if any(bins))
    name = f"histogram-{which}{suffix}"
    return Picture(name, f"angles of {which} pairs {where}", "histogram", _ANGLE, _SHARE, series)


def _shares(name: str, counts: Sequence[int], ink: int = 0) -> Series:
    """A histogram in per cent of its pairs."""
    return Series(name, EDGES, tuple(100 * count / max(1, sum(counts)) for count in counts), ink=ink)


def _by_task(found: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, dict[str, Mapping[str, Any]]]:
    """What was measured by set and model, of the sets that have this."""
    sets: dict[str, dict[str, Mapping[str, Any]]] = {}
    for model, tasks in found.items():
        for name, task in tasks.items():
            if isinstance(task, dict) and key in task:
                sets.setdefault(name, {})[model] = task
    return sets


def _of_set(
    task: str, models: Mapping[str, Mapping[str, Any]], averages: Mapping[str, float | None]
) -> Iterator[Picture]:
    suffix = f"-{_file(task)}"
    yield _pca(task, {name: scores["pca"] for name, scores in models.items()})
    places = tuple(
        Series(name, (scores["uniformity"],), (scores["alignment"],), averages[name])
        for name, scores in models.items()
        if scores["uniformity"] is not None and scores["alignment"] is not None
    )
    colours = "STS average" if any(place.value is not None for place in places) else ""
    title = f"alignment against uniformity on {task}"
    yield Picture(f"plane{suffix}", title, "points", "uniformity", "alignment", places, colours)
    for which in ("positive", "negative"):
        counts = {name: [scores[f"{which}_histogram"]] for name, scores in models.items()}
        yield _histograms(which, f"of {task}", counts, suffix)


def _pca(source: str, models: Mapping[str, Sequence[Place]]) -> Picture:
    title = f"sentences of {source}, each model's unit vectors in the plane of their PCA"
    return Picture(f"pca-{_file(source)}", title, "points", "component 1", "component 2", _all_points(models))


def _classes(task: str, model: str, scores: Mapping[str, Any]) -> Picture:
    points: dict[str, list[Place]] = {}
    for label, point in sorted(zip(scores["labels"], scores["tsne"], strict=True)):
        points.setdefault(str(label), []).append(point)
    return Picture(
        f"tsne-{_file(task)}-{_file(model)}", f"t-SNE of {task}, {model}", "points", "", "", _all_points(points)
    )


def _all_points(points: Mapping[str, Sequence[Place]]) -> tuple[Series, ...]:
    """A series a name; those without points are left out."""
    return tuple(
        Series(name, tuple(float(x) for x, _ in some), tuple(float(y) for _, y in some))
        for name, some in points.items()
        if some
    )


def _file(name: str) -> str:
    """A name as part of a file's."""
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.").lower() or "model"
