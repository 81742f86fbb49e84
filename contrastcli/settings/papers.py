"""Every table and figure of the papers: its rows, and the run or model that each row is made of.

`papers.toml` says how; the printed numbers are those of `published.toml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from contrastcli.errors import UsageError, nearest
from contrastcli.settings import config as configs
from contrastcli.settings import presets, published
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.memory import gpu_hours
from contrastcli.settings.presets import Preset
from contrastcli.settings.sections import SEED, Pooling
from contrastcli.settings.setting import Value

Row = tuple[str, str]
"""Backbone and method, as the papers name them."""

_DERIVED = ("time", "significance")
"""What is worked out from runs and scores, and not measured."""
_BACKBONE = "model.backbone"
_EVALUATIONS, _LOGS, _SAVES = 10, 50, 4  # of a shortened run, at least


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"settings": "set"}):
    """How the row of a method is made."""

    preset: str = ""
    settings: dict[str, Value] = {}
    model: str = ""
    checkpoint: str = ""
    pooling: Pooling | None = None
    fetch: str = ""
    why_not: str = ""
    without: dict[str, str] = {}


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What papers.toml says of a figure or a table."""

    title: str = ""
    rows: list[Row] = []
    pictures: list[str] = []
    suites: list[str] = []
    tasks: list[str] = []
    against: dict[str, str] = {}
    note: str = ""
    why_not: str = ""


class Paper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paper, with the number of its tables and figures."""

    name: str
    title: str
    tables: int
    figures: int
    note: str = ""
    items: dict[str, Entry] = {}


class Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of papers.toml."""

    rows: dict[str, tuple[int, int]]
    backbones: dict[str, dict[str, str]]
    methods: dict[str, Recipe]
    papers: dict[str, Paper]


@dataclass(frozen=True)
class Item:
    """A table or figure: `key` is `table-1` or `figure-4`, `tables` its printed numbers, by suite."""

    paper: str
    key: str
    title: str
    rows: tuple[Row, ...]
    tables: tuple[published.Table, ...]
    entry: Entry
    note: str

    @property
    def name(self) -> str:
        """As in a paper: `SimACE, Table 1`."""
        return f"{book().papers[self.paper].name}, {self.key.replace('-', ' ').capitalize()}"

    @property
    def seeds(self) -> int:
        """How many the paper has."""
        return 5 if any("seeds" in table.mark for table in self.tables) else 1

    @property
    def suites(self) -> tuple[str, ...]:
        """What is measured of each row."""
        return tuple(dict.fromkeys([*(t.suite for t in self.tables if t.suite not in _DERIVED), *self.entry.suites]))


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is made of a table: some of its rows, more seeds, other settings, a part of the training data.

    Without `rows` or `backbones` all are made; `seeds` 0 means the paper's number.
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


@dataclass(frozen=True)
class Maker:
    """What makes one number of a row: a run with these settings, else a model that is measured as it is.

    `hours` are those of a GPU for the run, None if they cannot be estimated.
    """

    row: Row
    config: Config | None = None
    preset: str = ""
    hours: float | None = None
    model: str = ""
    pooling: Pooling | None = None
    fetch: str = ""

    @property
    def words(self) -> str:
        """Row and seed: `SimACE on BERT-base, seed 42`."""
        backbone, method = self.row
        on = f" on {backbone}" if backbone in published.tables().backbones else ""
        return f"{method}{on}" + (f", seed {self.config.train.seed}" if self.config else "")


@cache
def book() -> Book:
    """The file, read once."""
    return msgspec.toml.decode(Path(__file__).with_name("papers.toml").read_bytes(), type=Book)


def items(paper: str) -> list[Item]:
    """All tables of a paper, then all figures."""
    told = book().papers[paper]
    last = {"table": told.tables, "figure": told.figures}
    return [_item(paper, f"{kind}-{number}") for kind in last for number in range(1, last[kind] + 1)]


def every() -> list[Item]:
    """All items of all papers."""
    return [item for paper in book().papers for item in items(paper)]


def find(paper: str, key: str) -> Item:
    """A table or figure by name: `simace`, and `table-1` or `Table 1`. Raises UsageError."""
    if paper.lower() not in book().papers:
        raise UsageError(f"there is no paper '{paper}'", nearest(paper.lower(), book().papers))
    known = {item.key: item for item in items(paper.lower())}
    wanted = re.sub(r"[\s_]+", "-", key.strip().lower())
    if wanted not in known:
        raise UsageError(f"{book().papers[paper.lower()].name} has no '{key}'", nearest(wanted, known))
    return known[wanted]


