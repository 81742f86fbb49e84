"""What a setting is, read off the typed structs that declare it.

A field of a `Section` is the one description of a setting: type, bounds, unit, help, symbol, and what the rest of the
program does with it. The command line, the presets, the form, the dry run, the grouping of runs and the error messages
are all made from the `Setting` that this module derives from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypedDict, Unpack, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, structs

from contrastcli.errors import UsageError

Value = str | int | float | bool

Role = Literal["method", "data", "execution"]
"""What a setting decides: how the encoder learns; what is read, and how much of it; how the run is carried out.

Runs that differ in execution only are seeds of one method. The rows and steps of a run do not depend on its method."""

_TRUE = {"true", "on", "yes", "1"}
_FALSE = {"false", "off", "no", "0"}
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"lambda_": "lambda"}):
    """A group of settings, each `Annotated` with what `about` says of it."""


class Traits(TypedDict, total=False):
    """What the program does with a setting; see the fields of `Setting`."""

    role: Role
    essential: bool
    resumable: bool
    flag: str
    unit: str
    choices: Collection[str]


def about(
    help: str,
    symbol: str = "",
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    **traits: Unpack[Traits],
) -> Meta:
    """The description of a setting: a help line, the papers' symbol, bounds and traits."""
    bounds: dict[str, Any] = {"gt": gt, "ge": ge, "lt": lt, "le": le}
    return Meta(description=help, title=symbol, extra=dict(traits), **bounds)


about_data = partial(about, role="data")
about_execution = partial(about, role="execution", resumable=True)


def spell(value: Value) -> str:
    """A value as one types it; parsing the text gives the same value, a number to its last digit."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Bounds:
    """Limits of a setting that depend on the values of others, and the unit that goes with them."""

    low: float
    high: float
    unit: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting, as users meet it."""

    section: str
    name: str
    type: Any
    """What the field is annotated with, its bounds included."""
    kind: type[str] | type[int] | type[float] | type[bool]
    default: Value
    help: str
    symbol: str
    choices: Collection[str]
    """The values that it may have, perhaps the names of a table that grows; empty where its type is all that counts."""
    bounds: tuple[str, ...]
    """Its bounds in words."""
    flag: str
    """The option of `contrast train`: `--batch-size`; empty where there is only `--set`."""
    unit: str = ""
    role: Role = "method"
    essential: bool = False
    """Whether a form shows it at first."""
    resumable: bool = False
    """Whether `--resume` may change it."""

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
        """What a good value is, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        noun = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}[self.kind]
        return " ".join([noun, " and ".join(self.bounds)]).strip()

    def words(self, text: str) -> list[str]:
        """The words of a command line that set it."""
        return [self.flag, text] if self.flag else ["--set", f"{self.key}={text}"]

    def check(self, value: object, source: str = "") -> Value:
        """The value with its right type. Raises UsageError, which names the setting and the source of the value."""
        with suppress(msgspec.ValidationError):
            checked = cast(Value, msgspec.convert(value, self.type))
            if not self.choices or checked in self.choices:
                return checked
        hint = f"{self.key} ({self.help}) must be {self.expected}"
        raise UsageError(f"{self.key} is {value!r}", hint, key=self.key, source=source)

    def parse(self, text: str, source: str = "") -> Value:
        """The value that a flag or an environment variable spells. Raises UsageError as `check` does."""
        return self.check(_from_text(text, self.kind), source)


def _from_text(text: str, kind: type) -> Value:
    word = text.strip().lower()
    if kind is bool:
        return True if word in _TRUE else False if word in _FALSE else text
    try:
        return cast(Value, kind(text))
    except ValueError:
        return text  # check() names what was expected


@cache
def describe(section: str, struct: type[Section]) -> Mapping[str, Setting]:
    """The settings that a struct declares, by name, in its order."""
    return MappingProxyType({field.encode_name: _setting(section, field) for field in structs.fields(struct)})


def _setting(section: str, field: structs.FieldInfo) -> Setting:
    declared, *notes = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
    meta = next((note for note in notes if isinstance(note, Meta)), Meta())
    bounds = {words: getattr(meta, name) for name, words in _BOUNDS.items()}
    choices = get_args(declared)
    return Setting(
        section=section,
        name=field.encode_name,
        type=field.type,
        kind=str if choices else declared,
        default="" if field.default is NODEFAULT else cast(Value, field.default),
        help=meta.description or "",
        symbol=meta.title or "",
        bounds=tuple(f"{words} {spell(bound)}" for words, bound in bounds.items() if bound is not None),
        **{"flag": f"--{field.encode_name.replace('_', '-')}", "choices": tuple(sorted(choices))}
        | {name: value for name, value in (meta.extra or {}).items() if name in Traits.__annotations__},
    )


def values(section: Section) -> dict[str, Value]:
    """A section as plain values by setting name."""
    return cast(dict[str, Value], msgspec.to_builtins(section))
