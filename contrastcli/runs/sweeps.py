"""Sweeps: a grid of settings times seeds, each cell a run; kept in one file next to the runs.

runs/
  NAME.sweep.toml            grid, seeds and the settings that all cells share
  NAME-tau=0.05-seed=42/     a cell: a run like any other
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import tomli_w

from contrastcli.errors import DataError, RunError, UsageError, nearest
from contrastcli.files import atomic_write, writing_to
from contrastcli.runs import directory as runs
from contrastcli.settings import config as configs
from contrastcli.settings import sections
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.presets import Grid
from contrastcli.settings.sections import SEED
from contrastcli.settings.setting import Value, spell

SUFFIX = ".sweep.toml"


@dataclass(frozen=True)
class Cell:
    """One run of a sweep; `point` has what the grid chose for it, the seed apart."""

    name: str
    point: Mapping[str, Value]
    config: Config

    @property
    def seed(self) -> int:
        return self.config.train.seed


@dataclass(frozen=True)
class Sweep:
    """A grid over `seeds`, over the `settings` that all cells share.

    In the grid a single value is one for all cells.
    """

    name: str
    grid: Grid
    seeds: tuple[int, ...]
    settings: Mapping[str, Value]

    @property
    def varied(self) -> tuple[str, ...]:
        """The settings that differ between cells, the seed apart."""
        return tuple(key for key, values in self.grid.items() if len(values) > 1)

    def cells(self) -> list[Cell]:
        """All cells, seed by seed within each point of the grid. Raises UsageError for settings that make no run."""
        source = f"sweep {self.name}"
        below = Layer.of(self.settings, source)
        cells = []
        for values in itertools.product(*self.grid.values()):
            chosen = dict(zip(self.grid, values, strict=True))
            for seed in self.seeds:
                own = chosen | {SEED: seed}
                config = configs.resolve([below, Layer.of(own, source, strict=True)])
                point = {key: chosen[key] for key in self.varied}
                cells.append(Cell(self._name_of(point, seed), point, config))
        return cells

    def _name_of(self, point: Mapping[str, Value], seed: int) -> str:
        words = [f"{short(key)}={_slug(value)}" for key, value in point.items()]
        return "-".join([self.name, *words, *([f"seed={seed}"] if len(self.seeds) > 1 else [])])


def short(key: str) -> str:
    """A setting in a narrow place: `tau` for objective.tau, `objective` for objective.name."""
    section, name = key.split(".")
    return section if name == "name" else name


def _slug(value: Value) -> str:
    last = re.split(r"[/\\]", spell(value).rstrip("/\\"))[-1]
    return re.sub(r"[^\w.+-]+", "-", last)


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    seeds: tuple[int, ...]
    grid: dict[str, tuple[Value, ...]]
    settings: dict[str, Value]


def parse(assignments: Sequence[str], typed: Layer) -> dict[str, tuple[Value, ...]]:
    """`objective.tau=0.05,0.06` and so on as values by setting.

    Raises UsageError, also for a setting that was typed for all cells.
    """
    grid: dict[str, tuple[Value, ...]] = {}
    for assignment in assignments:
        key, equals, values = assignment.partition("=")
        key = key.strip()
        if not equals or not values.strip():
            raise UsageError(f"--grid {assignment} has no values", "write --grid section.key=value,value")
        if key in typed.values:
            what = f"{key} is in the grid and given for all cells"
            raise UsageError(what, "leave one out", key=key, source=typed.sources[key])
        setting = sections.find(key, f"--grid {key}")
        grid[key] = tuple(setting.parse(value.strip(), f"--grid {key}") for value in values.split(","))
    return grid


def make(below: Sequence[Layer], typed: Layer, grid: Grid, seeds: int, name: str | None, directory: Path) -> Sweep:
    """A new sweep over the layers below, with what was `typed` the same in all cells and a preset's grid giving way.

    Raises UsageError before anything is written.
    """
    if SEED in grid:
        raise UsageError("a grid has no seeds", "give their number, --seeds N, and the first one, --seed S")
    # A grid over objectives resets what their settings inherit, and keeps what was typed.
    settings = [sections.find(key, source) for key, source in typed.sources.items()]
    fixed = {setting.key: (typed.read(setting),) for setting in settings if setting.section == "objective"}
    rest = {key: value for key, value in typed.values.items() if key not in fixed}
    base = configs.resolve([*below, replace(typed, values=rest)])
    free = {key: values for key, values in grid.items() if key not in typed.values}
    name = runs.new_name(base, directory) if name is None else runs.checked_name(name)
    sweep = Sweep(name, free | fixed, tuple(range(base.train.seed, base.train.seed + seeds)), base.flat())
    _check_distinct(sweep)
    return sweep


def _check_distinct(sweep: Sweep) -> None:
    names = [cell.name for cell in sweep.cells()]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"two cells would be named {twice[0]}", "give each value of the grid once, by different names")
    if len(names) == 1:
        raise UsageError("there is one cell only", "give --grid section.key=value,value or --seeds N")


def path_of(sweep: Sweep, directory: Path) -> Path:
    """The file of a sweep."""
    return directory / f"{sweep.name}{SUFFIX}"


def check_free(sweep: Sweep, directory: Path) -> None:
    """Raises RunError if there is a sweep of that name, or a run that a cell would be."""
    taken = [path_of(sweep, directory), *(directory / cell.name for cell in sweep.cells())]
    for place in taken:
        if place.exists():
            raise RunError(f"{place} exists", f"choose another --name, or go on: contrast sweep --resume {sweep.name}")


def save(sweep: Sweep, directory: Path) -> None:
    """Write a new sweep down. Raises RunError."""
    check_free(sweep, directory)
    stored = {"seeds": list(sweep.seeds), "grid": {k: list(v) for k, v in sweep.grid.items()}}
    with writing_to(directory):
        runs.make_runs_dir(directory)
        text = tomli_w.dumps(stored | {"settings": dict(sweep.settings)})
        atomic_write(
            path_of(sweep, directory), f"# To go on with it: contrast sweep --resume {sweep.name}\n\n{text}".encode()
        )


def find(word: str, directory: Path) -> Sweep:
    """The sweep of a name, an unambiguous part of one, or `last`. Raises DataError."""
    paths = sorted(directory.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    names = [path.name.removesuffix(SUFFIX) for path in paths]
    named = names[:1] if word == "last" else [n for n in names if n == word] or [n for n in names if word in n]
    if not named:
        hint = nearest(word, names[:20]) if names else "make one: contrast sweep --preset P --grid KEY=VALUE,VALUE"
        raise DataError(f"there is no sweep '{word}' in {directory}", hint)
    if len(named) > 1:
        raise DataError(f"'{word}' means {len(named)} sweeps", f"say which: {', '.join(named[:20])}")
    path = directory / f"{named[0]}{SUFFIX}"
    try:
        stored = msgspec.toml.decode(path.read_bytes(), type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is malformed: {error}", "restore the file, or remove it") from None
    return Sweep(named[0], stored.grid, stored.seeds, stored.settings)
