"""The papers' results: the tables of published.toml, and the rows of them that apply to a run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from contrastcli.settings import presets
from contrastcli.settings.config import Config
from contrastcli.settings.sections import settings_of
from contrastcli.settings.setting import Value

Mark = Literal["one seed", "mean of five seeds", "mean of seeds", "not comparable"]
Suite = Literal["sts", "transfer", "fewshot", "clustering", "mteb", "time", "significance", "data"]
Stated = Value | list[Value]
"""A setting's value in the paper, or several equivalent values."""

_MOST_DIFFERENCES_NAMED = 5
_BACKBONE = "model.backbone"
_ESSENTIAL = ("objective.name", "objective.similarity", "model.head")
"""Settings that make a row's method; SimCSE keeps its head where it is supervised."""


@dataclass(frozen=True)
class Score:
    """A published number, × 100; `deviation` over seeds or training sets if the paper gives it.

    It is spelled with the `digits` after the point that its table has.
    """

    value: float
    deviation: float | None = None
    digits: int = field(default=2, compare=False, kw_only=True)

    def __str__(self) -> str:
        return " ± ".join(f"{n:.{self.digits}f}" for n in (self.value, self.deviation) if n is not None)


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table; each row is backbone, method and a value per column.

    `measure` is the correlation of a task to compare with: over all pairs, or a mean over subsets weighted by pairs.
    """

    paper: str
    number: int | str
    what: str
    suite: Suite
    mark: Mark
    columns: list[str]
    rows: list[list[str | float | list[float]]]
    measure: Literal["all", "wmean"] = "all"
    note: str = ""

    @property
    def source(self) -> str:
        """Paper and table: `SimACE, Table 1`."""
        return f"{self.paper}, {self.number if isinstance(self.number, str) else f'Table {self.number}'}"

    def lines(self) -> Iterator[tuple[str, str, dict[str, Score]]]:
        """Backbone, method and the printed numbers by column, a row each."""
        printed = [cell for row in self.rows for cell in row if not isinstance(cell, str)]
        numbers = [number for cell in printed for number in (cell if isinstance(cell, list) else [cell])]
        # The most that one of them has.
        digits = max((len(f"{number:g}".partition(".")[2]) for number in numbers), default=0)
        for backbone, method, *cells in self.rows:
            scores = {
                task: Score(*(cell if isinstance(cell, list) else [cell]), digits=digits)
                for task, cell in zip(self.columns, cells, strict=True)
                if not isinstance(cell, str)
            }
            yield str(backbone), str(method), scores


class Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of published.toml. A method with a `base` states what differs from that one: see `stated`."""

    backbones: dict[str, str]
    methods: dict[str, dict[str, Stated]]
    tables: list[Table]
    slips: list[tuple[str, int, str, str, float, float]]


@dataclass(frozen=True)
class ReportedScores:
    """A row of a paper's table: `values` by task as the suites name them, averages included.

    `differs` are the settings in which a run differs from the row; if there are none, this is the published result of
    exactly these settings.
    """

    table: Table
    backbone: str
    method: str
    values: Mapping[str, Score]
    differs: tuple[str, ...] = ()

    @property
    def average(self) -> Score | None:
        """The mean over its tasks, if the paper gives it."""
        return next((score for task, score in self.values.items() if task.startswith("average")), None)

    @property
    def words(self) -> str:
        """Source, method and backbone, and the settings in which the run differs."""
        more = len(self.differs) - _MOST_DIFFERENCES_NAMED
        names = ", ".join(self.differs[:_MOST_DIFFERENCES_NAMED]) + (f" and {more} more" if more > 0 else "")
        differing = f"; differs in {names}" if names else ""
        return f"{self.table.source}: {self.method} on {self.backbone}, {self.table.mark}{differing}"


@cache
def tables() -> Tables:
    """The file, read once."""
    return msgspec.toml.decode(Path(__file__).with_name("published.toml").read_bytes(), type=Tables)


