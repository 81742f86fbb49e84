"""What a setting is: its type, bounds, unit, help and symbol, read off the typed structs that declare it.

A field of a `Section` is the one description of a setting. The command line, the presets, the form, the dry run and
the error messages are all made from the `Setting` that this module derives from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, cast

import msgspec
from msgspec import NODEFAULT, inspect

from contrastcli.errors import UsageError

Value = str | int | float | bool

_TRUE = {"true", "on", "yes", "1"}
_FALSE = {"false", "off", "no", "0"}


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"lambda_": "lambda"}):
    """A group of settings. Field types carry bounds and a help line (`Meta.description`) and, where the papers have
    one, a symbol (`Meta.title`); `Meta.extra` may hold a `unit`."""


@dataclass(frozen=True)
class Setting:
    """One setting, as users meet it."""

    section: str
    name: str
    kind: type[str] | type[int] | type[float] | type[bool]
    default: Value
    help: str
    symbol: str
    unit: str
    choices: tuple[str, ...]
    low: float | None
    high: float | None
    low_is_allowed: bool
    high_is_allowed: bool

    @property
    def key(self) -> str:
        """The name in presets and `--set`: `train.lr`."""
        return f"{self.section}.{self.name}"

    @property
    def flag(self) -> str:
        """The option of `contrast train`: `--batch-size`."""
        return "--" + self.name.replace("_", "-")

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
            bounds.append(f"{'at least' if self.low_is_allowed else 'above'} {_plain(self.low)}")
        if self.high is not None:
            bounds.append(f"{'at most' if self.high_is_allowed else 'below'} {_plain(self.high)}")
        return " ".join([noun, " and ".join(bounds)]).strip()

    def check(self, value: object) -> Value:
        """The value with its right type. Raises UsageError."""
        if self.kind is float and type(value) is int:
            with suppress(OverflowError):
                value = float(value)
        if type(value) is not self.kind or not self._allowed(value):
            raise UsageError(f"{self.key} is {value!r}", f"{self.key} ({self.help}) must be {self.expected}")
        return value

    def parse(self, text: str) -> Value:
        """The value that a flag or an environment variable spells. Raises UsageError."""
        return self.check(_from_text(text, self.kind))

    def _allowed(self, value: object) -> bool:
        if self.choices:
            return value in self.choices
        if not isinstance(value, int | float):
            return True
        above = self.low is None or (value >= self.low if self.low_is_allowed else value > self.low)
        below = self.high is None or (value <= self.high if self.high_is_allowed else value < self.high)
        return above and below  # a NaN is neither where there is a bound


def _plain(bound: float) -> str:
    """A bound with all its digits."""
    return f"{bound:.0f}" if bound == round(bound) else f"{bound:g}"


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
    kind = field.type
    words: dict[str, Any] = {}
    unit = ""
    if isinstance(kind, inspect.Metadata):
        words, unit, kind = kind.extra_json_schema or {}, (kind.extra or {}).get("unit", ""), kind.type
    choices = tuple(str(v) for v in kind.values) if isinstance(kind, inspect.LiteralType) else ()
    low, low_ok, high, high_ok = _bounds(kind)
    return Setting(
        section=section,
        name=field.encode_name,
        kind=_KINDS[type(kind)],
        default="" if field.default is NODEFAULT else cast(Value, field.default),
        help=words.get("description", ""),
        symbol=words.get("title", ""),
        unit=unit,
        choices=choices,
        low=low,
        high=high,
        low_is_allowed=low_ok,
        high_is_allowed=high_ok,
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
