"""What a run is: typed settings in five sections, and where each value came from.

Values are stacked in layers, later ones above: defaults, the user's file, `contrast.toml` of the folder, a preset or
`--config` file, the environment, flags. A flag left alone never beats a file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import tomli_w
from msgspec import Meta

from contrastcli.errors import DataError, UsageError, nearest
from contrastcli.settings import catalogue
from contrastcli.settings.setting import Section, Setting, Value, describe, values

FOLDER_FILE = "contrast.toml"


Pooling = Literal["cls", "mean", "mean-no-cls", "first-last", "last-mean"]

POOLINGS: Mapping[Pooling, str] = {
    "cls": "the first token (SimCSE, SimACE)",
    "mean": "the mean of all tokens, CLS and SEP included (SBERT, PairSupCon)",
    "mean-no-cls": "the mean of all tokens but the first, SEP included (Liao)",
    "first-last": "the mean of the embedding layer and the last layer (the untrained baseline of SimACE's Table 1)",
    "last-mean": "the mean of the last two layers",
}
"""What each pooling takes of the real tokens of a text."""


class Model(Section, frozen=True, kw_only=True):
    """The encoder: backbone, pooling and head."""

    backbone: Annotated[str, Meta(description="hub name, folder, run, or 'starter'")] = "bert-base-uncased"
    pooling: Annotated[Pooling, Meta(description="how token vectors become a sentence vector")] = "mean"
    head: Annotated[
        Literal["none", "train-only", "keep"],
        Meta(description="Linear+Tanh on the pooled vector: none, dropped after training, or kept in the model"),
    ] = "none"
    max_length: Annotated[int, Meta(ge=4, le=8192, description="tokens that training reads of a sentence")] = 32


class Data(Section, frozen=True, kw_only=True):
    """Training rows."""

    train: Annotated[str, Meta(description="file, folder, hf:owner/name, senteval:DIR or 'starter'")] = ""
    columns: Annotated[str, Meta(description="roles of columns: anchor=a,positive=b")] = ""
    labels: Annotated[str, Meta(description="names of labels: 0=entailment,1=neutral,2=contradiction")] = ""
    limit: Annotated[int, Meta(ge=0, le=1_000_000_000, description="rows to read; 0: all")] = 0
    mask_duplicates: Annotated[bool, Meta(description="leave identical texts of a batch out of the negatives")] = True


class Dev(Section, frozen=True, kw_only=True):
    """The scored pairs that choose the best checkpoint."""

    data: Annotated[str, Meta(description="scored pairs: file, hub name, stsb, starter, split:5% or none")] = "stsb"
    every: Annotated[int, Meta(ge=1, description="steps between evaluations", extra={"unit": "steps"})] = 125
    patience: Annotated[int, Meta(ge=0, description="evaluations without a new best before stopping; 0: off")] = 0


class Train(Section, frozen=True, kw_only=True):
    """The loop. Steps are optimiser updates."""

    batch_size: Annotated[int, Meta(ge=1, le=1_000_000, description="rows contrasted with each other")] = 64
    epochs: Annotated[int, Meta(ge=1, le=100_000, description="passes over the data")] = 1
    max_steps: Annotated[int, Meta(ge=0, description="steps at most; 0: by epochs", extra={"unit": "steps"})] = 0
    lr: Annotated[float, Meta(gt=0, le=10, description="peak learning rate of the encoder")] = 3e-5
    head_lr: Annotated[float, Meta(ge=0, le=10, description="learning rate of heads; 0: the encoder's")] = 0.0
    optimizer: Annotated[Literal["adamw", "adam"], Meta(description="optimiser")] = "adamw"
    schedule: Annotated[Literal["linear", "constant", "cosine"], Meta(description="rate after warm-up")] = "linear"
    warmup: Annotated[float, Meta(ge=0, le=1, description="fraction of the steps that the rate rises")] = 0.0
    weight_decay: Annotated[float, Meta(ge=0, le=10, description="weight decay")] = 0.0
    clip: Annotated[float, Meta(ge=0, description="largest gradient norm; 0: no clipping")] = 1.0
    precision: Annotated[Literal["auto", "fp32", "bf16"], Meta(description="bf16: encoder under autocast")] = "auto"
    token_budget: Annotated[int, Meta(ge=0, description="tokens in the encoder at once; 0: by device")] = 0
    log_every: Annotated[int, Meta(ge=1, description="steps between logged steps", extra={"unit": "steps"})] = 10
    save_every: Annotated[int, Meta(ge=0, description="steps between checkpoints; 0: at evaluations")] = 0
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1, description="seed of weights, order and dropout")] = 42
    device: Annotated[str, Meta(description="auto, cpu, cuda, cuda:1 or mps")] = "auto"


class _Name(Section, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="what is trained for: see contrast presets and the README")] = "simcse"


OBJECTIVE = describe("objective", _Name)["name"]
"""The setting that chooses the objective, which has the others."""

SECTIONS: Mapping[str, type[Section]] = {"model": Model, "data": Data, "dev": Dev, "train": Train}

RESUMABLE = frozenset(
    {"train.device", "train.token_budget", "train.log_every", "train.save_every", "train.max_steps", "train.epochs"}
)
"""What `--resume` may change."""


@dataclass(frozen=True)
class Config:
    """A complete run. `sources` says where each value came from; `notes` what was set aside and why."""

    spec: catalogue.Spec
    objective: catalogue.ObjectiveSettings
    model: Model
    data: Data
    dev: Dev
    train: Train
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    def flat(self) -> dict[str, Value]:
        """Every value by its key, `objective.name` first."""
        named: dict[str, Value] = {"objective.name": self.spec.name}
        for section in ("objective", *SECTIONS):
            named |= {f"{section}.{name}": value for name, value in values(getattr(self, section)).items()}
        return named

    def to_toml(self) -> str:
        """The settings as a file that `train --config` repeats the run from."""
        return tomli_w.dumps(by_section(self.flat()))


@dataclass(frozen=True)
class Layer:
    """Values by key from one place, and the name of that place for each. Text is yet to be parsed; in a strict
    layer, flags, a setting that the objective does not use is an error, elsewhere a note."""

    values: Mapping[str, object]
    sources: Mapping[str, str]
    text: bool = False
    strict: bool = False


def by_section(values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Values by section and name."""
    sections: dict[str, dict[str, Value]] = {}
    for key, value in values.items():
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    return sections


