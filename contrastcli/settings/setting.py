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
from typing import Any, Literal, TypedDict, Unpack, cast

import msgspec
from msgspec import NODEFAULT, Meta, inspect

from contrastcli.errors import UsageError

Value = str | int | float | bool

Role = Literal["method", "data", "execution"]
"""What a setting decides: how the encoder learns; what is read, and how much of it; how the run is carried out.

Runs that differ in execution only are seeds of one method. The rows and steps of a run do not depend on its method."""

_TRUE = {"true", "on", "yes", "1"}
_FALSE = {"false", "off", "no", "0"}


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
    """One setting, as users meet it. Its choices may be the names of a table that grows."""

    section: str
    name: str
    kind: type[str] | type[int] | type[float] | type[bool]
    default: Value
    help: str
    symbol: str
    choices: Collection[str]
    low: float | None
    high: float | None
    low_is_allowed: bool
    high_is_allowed: bool
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

    def words(self, text: str) -> list[str]:
        """The words of a command line that set it."""
        return [self.flag, text] if self.flag else ["--set", f"{self.key}={text}"]

    @property
    def expected(self) -> str:
        """What a good value is, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "text"
        noun = "a whole number" if self.kind is int else "a number"
        bounds = []
        if self.low is not None:
            bounds.append(f"{'at least' if self.low_is_allowed else 'above'} {spell(self.low)}")
        if self.high is not None:
            bounds.append(f"{'at most' if self.high_is_allowed else 'below'} {spell(self.high)}")
        return " ".join([noun, " and ".join(bounds)]).strip()

    def check(self, value: object, source: str = "") -> Value:
        """The value with its right type. Raises UsageError, which names the setting and the source of the value."""
        if self.kind is float and type(value) is int:
            with suppress(OverflowError):
                value = float(value)
        if type(value) is not self.kind or not self._allowed(value):
            hint = f"{self.key} ({self.help}) must be {self.expected}"
            raise UsageError(f"{self.key} is {value!r}", hint, key=self.key, source=source)
        return value

    def parse(self, text: str, source: str = "") -> Value:
        """The value that a flag or an environment variable spells. Raises UsageError as `check` does."""
        return self.check(_from_text(text, self.kind), source)

    def _allowed(self, value: object) -> bool:
        if self.choices:
            return value in self.choices
        if not isinstance(value, int | float):
            return True
        above = self.low is None or (value >= self.low if self.low_is_allowed else value > self.low)
        below = self.high is None or (value <= self.high if self.high_is_allowed else value < self.high)
        return above and below  # a NaN is neither where there is a bound


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
    info = cast(inspect.StructType, inspect.type_info(struct))
    return MappingProxyType({field.encode_name: _setting(section, field) for field in info.fields})


def _setting(section: str, field: inspect.Field) -> Setting:
    kind, words, extra = field.type, dict[str, Any](), dict[str, Any]()
    if isinstance(kind, inspect.Metadata):
        words, extra, kind = kind.extra_json_schema or {}, kind.extra or {}, kind.type
    choices = tuple(str(v) for v in kind.values) if isinstance(kind, inspect.LiteralType) else ()
    low, low_ok, high, high_ok = _bounds(kind)
    traits = {name: value for name, value in extra.items() if name in Traits.__annotations__}
    return Setting(
        section=section,
        name=field.encode_name,
        kind=_KINDS[type(kind)],
        default="" if field.default is NODEFAULT else cast(Value, field.default),
        help=words.get("description", ""),
        symbol=words.get("title", ""),
        low=low,
        high=high,
        low_is_allowed=low_ok,
        high_is_allowed=high_ok,
        **{"choices": choices, "flag": f"--{field.encode_name.replace('_', '-')}"} | traits,
    )


_KINDS: dict[type[inspect.Type], type[str] | type[int] | type[float] | type[bool]] = {
    inspect.FloatType: float,
    inspect.IntType: int,
    inspect.BoolType: bool,
    inspect.StrType: str,
    inspect.LiteralType: str,
}


def _bounds(kind: inspect.Type) -> tuple[float | None, bool, float | None, bool]:
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return None, True, None, True
    low = kind.gt if kind.gt is not None else kind.ge
    high = kind.lt if kind.lt is not None else kind.le
    return low, kind.gt is None, high, kind.lt is None


def values(section: Section) -> dict[str, Value]:
    """A section as plain values by setting name."""
    return cast(dict[str, Value], msgspec.to_builtins(section))
