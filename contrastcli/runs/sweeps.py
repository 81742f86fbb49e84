"""Sweeps: a grid of settings times seeds, each cell a run; described by one file next to the runs.

runs/
  NAME.sweep.toml            grid, seeds and the settings that all cells share
  NAME-tau=0.05-seed=42/     a cell: a run like any other
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import tomli_w

from contrastcli.errors import ContrastError, RunError, UsageError
from contrastcli.files import atomic_write, decoding, read_bytes, writing_to
from contrastcli.runs import directory as runs
from contrastcli.settings import config as configs
from contrastcli.settings import sections
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.presets import Grid
from contrastcli.settings.sections import SEED
from contrastcli.settings.setting import Value, spell

SUFFIX = ".sweep.toml"

_MOST_CELLS = 10_000


@dataclass(frozen=True)
class Cell:
    """One run of a sweep; `point` has its values of the settings that vary, other than the seed."""

    name: str
    point: Mapping[str, Value]
    config: Config

    @property
    def seed(self) -> int:
        return self.config.train.seed


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A grid, in which a setting may also have a single value, times seeds; `settings` are shared by all cells."""

    name: str
    seeds: tuple[int, ...]
    grid: dict[str, tuple[Value, ...]]
    settings: dict[str, Value]

    def cells(self) -> list[Cell]:
        """All cells, seed by seed within each point of the grid. Raises UsageError for settings that cannot be used."""
        source = f"sweep {self.name}"
        shared = Layer.of(self.settings, source)
        layers = [(name, point, Layer.of(own, source, strict=True)) for name, point, own in self.points()]
        return [Cell(name, point, configs.resolve([shared, own])) for name, point, own in layers]

    def points(self) -> Iterator[tuple[str, dict[str, Value], dict[str, Value]]]:
        """The name of each cell, its values of the settings that vary, and all of its own. Raises UsageError."""
        if len(self.seeds) * math.prod(map(len, self.grid.values())) > _MOST_CELLS:
            raise UsageError(f"the sweep has more than {_MOST_CELLS:,} cells", "give fewer seeds or values")
        for values in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, values, strict=True))
            point = {key: chosen[key] for key in self.grid if len(self.grid[key]) > 1}
            words = [self.name, *(f"{short(key)}={slug(value)}" for key, value in point.items())]
            for seed in self.seeds:
                seeded = [f"seed={seed}"] if len(self.seeds) > 1 else []
                yield "-".join([*words, *seeded]), point, chosen | {SEED: seed}


def short(key: str) -> str:
    """A short name of a setting: `tau` for objective.tau, `objective` for objective.name."""
    section, name = key.split(".")
    return section if name == "name" else name


def slug(value: Value) -> str:
    """The last part of a value, as it may stand in the name of a run."""
    last = re.split(r"[/\\]", spell(value).rstrip("/\\"))[-1]
    return re.sub(r"[^\w.+-]+", "-", last)


def parse(assignments: Sequence[str], typed: Layer) -> dict[str, tuple[Value, ...]]:
    """The values by setting of `objective.tau=0.05,0.06` and so on.

    Raises UsageError, also for a setting that was typed for all cells.
    """
    grid: dict[str, tuple[Value, ...]] = {}
    for assignment in assignments:
        key, equals, values = assignment.partition("=")
        key = key.strip()
        if not equals or not values.strip():
            raise UsageError(f"--grid {assignment} has no values", "write --grid section.key=value,value")
        if key in typed.values:
            what = f"{key} is in the grid and set for all cells"
            raise UsageError(what, "leave one out", key=key, source=typed.sources[key])
        setting = sections.find_setting(key, f"--grid {key}")
        grid[key] = tuple(setting.parse(value.strip(), f"--grid {key}") for value in values.split(","))
    return grid


def make(below: Sequence[Layer], typed: Layer, grid: Grid, seeds: int, name: str | None, directory: Path) -> Sweep:
    """A new sweep above the layers `below`. What was `typed` is the same in all cells, also if a preset's grid has it.

    Raises UsageError.
    """
    if SEED in grid:
        raise UsageError("a grid has no seeds", "give their number, --seeds N, and the first one, --seed S")
    # As part of the grid, typed settings are not reset by a grid over objectives.
    settings = [sections.find_setting(key, source) for key, source in typed.sources.items()]
    fixed = {setting.key: (typed.read(setting),) for setting in settings if setting.section == "objective"}
    rest = {key: value for key, value in typed.values.items() if key not in fixed}
    base = configs.resolve([*below, replace(typed, values=rest)])
    free = {key: values for key, values in grid.items() if key not in typed.values}
    seed = base.train.seed
    all_seeds = tuple(range(seed, seed + min(seeds, _MOST_CELLS + 1)))  # more are refused
    sweep = Sweep(runs.run_name(name, base, directory), all_seeds, free | fixed, base.flat())
    names = Counter(cell.name for cell in sweep.cells())
    if (name := max(names, key=names.__getitem__)) and names[name] > 1:
        raise UsageError(f"two cells would be named {name}", "give each value of the grid once, by different names")
    if len(names) == 1:
        raise UsageError("there is only one cell", "give --grid section.key=value,value or --seeds N")
    return sweep


def check_free(sweep: Sweep, directory: Path) -> None:
    """Raises RunError if there is already a sweep of that name, or a run with the name of a cell."""
    for name in (f"{sweep.name}{SUFFIX}", *(cell.name for cell in sweep.cells())):
        if (directory / name).exists():
            hint = f"choose another --name, or continue: contrast sweep --resume {sweep.name}"
            raise RunError(f"{directory / name} exists", hint)


def save(sweep: Sweep, directory: Path) -> None:
    """Write the file of a new sweep. Raises RunError."""
    check_free(sweep, directory)
    tables = msgspec.to_builtins(sweep)
    text = f"# To continue: contrast sweep --resume {tables.pop('name')}\n\n{tomli_w.dumps(tables)}"
    with writing_to(directory):
        runs.make_runs_dir(directory)
        atomic_write(directory / f"{sweep.name}{SUFFIX}", text.encode())


def find(word: str, directory: Path) -> Sweep:
    """The sweep of a name, an unambiguous part of one, or `last`. Raises DataError."""
    paths = sorted(directory.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    names = [path.name.removesuffix(SUFFIX) for path in paths]
    name = runs.match_name(word, names, directory, "sweep", "contrast sweep --preset P --grid KEY=VALUE,VALUE")
    path = directory / f"{name}{SUFFIX}"
    with decoding(path):
        return msgspec.convert(msgspec.toml.decode(read_bytes(path, configs.LARGEST)) | {"name": name}, Sweep)


def run_names(directory: Path) -> dict[str, set[str]]:
    """The names of the runs of each sweep that can be read, those too that are not there yet."""
    names = {}
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        with suppress(ContrastError):
            sweep = find(path.name.removesuffix(SUFFIX), directory)
            names[sweep.name] = {name for name, *_ in sweep.points()}
    return names