def settings_of(spec: catalogue.Spec) -> dict[str, Setting]:
    """Every setting of a run with that objective, by key."""
    found = {s.key: s for s in spec.describe().values()}
    for section, struct in SECTIONS.items():
        found |= {s.key: s for s in describe(section, struct).values()}
    return found


def all_settings() -> dict[str, Setting]:
    """Every setting of every objective, by key; of one that several objectives have, the first."""
    found: dict[str, Setting] = {}
    for spec in catalogue.every():
        found = settings_of(spec) | found
    return found


def resolve(layers: Sequence[Layer]) -> Config:
    """One config from layers, the lowest first. Raises UsageError for unknown keys and bad values."""
    spec, name_source, layers = _choose_objective(layers)
    settings = settings_of(spec)
    chosen: dict[str, Value] = {}
    sources = {"objective.name": name_source}
    notes: list[str] = []
    for layer in layers:
        for key, value in layer.values.items():
            if key == "objective.name":
                continue
            if key not in settings:
                notes.append(_unused(key, spec, layer))
                continue
            chosen[key] = _checked(settings[key], value, layer)
            sources[key] = layer.sources[key]
    config = _build(spec, chosen, sources)
    _check_bounds(config)
    notes += _without_effect(config, layers)
    return replace(config, notes=tuple(notes))


def _checked(setting: Setting, value: object, layer: Layer) -> Value:
    """The layer's value with its right type. Raises UsageError, which names the place."""
    try:
        return setting.parse(str(value)) if layer.text else setting.check(value)
    except UsageError as error:
        raise UsageError(f"{error.what} ({layer.sources[setting.key]})", error.hint) from None


def _choose_objective(layers: Sequence[Layer]) -> tuple[catalogue.Spec, str, list[Layer]]:
    """The objective, and the layers without what a layer below set for another objective or similarity."""
    name, source, similarity = "simcse", "default", None
    kept: list[Layer] = []
    for layer in layers:
        wanted = layer.values.get("objective.name", name)
        compared = layer.values.get("objective.similarity", similarity)
        if wanted != name:
            kept = [_without(lower, "objective.") for lower in kept]
        elif compared != similarity:  # a margin has the unit of the similarity that it was set for
            kept = [_without(lower, "objective.margin") for lower in kept]
        if "objective.name" in layer.values:
            name, source = str(wanted), layer.sources["objective.name"]
        similarity = compared
        kept.append(layer)
    return catalogue.find(name), source, kept


def _without(layer: Layer, prefix: str) -> Layer:
    return replace(layer, values={key: v for key, v in layer.values.items() if not key.startswith(prefix)})


