"""A setting, as declared by a field of a typed struct: type, bounds, unit, help, symbol, role.

The command line, the presets, the form, the dry run, the grouping of runs and the error messages are all made from it.
"""

import csv
import io
import json
import math
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, structs

from contrastcli.errors import Hint, Remedy, UsageError, Use
from contrastcli.settings.other_names import our_name

Value = str | int | float | bool

Role = Literal["method", "data", "execution"]
"""What a setting decides: how the encoder learns; which data, and how much of it; how the run is executed.

Runs that differ in execution only are seeds of one method. The rows and steps of a run do not depend on its method."""

_TRUE = {"true", "on", "yes", "1"}
_FALSE = {"false", "off", "no", "0"}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"lambda_": "lambda"}):
    """A group of settings, each `Annotated` with `about(…)`."""


def about(
    help: str,
    symbol: str = "",
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    pattern: str | None = None,
    **traits: Any,
) -> Meta:
    """The description of a setting: a help line, the papers' symbol, bounds, and other fields of `Setting`."""
    bounds: dict[str, Any] = {"gt": gt, "ge": ge, "lt": lt, "le": le, "pattern": pattern}
    return Meta(description=help, title=symbol, extra=traits, **bounds)


about_data = partial(about, role="data")
about_execution = partial(about, role="execution", resumable=True)


def seeds_in_words(seeds: Sequence[int]) -> str:
    """The options of a sweep for as many seeds from the lowest on, and which these are if others than those."""
    first, end = min(seeds), min(seeds) + len(seeds)
    counted = "" if {*seeds} == {*range(first, end)} else f" ({first} to {end - 1}: seeds are counted from the first)"
    return f"--seeds {len(seeds)} --seed {first}{counted}"


