"""Several runs on shared axes and their differences in words; or one run and its details."""

import asyncio
import math
from collections.abc import Sequence, Set
from dataclasses import replace

from rich.console import Group
from textual import work
from textual.containers import Container, ScrollableContainer, Vertical
from textual.content import Content
from textual.geometry import Region

from contrastcli.errors import ContrastError
from contrastcli.evaluation.run_scores import compare
from contrastcli.runs.directory import Run
from contrastcli.runs.sweeps import Sweep
from contrastcli.runs.text import shortened
from contrastcli.show.axes import number
from contrastcli.show.format import table
from contrastcli.show.pictures import Picture, Series
from contrastcli.show.runs import by_method, run_facts, side_by_side
from contrastcli.tui.chart_view import INKS, ChartView
from contrastcli.tui.history.feed import Feed
from contrastcli.tui.history.history import metrics
from contrastcli.tui.runs.heat_map import MARK, heat_map
from contrastcli.tui.runs.listing import Entry
from contrastcli.tui.widgets import PlainText, fields_table

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_DRAW_SECONDS = 0.25

_NO_RUN = "the curve of a run, once one is chosen"
_LONGEST, _CELL_WIDTH = 20, 16


class OverlayPanel(Container):
    """The curves of the chosen runs, as they grow, and what sets the runs apart."""

    def __init__(self) -> None:
        self._chart = ChartView(_NO_RUN, id="curves")
        self._text, self._copied = PlainText(id="details-text"), ""
        self._details = ScrollableContainer(self._text, id="details")
        self._table = PlainText(id="heat-map-text")
        self._sweep = ScrollableContainer(self._table, id="heat-map")
        super().__init__(Vertical(self._sweep, self._chart, id="drawn"), self._details, id="overlay")
        self._metric = next(iter(metrics().values()))
        self._chosen: tuple[Run, ...] = ()
        self._described: tuple[Entry, ...] = ()
        self._feeds: dict[Run, Feed] = {}
        self._news = asyncio.Event()

    def on_mount(self) -> None:
        self.set_interval(_DRAW_SECONDS, self._draw)

    def show(self, entries: Sequence[Entry]) -> None:
        """Show these runs, the first of them as curves and in words, again as soon as one of those has changed."""
        chosen = tuple(entry.run for entry in entries)
        if chosen != self._chosen:
            self._chosen = chosen
            self.follow()
        if (described := tuple(entries[: len(LETTERS)])) != self._described:
            self._described = described
            self._describe()

    @work(group="sweep", exclusive=True)
    async def show_sweep(self, sweep: Sweep | None, entries: Sequence[Entry], here: Set[str]) -> None:
        """Show the scores of a sweep, of which these runs are chosen, or none."""
        if sweep:
            members = {entry.name: entry.member for entry in entries if entry.member}
            title, table = await asyncio.to_thread(heat_map, sweep, members, here)
            self._sweep.border_title = Content(title)
            self._table.update(table)
            *above, line = table.plain.partition(MARK)[0].split("\n") if MARK in table.plain else [""]
            self._sweep.scroll_to_region(Region(len(line), len(above), _CELL_WIDTH, 1), animate=False)
        self._sweep.display = sweep is not None

    def show_metric(self, metric: str) -> None:
        self._metric = metrics()[metric]
        self._news.set()

    def pause(self) -> None:
        self.workers.cancel_group(self, "feeds")

    def follow(self) -> None:
        """Read the events of the chosen runs from now on."""
        self.pause()
        self._feeds = {run: Feed(run.events_path, self._news.set) for run in self._chosen[:INKS]}
        for feed in self._feeds.values():
            feed.start(self, "feeds")
        self._news.set()

    @work(group="details", exclusive=True)
    async def _describe(self) -> None:
        self._copied, shown = await asyncio.to_thread(details, self._chosen[: len(LETTERS)])
        self._text.update(shown)
        several, more = len(self._chosen) > 1, len(self._chosen) > len(LETTERS)
        of_all = f", {len(LETTERS)} of {len(self._chosen)} runs" if more else ""
        self._details.border_title = f"Differences{of_all}" if several else "Details"
        self._text.set_class(several, "-columns")

    def clipboard_text(self) -> str:
        return self._copied

    def _draw(self) -> None:
        if self._news.is_set() and self.screen.is_current:
            self._news.clear()
            waiting = f"no {self._metric.title} yet; m draws another curve" if self._chosen else _NO_RUN
            self._chart.show(self._picture(self._chart.size.width), waiting)

    def _picture(self, width: int) -> Picture:
        metric, names = self._metric, labels([run.name for run in self._feeds], width)
        series, title = list[Series](), metric.title
        dev = {run: feed.history.evaluated for run, feed in self._feeds.items() if metric.names == ("score",)}
        titles = sorted({one.title for one in dev.values() if one})
        if titles:
            title = f"{title}, of dev sets that differ" if titles[1:] else f"dev {titles[0]}"
        for name, (run, feed) in zip(names, self._feeds.items(), strict=True):
            drawn = metric.series(feed.history, 2 * max(1, width))[0]
            value = feed.history.series[metric.kind].at(metric.names[0], math.inf)
            last = "" if value is None else number(value)
            of = f"{last} {one.title}" if titles[1:] and (one := dev[run]) else last
            series.append(replace(drawn, name=name, ink=0, readings=(of, last) if last else ()))
        count = f", {INKS} of {len(self._chosen)} runs" if len(self._chosen) > INKS else ""
        return Picture(metric.kind, title + count, "lines", "step", "", tuple(series))


def labels(names: Sequence[str], width: int) -> list[str]:
    """Names of curves for a legend: the letters of the runs, and their names too where there is room for all."""
    if len(names) == 1:
        return list(names)
    long = [f"{letter} {name}" for letter, name in zip(LETTERS, names, strict=False)]
    return long if sum(len(name) + 5 for name in long) <= width else list(LETTERS[: len(names)])


def details(chosen: Sequence[Run]) -> tuple[str, str | Group]:
    """The facts and settings of one run, or the differences of several: as text to copy, and as they are shown."""
    try:
        if len(chosen) == 1:
            facts, settings = run_facts(chosen[0])
            near = [(name, fact.removeprefix(f"{chosen[0].path}/")) for name, fact in facts]
            parts = [[*near, ("", "")], settings]
            return "\n".join(table(("", ""), part) for part in parts), Group(*map(fields_table, parts))
        text = differences(chosen) if chosen else ""
    except ContrastError as error:
        text = f"{error.what}\n{error.hint}"
    except OSError as error:
        text = f"A run cannot be read: {error.strerror or error}"
    return text, text


def differences(chosen: Sequence[Run]) -> str:
    """What differs between runs: settings, results, scores. Raises ContrastError, and OSError if one has gone."""
    compared = compare(chosen)
    letters = {run.name: letter for letter, run in zip(LETTERS, chosen, strict=False)}
    blocks = ["\n".join(f"{letter}  {shortened(name, 2 * _LONGEST)}" for name, letter in letters.items())]
    for header, rows in filter(None, (by_method(compared), side_by_side(compared))):
        # Long values keep their ends, where paths differ.
        short = [
            (name, *(shortened(cell, _LONGEST) if isinstance(cell, str) else cell for cell in cells))
            for name, *cells in rows
        ]
        blocks.append(table([letters.get(name, name) for name in header], short))
    return "\n\n".join(blocks)
