"""A run's events so far, as the app draws them."""

import math
from bisect import bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from contrastcli.boundary import to_copy
from contrastcli.runs.event import Event
from contrastcli.runs.events import Alert, Done, Progress, Queued, Started, Verdict
from contrastcli.runs.measured import Angles, Evaluated, Step, Violated, ViolatedAnchor
from contrastcli.runs.status import Digest
from contrastcli.show.pictures import HARDEST, NEGATIVE, POSITIVE, Range, Series
from contrastcli.tui.history.series import Axis, SeriesGroup

LOG_LINES = 300
SAMPLES = 800
"""Events of a kind that are kept whole: of more, every second one is dropped, so that they still cover all steps."""

_LAST_ONES = {"started", "step", "evaluated", "verdict", "progress", "done"}
"""Kinds of events of which the last one is known by its kind."""

_ALL = (0.0, math.inf)
_INKS = {"positive": POSITIVE, "negative": NEGATIVE, "hardest": HARDEST, "with_margin": POSITIVE}


E = TypeVar("E", bound=Event)


class Samples(Generic[E]):
    """Events of one kind over a whole run: the newest one, and some of all, thinned out."""

    def __init__(self) -> None:
        self.newest: E | None = None
        self.kept: list[E] = []
        self._every = 1  # a power of two
        self._seen = 0

    def add(self, event: E) -> None:
        self.newest = event
        if self._seen % self._every == 0:
            self.kept.append(event)
        self._seen += 1
        if len(self.kept) > SAMPLES:
            del self.kept[1::2]
            self._every *= 2

    def void(self, started: Started) -> None:
        """Drop what a resume makes void."""
        self.kept = [event for event in self.kept if not started.voids(event)]
        if self.newest and started.voids(self.newest):
            self.newest = self.kept[-1] if self.kept else None

    def at(self, step: float) -> E | None:
        """The last one that is kept up to a step."""
        row = bisect_right(self.kept, step, key=lambda event: event.step) - 1
        return self.kept[row] if row >= 0 else None


class History(Digest):
    """Everything that the app shows of a run's events, added from the first to the last."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = 0  # the first step that was read
        self.series: defaultdict[str, SeriesGroup] = defaultdict(SeriesGroup)
        """Numbers over steps, by the kind of event that reports them."""
        self.histograms = Samples[Angles]()
        self.negatives = Samples[Angles]()  # those with texts
        self.dev_pairs = Samples[Evaluated]()
        self.violated: dict[str, tuple[int, ViolatedAnchor]] = {}
        """Anchors that were violated again and again, by their texts, each with the step at which it was last told."""
        self.violated_total = 0
        """All that were, of which an evaluation tells the worst."""
        self.calls_for_attention: list[Alert | Done] = []
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self.bests: list[Evaluated] = []
        self.progress: Progress | None = None  # of work other than training
        self.untrained: Evaluated | None = None  # before the first step
        self.verdict: Verdict | None = None
        self.minutes = 0.0
        """Minutes of training up to the last event, without those between an end and a resume."""
        self._time_zero = 0.0

    @property
    def last_step(self) -> int:
        return self.last.step if self.last else 0

    def axis(self, name: str) -> Axis:
        """One of AXES, as long as the steps of this run make it."""
        started = self.started
        units: dict[str, float] = {}
        if started:
            units = {"sentences": started.sentences_per_step, "epoch": 1 / max(1, started.steps_per_epoch)}
        return Axis(name, units.get(name, 1.0), name == "minutes")

    def add(self, event: Event) -> None:
        self.last = event
        if isinstance(event, Started):
            self._start(event)
        if not isinstance(event, Queued):
            self.minutes = (event.time - self._time_zero) / 60
        if numbers := event.numbers():
            self.series[event.kind()].add(event.step, numbers, self.minutes)
        if event.kind() in _LAST_ONES:
            setattr(self, event.kind(), event)
        if isinstance(event, Step | Evaluated | Done):
            self.progress = None
        if isinstance(event, Alert | Done):
            self.calls_for_attention.append(event)
        self._keep(event)
        if not event.routine and (line := event.line()):
            self.log.append(to_copy(line))

    def _keep(self, event: Event) -> None:
        """Keep an event that is shown whole."""
        match event:
            case Angles():
                if event.positive_histogram and event.negative_histogram:
                    self.histograms.add(event)
                if event.closest:
                    self.negatives.add(event)
            case Violated():
                self.violated |= {one.anchor: (event.step, one) for one in event.anchors}
                self.violated_total = event.total
            case Evaluated():
                self.dev_pairs.add(event)
                self.untrained = event if event.step == 0 else self.untrained
                if event.best:
                    self.bests.append(event)
                    self.best = event

    @property
    def violated_anchors(self) -> list[ViolatedAnchor]:
        """Every anchor that was violated again and again, the most often first."""
        return sorted((one for _, one in self.violated.values()), key=lambda one: -one.times)

    def _start(self, started: Started) -> None:
        """Training begins or is resumed, which makes some of what is known void."""
        for group in self.series.values():
            group.cut(started.valid_until)
        self.minutes = max((group.minutes[-1] for group in self.series.values() if group.minutes), default=0.0)
        self._time_zero = started.time - 60 * self.minutes
        for samples in (self.histograms, self.negatives, self.dev_pairs):
            samples.void(started)
        told = self.violated.items()
        self.violated = {anchor: (step, one) for anchor, (step, one) in told if step <= started.valid_until}
        self.verdict = self.progress = None
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

    def series(self, history: History, width: int, x_range: Range = _ALL, **axis: Any) -> list[Series]:
        """The numbers over a range of steps or another axis, as lines of a picture that is so many dots wide."""
        group = history.series[self.kind]
        return [Series(name, *group.line(name, x_range, width, **axis), ink=_INKS.get(name, 0)) for name in self.names]


def metrics() -> dict[str, Metric]:
    """Everything that may have a chart of its own, by name: the numbers that events have titles for."""
    return {
        name: Metric(title, event.kind(), (name,))
        for event in Event.__subclasses__()
        for name, title in event.titles.items()
    }