def _unused(key: str, spec: catalogue.Spec, layer: Layer) -> str:
    """A note that the objective has no such setting. Raises UsageError for flags and for keys that nothing has."""
    known = all_settings()
    if key not in known:
        known |= {OBJECTIVE.key: OBJECTIVE}
        raise UsageError(f"there is no setting '{key}' ({layer.sources[key]})", nearest(key, known))
    if layer.strict:
        raise UsageError(
            f"the objective '{spec.name}' has no setting '{key}' ({layer.sources[key]})",
            f"it has {', '.join(spec.describe()) or 'none'}",
        )
    return f"{key} is not used: '{spec.name}' has no such setting ({layer.sources[key]})"


def _without_effect(config: Config, layers: Sequence[Layer]) -> list[str]:
    """Notes of the values that others switch off. Raises UsageError where one is a flag.

    A file may spell out a default, as the config.toml of every run does.
    """
    standing = values(config.objective)
    defaults = config.spec.settings.defaults(standing)
    notes = []
    for name in sorted(config.objective.inactive()):
        key = f"objective.{name}"
        what = f"{key} has no effect beside the other settings of '{config.spec.name}' ({config.sources[key]})"
        if any(layer.strict and key in layer.values for layer in layers):
            raise UsageError(what, "leave it out, or change the setting that switches it off (see --dry-run)")
        if standing[name] != defaults[name]:
            notes.append(what)
    return notes


def _build(spec: catalogue.Spec, chosen: Mapping[str, Value], sources: Mapping[str, str]) -> Config:
    own = {key.split(".")[1]: value for key, value in chosen.items() if key.startswith("objective.")}
    objective = msgspec.convert(spec.settings.defaults(own) | own, spec.settings)
    parts = {
        section: msgspec.convert({k.split(".")[1]: v for k, v in chosen.items() if k.startswith(section + ".")}, struct)
        for section, struct in SECTIONS.items()
    }
    config = Config(spec, objective, **parts)  # type: ignore[arg-type]  # each section has the struct of its name
    return replace(config, sources={key: sources.get(key, "default") for key in config.flat()})


def _check_bounds(config: Config) -> None:
    """Limits that depend on other values, such as a margin's, which has the similarity's unit."""
    standing = values(config.objective)
    for name, bounds in config.objective.bounds().items():
        value, key = standing[name], f"objective.{name}"
        fits = isinstance(value, int | float) and bounds.low <= value <= bounds.high
        if not fits and name not in config.objective.inactive():
            raise UsageError(
                f"{key} is {value} ({config.sources[key]})",
                f"with these settings it must be within {bounds.low:g} and {bounds.high:g} {bounds.unit}".rstrip(),
            )


def file_layer(path: Path, label: str = "") -> Layer:
    """The settings of a TOML file. Raises DataError if it cannot be read, UsageError if it is not TOML."""
    return table_layer(read_toml(path), label or str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file of settings. Raises DataError if it cannot be read, UsageError if it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror}"
        raise DataError(what, "give the path of a TOML file, or use --preset") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "see contrast presets show starter for the form") from None


def table_layer(tables: Mapping[str, Any], label: str) -> Layer:
    """The settings of a file's sections. Raises UsageError for a value outside a section."""
    named: dict[str, object] = {}
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{label}: '{section}' stands outside a section", "sections: [objective] [model] [data] …")
        named |= {f"{section}.{name}": value for name, value in table.items()}
    return Layer(named, dict.fromkeys(named, label))


def text_layer(pairs: Mapping[str, tuple[str, str]], strict: bool) -> Layer:
    """Settings as text: key to (text, source)."""
    return Layer({k: v for k, (v, _) in pairs.items()}, {k: s for k, (_, s) in pairs.items()}, text=True, strict=strict)


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """`CONTRAST_<SECTION>_<KEY>` for each known setting."""
    keys = ["objective.name", *all_settings()]
    variables = {key: "CONTRAST_" + key.replace(".", "_").upper() for key in keys}
    return text_layer({k: (environ[v], v) for k, v in variables.items() if environ.get(v)}, strict=False)


def standing_layers() -> list[Layer]:
    """The user's file and the folder's, where they exist."""
    paths = [user_file(), Path(FOLDER_FILE)]
    return [file_layer(path) for path in paths if path.is_file()]


def user_file() -> Path:
    """The user's own settings, below every other file."""
    import platformdirs

    return Path(platformdirs.user_config_dir("contrast")) / "config.toml"


def cache_dir() -> Path:
    """Where tokens and embeddings are cached: CONTRAST_CACHE, else the user's cache folder."""
    import platformdirs

    return Path(os.environ.get("CONTRAST_CACHE") or platformdirs.user_cache_dir("contrast"))


def state_dir() -> Path:
    """Where the app keeps what it remembers: CONTRAST_STATE, else the user's state folder."""
    import platformdirs

    return Path(os.environ.get("CONTRAST_STATE") or platformdirs.user_state_dir("contrast"))
