"""Runs below headings: their method, or the sweep or table of a paper that they belong to, and in it their method."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from contrastcli.runs.methods import group
from contrastcli.runs.results import Method, Spread
from contrastcli.runs.sweeps import Sweep, list_sweeps, short
from contrastcli.settings.setting import spell
from contrastcli.tui import processes
from contrastcli.tui.runs.listing import Entry

GROUPINGS = ("", "methods", "sweeps", "tables")
"""The empty one is one list, without headings."""
HeadingPath = tuple[str, ...]
"""Titles of headings, each below the one before."""
Names = Mapping[str, Set[str]]
"""The names of the runs below each heading, those too that are not there yet."""


@dataclass(frozen=True)
class TreeItem:
    """A run below the headings `path`; or, if it has a size, the last of these headings, with its runs."""

    path: HeadingPath
    entries: Sequence[Entry]
    size: int | None = None
    is_open: bool = False

    @property
    def entry(self) -> Entry | None:
        return self.entries[0] if self.size is None else None

    @property
    def key(self) -> tuple[HeadingPath, object]:
        """Equal for the same row of another time."""
        return self.path, self.entry and self.entry.run

    @property
    def label(self) -> tuple[str, str, str]:
        """What is before a name, the name, and what follows: of a heading how many of its runs have finished."""
        if self.entry:
            return "  " * len(self.path), self.entry.name, ""
        mark = "▾ " if self.is_open else "▸ "
        return "  " * (len(self.path) - 1) + mark, self.path[-1], f"  {self._states['finished']} of {self.size}"

    @cached_property
    def _states(self) -> Counter[str]:
        waiting = Counter(waiting=(self.size or 0) - len(self.entries))
        return Counter(entry.state for entry in self.entries) + waiting

    @cached_property
    def best(self) -> tuple[Spread, str, str] | None:
        """The highest mean of the best dev scores of a method, its metric and title; None with several metrics."""
        scores = [(*item, title) for title, one in _methods(self.entries) for item in one.scores.items()]
        if len({name for name, _, _ in scores}) != 1:
            return None
        name, spread, title = max(scores, key=lambda score: score[1].mean)
        return spread, name.task, title

    @property
    def remark(self) -> str:
        """What the line below the table says of it."""
        if self.entry:
            return f"{self.entry.name}: {self.entry.remark}"
        counts = ", ".join(f"{number} {state}" for state, number in self._states.items())
        return f"{self.path[-1]}: {counts}" + (f"; best: {self.best[2]}" if self.best and self.best[2] else "")


def tree(
    entries: Sequence[Entry], names: Names, unfolded: Collection[HeadingPath], path: HeadingPath = ()
) -> list[TreeItem]:
    """The rows of a table of runs: a heading stands where its first run would."""
    if path and any(len(some) == len(entries) for some in names.values()):
        names = {}  # the heading above says it all
    rows = defaultdict[str, list[TreeItem]](list)
    for title, some in names.items():
        here, own = (*path, title), [entry for entry in entries if entry.name in some]
        below = tree(own, methods(own), unfolded, here) if here in unfolded else []
        rows[own[0].name] += [TreeItem(here, own, len(some), here in unfolded), *below]
    grouped = set[str]().union(*names.values())
    rows |= {entry.name: [TreeItem(path, [entry])] for entry in entries if entry.name not in grouped}
    return [row for entry in entries for row in rows[entry.name]]


def methods(entries: Sequence[Entry]) -> Names:
    """Those that differ only in their seed, unless one is alone."""
    several = [(title, one.runs) for title, one in _methods(entries) if len(one.runs) > 1]
    return {title or "one method": {run.name for run in runs} for title, runs in several}


def _methods(entries: Sequence[Entry]) -> list[tuple[str, Method]]:
    """Their methods, each with the settings that are needed to tell it from the others."""
    every = group([entry.member for entry in entries if entry.member])
    titles = [""] * len(every)
    for key in every[0].settings if every else ():
        values = [one.settings[key] for one in every]
        # The objective's name needs no explanation, and comes first.
        name = "" if key == "objective.name" else f"{short(key)}="
        named = [*zip(titles, values, strict=True)]
        alike = Counter(title for title, _ in set(named))
        titles = [t if v is None or alike[t] < 2 else f"{t} {name}{spell(v)}" for t, v in named]
    return [(title.strip(), one) for title, one in zip(titles, every, strict=True)]


class Groupings:
    """The names of the runs below each heading, as last read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names: dict[str, Names] = {"": {}, "sweeps": {}, "tables": {}}
        self.sweeps: Mapping[str, Sweep] = {}

    def read_sweeps(self) -> None:
        self.sweeps = {sweep.name: sweep for sweep in list_sweeps(self._directory)}
        self._names["sweeps"] = {title: {name for name, *_ in one.points()} for title, one in self.sweeps.items()}

    async def find_tables(self) -> None:
        """Find the runs of the papers' tables and figures that were started here."""
        done = await processes.run_command(self._directory, "papers", "list", "--json")
        started = [one for one in json.loads(done.stdout or "[]") if one["runs"]]
        self._names["tables"] = {f"{one['paper']} {one['item']}": set(one["runs"]) for one in started}

    def names(self, grouping: str, shown: Sequence[Entry], *, filtered: bool) -> Names:
        """The headings of a grouping that have runs; of runs that are filtered, only those that are shown count."""
        if grouping == "methods":
            return methods(shown)
        known = {entry.name for entry in shown}
        titles = self._names[grouping].items()
        return {title: some & known if filtered else some for title, some in titles if some & known}
