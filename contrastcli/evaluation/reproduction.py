"""A table of a paper, made again: the run or model behind each number, and ours next to the printed ones."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from contrastcli.errors import ContrastError
from contrastcli.evaluation.suites import SUITES, value_at
from contrastcli.files import read_json
from contrastcli.model.locate import resolve
from contrastcli.runs.directory import Run, list_runs, read_scores
from contrastcli.runs.events import training_seconds
from contrastcli.runs.methods import Identity, identity
from contrastcli.runs.results import Spread
from contrastcli.runs.sweeps import slug
from contrastcli.settings import config as configs
from contrastcli.settings import papers, published
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.papers import BACKBONE, Item, Request, Row
from contrastcli.settings.published import Score, Table
from contrastcli.settings.sections import SEED, Pooling
from contrastcli.settings.setting import Value

Known = Mapping[tuple[Identity, Value], Run]
"""Runs by their settings and seed."""


@dataclass(frozen=True)
class Cell:
    """What makes a row once: a `run` of `config`, None before it is made; else a `model`, measured as it is."""

    row: Row
    config: Config | None = None
    run: Run | None = None
    model: str = ""
    pooling: Pooling | None = None

    @property
    def name(self) -> str:
        """Row and seed: `SimACE on BERT-base, seed 42`."""
        backbone, method = self.row
        on = f" on {backbone}" if backbone in published.tables().backbones else ""
        return f"{method}{on}" + (f", seed {self.config.train.seed}" if self.config else "")

    @property
    def run_name(self) -> str:
        """Of its run, before that is there made from the settings, so that no two processes train them twice."""
        if self.run:
            return self.run.name
        assert self.config
        digest = hashlib.sha256(repr(key_of(self.config)).encode()).hexdigest()[:8]
        seed = f"seed={self.config.train.seed}"
        return "-".join((self.config.spec.name, slug(self.config.model.backbone), digest, seed))

    @property
    def trained(self) -> bool:
        """Whether there is nothing left to train."""
        return self.config is None or (self.run is not None and self.run.status().state == "finished")

    @property
    def machine(self) -> str:
        """On what the run was trained, in words; empty before it was. Raises DataError."""
        recorded = read_json(self.run.environment_path, dict[str, Any]) if self.run else None
        words = [str(recorded.get(key, "")) for key in ("device", "device_name", "precision")] if recorded else []
        return ", ".join(filter(None, words))

    def done(self, item: Item) -> bool:
        """Whether it is trained and, if the item needs that, measured."""
        return self.trained and (not item.suites or any(_is_whole(self.suites(), suite) for suite in item.suites))

    def suites(self) -> dict[str, Any]:
        """What was measured, by suite. Raises DataError."""
        if self.config:
            scores = self.run.scores() if self.run else {}
        else:
            scores = read_scores(resolve(self.model).scores_path(self.pooling))
        return dict(scores.get("suites", {}))

    def time(self) -> dict[str, float]:
        """Columns of a table of training times."""
        if not self.run or not self.config:
            return {}
        minutes = training_seconds(self.run.events()) / 60
        return {"batch size": self.config.train.batch_size, "epochs": self.config.train.epochs, "minutes": minutes}


def _is_whole(measured: Mapping[str, Any], suite: str) -> bool:
    """Whether all tasks of a suite were measured, but for those whose data are missing."""
    entries = measured.get(suite, {})
    return suite in measured and all(one in entries or one in entries.get("missing", {}) for one in SUITES[suite].tasks)


def key_of(config: Config) -> tuple[Identity, Value]:
    """Equal for runs that train the same model."""
    return identity(config.flat()), config.train.seed


def known_runs(directory: Path) -> Known:
    """The runs of a directory by their settings; of equal ones, one that has finished."""
    known: dict[tuple[Identity, Value], Run] = {}
    for run in list_runs(directory):
        try:
            key = key_of(run.config())
        except ContrastError:
            continue  # broken, or of another version: an error only if it is the one that is named
        if key not in known or known[key].status().state != "finished":
            known[key] = run
    return known


def cells(item: Item, row: Row, request: Request, known: Known) -> list[Cell]:
    """What makes a row, a cell for each seed; none for a row that cannot be made. Raises UsageError."""
    made_by = papers.recipe(row)
    if made_by.why_not:
        return []
    if made_by.checkpoint and request.as_printed:
        return [Cell(row, model=made_by.checkpoint, pooling=made_by.pooling)]
    if made_by.model:
        of_a_backbone = row[0] in published.tables().backbones
        model = request.settings.get(BACKBONE, made_by.model) if of_a_backbone else made_by.model
        return [Cell(row, model=model, pooling=made_by.pooling)]
    first = papers.config_of(row, request)
    seeds = range(first.train.seed, first.train.seed + (request.seeds or item.seeds))
    seeded = [configs.resolve([Layer.of(first.flat() | {SEED: seed}, "papers")]) for seed in seeds]
    return [Cell(row, config, known.get(key_of(config))) for config in seeded]


@dataclass(frozen=True)
class Number:
    """A number of a table. `partial`: ours is of fewer sets, or of other rows, than the paper's.

    `comparable` is false for a paper's number that nobody else's compares with.
    """

    ours: Spread | None
    partial: bool
    printed: Score | None
    comparable: bool = True

    @property
    def difference(self) -> float | None:
        """Ours − printed; None unless both are of the same sets."""
        compared = self.comparable and not self.partial
        return self.ours.mean - self.printed.value if self.ours and self.printed and compared else None

    @property
    def within(self) -> bool | None:
        """Whether the difference is at most the sum of both deviations; None if neither is known."""
        if self.difference is None or self.ours is None or self.printed is None:
            return None
        known = [sd for sd in (self.ours.sd, self.printed.deviation) if sd is not None]
        return abs(self.difference) <= sum(known) if known else None


Compared = Sequence[tuple[Table, Mapping[Row, Mapping[str, Number]]]]
"""Tables, with the numbers of each row by column."""


def compare(item: Item, made: Mapping[Row, Sequence[Cell]], data_dir: str = "") -> Compared:
    """The tables of an item, of those rows that are given, and of sets in a folder."""
    done = {row: [cell for cell in some if cell.trained] for row, some in made.items()}
    compared = []
    for table in item.tables:
        if table.suite == "data":
            compared.append((table, _sizes(table, data_dir)))
            continue
        lines, comparable = {}, table.mark != "not comparable"
        for backbone, method, printed in table.lines():
            if (row := (backbone, method)) in done:
                ours = {column: _ours(item, table, column, row, done) for column in table.columns}
                lines[row] = {column: Number(*ours[column], printed.get(column), comparable) for column in ours}
        compared.append((table, lines))
    return compared


def _sizes(table: Table, data_dir: str) -> dict[Row, dict[str, Number]]:
    """The numbers of data sets, which are the rows of a table."""
    from contrastcli.evaluation.measure import sizes  # numpy is loaded here

    lines = {}
    for nothing, task, printed in table.lines():
        suite = next(suite for suite in SUITES.values() if task in suite.tasks)
        ours = sizes(suite, task, Path(data_dir)) if data_dir else {}
        spreads = {column: Spread.of([ours[column]]) if column in ours else None for column in table.columns}
        lines[nothing, task] = {column: Number(spreads[column], False, printed.get(column)) for column in spreads}
    return lines


def _ours(
    item: Item, table: Table, column: str, row: Row, done: Mapping[Row, Sequence[Cell]]
) -> tuple[Spread | None, bool]:
    """A number over the seeds of a row, and whether it is partial."""
    if table.suite != "significance":
        values, partial = _values(table, column, done[row])
        return (Spread.of(values) if values else None), partial
    averages = Table("", "", "", "sts", "one seed", ["average"], [])
    pair = [_values(averages, "average", done.get(one, ())) for one in (row, (row[0], item.against[row[1]]))]
    if any(len(values) < 2 for values, _ in pair):
        return None, False
    from contrastcli.evaluation.significance import welch  # numpy is loaded here

    p = welch(pair[0][0], pair[1][0]).p
    return (None if p is None else Spread.of([p])), any(partial for _, partial in pair)


def _values(table: Table, column: str, done: Sequence[Cell]) -> tuple[list[float], bool]:
    """A number by each seed that has it, and whether any is of fewer sets or other rows than the paper's."""
    if table.suite == "time":
        return [time[column] for cell in done if (time := cell.time())], False
    each = [_measured(table, column, cell.suites().get(table.suite, {})) for cell in done]
    return [value for value, _ in each if value is not None], any(partial for _, partial in each)


def _measured(table: Table, column: str, entries: Mapping[str, Any]) -> tuple[float | None, bool]:
    """A number of one seed, and whether it is partial."""
    suite = SUITES[table.suite]
    path = suite.headline if table.measure == "all" else f"{table.measure}.spearman"
    names = [column]
    if suite.name == "mteb":
        names = [name for name, one in entries.items() if column in ("average", value_at(one, "type"))]
    elif average := next((a for a in suite.averages if a.key == column), None):
        names = [name for name in table.columns if name != column] or list(average.tasks or suite.tasks)
    values = {name: value_at(entries.get(name), path) for name in names}
    values = {name: value for name, value in values.items() if value is not None}
    partial = suite.name != "mteb" and len(values) < len(names)
    partial = partial or any(entries[name].get("partial") for name in values)
    return (fmean(values.values()), partial) if values else (None, False)
