"""Numbers over steps or time, which keep their extremes and means however long they are.

Plain arrays are quick enough for four redraws a second, and importing numpy would delay the app's first frame.
"""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from contrastcli.show.pictures import Range

Points = tuple[list[float], list[float]]
"""Places on an axis, and the values there; NaN where there is none."""

_BLOCK = 16  # values below one of a level


class TimeSeries:
    """Numbers in their order, with the extremes and means of every 16, 256, 4096 … of them. NaN is a missing one."""

    def __init__(self, missing: int = 0) -> None:
        self.values = array("d")
        # Lowest, highest and mean: of each value, of each block, of each block of blocks …
        self._levels = [(self.values, self.values, self.values)]
        for _ in range(missing):
            self.append(None)

    def append(self, value: float | None) -> None:
        """Add a number, and the extremes of the blocks that it completes."""
        self.values.append(math.nan if value is None else value)
        count, level = len(self.values), 0
        while not count % _BLOCK:
            lows, highs, means = (values[-_BLOCK:] for values in self._levels[level])
            count, level = count // _BLOCK, level + 1
            if level == len(self._levels):
                self._levels.append((array("d"), array("d"), array("d")))
            for values, of_block in zip(self._levels[level], (*extremes(lows, highs), mean(means)), strict=True):
                values.append(of_block)

    def cut(self, length: int) -> None:
        for level, arrays in enumerate(self._levels):
            for values in arrays:
                del values[length // _BLOCK**level :]

    def outline(self, places: Sequence[float], first: int, last: int, columns: int, smooth: float = 0.0) -> Points:
        """The values in first..last-1 as a line so many columns wide: all of them, or each column's extremes.

        With `smooth`, their running mean over about that share of the line.
        """
        count, columns = last - first, max(1, columns)
        if count <= 4 * columns:
            values = list(self.values[first:last])
            return [float(place) for place in places[first:last]], running_mean(values, smooth) if smooth else values
        level = max(n for n in range(len(self._levels)) if n == 0 or count // _BLOCK**n >= columns)
        lows, highs, means = self._levels[level]
        size = _BLOCK**level
        first_block, end = first // size, last // size
        edges = [first_block + (end - first_block) * n // columns for n in range(columns + 1)]
        spans = [(places[a * size], lows[a:b], highs[a:b], means[a:b]) for a, b in pairwise(edges)]
        if rest := self.values[end * size : last]:  # of a block not yet full
            spans.append((places[last - 1], rest, rest, rest))
        if smooth:
            return [float(place) for place, *_ in spans], running_mean([mean(values) for *_, values in spans], smooth)
        ends = [extremes(lows, highs) for _, lows, highs, _ in spans]
        x = [float(place) for place, *_ in spans for _ in range(2)]
        return x, [value for n, (low, high) in enumerate(ends) for value in ((low, high) if n % 2 else (high, low))]


def extremes(lows: "array[float]", highs: "array[float]") -> tuple[float, float]:
    """The lowest and the highest number; NaN where there is none."""
    if math.isnan(sum(lows)):
        lows, highs = (array("d", (value for value in values if not math.isnan(value))) for values in (lows, highs))
    return (min(lows), max(highs)) if lows else (math.nan, math.nan)


def mean(values: Sequence[float]) -> float:
    """The mean of the numbers that are not missing; NaN where all are."""
    numbers = [value for value in values if not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan


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
        self.by_name: dict[str, TimeSeries] = {}
        self.changes = 0  # grows with every change

    def add(self, step: int, values: Mapping[str, float | None], minutes: float = 0.0) -> None:
        """Add the values of a step; a series that is not named gets a gap."""
        for name in values:
            if name not in self.by_name:
                self.by_name[name] = TimeSeries(missing=len(self.steps))
        self.steps.append(step)
        self.minutes.append(minutes)
        for name, series in self.by_name.items():
            series.append(values.get(name))
        self.changes += 1

    def cut(self, step: float) -> None:
        """Drop what was measured beyond a step."""
        length = bisect_right(self.steps, step)
        del self.steps[length:], self.minutes[length:]
        for series in self.by_name.values():
            series.cut(length)
        self.changes += 1

    def count(self, x: float, axis: Axis = STEPS) -> int:
        """How many values each series has up to a place of an axis."""
        return bisect_right(self.minutes if axis.timed else self.steps, x / axis.unit * (1 + 1e-12))

    def line(self, name: str, x_range: Range, columns: int, axis: Axis = STEPS, smooth: float = 0.0) -> Points:
        """A series over a range of an axis, as a line that is so many columns of a picture wide."""
        if name not in self.by_name:
            return [], []
        first, last = max(0, self.count(x_range[0], axis) - 1), self.count(x_range[1], axis)
        places = self.minutes if axis.timed else self.steps
        x, y = self.by_name[name].outline(places, first, last, columns, smooth)
        return [axis.unit * place for place in x], y

    def sampled(self, name: str, x_range: Range, count: int, axis: Axis = STEPS) -> list[float]:
        """Some values of a series, evenly spread over a range of an axis."""
        first, last = self.count(x_range[0], axis), self.count(x_range[1], axis) - 1
        if name not in self.by_name or last < first:
            return []
        return [self.by_name[name].values[first + (last - first) * n // max(1, count - 1)] for n in range(count)]

    def at(self, name: str, x: float, axis: Axis = STEPS) -> float | None:
        """A number as it was at a place of an axis, or last before it; None where there is none."""
        place = self.count(x, axis) - 1
        if place < 0 or name not in self.by_name:
            return None
        value = self.by_name[name].values[place]
        return None if math.isnan(value) else value

    def between(self, name: str, x: float, axis: Axis = STEPS) -> float | None:
        """A number at a place of an axis, on the straight line from the one before it to the next, as it is drawn."""
        here, after = self.at(name, x, axis), self.count(x, axis)
        if here is None or after == len(self.steps) or math.isnan(then := self.by_name[name].values[after]):
            return here
        places = self.minutes if axis.timed else self.steps
        begin, end = places[after - 1], places[after]
        return here + (then - here) * (x / axis.unit - begin) / (end - begin)

    def first(self, name: str, x: float, axis: Axis = STEPS) -> float | None:
        """The first number at a place of an axis or after it; None where there is none."""
        places = self.minutes if axis.timed else self.steps
        start = bisect_left(places, x / axis.unit * (1 - 1e-12))
        values = self.by_name[name].values if name in self.by_name else ()
        return next((values[n] for n in range(start, len(values)) if not math.isnan(values[n])), None)

    def place(self, step: int, axis: Axis) -> float:
        """The place of an axis at which the last values up to a step were measured."""
        return axis.unit * (self.minutes[max(0, self.count(step) - 1)] if axis.timed else step)
