"""Several runs on shared axes, and setting by setting beside each other; or one run and its details."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual import work
from textual.app import ComposeResult
from textual.containers import Container, ScrollableContainer
from textual.widgets import Static

from contrastcli.errors import ContrastError
from contrastcli.evaluation.comparison import compare
from contrastcli.evaluation.suites import headlines
from contrastcli.runs.directory import Comparison, Run
from contrastcli.runs.events import Event
from contrastcli.runs.text import fixed
from contrastcli.settings.setting import Value
from contrastcli.show.chart import Chart, Line
from contrastcli.show.comparison import side_by_side
from contrastcli.show.format import table
from contrastcli.show.runs import run_details
from contrastcli.tui.feed import Feed
from contrastcli.tui.history import History, Points
from contrastcli.tui.runs.listing import shortened
from contrastcli.tui.widgets import INKS, ChartView

_TEXT = 20  # characters of a setting

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of the runs that are overlaid, in the order in which they were selected."""

DRAW_EVERY = 0.25
"""Seconds between two drawings of what has changed."""


@dataclass(frozen=True)
class Metric:
    """What is overlaid: a number that events report over the steps."""

    title: str
    table: str
    column: str

    def points(self, history: History, columns: int) -> Points:
        """Steps and values of a run, as a line for so many columns of a picture."""
        return history.tables[self.table].line(self.column, (0.0, math.inf), columns)


def metrics() -> dict[str, Metric]:
    """Everything that may be overlaid, by name: the numbers that events have titles for."""
    return {
        column: Metric(title, event.kind(), column)
        for event in Event.__subclasses__()
        for column, title in event.titles.items()
    }


class Overlay(Container):
    """The curves of the runs that are shown, as they grow, and what sets the runs apart."""

    def __init__(self, metric: str) -> None:
        super().__init__(id="overlay")
        self._metric = metric
        self._shown: tuple[Run, ...] = ()
        self._feeds: dict[Run, Feed] = {}
        self._changed = False

    def compose(self) -> ComposeResult:
        yield ChartView(id="curves", waiting="The curves of a run, as soon as there is one.")
        with ScrollableContainer(id="details"):
            yield Static(id="facts", markup=False)

    def on_mount(self) -> None:
        self.query_one("#details").border_title = "Details"
        self.set_interval(DRAW_EVERY, self._draw)

    def show(self, chosen: Sequence[Run]) -> None:
        """Show these runs, the first six of them as curves."""
        if tuple(chosen) != self._shown:
            self._shown = tuple(chosen)
            self.go_on()
            self._compare()

    def show_metric(self, metric: str) -> None:
        """Draw something else."""
        self._metric, self._changed = metric, True

    def rest(self) -> None:
        """Read no more, as long as nobody looks."""
        self.workers.cancel_group(self, "feeds")

    def go_on(self) -> None:
        """Read what the runs say."""
        self.rest()
        self._feeds = {run: Feed(run.events_path, self._notice) for run in self._shown[:INKS]}
        for feed in self._feeds.values():
            self._follow(feed)
        self._changed = True

    @work(group="feeds")
    async def _follow(self, feed: Feed) -> None:
        await feed.follow()

    def look_again(self) -> None:
        """See anew how the runs are, unless that is being done."""
        if not any(worker.group == "comparison" and worker.is_running for worker in self.workers):
            self._compare()

    @work(group="comparison", exclusive=True)
    async def _compare(self) -> None:
        """Put the runs beside each other in words."""
        text = await asyncio.to_thread(described, self._shown)
        self.query_one("#facts", Static).update(text)
        several = len(self._shown) > 1
        self.query_one("#details").border_title = "Differences" if several else "Details"
        self.query_one("#facts").set_class(several, "-columns")

    def copied(self) -> str:
        """What sets the runs apart, as text."""
        return str(self.query_one("#facts", Static).content)

    def _notice(self) -> None:
        self._changed = True

    def _draw(self) -> None:
        view = self.query_one(ChartView)
        if not self._changed or not self.screen.is_current:
            return
        self._changed = False
        metric = metrics()[self._metric]
        view.border_title = metric.title + (f", {INKS} of {len(self._shown)} runs" if len(self._shown) > INKS else "")
        names = labels([run.name for run in self._feeds], view.size.width)
        columns = 2 * max(1, view.size.width)
        points = [metric.points(feed.history, columns) for feed in self._feeds.values()]
        lines = [Line(name, *found) for name, found in zip(names, points, strict=True)]
        view.show(Chart(tuple(lines), x_label="step"), self._waiting(metric))

    def _waiting(self, metric: Metric) -> str:
        if not self._shown:
            return "The curves of a run, as soon as there is one."
        return f"Nothing yet: {metric.title}. Key m shows something else."


def labels(names: Sequence[str], width: int) -> list[str]:
    """Names of curves for a legend: the letters of the runs, and their names too where there is room for all."""
    if len(names) == 1:
        return list(names)
    long = [f"{letter} {name}" for letter, name in zip(LETTERS, names, strict=False)]
    return long if sum(len(name) + 5 for name in long) <= width else list(LETTERS[: len(names)])


def described(chosen: Sequence[Run]) -> str:
    """The details of one run, or what sets several apart: their settings, how they went, their scores."""
    try:
        if len(chosen) < 2:
            return run_details(chosen[0], to_json=False) if chosen else ""
        return _compared(compare(chosen))
    except ContrastError as error:
        return f"{error.what}\n{error.hint}"
    except OSError as error:
        return f"A run cannot be read: {error.strerror or error}"


def _compared(found: Comparison) -> str:
    letters = [LETTERS[n % len(LETTERS)] for n in range(len(found.results))]
    names = "\n".join(f"{letter}  {result.name}" for letter, result in zip(letters, found.results, strict=True))
    settings = {key: tuple(map(_short, column)) for key, column in found.settings.items()}
    results = tuple(replace(result, name=letter) for letter, result in zip(letters, found.results, strict=True))
    parts = [names, side_by_side(replace(found, settings=settings, results=results))]
    scores = [headlines(result.scores) for result in results]
    measured = list(dict.fromkeys(name for score in scores for name in score))
    if measured:
        rows = [(name, *(fixed(score.get(name), 2) for score in scores)) for name in measured]
        parts.append(table(("scores × 100", *letters), rows))
    return "\n\n".join(parts)


def _short(value: Value | None) -> Value | None:
    """A path as far as it tells."""
    return shortened(value, _TEXT) if isinstance(value, str) else value