def _item(paper: str, key: str) -> Item:
    told = book().papers[paper]
    entry = told.items.get(key, Entry())
    kind, _, number = key.partition("-")
    tables = [t for t in published.tables().tables if (t.paper, str(t.number)) == (told.name, number)]
    tables = tables if kind == "table" else []
    printed = [(backbone, method) for table in tables for backbone, method, _ in table.lines()]
    printed += [(backbone, entry.against[method]) for backbone, method in printed if method in entry.against]
    title = entry.title or next((table.what for table in tables), "")
    notes = [note for note in (entry.note, told.note, *(table.note for table in tables)) if note]
    rows = tuple(dict.fromkeys(entry.rows or printed))
    return Item(paper, key, title, rows, tuple(tables), entry, " ".join(dict.fromkeys(notes)))


def replaces_backbone(request: Request) -> bool:
    """Whether one backbone stands for all."""
    return _BACKBONE in request.settings


def chosen(item: Item, request: Request) -> list[Row]:
    """The rows that are asked for. Where one backbone replaces all, only the first row of each method.

    Raises UsageError for a row or backbone that the item does not have.
    """
    rows = list(item.rows)
    for number, (what, words) in enumerate((("backbone", request.backbones), ("row", request.rows))):
        known = dict.fromkeys(row[number] for row in rows)
        for word in words:
            if word not in known:
                raise UsageError(f"{item.name} has no {what} '{word}'", nearest(word, known))
        rows = [row for row in rows if row[number] in words] if words else rows
    if replaces_backbone(request):
        first: dict[str, Row] = {}
        for row in rows:
            first.setdefault(row[1], row)
        rows = list(first.values())
    return rows


def why_not(row: Row) -> str:
    """Why a row cannot be made; empty if it can."""
    recipe = book().methods[row[1]]
    return recipe.why_not or recipe.without.get(row[0], "")


def makers(item: Item, row: Row, request: Request) -> list[Maker]:
    """What makes a row, a maker for each seed; none for a row that cannot be made. Raises UsageError."""
    if why_not(row):
        return []
    recipe, words = book().methods[row[1]], book().backbones[row[0]]
    if recipe.checkpoint and request.as_printed:
        return [Maker(row, model=recipe.checkpoint.format(**words), pooling=recipe.pooling)]
    if recipe.model:
        own = recipe.model.format(**words)
        model = request.settings.get(_BACKBONE, own) if words["hub"] else own
        return [Maker(row, model=model, pooling=recipe.pooling, fetch=recipe.fetch)]
    preset = presets.find(recipe.preset.format(**words))
    base = _config(preset, recipe, row, request)
    train = base.train
    rows = request.scale * _rows(base, preset.config)
    hours = gpu_hours(base, round(min(rows, train.max_steps * train.batch_size or rows)), preset.about.texts)
    seeds = range(train.seed, train.seed + (request.seeds or item.seeds))
    configs_ = [configs.resolve([Layer.of(base.flat() | {SEED: seed}, "papers")]) for seed in seeds]
    return [Maker(row, config, preset.name, hours) for config in configs_]


def _config(preset: Preset, recipe: Recipe, row: Row, request: Request) -> Config:
    """The run of a row with its first seed."""
    words = book().backbones[row[0]]
    stated = published.tables().methods.get(row[1], {})
    last = {key: value[-1] if isinstance(value, list) else value for key, value in stated.items()}
    own = {key: value.format(**words) if isinstance(value, str) else value for key, value in recipe.settings.items()}
    layers = [*preset.layers, Layer.of(last | own, "papers")]
    typed = Layer(request.settings, {key: f"--set {key}" for key in request.settings}, text=True)
    config = configs.resolve([*layers, typed])
    if request.scale == 1:
        return config
    return configs.resolve([*layers, Layer.of(_shortened(config, preset.config, request.scale), "--scale"), typed])


def _shortened(config: Config, printed: Config, scale: float) -> dict[str, Value]:
    """The settings that shorten a run: part of the paper's rows, with evaluations, logs and checkpoints closer."""
    steps = max(1, round(_rows(config, printed) * scale / config.train.batch_size))
    rows, _ = book().rows[printed.data.train]
    return {
        "data.limit": max(config.train.batch_size, round(rows * scale)),
        "dev.every": min(config.dev.every, max(1, steps // _EVALUATIONS)),
        "train.log_every": min(config.train.log_every, max(1, steps // _LOGS)),
        "train.save_every": min(config.train.save_every or steps, max(1, steps // _SAVES)),
    }


def _rows(config: Config, printed: Config) -> int:
    """Rows that the paper's run reads over all epochs."""
    rows, each = book().rows[printed.data.train]
    return rows * config.train.epochs * (each if config.spec.needs[0] == "labelled" else 1)
