"""Numbers over steps or time, and the line that draws them however many they are."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contrastcli.show.pictures import Range

Points = tuple[list[float], list[float]]
"""Places on an axis, and the values there; NaN where there is none."""


def outline(places: Sequence[float], values: Sequence[float], columns: int, smooth: float = 0.0) -> Points:
    """Values as a line so many columns wide, from the first to the last: all of them, or each column's extremes.

    With `smooth`, their running mean over about that share of the line.
    """
    columns = max(1, columns)
    if len(values) <= 4 * columns:
        return [float(place) for place in places], running_mean(values, smooth) if smooth else list(values)
    # The app's first frame has nothing to draw, and loads no numpy.
    import numpy as np

    every, starts = np.asarray(values), np.linspace(0, len(values), columns, endpoint=False, dtype=int)
    x = [float(places[n]) for n in np.linspace(0, len(values) - 1, columns, dtype=int)]
    if smooth:
        known = ~np.isnan(every)
        with np.errstate(all="ignore"):  # a column may have no value
            means = np.add.reduceat(np.where(known, every, 0), starts) / np.add.reduceat(known, starts, dtype=int)
        return x, running_mean(means.tolist(), smooth)
    ends = np.stack([np.fmin.reduceat(every, starts), np.fmax.reduceat(every, starts)], 1)
    # Every second column from its highest value to its lowest, so that the line does not go to and fro.
    ends[::2] = ends[::2, ::-1]
    return [place for place in x for _ in range(2)], ends.ravel().tolist()


def running_mean(values: Sequence[float], share: float) -> list[float]:
    """Means of the values so far, in which each counts the less the longer ago it is; gaps stay."""
    weight = max(0.0, 1 - 1 / max(1.0, share * len(values)))
    total = count = 0.0
    means = []
    for value in values:
        is_missing = math.isnan(value)
        if not is_missing:
            total, count = weight * total + value, weight * count + 1
        means.append(math.nan if is_missing else total / count)
    return means


@dataclass(frozen=True)
class Axis:
    """What charts have along x: its name, and how many of it a step is; `timed` if it is minutes of training."""

    name: str = "step"
    unit: float = 1.0
    timed: bool = False


STEPS = Axis()
AXES = (STEPS.name, "minutes", "sentences", "epoch")


class SeriesGroup:
    """Time series by their names, over the steps and the minutes at which they were measured."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.minutes = array("d")
        self.by_name: dict[str, array[float]] = {}
        """NaN is a missing number."""
        self.changes = 0  # grows with every change

    def add(self, step: int, values: Mapping[str, float | None], minutes: float = 0.0) -> None:
        """Add the values of a step; a series that is not named gets a gap."""
        for name in values:
            if name not in self.by_name:
                self.by_name[name] = array("d", [math.nan] * len(self.steps))
        self.steps.append(step)
        self.minutes.append(minutes)
        for name, series in self.by_name.items():
            series.append(math.nan if (value := values.get(name)) is None else value)
        self.changes += 1

    def cut(self, step: float) -> None:
        """Drop what was measured beyond a step."""
        length = bisect_right(self.steps, step)
        del self.steps[length:], self.minutes[length:]
        for series in self.by_name.values():
            del series[length:]
        self.changes += 1

    def count(self, x: float, axis: Axis = STEPS) -> int:
        """How many values each series has up to a place of an axis."""
        return bisect_right(self._places(axis), x / axis.unit * (1 + 1e-12))

    def _places(self, axis: Axis) -> "array[int] | array[float]":
        return self.minutes if axis.timed else self.steps

    def line(self, name: str, x_range: Range, columns: int, axis: Axis = STEPS, smooth: float = 0.0) -> Points:
        """A series over a range of an axis, as a line that is so many columns of a picture wide."""
        if name not in self.by_name:
            return [], []
        first, last = max(0, self.count(x_range[0], axis) - 1), self.count(x_range[1], axis)
        x, y = outline(self._places(axis)[first:last], self.by_name[name][first:last], columns, smooth)
        return [axis.unit * place for place in x], y

    def sampled(self, name: str, x_range: Range, count: int, axis: Axis = STEPS) -> list[float]:
        """Some values of a series, evenly spread over a range of an axis."""
        first, last = self.count(x_range[0], axis), self.count(x_range[1], axis) - 1
        if name not in self.by_name or last < first:
            return []
        return [self.by_name[name][first + (last - first) * n // max(1, count - 1)] for n in range(count)]

    def at(self, name: str, x: float, axis: Axis = STEPS) -> float | None:
        """A number as it was at a place of an axis, or last before it; None where there is none."""
        place = self.count(x, axis) - 1
        if place < 0 or name not in self.by_name:
            return None
        value = self.by_name[name][place]
        return None if math.isnan(value) else value

    def between(self, name: str, x: float, axis: Axis = STEPS) -> float | None:
        """A number at a place of an axis, on the straight line from the one before it to the next, as it is drawn."""
        here, after = self.at(name, x, axis), self.count(x, axis)
        if here is None or after == len(self.steps) or math.isnan(then := self.by_name[name][after]):
            return here
        begin, end = self._places(axis)[after - 1 : after + 1]
        return here + (then - here) * (x / axis.unit - begin) / (end - begin)

    def first(self, name: str, x: float, axis: Axis = STEPS) -> float | None:
        """The first number at a place of an axis or after it; None where there is none."""
        start = bisect_left(self._places(axis), x / axis.unit * (1 - 1e-12))
        values = self.by_name.get(name, ())
        return next((values[n] for n in range(start, len(values)) if not math.isnan(values[n])), None)

    def place(self, step: int, axis: Axis) -> float:
        """The place of an axis at which the last values up to a step were measured."""
        return axis.unit * (self.minutes[max(0, self.count(step) - 1)] if axis.timed else step)
