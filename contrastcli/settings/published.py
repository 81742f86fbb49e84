"""What the papers report: the tables of published.toml, and which of their rows belong to a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from contrastcli.settings.config import Config
from contrastcli.settings.setting import Value

Mark = Literal["one seed", "mean of five seeds", "mean of seeds", "not comparable"]
Suite = Literal["sts", "transfer", "fewshot", "clustering", "mteb", "time"]
Wanted = str | int | float | bool | list[str | int | float | bool]
"""A setting's value in the paper, or several values that mean the same."""

_BACKBONE = "model.backbone"
_ESSENTIAL = ("objective.name", "objective.similarity", "model.head")
"""Settings without which a row is about another method; SimCSE keeps its head where it is supervised."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table; `rows` are backbone, method and a value a column."""

    paper: str
    number: int | str
    what: str
    suite: Suite
    mark: Mark
    columns: list[str]
    rows: list[list[str | float | list[float]]]
    measure: Literal["all", "wmean"] = "all"
    note: str = ""


class Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of published.toml."""

    backbones: dict[str, str]
    methods: dict[str, dict[str, Wanted]]
    tables: list[Table]
    slips: list[tuple[str, int, str, str, float, float]]


@dataclass(frozen=True)
class Score:
    """A published number, × 100; `deviation` over seeds or training sets where the paper has it."""

    value: float
    deviation: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.2f}" if self.deviation is None else f"{self.value:.2f} ± {self.deviation:.2f}"


@dataclass(frozen=True)
class Row:
    """A row of a paper's table: `values` by task as the suites name them, `average` among them.

    `measure` tells which of a task's correlations compares: `all`, or `wmean`. `differs` are the settings in which the
    run is not what the row is about; none, where it is the published result of these very settings.
    """

    suite: Suite
    paper: str
    table: int | str
    backbone: str
    method: str
    mark: Mark
    measure: str
    values: Mapping[str, Score]
    note: str
    differs: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """`SimACE, Table 1`."""
        return f"{self.paper}, {self.table if isinstance(self.table, str) else f'Table {self.table}'}"

    @property
    def average(self) -> Score | None:
        """The mean over its tasks, where the paper has one."""
        return next((score for task, score in self.values.items() if task.startswith("average")), None)

    @property
    def words(self) -> str:
        """Whose numbers these are, and what keeps them from being the run's own target."""
        apart = f"; differs in {', '.join(self.differs)}" if self.differs else ""
        return f"{self.source}: {self.method} on {self.backbone}, {self.mark}{apart}"


@cache
def tables() -> Tables:
    """The file, read once."""
    data = Path(__file__).with_name("published.toml").read_bytes()
    return msgspec.toml.decode(data, type=Tables)


@cache
def every() -> tuple[Row, ...]:
    """All rows of all tables, those that do not compare included."""
    return tuple(_row(table, *cells) for table in tables().tables for cells in table.rows)


def rows(suite: str, config: Config) -> list[Row]:
    """The papers' rows for a result of that suite: of the run's own method, the nearest that there are.

    Those of its backbone, of its settings if possible; without any, those of another backbone. Never one that does
    not compare.
    """
    comparable = [row for row in _of_method(config) if row.suite == suite and row.mark != "not comparable"]
    nearest = min(map(_distance, comparable), default=None)
    return _distinct(row for row in comparable if _distance(row) == nearest)


def exact(config: Config) -> list[Row]:
    """The published results of these very settings, on every suite, those that do not compare included."""
    return _distinct(row for row in _of_method(config) if not row.differs)


def _row(table: Table, backbone: object, method: object, *cells: str | float | list[float]) -> Row:
    scores = {task: _score(cell) for task, cell in zip(table.columns, cells, strict=True) if not isinstance(cell, str)}
    return Row(
        suite=table.suite,
        paper=table.paper,
        table=table.number,
        backbone=str(backbone),
        method=str(method),
        mark=table.mark,
        measure=table.measure,
        values=scores,
        note=table.note,
    )


def _score(cell: float | list[float]) -> Score:
    return Score(*cell) if isinstance(cell, list) else Score(float(cell))


def _of_method(config: Config) -> list[Row]:
    """The rows of a run's method, each with the settings in which the run differs from it."""
    flat = config.flat()
    backbone = config.model.backbone.partition("@")[0].rstrip("/").rpartition("/")[2]
    own = []
    for row in every():
        wanted = tables().methods.get(row.method, {})
        differs = [key for key, value in wanted.items() if not _has(flat.get(key), value)]
        if wanted and row.values and not set(differs).intersection(_ESSENTIAL):
            other = [_BACKBONE] if backbone != tables().backbones[row.backbone] else []
            own.append(replace(row, differs=(*other, *differs)))
    return own


def _has(value: Value | None, wanted: Wanted) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted


def _distance(row: Row) -> tuple[int, int]:
    """Another backbone is further away than any other settings, and one backbone further than another."""
    order = list(tables().backbones)
    return 1 + order.index(row.backbone) if _BACKBONE in row.differs else 0, len(row.differs)


def _distinct(rows: Iterable[Row]) -> list[Row]:
    """The rows without those whose numbers another table has."""
    kept: list[Row] = []
    for row in rows:
        if not any(_repeats(row, other) for other in kept):
            kept.append(row)
    return kept


def _repeats(row: Row, other: Row) -> bool:
    return (row.suite, row.method) == (other.suite, other.method) and all(
        task in other.values and score in (other.values[task], Score(other.values[task].value))
        for task, score in row.values.items()
    )
