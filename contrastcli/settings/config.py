"""The settings of a run, typed, in seven sections, and where each value came from.

Values are stacked in layers, later ones above: defaults, the user's file, `contrast.toml` of the folder, a preset or
`--config` file, the environment, flags. A flag left alone never beats a file.
"""

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import msgspec
import tomli_w
from msgspec import structs

from contrastcli.errors import DataError, Hint, UsageError, Use, error_text, nearest
from contrastcli.files import read_bytes, user_file
from contrastcli.settings import catalogue, sections
from contrastcli.settings.objective import ObjectiveSettings, Spec
from contrastcli.settings.other_names import our_name
from contrastcli.settings.sections import OBJECTIVE, RESETS, SECTIONS
from contrastcli.settings.setting import Setting, Value, spell, values
from contrastcli.settings.similarity import NO_MARGIN, SIMILARITIES

FORMAT = 2
"""Of the settings of a run as a file; it rises where a setting is added."""

RETIRED = {"train.compile"}
"""Settings of an earlier version, which files may still have."""


@dataclass(frozen=True)
class Config:
    """Every setting of a run, the `sources` of the values, and `notes` on values that are not used."""

    spec: Spec
    objective: ObjectiveSettings
    model: sections.Model
    data: sections.Data
    dev: sections.Dev
    train: sections.Train
    alerts: sections.Alerts
    track: sections.Track
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    def flat(self) -> dict[str, Value]:
        """Every value by its key, `objective.name` first."""
        named: dict[str, Value] = {OBJECTIVE.key: self.spec.name}
        for section in ("objective", *SECTIONS):
            named |= {f"{section}.{name}": value for name, value in values(getattr(self, section)).items()}
        return named

    def shown(self) -> dict[str, Value]:
        """Every value by its key as others may see it: without secrets."""
        settings = sections.settings_of(self.spec)
        return {key: settings[key].shown(value) for key, value in self.flat().items()}

    def masked(self, text: str) -> str:
        """A text without the secrets among the values."""
        for value, shown in zip(self.flat().values(), self.shown().values(), strict=True):
            text = text.replace(str(value), str(shown)) if value != shown else text
        return text

    def with_values(self, values: Mapping[str, Value]) -> "Config":
        """The same settings but for these values, by key."""
        changed = {name: structs.replace(getattr(self, name), **own) for name, own in by_section(values).items()}
        return replace(self, **changed)

    def unit(self, setting: Setting) -> str:
        """The unit of a setting, which may depend on another setting."""
        bounds = self.objective.bounds().get(setting.name) if setting.section == "objective" else None
        return bounds.unit if bounds else setting.unit

    def to_toml(self) -> str:
        """The settings as a file from which `train --config` repeats the run. Raises UsageError if it is too large."""
        flat = self.flat()
        longest = max(flat, key=lambda key: len(spell(flat[key])))
        files = Use("--data", "DIR", "give the folder of the files:")
        remedy = files if longest == "data.train" else f"give a shorter {longest}"
        return checked(tomli_w.dumps({"format": FORMAT} | by_section(flat)), remedy)


