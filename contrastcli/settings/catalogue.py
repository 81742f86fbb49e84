"""All objectives: those that come with contrast, and those of other packages.

Adding an objective is one file in objectives/, its settings in losses.py and an entry in objectives.toml. Another
package adds its own under the entry point group `contrast.objectives`, each naming a `Spec`.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, cast, get_args

import msgspec
from msgspec import Meta

from contrastcli.errors import UsageError, nearest
from contrastcli.settings.objective import Form, ObjectiveSettings, Spec
from contrastcli.settings.other_names import our_name
from contrastcli.settings.outside import load_outside
from contrastcli.settings.setting import Bounds

MEASURED = (
    "Spearman × 100 on STS-B dev, before → after 250 steps of 64 rows with the starter's encoder, mean pooling, "
    "lr 1e-4, a linear schedule and one seed: on NLI triplets, or on labelled NLI pairs for supcon, augment and "
    "softmax; rankcse with all-MiniLM-L6-v2 as its teacher"
)
"""How the `measured` scores of the built-in objectives were obtained."""

ENTRY_POINTS = "contrast.objectives"

NEEDED: tuple[Form, ...] = tuple(form for form in get_args(Form) if form != "classes")
"""What an objective may need: a class is read as the positive of its sentence."""


@cache
def built_in() -> tuple[Spec, ...]:
    """The objectives that come with contrast, in the order of objectives.toml."""
    tables = tomllib.loads(Path(__file__).with_name("objectives.toml").read_text(encoding="utf-8"))
    return tuple(_spec(name, table) for name, table in tables.items())


def _spec(name: str, table: Mapping[str, Any]) -> Spec:
    own: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    own |= {key: f"contrastcli.objectives.{own[key]}" for key in ("loss", "heads") if key in own}
    own |= {key: resolve_name(f"contrastcli.settings.{own[key]}") for key in ("settings", "negatives") if key in own}
    return Spec(name, **own)


def find_objective(name: str, source: str = "", remedy: str = "") -> Spec:
    """The objective of that name. Raises UsageError, with the source of the name, and a remedy to try first."""
    by_name = {spec.name: spec for spec in built_in()}
    # Entry points are loaded only for a name that is not built in.
    if name not in by_name:
        by_name = {spec.name: spec for spec in all_objectives()}
        if name not in by_name and name in (broken := outside_objectives()[1]):
            raise broken[name]
    if name not in by_name:
        what, ours = f"there is no objective '{name}'", by_name.get(our_name(name))
        hint = f"did you mean '{ours.name}', which trains on {', '.join(ours.needs)}?" if ours else ""
        remedies = [*filter(None, [remedy]), hint or nearest(name, by_name)]
        raise UsageError(what, remedies, key="objective.name", source=source)
    return by_name[name]


class _Recorded(ObjectiveSettings, frozen=True, kw_only=True):
    """Those of an objective that is not here, of which nobody knows the bounds."""

    def inactive(self) -> dict[str, str]:
        return {}

    def bounds(self) -> dict[str, Bounds]:
        return {}


@cache
def recorded(name: str, settings: tuple[tuple[str, type, object], ...]) -> Spec:
    """An objective that cannot be loaded, with the settings of a run: enough to use that, and not to train it.

    Raises TypeError or ValueError for what is no setting.
    """
    if any(hasattr(_Recorded, key) for key, *_ in settings):
        raise ValueError("a setting has the name of a method")
    own = msgspec.defstruct("Recorded", settings, bases=(_Recorded,), frozen=True, kw_only=True)
    spec = Spec(name, cast(type[ObjectiveSettings], own), ("sentences",), "", "its package could not be loaded")
    spec.describe()
    return spec


def all_objectives() -> tuple[Spec, ...]:
    """All objectives, those of other packages last."""
    return (*built_in(), *outside_objectives()[0])


@cache
def outside_objectives() -> tuple[tuple[Spec, ...], dict[str, UsageError]]:
    """The objectives of other packages, and the errors of those that cannot be loaded."""
    return load_outside(ENTRY_POINTS, _checked)


def _checked(spec: object) -> Spec:
    """The Spec of an entry point. Raises TypeError or ValueError if it is none, or cannot be used."""
    if not isinstance(spec, Spec):
        raise TypeError("it is not a Spec")
    if not (isinstance(spec.settings, type) and issubclass(spec.settings, ObjectiveSettings)):
        raise TypeError("its settings are no ObjectiveSettings")
    if spec.name in [one.name for one in built_in()] or not re.fullmatch(r"[a-z][\w-]*", spec.name):
        raise ValueError(f"an objective cannot be called '{spec.name}'")
    fields = {*spec.settings.__struct_fields__}
    if taken := [field for field in fields if re.fullmatch("name|views|rows|heads|_.*", field)]:
        raise ValueError(f"a setting cannot be called '{min(taken)}'")
    spec.describe()
    # Each setting needs a default within its bounds.
    own = msgspec.convert(msgspec.to_builtins(spec.settings()), spec.settings)
    named = {*own.bounds(), *msgspec.convert(own.inactive(), dict[str, str])}
    if unknown := named - fields:
        raise ValueError(f"it has no setting '{min(unknown)}'")
    msgspec.convert([own.encoders, spec.measured or (0, 0)], tuple[int, tuple[float, float]])
    if not spec.needs or not {*spec.needs} <= {*NEEDED}:
        raise ValueError(f"its needs are {', '.join(spec.needs) or 'none'}; known: {', '.join(NEEDED)}")
    msgspec.convert([spec.loss, spec.heads or spec.loss], list[Annotated[str, Meta(pattern=r"^[\w.]+:\w+$")]])
    msgspec.convert(spec.negatives(2, 0), int)
    return spec
