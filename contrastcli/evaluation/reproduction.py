"""A table of a paper, made again: the run or model behind each number, and ours next to the printed ones."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from contrastcli.errors import ContrastError
from contrastcli.evaluation.suites import SUITES, value_at
from contrastcli.model.locate import resolve
from contrastcli.runs.cells import Cell
from contrastcli.runs.directory import Run, list_runs
from contrastcli.runs.events import Started, training_seconds
from contrastcli.runs.measured import Step
from contrastcli.runs.methods import Identity, identity
from contrastcli.runs.results import Spread
from contrastcli.runs.scores import read_scores
from contrastcli.runs.status import Environment
from contrastcli.runs.sweeps import slug
from contrastcli.settings import config as configs
from contrastcli.settings import papers, published
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.papers import BACKBONE, Item, Request, System
from contrastcli.settings.published import Score, Table
from contrastcli.settings.sections import SEED, Pooling
from contrastcli.settings.setting import Value

RunsBySettings = Mapping[tuple[Identity, Value], Run]
"""Runs by their settings and seed."""
SetsBySuite = Mapping[str, Set[str]]


@dataclass(frozen=True)
class Trial:
    """A system once: the run of a `cell`, a seed each, or a released `model`, measured as it is."""

    system: System
    cell: Cell | None = None
    model: str = ""
    pooling: Pooling | None = None

    @property
    def title(self) -> str:
        """As messages name it: `SimACE on BERT-base, seed 42`."""
        return self.cell.title if self.cell else _title(self.system)

    @property
    def word(self) -> str:
        """What names its model on a command line."""
        return str(self.cell.run.path) if self.cell else self.model

    @property
    def trained(self) -> bool:
        """Whether there is nothing left to train."""
        return self.cell is None or self.cell.state == "finished"

    @property
    def machine(self) -> str:
        """On what the run was trained, in words; empty before it was. Raises DataError."""
        one = Environment.read(self.cell.run.environment_path) if self.cell else Environment()
        return ", ".join(filter(None, (one.device, one.device_name, one.precision)))

    def done(self, item: Item) -> bool:
        """Whether it is trained and, if the item needs that, measured."""
        return self.trained and (not item.suites or any(_is_whole(self.suites(), suite) for suite in item.suites))

    def suites(self) -> dict[str, Any]:
        """What was measured, by suite. Raises DataError."""
        return dict(read_scores(resolve(self.word).scores_path(self.pooling)).get("suites", {}))

    def time(self) -> dict[str, float]:
        if not self.cell:
            return {}
        train, minutes = self.cell.config.train, training_seconds(self.cell.run.latest(Step, Started)) / 60
        return {"batch size": train.batch_size, "epochs": train.epochs, "minutes": minutes}


Trials = Mapping[System, Sequence[Trial]]


def _is_whole(measured: Mapping[str, Any], suite: str) -> bool:
    """Whether all tasks of a suite were measured, but for those whose data are missing."""
    entries = measured.get(suite, {})
    return suite in measured and all(one in entries or one in entries.get("missing", {}) for one in SUITES[suite].tasks)


def key_of(config: Config) -> tuple[Identity, Value]:
    """Equal for runs that train the same model."""
    return identity(config.flat()), config.train.seed


def runs_by_settings(directory: Path) -> RunsBySettings:
    """The runs of a directory that can be read, by their settings; of equal ones a finished or the newest one."""
    known: dict[tuple[Identity, Value], Run] = {}
    for run in list_runs(directory):
        try:
            key = key_of(run.config())
        except ContrastError:
            continue
        is_finished = run.status().state == "finished"
        if key not in known or (is_finished and known[key].status().state != "finished"):
            known[key] = run
    return known


def trials(item: Item, system: System, request: Request, directory: Path, known: RunsBySettings) -> list[Trial]:
    """What stands for a system, a trial for each seed; none for one that cannot be made. Raises UsageError."""
    made_by = papers.recipe(system)
    if made_by.why_not:
        return []
    if made_by.checkpoint and request.as_printed:
        return [Trial(system, model=made_by.checkpoint, pooling=made_by.pooling)]
    if made_by.model:
        of_a_backbone = system.backbone in published.tables().backbones
        model = request.settings.get(BACKBONE, made_by.model) if of_a_backbone else made_by.model
        return [Trial(system, model=model, pooling=made_by.pooling)]
    first = papers.config_of(system, request)
    seeds = range(first.train.seed, first.train.seed + (request.seeds or item.seeds))
    seeded = [configs.resolve([Layer.of(first.flat() | {SEED: seed}, "papers")]) for seed in seeds]
    return [Trial(system, _cell(system, config, directory, known)) for config in seeded]


def _cell(system: System, config: Config, directory: Path, known: RunsBySettings) -> Cell:
    """The cell of a run, whose name is made from its settings, so that no two processes train them twice."""
    key, seed = key_of(config), f"seed={config.train.seed}"
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:8]
    name = "-".join((config.spec.name, slug(config.model.backbone), digest, seed))
    return Cell(known.get(key, Run(directory / name)), f"{_title(system)}, seed {config.train.seed}", config)


def _title(system: System) -> str:
    of_a_backbone = system.backbone in published.tables().backbones
    return f"{system.method} on {system.backbone}" if of_a_backbone else system.method


@dataclass(frozen=True)
class Measurement:
    """A number of a table. `partial`: ours is of fewer sets, or of other rows, than the paper's.

    `comparable` is false for a paper's number that nobody else's compares with.
    """

    ours: Spread | None
    partial: bool
    printed: Score | None
    comparable: bool

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


class TableMadeAgain(NamedTuple):
    """A printed table, and what was measured of each system by column."""

    printed: Table
    lines: Mapping[System, Mapping[str, Measurement]]


def compare(item: Item, made: Trials, data_dir: str = "") -> list[TableMadeAgain]:
    """The tables of an item, of those systems that are given, and of sets in a folder."""
    done = {system: [trial for trial in some if trial.trained] for system, some in made.items()}
    common = _in_common(chain(*done.values()), item.suites)
    compared = []
    for table in item.tables:
        lines, comparable = {}, table.mark != "not comparable"
        for backbone, method, printed in table.lines():
            system = System(backbone, method)
            if table.suite == "data":
                ours = _sizes(table, method, data_dir)
            elif system in done:
                ours = {column: _ours(item, table, column, system, done, common) for column in table.columns}
            else:
                continue
            lines[system] = {column: Measurement(*ours[column], printed.get(column), comparable) for column in ours}
        compared.append(TableMadeAgain(table, lines))
    return compared


def _sizes(table: Table, task: str, data_dir: str) -> dict[str, tuple[Spread | None, bool]]:
    """The numbers of a data set, which is the method of such a table, none of them partial."""
    from contrastcli.evaluation.measure import sizes

    suite = next(suite for suite in SUITES.values() if task in suite.tasks)
    ours = sizes(suite, task, Path(data_dir)) if data_dir else {}
    return {column: (Spread.of([ours[column]]) if column in ours else None, False) for column in table.columns}


def _in_common(measured: Iterable[Trial], suites: Sequence[str]) -> dict[str, set[str]]:
    """By suite the sets of which averages are: those that all models have for which it was measured to its end."""
    each = [trial.suites() for trial in measured]
    whole = {suite: [{*one[suite]} for one in each if _is_whole(one, suite)] for suite in suites}
    return {suite: set.intersection(*names) for suite, names in whole.items() if names}


def _ours(
    item: Item, table: Table, column: str, system: System, done: Trials, common: SetsBySuite
) -> tuple[Spread | None, bool]:
    """A number over the seeds of a system, and whether it is partial."""
    if table.suite != "significance":
        values, partial = _values(table, column, done[system], common)
        return (Spread.of(values) if values else None), partial
    averages = Table("", "", "", "sts", "one seed", ["average"], [])
    other = System(system.backbone, item.against[system.method])
    pair = [_values(averages, "average", done.get(one, ()), common) for one in (system, other)]
    if any(len(values) < 2 for values, _ in pair):
        return None, False
    from contrastcli.evaluation.significance import welch

    p = welch(pair[0][0], pair[1][0]).p
    return (None if p is None else Spread.of([p])), any(partial for _, partial in pair)


def _values(table: Table, column: str, done: Sequence[Trial], common: SetsBySuite) -> tuple[list[float], bool]:
    """A number by each seed that has it, and whether any is of fewer sets or other rows than the paper's."""
    if table.suite == "time":
        return [time[column] for trial in done if (time := trial.time())], False
    each = [_measured(table, column, trial.suites(), common) for trial in done]
    return [value for value, _ in each if value is not None], any(partial for _, partial in each)


def _measured(table: Table, column: str, suites: Mapping[str, Any], common: SetsBySuite) -> tuple[float | None, bool]:
    """A number of one seed, and whether it is partial; none for the average of a suite that is not done."""
    suite, entries = SUITES[table.suite], suites.get(table.suite, {})
    path = suite.headline if table.measure == "all" else f"{table.measure}.spearman"
    names = [column]
    if suite.name == "mteb":
        names = [name for name, one in entries.items() if column in ("average", value_at(one, "type"))]
    elif average := next((a for a in suite.averages if a.key == column), None):
        names = [name for name in table.columns if name != column] or list(average.tasks or suite.tasks)
        shared = common.get(suite.name, set()) if _is_whole(suites, suite.name) else set()
        entries = {name: entries[name] for name in shared}
    values = {name: value_at(entries.get(name), path) for name in names}
    values = {name: value for name, value in values.items() if value is not None}
    partial = suite.name != "mteb" and len(values) < len(names)
    partial = partial or any(entries[name].get("partial") for name in values)
    return (fmean(values.values()), partial) if values else (None, False)
