"""Presets: a TOML file for each published setting, and for each grid of them that a sweep trains.

A preset is a file of settings with a table `[about]`. With `base = "NAME"` it states only how it differs from that
preset of a run, which a test keeps from having a base itself unless this one is a grid, with `[grid]` and `seeds`. A
file of `--config` may have all of these.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomli_w
from msgspec import Meta

from contrastcli.errors import UsageError, nearest
from contrastcli.settings import config as configs
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.sections import OBJECTIVE, find_setting, key_of
from contrastcli.settings.setting import Value

Grid = Mapping[str, tuple[Value, ...]]
"""Values by setting."""


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """The table `[about]` of a preset.

    `what` it trains, in one sentence; the `paper` and where the settings are from, empty if there is none; the
    `hardware` that it needs apart from GPU memory; the number of `texts` of a row; and, by topic, how questions that
    the paper leaves open are `settled` here.
    """

    what: str = ""
    paper: str = ""
    hardware: str = ""
    texts: Annotated[int, Meta(ge=1)] = 2
    settled: dict[str, str] = {}


class _Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """The entries of a file that are not settings."""

    base: str = ""
    about: dict[str, Any] = {}
    seeds: Annotated[int, Meta(ge=1)] = 1
    grid: dict[str, tuple[Value, ...]] = {}


@dataclass(frozen=True)
class Preset:
    """A file of settings, in layers, those of its base first."""

    name: str = ""
    about: About = field(default_factory=About)
    layers: tuple[Layer, ...] = ()
    grid: Grid = field(default_factory=dict)
    seeds: int = 1

    @cached_property
    def config(self) -> Config:
        """The run that it describes; of a grid, the run that the grid varies."""
        return configs.resolve(self.layers)

    @property
    def values(self) -> dict[str, Value]:
        """The settings that it or its base states, by key."""
        return {key: value for key, value in self.config.flat().items() if self.config.sources[key] != "default"}

    def points(self) -> Iterator[Config]:
        """The run of each point of the grid, with one seed."""
        for values in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, values, strict=True))
            yield configs.resolve([*self.layers, Layer.of(point, self.name)])

    def to_toml(self) -> str:
        """An equivalent file without a base."""
        head = _Head("", msgspec.to_builtins(self.about), self.seeds, dict(self.grid))
        return tomli_w.dumps(msgspec.to_builtins(head) | configs.by_section(self.values))


def folder() -> Path:
    """Where the presets are: inside the installed package, or next to it in a checkout."""
    installed = Path(__file__).parents[1] / "presets"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "presets"


def names() -> list[str]:
    """The presets of runs."""
    return sorted(path.stem for path in folder().glob("*.toml"))


def sweep_names() -> list[str]:
    """The presets of sweeps."""
    return sorted(path.stem for path in folder().glob("sweeps/*.toml"))


def find(name: str) -> Preset:
    """The preset of a run or of a sweep. Raises UsageError for an unknown one."""
    for path in (folder() / f"{name}.toml", folder() / "sweeps" / f"{name}.toml"):
        # Path.is_file raises for a name that is too long.
        if path.stem == name and os.path.isfile(path):
            return _shipped(path)
    known = nearest(name, [*names(), *sweep_names()], "contrast presets")
    raise UsageError(f"there is no preset '{name}'", f"--config {name}" if name.endswith(".toml") else known)


def stack(preset: Preset) -> list[Layer]:
    """Every layer below the flags, the lowest first."""
    return [*configs.user_layers(), *preset.layers, configs.environment_layer(os.environ)]


def words(config: Config, below_flags: Sequence[Layer] | None = None) -> list[str]:
    """What follows `contrast train` on a command line that trains with these settings, by default here."""
    layers = stack(Preset()) if below_flags is None else below_flags
    objective = Layer({OBJECTIVE.key: config.spec.name}, {OBJECTIVE.key: "default"}, to_read=True)
    below = configs.resolve([*layers, objective])
    return [*OBJECTIVE.words(config.spec.name), *configs.changes(below, config)]


@cache
def _shipped(path: Path) -> Preset:
    return read(path, f"preset {path.stem}")


def read(path: Path, label: str = "") -> Preset:
    """A preset from its file. Raises DataError and UsageError."""
    tables, label = configs.read_toml(path), label or str(path)
    entries = {name: tables.pop(name) for name in _Head.__struct_fields__ if name in tables}
    if isinstance(grid := entries.get("grid"), dict):
        # Without quotes, a key with a dot is a table in TOML.
        nested = {name: values for name, values in grid.items() if isinstance(values, dict)}
        dotted = {f"{name}.{key}": listed for name, values in nested.items() for key, listed in values.items()}
        entries["grid"] = {key_of(name): grid[name] for name in grid if name not in nested} | dotted
    try:
        head = msgspec.convert(entries, _Head)
        base = Preset()
        if head.base:
            base_path = folder() / f"{head.base}.toml"
            if base_path.stem != head.base or not os.path.isfile(base_path):
                what = f"{label}: there is no preset '{head.base}' to base it on"
                raise UsageError(what, nearest(head.base, names(), "contrast presets"))
            base = _shipped(base_path)
        about = _about(base.about, head.about, label)
    except msgspec.ValidationError as error:
        example = sweep_names()[0] if "grid" in entries else "simace-bert-base"
        raise UsageError(f"{label}: {error}", f"see contrast presets show {example} for an example") from None
    for key, values in head.grid.items():
        find_setting(key, f"{label}, [grid]")
        if not values:
            raise UsageError(f"{label}: [grid] has no values for {key}", f'write "{key}" = [VALUE, VALUE]')
    return Preset(path.stem, about, (*base.layers, configs.table_layer(tables, label)), head.grid, head.seeds)


def _about(base: About, own: Mapping[str, Any], label: str) -> About:
    """A preset's entries over those of its base; `settled` is merged topic by topic."""
    known = [f"about.{name}" for name in About.__struct_fields__]
    for key in (f"about.{name}" for name in own):
        if key not in known:
            raise UsageError(f"there is no setting '{key}' ({label})", nearest(key, known))
    above = msgspec.convert(own, About)
    stated = {name: getattr(above, name) for name in own}
    return msgspec.structs.replace(base, **(stated | {"settled": base.settled | above.settled}))
