"""Sweeps: a grid of settings times seeds, each cell a run; described by one file next to the runs.

runs/
  NAME.sweep.toml            grid, seeds and the settings that all cells share
  NAME-tau=0.05-seed=42/     a cell: a run like any other
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import msgspec

from contrastcli.errors import ContrastError, DataError, RunError, UsageError, Use
from contrastcli.runs import cells
from contrastcli.runs import directory as runs
from contrastcli.runs.cells import WAITING, Cell
from contrastcli.runs.directory import Run
from contrastcli.runs.methods import Member, method
from contrastcli.runs.results import SweepScores
from contrastcli.settings import config as configs
from contrastcli.settings import sections
from contrastcli.settings.config import Layer
from contrastcli.settings.presets import Grid
from contrastcli.settings.sections import SEED
from contrastcli.settings.setting import Value, seeds_in_words, spell

_SUFFIX = ".sweep.toml"
_MOST_CELLS = 10_000
_SOME = msgspec.Meta(min_length=1)


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A grid, in which a setting may also have a single value, times seeds; `settings` are shared by all cells.

    Raises UsageError for too many cells.
    """

    name: str
    seeds: Annotated[tuple[int, ...], _SOME]
    grid: dict[str, Annotated[tuple[Value, ...], _SOME]]
    settings: dict[str, Value]

    def __post_init__(self) -> None:
        if len(self.seeds) * math.prod(map(len, self.grid.values())) > _MOST_CELLS:
            raise UsageError(f"the sweep has more than {_MOST_CELLS:,} cells", "give fewer seeds or values")

    @property
    def command(self) -> str:
        return f"contrast sweep --resume {self.name}"

    def cells(self, directory: Path, *, strict: bool = False) -> list[Cell]:
        """All cells, seed by seed within each point of the grid.

        Raises UsageError for settings that cannot be used; with `strict`, as for a new sweep, for several values of one
        without effect, and for one that an objective of the grid does not have.
        """
        shared = Layer.of(self.settings, f"sweep {self.name}")
        made = []
        for name, point, own in self.points():
            varied = own if sections.OBJECTIVE.key in point else point
            layers = Layer.of(own, f"sweep {self.name}"), Layer.of(varied, f"sweep {self.name}", strict=strict)
            config = configs.resolve([shared, *layers])
            words = [*(f"{short(key)}={spell(value)}" for key, value in point.items()), f"seed={config.train.seed}"]
            made.append(Cell(Run(directory / name), " ".join(words), config))
        return made

    def scores(self, members: Mapping[str, Member]) -> SweepScores:
        """The scores of each point of the grid over its seeds, from the runs that there are, by name."""
        methods = []
        for point, runs_of in itertools.groupby(self.points(), key=itemgetter(1)):
            every = [members.get(name) or Member(name, own, WAITING, {}) for name, _, own in runs_of]
            methods.append(method(point, every))
        return SweepScores(self.name, self.grid, self.seeds, tuple(methods))

    def points(self) -> Iterator[tuple[str, dict[str, Value], dict[str, Value]]]:
        """The name of each cell, its values of the settings that vary, and all of its own."""
        for values in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, values, strict=True))
            point = {key: chosen[key] for key in self.grid if len(self.grid[key]) > 1}
            words = [self.name, *(f"{short(key)}={slug(value)}" for key, value in point.items())]
            for seed in self.seeds:
                seeded = [f"seed={seed}"] if len(self.seeds) > 1 else []
                yield "-".join([*words, *seeded]), point, chosen | {SEED: seed}


def short(key: str) -> str:
    """A short name of a setting: `tau` for objective.tau, `objective` for objective.name."""
    section, _, name = key.rpartition(".")
    return section if name == "name" else name


def slug(value: Value) -> str:
    """The last part of a value, as it may stand in the name of a run."""
    last = re.split(r"[/\\]", spell(value).rstrip("/\\"))[-1]
    return re.sub(r"[^\w.+-]+", "-", last)


def parse(assignments: Sequence[str], typed: Layer) -> dict[str, tuple[Value, ...]]:
    """The values by setting of `objective.tau=0.05,0.06`, or `tau=0.05,0.06` as its option is called, and so on.

    Raises UsageError, also for a setting that was typed for all cells.
    """
    grid: dict[str, tuple[Value, ...]] = {}
    for assignment in assignments:
        key, equals, values = assignment.partition("=")
        key = sections.key_of(key)
        if not equals or not values.strip():
            raise UsageError(f"--grid {assignment} has no values", f"write --grid {key or 'KEY'}=VALUE,VALUE")
        if key in typed.values:
            what = f"{key} is in the grid and set for all cells"
            hint = f"leave out --grid {key} or {typed.sources[key]}"
            raise UsageError(what, hint, key=key, source=typed.sources[key])
        setting = sections.find_setting(key, f"--grid {key}")
        grid[key] = *grid.get(key, ()), *(setting.parse(value.strip(), f"--grid {key}") for value in values.split(","))
    return grid