@cache
def all_scores() -> tuple[ReportedScores, ...]:
    """All rows of all tables, those that are not comparable included."""
    return tuple(ReportedScores(table, *line) for table in tables().tables for line in table.lines())


def nearest(suite: str, config: Config) -> list[ReportedScores]:
    """The comparable rows of a suite and the run's method nearest to its settings; the backbone counts most."""
    comparable = [row for row in _of_method(config) if row.table.suite == suite and row.table.mark != "not comparable"]
    shortest = min(map(_distance, comparable), default=None)
    return _distinct(row for row in comparable if _distance(row) == shortest)


def exact(config: Config) -> list[ReportedScores]:
    """The published results of exactly these settings, on every suite, those that are not comparable included."""
    return _distinct(row for row in _of_method(config) if not row.differs)


def _of_method(config: Config) -> list[ReportedScores]:
    """The rows of a run's method, each with the settings in which the run differs from it.

    A row states what makes its method; the settings of its method and data that it does not state are those of the
    preset for its backbone, else for another one, that is nearest to the run.
    """
    flat = {key: _base_name(value) for key, value in config.flat().items()}
    counted = [key for key, one in settings_of(config.spec).items() if one.role != "execution" and key != _BACKBONE]
    of_method = []
    for row in all_scores():
        wanted = stated(row.method)
        differs = [key for key, allowed in wanted.items() if flat.get(key) not in allowed]
        if wanted and row.values and not set(differs).intersection(_ESSENTIAL):
            unstated = [key for key in counted if key not in wanted]
            shipped = _presets(row.method, row.backbone)
            rest = [[key for key in unstated if one.get(key) != flat[key]] for one in shipped]
            other = [_BACKBONE] if flat[_BACKBONE] != tables().backbones[row.backbone] else []
            of_method.append(replace(row, differs=(*other, *differs, *min(rest, key=len, default=[]))))
    return of_method


@cache
def stated(method: str) -> dict[str, list[Value]]:
    """The settings that make a method, each with its values; none for one that is for reading alone."""
    own = dict(tables().methods.get(method, {}))
    base = own.pop("base", None)
    named = {key: value if isinstance(value, list) else [value] for key, value in own.items()}
    return stated(str(base)) | named if base else named


@cache
def _presets(method: str, backbone: str) -> list[dict[str, Value | None]]:
    """The settings of the presets of a method, of those for this backbone if there are any."""
    wanted = stated(method)
    shipped = [presets.find(name).config.flat() for name in presets.names()]
    like = [
        {key: _base_name(value) for key, value in one.items()}
        for one in shipped
        if all(one[key] in wanted.get(key, [one[key]]) for key in _ESSENTIAL if key in one)
    ]
    return [one for one in like if one[_BACKBONE] == tables().backbones[backbone]] or like


def _base_name(value: Value | None) -> Value | None:
    """The last part of a path or a hub name; other values as they are."""
    return value.partition("@")[0].rstrip("/").rpartition("/")[2] if isinstance(value, str) else value


def _distance(row: ReportedScores) -> tuple[int, int]:
    """How far a row is from the run: first by backbone, in the order of the file, then by the number of settings."""
    order = list(tables().backbones)
    return 1 + order.index(row.backbone) if _BACKBONE in row.differs else 0, len(row.differs)


def _distinct(rows: Iterable[ReportedScores]) -> list[ReportedScores]:
    """Drop rows of a method whose numbers another table of the suite prints too, with deviations or without."""
    kept: list[ReportedScores] = []
    for row in rows:
        like = (one.values for one in kept if (one.table.suite, one.method) == (row.table.suite, row.method))
        printed = ({*values.items(), *((task, Score(s.value)) for task, s in values.items())} for values in like)
        if not any(row.values.items() <= one for one in printed):
            kept.append(row)
    return kept
