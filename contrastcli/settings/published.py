"""What the papers report, to put beside a result: the tables of published.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from contrastcli.settings.config import Config
from contrastcli.settings.setting import Value

Mark = Literal["one seed", "mean of seeds", "not comparable"]
Suite = Literal["sts", "transfer", "fewshot", "clustering", "mteb", "time"]
Wanted = str | int | float | bool | list[str | int | float | bool]
"""A value that a setting has in the paper, or several that come to the same."""

_BACKBONE = "model.backbone"
_AVERAGE = "Avg."  # as tables of suites call it
_ESSENTIAL = ("objective.name", "objective.similarity", "model.head")
"""Settings without which a row is about another method; SimCSE keeps its head where it is supervised."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table; `rows` are backbone, method and a value a column."""

    paper: str
    number: int
    what: str
    suite: Suite
    mark: Mark
    columns: list[str]
    rows: list[list[str | float | list[float]]]
    measure: Literal["all", "wmean"] = "all"
    seeds: int = 1
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


@dataclass(frozen=True)
class Row:
    """A row of a paper beside a result: `values` by task as the suites name them, `average` among them.

    `measure` tells which of a task's correlations compares: `all`, or `wmean`. `differs` are the settings in which the
    run is not what the row is about; none, where it is the published result of these very settings.
    """

    paper: str
    table: int
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
        return f"{self.paper}, Table {self.table}"

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


def every(suite: str) -> list[Row]:
    """All rows of a suite, those that do not compare included."""
    found = []
    for table in tables().tables:
        if table.suite == suite:
            found += [_row(table, *cells) for cells in table.rows]
    return found


def rows(suite: str, config: Config) -> list[Row]:
    """The papers' rows for a result of that suite: of the run's own method, the nearest that there are.

    Those of its backbone, of its settings if possible; without any, those of another backbone. Never one that does
    not compare.
    """
    own = [_beside(row, config) for row in every(suite) if _is_of(row, config)]
    nearest = min(map(_distance, own), default=None)
    kept: list[Row] = []
    for row in own:
        if _distance(row) == nearest and not any(_repeats(row, other) for other in kept):
            kept.append(row)
    return kept


def beside(row: Row, task: str) -> str:
    """The number that stands beside a task of a suite's table, or beside its average; a dash where there is none."""
    score = row.values.get("average" if task == _AVERAGE else task)
    if score is None:
        return "–"
    return f"{score.value:.2f}" if score.deviation is None else f"{score.value:.2f} ± {score.deviation:.2f}"


def _row(table: Table, backbone: object, method: object, *cells: str | float | list[float]) -> Row:
    scores = {column: _score(cell) for column, cell in zip(table.columns, cells, strict=True)}
    values = {column: score for column, score in scores.items() if score}
    return Row(table.paper, table.number, str(backbone), str(method), table.mark, table.measure, values, table.note)


def _score(cell: str | float | list[float]) -> Score | None:
    if isinstance(cell, str):
        return None  # a dash
    return Score(*cell) if isinstance(cell, list) else Score(float(cell))


def _is_of(row: Row, config: Config) -> bool:
    """Whether a row compares with the run's results, and is of its method."""
    wanted = tables().methods.get(row.method)
    if not wanted or not row.values or row.mark == "not comparable":
        return False
    flat = config.flat()
    return all(_has(flat.get(key), wanted[key]) for key in _ESSENTIAL if key in wanted)


def _beside(row: Row, config: Config) -> Row:
    """The row with what sets the run apart from it."""
    flat = config.flat()
    wanted = tables().methods[row.method]
    differs = [key for key, value in wanted.items() if not _has(flat.get(key), value)]
    backbone = config.model.backbone.partition("@")[0].rstrip("/").rpartition("/")[2]
    if backbone != tables().backbones[row.backbone]:
        differs.insert(0, _BACKBONE)
    return replace(row, differs=tuple(differs))


def _has(value: Value | None, wanted: Wanted) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted


def _distance(row: Row) -> tuple[int, int]:
    """Another backbone is further away than any other settings, and one backbone further than another."""
    order = list(tables().backbones)
    return 1 + order.index(row.backbone) if _BACKBONE in row.differs else 0, len(row.differs)


def _repeats(row: Row, other: Row) -> bool:
    """Whether another table has all of these numbers."""
    return row.method == other.method and all(
        task in other.values and score in (other.values[task], Score(other.values[task].value))
        for task, score in row.values.items()
    )
