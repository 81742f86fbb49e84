"""A table of a paper, ours beside theirs: each number over seeds, the printed one, and whether they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from contrastcli.evaluation.suites import SUITES, value_at
from contrastcli.runs.results import Spread
from contrastcli.settings.papers import Item, Request, Row
from contrastcli.settings.published import Score, Table

Measured = Mapping[str, Any]
"""What is known of one seed of a row: `suites` as in scores.json, `minutes`, `epochs` and `batch size`."""


@dataclass(frozen=True)
class Number:
    """A number of a table. `partial`: ours is of fewer sets, or of other rows, than the paper's."""

    ours: Spread | None
    printed: Score | None
    partial: bool = False

    @property
    def difference(self) -> float | None:
        """Ours − printed; None unless both are of the same sets."""
        return self.ours.mean - self.printed.value if self.ours and self.printed and not self.partial else None

    @property
    def within(self) -> bool | None:
        """Whether the difference is at most the sum of both deviations; None if neither is known."""
        if self.difference is None or self.ours is None or self.printed is None:
            return None
        known = [sd for sd in (self.ours.sd, self.printed.deviation) if sd is not None]
        return abs(self.difference) <= sum(known) if known else None


@dataclass(frozen=True)
class Line:
    """A row of a table, with its numbers by column; `seeds` are those that ours have."""

    backbone: str
    method: str
    seeds: int
    numbers: Mapping[str, Number]


@dataclass(frozen=True)
class Block:
    """One suite's part of a table."""

    suite: str
    what: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Part:
    """What a row takes: `source` makes it, `seeds` times, of which `done` are there; GPU hours are for all seeds.

    `hours` is None for a model that is not trained and for an unknown backbone; `why_not` says why a row is not made.
    """

    backbone: str
    method: str
    source: str
    seeds: int
    done: int
    hours: float | None
    why_not: str


@dataclass(frozen=True)
class Overview:
    """An item, and as it was last made: how many of how many runs and models are there. None if it never was."""

    item: Item
    request: Request | None = None
    done: int = 0
    total: int = 0


def compare(item: Item, measured: Mapping[Row, Sequence[Measured]]) -> list[Block]:
    """The blocks of a table, of those rows that are given, each with what is measured of its seeds."""
    blocks = []
    for table in item.tables:
        lines = []
        for backbone, method, printed in table.lines():
            if (row := (backbone, method)) in measured:
                ours = {column: _ours(item, table, column, row, measured) for column in table.columns}
                numbers = {c: Number(spread, printed.get(c), partial) for c, (spread, partial) in ours.items()}
                lines.append(Line(backbone, method, len(measured[row]), numbers))
        blocks.append(Block(table.suite, table.what, tuple(table.columns), tuple(lines)))
    return blocks


def _ours(
    item: Item, table: Table, column: str, row: Row, measured: Mapping[Row, Sequence[Measured]]
) -> tuple[Spread | None, bool]:
    """A number over the seeds of a row, and whether it is partial."""
    if table.suite == "significance":
        return _p_value(item, row, measured)
    each = [_number(table, column, seed) for seed in measured[row]]
    values = [value for value, _ in each if value is not None]
    return (Spread.of(values), any(partial for _, partial in each)) if values else (None, False)


def _number(table: Table, column: str, seed: Measured) -> tuple[float | None, bool]:
    """A number of one seed, and whether it is of fewer sets or other rows than the paper's."""
    if table.suite == "time":
        return seed.get(column), False
    entries = seed["suites"].get(table.suite, {})
    if table.suite == "mteb":
        return (entries.get("average"), False) if column == "average" else (_mean_of_kind(entries, column), False)
    suite = SUITES[table.suite]
    path = suite.headline if table.measure == "all" else f"{table.measure}.spearman"
    names = [column]
    if average := next((a for a in suite.averages if a.key == column), None):
        names = [name for name in table.columns if name != column] or list(average.tasks or suite.tasks)
    entries = {name: entries[name] for name in names if value_at(entries.get(name), path) is not None}
    partial = len(entries) < len(names) or any(entry.get("partial") for entry in entries.values())
    return (fmean(value_at(entry, path) for entry in entries.values()) if entries else None), partial


def _mean_of_kind(entries: Mapping[str, Any], kind: str) -> float | None:
    """MTEB's mean over the tasks of a kind."""
    scores = [e["score"] for e in entries.values() if isinstance(e, Mapping) and e.get("type") == kind]
    return fmean(scores) if scores and None not in scores else None


def _p_value(item: Item, row: Row, measured: Mapping[Row, Sequence[Measured]]) -> tuple[Spread | None, bool]:
    """Welch's test of the STS average of a row against the row that the item names."""
    rows = [row, (row[0], item.entry.against[row[1]])]
    averages = Table(paper="", number="", what="", suite="sts", mark="one seed", columns=["average"], rows=[])
    each = [[_number(averages, "average", seed) for seed in measured.get(one, ())] for one in rows]
    first, second = ([value for value, _ in numbers if value is not None] for numbers in each)
    if min(len(first), len(second)) < 2:
        return None, False
    from contrastcli.evaluation.significance import welch  # numpy is loaded here

    p = welch(first, second).p
    return (None if p is None else Spread.of([p])), any(partial for numbers in each for _, partial in numbers)
