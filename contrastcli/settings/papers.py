"""Every table and figure of the papers: its rows, and the settings of the run or the model that each is made of.

`papers.toml` says how; the printed numbers are those of `published.toml`.
"""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from contrastcli.errors import UsageError, nearest
from contrastcli.settings import config as configs
from contrastcli.settings import memory, presets, published, sections
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.presets import Preset
from contrastcli.settings.sections import Pooling
from contrastcli.settings.setting import Value

BACKBONE = "model.backbone"

_DERIVED_SUITES = ("time", "significance", "data")
"""Worked out from runs, scores and data, not measured."""

_FEWEST_EVALUATIONS, _FEWEST_LOGS, _FEWEST_SAVES = 10, 50, 4
"""Of a shortened run."""


class System(NamedTuple):
    """What a row of a table is about, as the papers name it."""

    backbone: str
    method: str


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"settings": "set"}):
    """How a method is trained, or which model stands for it; see papers.toml."""

    preset: str = ""
    settings: dict[str, Value] = {}
    model: str = ""
    checkpoint: str = ""
    pooling: Pooling | None = None
    why_not: str = ""
    without: dict[str, str] = {}


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table or figure: `key` is `table-1` or `figure-4`, `tables` its printed numbers by suite; see papers.toml."""

    title: str = ""
    systems: tuple[System, ...] = ()
    pictures: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    against: dict[str, str] = {}
    note: str = ""
    why_not: str = ""
    paper: str = ""
    key: str = ""
    tables: tuple[published.Table, ...] = ()

    @property
    def name(self) -> str:
        """As in a paper: `SimACE, Table 1`."""
        return f"{book().papers[self.paper].name}, {self.key.replace('-', ' ').capitalize()}"

    @property
    def seeds(self) -> int:
        """How many the paper has."""
        return 5 if any("seeds" in table.mark for table in self.tables) else 1


class Paper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paper: how many tables and figures it has, and an entry for each that needs more than its printed numbers."""

    name: str
    title: str
    tables: int
    figures: int
    note: str = ""
    items: dict[str, Item] = {}


class Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of papers.toml."""

    rows: dict[str, tuple[int, int]]
    backbones: dict[str, dict[str, str]]
    methods: dict[str, Recipe]
    papers: dict[str, Paper]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is made of an item: some of its rows, other settings, `scale` of the training rows, sets in `data_dir`.

    Without `rows` or `backbones` all are made; `seeds` 0 means the paper's number. A setting of one row alone has the
    key `ROW:KEY`.
    """

    rows: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    seeds: int = 0
    scale: float = 1.0
    settings: dict[str, str] = {}
    data_dir: str = ""

    @property
    def as_printed(self) -> bool:
        """Whether runs are those of the paper."""
        return self.scale == 1 and not self.settings

    def settings_of(self, row: str) -> dict[str, str]:
        """The settings of a row by key: those of all rows, then its own."""
        every = {key: value for key, value in self.settings.items() if ":" not in key}
        of_row = {key: value for key, value in self.settings.items() if key.startswith(f"{row}:")}
        return every | {key.removeprefix(f"{row}:"): value for key, value in of_row.items()}

    @property
    def words(self) -> list[str]:
        """The options that ask for this."""
        options = {
            "--rows": ",".join(self.rows),
            "--backbones": ",".join(self.backbones),
            "--seeds": str(self.seeds or ""),
            "--scale": f"{self.scale:g}" if self.scale != 1 else "",
            "--data-dir": self.data_dir,
        }
        assigned = [word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")]
        return [word for option, value in options.items() if value for word in (option, value)] + assigned


@cache
def book() -> Book:
    """The file, read once."""
    return msgspec.toml.decode(Path(__file__).with_name("papers.toml").read_bytes(), type=Book)


@cache
def items(of: str = "") -> tuple[Item, ...]:
    """Of each paper, or of one, all tables, then all figures. Raises UsageError for an unknown one."""
    if of and of not in book().papers:
        raise UsageError(f"there is no paper '{of}'", f"known: {', '.join(book().papers)}")
    every = book().papers.items()
    counts = {key: {"table": paper.tables, "figure": paper.figures} for key, paper in every if of in ("", key)}
    numbered = [(key, kind, n) for key in counts for kind in counts[key] for n in range(1, counts[key][kind] + 1)]
    return tuple(_item(*each) for each in numbered)


def _item(key: str, kind: str, number: int) -> Item:
    paper = book().papers[key]
    item = paper.items.get(f"{kind}-{number}", Item())
    every = published.tables().tables if kind == "table" else []
    tables = [table for table in every if (table.paper, table.number) == (paper.name, number)]
    trained = [table for table in tables if table.suite != "data"]
    systems = [*item.systems, *(System(*line[:2]) for table in trained for line in table.lines())]
    systems += [System(one.backbone, item.against[one.method]) for one in systems if one.method in item.against]
    notes = [item.note, paper.note if systems else "", *(table.note for table in tables), _slips(tables)]
    suites = [*(table.suite for table in tables if table.suite not in _DERIVED_SUITES), *item.suites]
    return structs.replace(
        item,
        paper=key,
        key=f"{kind}-{number}",
        title=item.title or tables[0].what,
        tables=tuple(tables),
        systems=tuple(dict.fromkeys(systems)),
        suites=tuple(dict.fromkeys(suites)),
        note=" ".join(dict.fromkeys(filter(None, notes))),
    )


def _slips(tables: Sequence[published.Table]) -> str:
    """The printed averages that do not follow from their rows."""
    names = {(table.paper, table.number) for table in tables}
    slips = [slip[2:] for slip in published.tables().slips if slip[:2] in names]
    words = [f"{method} on {backbone} {printed:.2f} ({mean:.2f})" for backbone, method, printed, mean in slips]
    return f"Averages that are not those of their rows (in brackets): {'; '.join(words)}." if words else ""


def find_item(paper: str, key: str) -> Item:
    """A table or figure by name: `simace`, and `table-1` or `Table 1`. Raises UsageError."""
    paper, key = paper.lower(), re.sub(r"[\s_]+", "-", key.strip().lower())
    if not paper:
        raise UsageError("no paper is named", "name one and its item, as simace table-1: contrast papers lists them")
    known = {item.key: item for item in items(paper)}
    if not key:
        what = f"{book().papers[paper].name} has {len(known)} tables and figures"
        first = next(iter(known))
        raise UsageError(what, f"name one, such as {paper} {first}: contrast papers show {paper} lists them")
    if key not in known:
        raise UsageError(f"{book().papers[paper].name} has no '{key}'", nearest(key, known))
    return known[key]


def systems(item: Item, request: Request) -> list[System]:
    """The systems that are asked for. Where one backbone stands for all, only the first of each method.

    Raises UsageError for a method or backbone that the item does not have, and for a setting by which its rows differ.
    """
    chosen = list(item.systems)
    for number, (what, words) in enumerate((("backbone", request.backbones), ("row", request.rows))):
        known = dict.fromkeys(system[number] for system in chosen)
        for word in words:
            if word not in known:
                raise UsageError(f"{item.name} has no {what} '{word}'", nearest(word, known))
        chosen = [system for system in chosen if not words or system[number] in words]
    if BACKBONE in request.settings:
        chosen = list({system.method: system for system in reversed(chosen)}.values())[::-1]
    for key, value in request.settings.items():
        by_row = {system.method: made[key] for system in chosen if key in (made := published.stated(system.method))}
        if len({*map(tuple, by_row.values())}) > 1:
            hint = f"--set {shlex.quote(f'{next(iter(by_row))}:{key}={value}')}"
            raise UsageError(f"the rows of {item.name} differ by {key}", f"set it in one of them: {hint}", key=key)
    return chosen


def recipe(system: System) -> Recipe:
    """How a system is made, with the names of its backbone filled in, and with `why_not` if that cannot be made."""
    method = system.method
    while method not in book().methods:
        method = str(published.tables().methods[method]["base"])
    own, words = book().methods[method], book().backbones[system.backbone]
    settings = {key: value.format(**words) if isinstance(value, str) else value for key, value in own.settings.items()}
    names = {name: getattr(own, name).format(**words) for name in ("preset", "model", "checkpoint")}
    return structs.replace(own, settings=settings, why_not=own.why_not or own.without.get(system.backbone, ""), **names)


def config_of(system: System, request: Request) -> Config:
    """The run of a system with its first seed. Raises DataError for a user's file that cannot be read, and UsageError.

    Of the user's files and environment only settings of execution count: any other would make another model.
    """
    made_by = recipe(system)
    preset = presets.find(made_by.preset)
    last = {key: values[-1] for key, values in published.stated(system.method).items()}
    own = [_execution(layer) for layer in (*configs.user_layers(), configs.environment_layer(os.environ))]
    layers = [*own[:-1], *preset.layers, own[-1], Layer.of(last | made_by.settings, "papers")]
    own_settings = request.settings_of(system.method)
    typed = Layer(own_settings, {key: f"--set {key}" for key in own_settings}, text=True)
    try:
        config = configs.resolve([*layers, typed])
    except UsageError as error:
        if error.key not in own_settings:
            raise
        hint = f"{error.hint}; to set it in another row alone: --set ROW:{error.key}={own_settings[error.key]}"
        raise UsageError(f"{system.method}: {error.fault}", hint, key=error.key, source=error.source) from None
    if request.scale == 1:
        return config
    return configs.resolve([*layers, Layer.of(_shortened(config, preset, request.scale), "--scale"), typed])


def _execution(layer: Layer) -> Layer:
    """The settings of a layer that do not change what is trained, and what is none, of which `resolve` tells."""
    others = {key for key, one in sections.all_settings().items() if one.role != "execution"} | {sections.SEED}
    return replace(layer, values={key: value for key, value in layer.values.items() if key not in others})


def _shortened(config: Config, preset: Preset, scale: float) -> dict[str, Value]:
    """The settings that shorten a run: part of the paper's rows, with evaluations, logs and checkpoints closer."""
    steps = max(1, round(_rows(config, preset) * scale / config.train.batch_size))
    printed, _ = book().rows[preset.config.data.train]
    return {
        "data.limit": max(config.train.batch_size, round(printed * scale)),
        "dev.every": min(config.dev.every, max(1, steps // _FEWEST_EVALUATIONS)),
        "train.log_every": min(config.train.log_every, max(1, steps // _FEWEST_LOGS)),
        "train.save_every": min(config.train.save_every or steps, max(1, steps // _FEWEST_SAVES)),
    }


def _rows(config: Config, preset: Preset) -> int:
    """Rows that the paper's run reads over all epochs."""
    printed, each = book().rows[preset.config.data.train]
    return printed * config.train.epochs * (each if config.spec.needs[0] == "labelled" else 1)


def gpu_hours(system: System, config: Config, request: Request) -> float | None:
    """An estimate for the run of a system; None for an unknown backbone."""
    preset = presets.find(recipe(system).preset)
    count = request.scale * _rows(config, preset)
    steps = config.train.max_steps * config.train.batch_size
    return memory.gpu_hours(config, min(count, steps or count), preset.about.texts)