def by_section(values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Values by section and name."""
    grouped: dict[str, dict[str, Value]] = {}
    for key, value in values.items():
        section, name = key.split(".")
        grouped.setdefault(section, {})[name] = value
    return grouped


@dataclass(frozen=True)
class Layer:
    """Values by key and the source of each. Values of a `text` layer are still to be parsed.

    A setting that the objective does not use is an error in a `strict` layer (flags), and a note in others. One that a
    `later` version of this program has written and this one does not know is a note where the layer is only `to_read`.
    What is reset of a layer is a note where it is the `users` own. It may have `notes` itself.
    """

    values: Mapping[str, object]
    sources: Mapping[str, str]
    text: bool = False
    strict: bool = False
    later: bool = False
    to_read: bool = False
    users: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, object], source: str, *, strict: bool = False) -> "Layer":
        """Values that all have one source."""
        return cls(values, dict.fromkeys(values, source), strict=strict)

    def read(self, setting: Setting) -> Value:
        """The value of a setting, with its right type. Raises UsageError."""
        value, source = self.values[setting.key], self.sources[setting.key]
        return setting.parse(str(value), source) if self.text else setting.check(value, source)


Stated = Sequence[tuple[str, Layer]]
"""Keys with the layers that state them, the lowest first."""


def resolve(layers: Sequence[Layer]) -> Config:
    """One config from layers, the lowest first. Raises UsageError for unknown keys and bad values."""
    stated, reset = _stack([Layer.of({OBJECTIVE.key: OBJECTIVE.default}, "default"), *layers])
    spec = _find_spec(dict(stated)[OBJECTIVE.key])
    settings = sections.settings_of(spec)
    notes = [note for layer in layers for note in layer.notes]
    notes += [_unused(key, spec, layer) for key, layer in stated if key not in settings]
    known = [(key, layer) for key, layer in stated if key in settings]
    grouped = by_section({key: layer.read(settings[key]) for key, layer in known})
    sources = dict.fromkeys(settings, "default") | {key: layer.sources[key] for key, layer in known}
    objective = {name: value for name, value in grouped["objective"].items() if name != OBJECTIVE.name}
    own = msgspec.convert(spec.settings.defaults(objective) | objective, spec.settings)
    others = {section: msgspec.convert(grouped.get(section, {}), struct) for section, struct in SECTIONS.items()}
    config = Config(spec, own, **others, sources=sources)  # type: ignore[arg-type]
    _check_head(config)
    flat = config.flat()
    unusual = (
        f"{key} is {spell(flat[key])}, {doubt} ({sources[key]})"
        for key, setting in settings.items()
        if (doubt := setting.doubt(flat[key]))
    )
    notes += [*_check_objective(config, stated), *_were_reset(reset, flat), *unusual]
    return replace(config, notes=tuple(notes))


def _find_spec(top: Layer) -> Spec:
    """The objective that a layer names. Raises UsageError, except for one of a package that is not here, to be read."""
    name, source = str(top.values[OBJECTIVE.key]), top.sources[OBJECTIVE.key]
    try:
        return catalogue.find_objective(name, source)
    except UsageError as error:
        own = by_section(cast(Mapping[str, Value], top.values))["objective"]
        with suppress(TypeError, ValueError):
            if top.to_read:
                return catalogue.recorded(name, tuple((k, type(x), x) for k, x in own.items() if k != OBJECTIVE.name))
        raise error from None


def _check_head(config: Config) -> None:
    """Raises UsageError for sizes of what a head makes that is dropped."""
    if config.model.dims and config.model.head == "train-only":
        what = "model.head is train-only, and model.dims would train sizes of what that head makes, which is dropped"
        remedies = Use("--head", "none", "use"), Use("--head", "keep")
        raise UsageError(what, remedies, key="model.dims", source=config.sources["model.dims"])


def _stack(layers: Sequence[Layer]) -> tuple[Stated, Stated]:
    """What the layers state, and what of it a higher one resets by choosing another objective or similarity.

    What is typed, the environment included, is for whichever there is, and so is what a file states of an objective
    where none has been chosen; a margin in a file is in the unit of the similarity there.
    """
    stated: list[tuple[str, Layer]] = []
    reset: list[tuple[str, Layer]] = []
    before, chosen, for_any = _choices(stated), False, list[Layer]()
    for layer in layers:
        after = _choices([*stated, *((key, layer) for key in layer.values)])
        # As text, in which a NaN equals itself.
        changed = [key for key in RESETS if str(after.get(key)) != str(before.get(key))]
        for choice in changed:
            bound = [
                (key, lower)
                for key, lower in stated
                if key.startswith(RESETS[choice])
                and (choice in lower.values or lower not in for_any or not (lower.text or choice == OBJECTIVE.key))
            ]
            reset += bound
            stated = [one for one in stated if one not in bound]
        stated += [(key, layer) for key in layer.values]
        before = _choices(stated) if changed else after
        has_own = OBJECTIVE.key in layer.values
        for_any += [] if has_own or (chosen and not layer.text) else [layer]
        chosen |= has_own and layer is not layers[0]
    return stated, reset


def _choices(stated: Stated) -> dict[str, object]:
    """The values, above what their objective, if there is such a one, has by default."""
    values = {key: layer.values[key] for key, layer in stated}
    with suppress(KeyError, UsageError):
        defaults = catalogue.find_objective(str(values[OBJECTIVE.key])).settings.defaults({})
        return {f"objective.{name}": value for name, value in defaults.items()} | values
    return values


def _were_reset(reset: Stated, flat: Mapping[str, Value]) -> Iterator[str]:
    """A note on each value of a user's layer that a higher one has reset, and that is another now."""
    for key, layer in reset:
        value, source = spell(cast(Value, layer.values[key])), layer.sources[key]
        if layer.users and key in flat and key != OBJECTIVE.key and value != spell(flat[key]):
            yield f"{key} = {value} of {source} was for another objective or similarity, and is {spell(flat[key])}"


def _unused(key: str, spec: Spec, layer: Layer) -> str:
    """A note that the objective has no such setting. Raises UsageError for flags and unknown keys."""
    source = layer.sources[key]
    if key in RETIRED and not layer.strict:
        return f"{key} is of an earlier version, and not used ({source})"
    if layer.later and key not in sections.all_settings():
        if layer.to_read:
            return f"{key} is of a later version ({source})"
        what = f"{key} is of a later version, and unknown here"
        raise UsageError(what, "update: pip install --upgrade contrastcli", key=key, source=source)
    sections.find_setting(key, source)
    if layer.strict:
        own = ", ".join(spec.describe()) or "none"
        other = next(one.name for one in catalogue.all_objectives() if key.partition(".")[2] in one.describe())
        remedies = "leave it out", Use("--objective", other, "take one that has it:")
        what = f"the objective '{spec.name}' has no setting '{key}', but {own}"
        raise UsageError(what, remedies, key=key, source=source)
    return f"{key} is not used: '{spec.name}' has no such setting ({source})"


def _check_objective(config: Config, stated: Stated) -> Iterator[str]:
    """Check the settings of the objective against each other; notes on values that others switch off.

    Defaults, which config.toml spells out, get no note. Raises UsageError for a flag that others switch off, and for a
    value outside of limits that depend on others, such as those of a margin.
    """
    chosen, inactive = values(config.objective), config.objective.inactive()
    for name, bounds in config.objective.bounds().items():
        value, key = cast(float, chosen[name]), f"objective.{name}"
        if not bounds.low <= value <= bounds.high and name not in inactive:
            within = f"{spell(bounds.low)} and {spell(bounds.high)} {bounds.unit}".rstrip()
            others = _in_other_units(config, value) if name == "margin" else []
            hint: list[str | Use] = [f"with these settings it must be within {within}", *others]
            raise UsageError(f"{key} is {value}", hint, key=key, source=config.sources[key])
    defaults = config.spec.settings.defaults(chosen)
    for name, reason in sorted(inactive.items()):
        key = f"objective.{name}"
        what, source = f"{key} has {reason}", config.sources[key]
        if any(one == key and layer.strict for one, layer in stated):
            raise UsageError(what, "leave it out, or change the setting that switches it off", key=key, source=source)
        if chosen[name] != defaults[name]:
            yield f"{what} ({source})"


def _in_other_units(config: Config, value: float) -> list[Use]:
    """The similarities with which a margin may have that value, in their unit; without a choice of one, objectives."""
    setting = sections.settings_of(config.spec).get("objective.similarity")
    bounds = {one.name: one.margin for one in SIMILARITIES.values()}
    if setting is None:
        setting = OBJECTIVE
        bounds = {spec.name: spec.settings().bounds().get("margin", NO_MARGIN) for spec in catalogue.all_objectives()}
    fitting = {one: own.unit for one, own in bounds.items() if own.low <= value <= own.high}
    unit = next(iter(fitting.values()), "")
    names = " or ".join(one for one, own in fitting.items() if own == unit)
    return [Use(setting.flag, names, f"for {unit or 'others'}:")] if names else []


def conflicts(before: Config, after: Config) -> list[str]:
    """The settings that differ although a resume may not change them: dev data may have moved, but not come or gone."""
    old, new, settings = before.flat(), after.flat(), sections.settings_of(after.spec)
    is_other = {key: "none" in (old[key], new[key]) for key in ("dev.data", "dev.general")}
    fixed = [key for key in new if not settings[key].resumable or is_other.get(key)]
    return [key for key in fixed if new[key] != old.get(key)]


def fixed(config: Config) -> dict[str, str]:
    """The settings that a resume may not change, as they are written, but for names of models.

    Those may have moved, and are recorded by what they hold.
    """
    settings, flat = sections.settings_of(config.spec), config.flat()
    keys = (key for key, one in settings.items() if not (one.resumable or one.names_model))
    return {key: spell(flat[key]) for key in keys}


def changes(before: Config, after: Config) -> list[str]:
    """The words of a command line that make the first settings the second, which have the same objective."""
    old, new, settings = before.flat(), after.flat(), sections.settings_of(after.spec)
    # A flag without effect is an error.
    off = {f"objective.{name}" for name in after.objective.inactive()}
    changed = [key for key, value in new.items() if value != old.get(key) and key not in off]
    return [word for key in changed for word in settings[key].words(spell(new[key]))]


def file_layer(path: Path, label: str = "") -> Layer:
    """The settings of a TOML file. Raises DataError if it cannot be read, UsageError if it is not TOML."""
    return table_layer(read_toml(path), label or str(path))


LARGEST = 1 << 14
"""Bytes of a file of settings: of dots alone they take the parser a second and 250 MB, more of them its square."""


def checked(text: str, remedies: Hint) -> str:
    """A file of settings as it is. Raises UsageError for one that could not be read again."""
    if (size := len(text.encode())) > LARGEST:
        raise UsageError(f"the settings take {size:,} bytes, and a file of them has at most {LARGEST:,}", remedies)
    return text


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file of settings. Raises DataError if it cannot be read, UsageError if it is not TOML."""
    try:
        # Only before an end of line the parser names the line of a key that stands twice.
        return tomllib.loads(read_bytes(path, LARGEST).decode("utf-8-sig") + "\n")
    except FileNotFoundError as error:
        what = f"{path} cannot be read: {error.strerror}"
        raise DataError(what, "give the path of a TOML file, or use --preset") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path} is not TOML: line {line} is not UTF-8", "save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        what = f"{path} is not TOML: {error_text(error)}"
        hint = "fix that line: a key stands once, text in quotes, single ones for a path with \\"
        hint += "; contrast presets show starter prints an example"
        raise UsageError(what, hint) from None


def table_layer(tables: Mapping[str, Any], label: str) -> Layer:
    """The settings of a file's sections. Raises UsageError for a value outside a section."""
    for name, table in tables.items():
        if name == "preset" or (isinstance(table, dict) and "base" in table):
            what = "'preset' is called base in a file" if name == "preset" else f"base stands in [{name}]"
            raise UsageError(f"{label}: {what}", 'write base = "…" on the first line, above the sections')
    written = tables.get("format")
    others = {name: table for name, table in tables.items() if name != "format" or not isinstance(table, int)}
    if loose := [name for name, table in others.items() if not isinstance(table, dict)]:
        own = {key.rpartition(".")[2]: key for key in [*sections.all_settings()][::-1]}
        ours = [own.get(name) or sections.key_of(our_name(name)).partition(", ")[0] for name in loose]
        known = all("." in key for key in ours)
        hint = f"write {', '.join(f'{key} = …' for key in ours)}" if known else "sections: [objective] [model] [data] …"
        raise UsageError(f"{label}: {', '.join(map(repr, loose))} not in a section", hint)
    named = {f"{section}.{name}": value for section, table in others.items() for name, value in table.items()}
    if written == 1 and str(named.get("dev.data")).startswith("split:"):
        # Until then the seed of a training decided which rows it held out.
        named = {"dev.split_seed": named.get(sections.SEED, 42)} | named
    is_later = isinstance(written, int) and written > FORMAT
    return replace(Layer.of(named, label), later=is_later, users=not label.startswith("preset "))


_OTHERS = "CACHE GOLDEN GPU_REPORT MODEL PROGRESS REMOTE RUNS SENTEVAL STATE TEST_DATA TEST_THREADS"
"""Variables that are no setting, without `CONTRAST_`."""


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The values of `CONTRAST_<SECTION>_<KEY>`, and notes on others. Raises UsageError for one that is misspelt."""
    every, notes = sections.all_settings(), []
    known, of_sections = {one.variable: key for key, one in every.items()}, {one.section for one in every.values()}
    others = [*known, *(f"CONTRAST_{name}" for name in _OTHERS.split())]
    for name in [one for one in environ if one.upper().startswith("CONTRAST_") and one not in others]:
        word = name.lower().removeprefix("contrast_")
        section, _, rest = word.partition("_")
        key, elsewhere = sections.key_of(word), our_name(rest if section in of_sections else word)
        ours, comma, remark = (key if key in every else elsewhere).partition(", ")
        near = get_close_matches(word, [one.lower().removeprefix("contrast_") for one in known], 1, 0.85)
        if section in of_sections or ours in every or near:
            meant = every[ours].variable if ours in every else name
            raise UsageError(f"there is no setting for the variable {name}", nearest(meant, known, "", comma + remark))
        notes.append(f"nothing reads the variable {name}")
    names = {key: name for name, key in known.items() if environ.get(name)}
    return Layer({key: environ[name] for key, name in names.items()}, names, text=True, users=True, notes=tuple(notes))


def user_layers() -> list[Layer]:
    """The user's file and `contrast.toml`, where they exist."""
    layers = []
    for path in (user_file(), Path("contrast.toml")):
        try:
            path.lstat()
            layers.append(file_layer(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except DataError as error:
            away = shlex.join(["mv", str(path), f"{path}.unused"])
            raise DataError(error.what, f"settings are always read from there; move it away: {away}") from None
    return layers