def spell(value: Value) -> str:
    """A value as one types it; parsing the text gives exactly the same value."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def split_items(text: str) -> list[str]:
    """The items of a value such as a=1,b=2; one that holds a comma stands in double quotes."""
    return [*chain.from_iterable(csv.reader(io.StringIO(text, newline=""), skipinitialspace=True))]


def _joined(value: object) -> object:
    """A list of a file, or names and their values, as one text with commas between; other values as they are."""
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    is_list = isinstance(value, list) and all(isinstance(item, str | int) for item in value)
    return ",".join(map(str, cast(list[object], value))) if is_list else value


def join_items(items: Iterable[str]) -> str:
    """The value of which `split_items` makes these items."""
    return ",".join('"{}"'.format(item.replace('"', '""')) if {*item} & {*',"\r\n'} else item for item in items)


@dataclass(frozen=True)
class Bounds:
    """Limits and unit of a setting that depend on the values of others."""

    low: float
    high: float
    unit: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting."""

    section: str
    name: str
    type: Any
    """The annotation of the field, bounds included."""
    kind: type[str] | type[int] | type[float] | type[bool]
    default: Value
    help: str
    symbol: str
    choices: Collection[str]
    """The values that it may have; empty for any value of the type."""
    bounds: tuple[str, ...]
    """In words: `at least 1`."""
    flag: str
    """The option of `contrast train`: `--batch-size`; empty where there is only `--set`."""
    unit: str = ""
    role: Role = "method"
    essential: bool = False
    """Whether a form shows it without being asked for more."""
    resumable: bool = False
    """Whether `--resume` may change it."""
    names_model: Literal["", "one", "several"] = ""
    """Whether its value names a model, or several of them as NAME[:POOLING][=WEIGHT] with commas between."""
    form: str = ""
    """What a text with a pattern is, in words."""
    secret: bool = False
    """Whether its value is a URL that lets whoever knows it act for the user."""
    zero: str = ""
    """What 0 means, where that is no number of the setting's unit."""
    usual: tuple[float, float] | None = None
    """The limits of what is usual; a value beyond them may be a mistake."""

    @property
    def key(self) -> str:
        """The name in presets and `--set`: `train.lr`."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable: `CONTRAST_TRAIN_LR`."""
        return f"CONTRAST_{self.section}_{self.name}".upper()

    @property
    def expected(self) -> str:
        """The values that it may have, in words."""
        if self.form:
            return self.form
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        noun = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}[self.kind]
        return " ".join([noun, " and ".join(self.bounds)]).strip()

    def doubt(self, value: Value) -> str:
        """A warning that the value is not a usual one; empty for one that is."""
        low, high = self.usual or (-math.inf, math.inf)
        is_usual = isinstance(value, str) or low <= value <= high
        return "" if is_usual else f"outside of what is usual, {spell(low)} to {spell(high)}"

    def words(self, text: str) -> list[str]:
        """The words of a command line that set it to that text."""
        return [self.flag, text] if self.flag else ["--set", f"{self.key}={text}"]

    def shown(self, value: Value) -> Value:
        """The value as others may see it: of a secret the host."""
        if not (self.secret and value):
            return value
        host = re.match(r"(https?://)(?:[^/@]*@)?([\w.-]+)", str(value))
        return f"{host[1]}{host[2]}/…" if host else "…"

    def check(self, value: object, source: str = "") -> Value:
        """The value with its right type. Raises UsageError, with the setting and the source of the value."""
        value = _joined(value) if self.kind is str and not self.choices else value
        with suppress(msgspec.ValidationError, UnicodeError):
            checked = cast(Value, msgspec.convert(value, self.type))
            if "\0" not in str(checked) and (not self.choices or checked in self.choices):
                return checked
        hint = f"{self.key} ({self.help}) must be {self.expected}"
        if isinstance(value, list | tuple):
            hint += f"; for several: contrast sweep --grid {self.key}={','.join(map(str, value))}"
        # A flag with a number is none of text here.
        with suppress(ValueError):
            if self.key == "train.seed" and isinstance(value, str) and "," in value:
                hint += f"; for several: contrast sweep {seeds_in_words([*map(int, value.split(','))])}"
            if isinstance(value, str) and self.kind in (int, float) and self.kind(value) is not None:
                hint += ", without quotes"
        said = self.shown(value) if isinstance(value, str) else value
        meant = self.meant(str(value))
        uses: list[Remedy] = [Use(option, text, "use") for option, text in map(self.words, meant)]
        # Typed beside it, a flag would leave the variable or the file as wrong.
        if source == self.variable:
            uses = [f"export {self.variable}={shlex.quote(text)}" for text in meant]
        elif source and not source.startswith("--"):
            texts = [json.dumps(text, ensure_ascii=False) if self.kind is str else text for text in meant]
            uses = [f"in [{self.section}] of {source} write {self.name} = {text}" for text in texts]
        remedies: Hint = [*uses, f"another: {hint}"] if uses else hint
        raise UsageError(f"{self.key} is {said!r}", remedies, key=self.key, source=source)

    def meant(self, typed: str) -> list[str]:
        """What is meant by a text that is no value: by its name elsewhere, with a decimal comma, in percent; if any."""
        meant, words = our_name(typed, self.key), typed.replace(",", ".")
        if self.choices:
            return [meant] if meant in self.choices else get_close_matches(typed.lower(), self.choices, 1)
        # A number in radians would be another one in degrees.
        with_unit = re.fullmatch(r"([\d.]+(?:e-?\d+)?) ?(?:°|(?!rad)[^\W\d_]+)", typed) if self.kind is float else None
        number = with_unit[1] if with_unit else meant
        with suppress(ValueError):
            if self.kind is float and "at most 1" in self.bounds and (percent := float(words.removesuffix("%"))) >= 5:
                # A number of steps, most likely.
                number = spell(percent / 100) if percent <= 50 else "0.1"
            elif self.kind is float and words != typed and math.isfinite(float(words)):
                number = words
            elif self.kind is int and math.isfinite(float(typed)) and float(typed) >= 1:
                number = str(math.ceil(float(typed)))
        with suppress(ValueError):
            if number != typed and self.kind in (int, float):
                msgspec.convert(self.kind(number), self.type)
                return [number]
        return []

    def parse(self, text: str, source: str = "") -> Value:
        """The value of a flag or an environment variable. Raises UsageError as `check` does."""
        value: Value = text
        if self.kind is bool:
            word = text.strip().lower()
            value = True if word in _TRUE else False if word in _FALSE else text
        else:
            with suppress(ValueError):
                value = self.kind(text)
        return self.check(value, source)


@cache
def describe(section: str, struct: type[Section]) -> Mapping[str, Setting]:
    """The settings that a struct declares, by name, in its order."""
    settings = {}
    for field in structs.fields(struct):
        declared, *notes = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
        meta = next((note for note in notes if isinstance(note, Meta)), Meta())
        bounds = {words: getattr(meta, name) for name, words in _BOUNDS.items()}
        choices = get_args(declared) if get_origin(declared) is Literal else ()
        if not choices and declared not in (str, int, float, bool):
            raise TypeError(f"the setting '{field.encode_name}' is no text, number or truth value")
        traits: dict[str, Any] = {"flag": f"--{field.encode_name.replace('_', '-')}", "choices": choices}
        traits |= meta.extra or {}
        settings[field.encode_name] = Setting(
            section=section,
            name=field.encode_name,
            type=field.type,
            kind=str if choices else declared,
            default="" if field.default is NODEFAULT else cast(Value, field.default),
            help="; 0: ".join(filter(None, [meta.description, traits.get("zero")])),
            symbol=meta.title or "",
            bounds=tuple(f"{words} {spell(bound)}" for words, bound in bounds.items() if bound is not None),
            **traits,
        )
    return MappingProxyType(settings)


def values(section: Section) -> dict[str, Value]:
    """The values of a section by the names of its settings."""
    return cast(dict[str, Value], msgspec.to_builtins(section))
