"""A run's events so far, as the app draws them: columns of numbers that keep their extremes however long they are.

Plain arrays are quick enough for four redraws a second, and importing numpy would delay the app's first frame.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from contrastcli.runs.events import Angles, Done, Evaluated, Event, Progress, Started, Step
from contrastcli.runs.status import Digest
from contrastcli.show.pictures import HARDEST, NEGATIVE, POSITIVE, Series

LOG_LINES = 300  # lines of the log that are kept
HISTOGRAMS = 800
"""Histograms that are kept: of more, every second one is dropped, so that they still cover the whole run."""

Points = tuple[list[float], list[float]]
"""Steps, and the values there; NaN where there is none."""

_BLOCK = 16  # values that one of the next level stands for
_INKS = {"positive": POSITIVE, "negative": NEGATIVE, "hardest": HARDEST}


class Column:
    """Numbers in their order, with the extremes of every 16, 256, 4096 … of them. NaN stands for a missing one."""

    def __init__(self, missing: int = 0) -> None:
        self.values = array("f")
        self._levels = [(self.values, self.values)]  # lowest and highest, of one value, of a block, of a block of those
        for _ in range(missing):
            self.append(None)

    def append(self, value: float | None) -> None:
        """Add a number, and the extremes of the blocks that it completes."""
        self.values.append(math.nan if value is None else value)
        count, level = len(self.values), 0
        while not count % _BLOCK:
            low, high = extremes(*(values[-_BLOCK:] for values in self._levels[level]))
            count, level = count // _BLOCK, level + 1
            if level == len(self._levels):
                self._levels.append((array("f"), array("f")))
            self._levels[level][0].append(low)
            self._levels[level][1].append(high)

    def cut(self, length: int) -> None:
        for level, (lows, highs) in enumerate(self._levels):
            del lows[length // _BLOCK**level :], highs[length // _BLOCK**level :]

    def outline(self, steps: array[int], first: int, last: int, columns: int) -> Points:
        """The values in first..last-1 as a line so many columns wide: all of them, or each column's extremes."""
        count, columns = last - first, max(1, columns)  # a tiny terminal has no room
        if count <= 4 * columns:
            return [float(step) for step in steps[first:last]], list(self.values[first:last])
        level = max(n for n in range(len(self._levels)) if n == 0 or count // _BLOCK**n >= columns)
        lows, highs = self._levels[level]
        size = _BLOCK**level
        begin, end = first // size, last // size  # blocks
        edges = [begin + (end - begin) * n // columns for n in range(columns + 1)]
        spans = [(steps[a * size], *extremes(lows[a:b], highs[a:b])) for a, b in pairwise(edges)]
        if end * size < last:  # the block that is not full yet
            rest = self.values[end * size : last]
            spans.append((steps[last - 1], *extremes(rest, rest)))
        x = [float(step) for step, _, _ in spans for _ in range(2)]
        return x, [value for n, (_, low, high) in enumerate(spans) for value in ((low, high) if n % 2 else (high, low))]


def extremes(lows: array[float], highs: array[float]) -> tuple[float, float]:
    """The lowest and the highest number; NaN where there is none."""
    if math.isnan(sum(lows)):
        numbers = [(low, high) for low, high in zip(lows, highs, strict=True) if low == low]
        return (min(low for low, _ in numbers), max(high for _, high in numbers)) if numbers else (math.nan, math.nan)
    return min(lows), max(highs)


class Table:
    """Columns by their names, over the steps at which they were measured."""

    def __init__(self) -> None:
        self.steps = array("q")
        self.columns: dict[str, Column] = {}
        self.changes = 0  # grows with every change: a chart is drawn again only if it has

    def add(self, step: int, values: Mapping[str, float | None]) -> None:
        """Add a row; a new name gets a column, and a column that is not named a gap."""
        for name in values:
            if name not in self.columns:
                self.columns[name] = Column(missing=len(self.steps))
        self.steps.append(step)
        for name, column in self.columns.items():
            column.append(values.get(name))
        self.changes += 1

    def cut(self, step: float) -> None:
        """Drop the rows beyond a step."""
        length = bisect_right(self.steps, step)
        del self.steps[length:]
        for column in self.columns.values():
            column.cut(length)
        self.changes += 1

    def line(self, name: str, x_range: tuple[float, float], columns: int) -> Points:
        """A column over a range of steps, as a line that is so many columns of a picture wide."""
        if name not in self.columns:
            return [], []
        first, last = max(0, bisect_right(self.steps, x_range[0]) - 1), bisect_right(self.steps, x_range[1])
        return self.columns[name].outline(self.steps, first, last, columns)

    def sampled(self, name: str, x_range: tuple[float, float], count: int) -> list[float]:
        """Some values of a column, evenly spread over a range of steps."""
        first, last = bisect_right(self.steps, x_range[0]), bisect_right(self.steps, x_range[1]) - 1
        if name not in self.columns or last < first:
            return []
        return [self.columns[name].values[first + (last - first) * n // max(1, count - 1)] for n in range(count)]

    def at(self, name: str, step: float) -> float | None:
        """A number as it was at a step, or last before it; None where there is none."""
        row = bisect_right(self.steps, step) - 1
        if row < 0 or name not in self.columns:
            return None
        value = self.columns[name].values[row]
        return None if math.isnan(value) else value


class History(Digest):
    """Everything that the app shows of a run's events, taken in from the first to the last."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = 0  # its first step; more than 0 while only the end of a large file has been read
        self.tables: defaultdict[str, Table] = defaultdict(Table)
        """Numbers over steps, by the kind of event that reports them."""
        self.newest: Angles | None = None
        self.histograms: list[Angles] = []  # of the whole run, thinned out
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self.logged = 0  # lines of the log so far, those no longer kept included
        self.bests: list[Evaluated] = []
        self.progress: Progress | None = None  # work under way other than training
        self._every = 1  # which angles' histograms are kept: each, every second, every fourth …
        self._seen = 0

    @property
    def last_step(self) -> int:
        return self.last.step if self.last else 0

    def take(self, event: Event) -> None:
        self.last = event
        if numbers := event.numbers():
            self.tables[event.kind()].add(event.step, numbers)
        match event:
            case Step():
                self.step, self.progress = event, None
            case Angles():
                self._keep_histogram(event)
            case Evaluated():
                self.progress = None
                if event.best:
                    self.bests.append(event)
                    self.best = event
            case Progress():
                self.progress = event
            case Started():
                self._start(event)
            case Done():
                self.done, self.progress = event, None
        is_logged = event.best or event.step == 0 if isinstance(event, Evaluated) else not event.routine
        if is_logged and (line := event.line()):
            self.log.append(line)
            self.logged += 1

    def _keep_histogram(self, event: Angles) -> None:
        self.newest = event
        if event.positive_histogram and self._seen % self._every == 0:
            self.histograms.append(event)
        self._seen += 1
        if len(self.histograms) > HISTOGRAMS:
            del self.histograms[1::2]
            self._every *= 2

    def _start(self, started: Started) -> None:
        """Training begins or is resumed, which makes some of what is known void."""
        self.started = started
        for table in self.tables.values():
            table.cut(started.valid_until)
        self.histograms = [angles for angles in self.histograms if not started.voids(angles)]
        self.newest = self.histograms[-1] if self.histograms else None
        self.bests = [evaluated for evaluated in self.bests if not started.voids(evaluated)]
        self.best = self.bests[-1] if self.bests else None
        self.step = None if self.step and started.voids(self.step) else self.step
        self.done = None if self.done and started.voids(self.done) else self.done


@dataclass(frozen=True)
class Metric:
    """Numbers of events that share an axis: its title, the kind of the events, and the names of the numbers."""

    title: str
    kind: str
    names: tuple[str, ...]

    def series(self, history: History, width: int, steps: tuple[float, float] = (0.0, math.inf)) -> list[Series]:
        """The numbers over a range of steps, as lines of a picture that is so many dots wide."""
        table = history.tables[self.kind]
        return [Series(name, *table.line(name, steps, width), ink=_INKS.get(name, 0)) for name in self.names]


def metrics() -> dict[str, Metric]:
    """Everything that may have a chart of its own, by name: the numbers that events have titles for."""
    return {
        name: Metric(title, event.kind(), (name,))
        for event in Event.__subclasses__()
        for name, title in event.titles.items()
    }