def make(below: Sequence[Layer], typed: Layer, grid: Grid, seeds: int, name: str | None, directory: Path) -> Sweep:
    """A new sweep above the layers `below`. What was `typed` is the same in all cells; no `grid` has it.

    Raises UsageError.
    """
    if SEED in grid:
        asked = seeds_in_words([int(seed) for seed in grid[SEED]])
        raise UsageError("a grid has no seeds", f"give their number and the first one, out of the grid: {asked}")
    # As part of the grid, typed settings are not reset by a grid over objectives.
    settings = [sections.find_setting(key, source) for key, source in typed.sources.items()]
    fixed = {setting.key: (typed.read(setting),) for setting in settings if setting.section == "objective"}
    rest = {key: value for key, value in typed.values.items() if key not in fixed}
    base = configs.resolve([*below, replace(typed, values=rest)])
    points = {**grid, **fixed}
    seed = base.train.seed
    # More seeds than cells are refused below.
    all_seeds = tuple(range(seed, seed + min(seeds, _MOST_CELLS + 1)))
    objectives = points.get(sections.OBJECTIVE.key, (base.spec.name,))
    title = str(objectives[0]) if len(objectives) == 1 else "sweep"
    sweep = Sweep(runs.run_name(name, base, directory, title), all_seeds, points, base.flat())
    cells = sweep.cells(directory, strict=True)
    for setting in settings:
        reasons = [cell.config.objective.inactive().get(setting.name, "") for cell in cells]
        if setting.key in fixed and all(reasons):
            raise UsageError(f"{setting.key} has {reasons[0]}", f"leave out {typed.sources[setting.key]}")
    names = Counter(cell.name for cell in cells)
    if (name := max(names, key=names.__getitem__)) and names[name] > 1:
        raise UsageError(f"two cells would be named {name}", "give each value of the grid once, by different names")
    if len(names) == 1 and not grid:
        remedies = [Use("--grid", "section.key=value,value", "give"), Use("--seeds", "2 or more", "give")]
        raise UsageError("there is only one cell", remedies)
    return sweep


def check_free(sweep: Sweep, directory: Path) -> None:
    """Raises RunError if there is already a sweep or another thing of that name, or of the name of a cell."""
    runs_named = [runs.Run(directory / sweep.name), *(cell.run for cell in sweep.cells(directory))]
    others = {run.path: f"remove it: contrast runs rm {run.name}" for run in runs_named if run.exists()}
    for path, other in {_file(sweep.name, directory): f"continue: {sweep.command}", **others}.items():
        if path.exists():
            raise RunError(f"{path} exists", f"choose another --name, or {other}")
    for run in runs_named:
        runs.check_free(run)


def is_saved(sweep: Sweep, directory: Path) -> bool:
    """Whether another worker has written the file of the same sweep. Raises RunError if it is that of another one."""
    path = _file(sweep.name, directory)
    if path.is_file() and cells.read_request(path, Sweep, name=sweep.name) != sweep:
        hint = f"choose another --name, or leave grid and settings to it: {sweep.command} --worker"
        raise RunError(f"{path} has another grid or other settings", hint)
    return path.is_file()


def save(sweep: Sweep, directory: Path, *, shared: bool = False) -> None:
    """Write the file of a new sweep; if `shared`, other workers may write the same at this moment. Raises RunError."""
    if not shared:
        check_free(sweep, directory)
    tables = msgspec.to_builtins(sweep)
    cells.save_request(_file(tables.pop("name"), directory), tables, sweep.command)


def find_sweep(word: str, directory: Path) -> Sweep:
    """The sweep of a name, an unambiguous part of one, or `last`. Raises DataError."""
    paths = sorted(directory.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    names = [path.name.removesuffix(_SUFFIX) for path in paths]
    if word not in names and runs.Run(directory / word).exists():
        raise DataError(f"'{word}' is a run, not a sweep", f"contrast train --resume {word}")
    name = runs.match_name(word, names, directory, "sweep", "contrast sweep --preset starter --grid tau=0.05,0.06")
    return cells.read_request(_file(name, directory), Sweep, name=name)


def list_sweeps(directory: Path) -> list[Sweep]:
    """The sweeps of a directory that can be read, by name."""
    found = []
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        with suppress(ContrastError):
            found.append(cells.read_request(path, Sweep, name=path.name.removesuffix(_SUFFIX)))
    return found


def _file(name: str, directory: Path) -> Path:
    return directory / f"{name}{_SUFFIX}"
