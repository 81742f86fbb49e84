"""`contrast help`: topics in plain text, prose from `help/` with tables of what the program itself uses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import contrastcli
from contrastcli import api
from contrastcli.data import convert, formats, roles
from contrastcli.data.examples import FORMS
from contrastcli.errors import EXIT_CODES
from contrastcli.evaluation.suites import SUITES
from contrastcli.runs import directory, status
from contrastcli.settings import catalogue, presets, sections
from contrastcli.settings.setting import Setting, Value, spell
from contrastcli.settings.similarity import SIMILARITIES, Similarity
from contrastcli.show import settings
from contrastcli.show.format import Rows, columns, laid_out

Facts = Mapping[str, Callable[[], str | Rows]]
"""What stands in a text as {name}: words, or a table where it is a paragraph of its own."""

FOLDER = Path(__file__).parents[1] / "help"
"""One text file a topic; its first line says what it is about."""


def topics() -> dict[str, str]:
    """What each topic is about, by name."""
    return {path.stem: path.read_text(encoding="utf-8").partition("\n")[0] for path in sorted(FOLDER.glob("*.txt"))}


def overview(width: int) -> str:
    """Every topic with its line."""
    last = "contrast help TOPIC shows one of these, contrast help COMMAND the options of a command."
    return f"{columns(list(topics().items()), width)}\n\n{laid_out(last, width)}"


def topic(name: str, width: int, more: Facts) -> str:
    """A topic as text of that width; `more` are facts that only the caller has."""
    facts = {**FACTS, **more}
    paragraphs = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip().split("\n\n")
    return "\n\n".join(_shown(paragraph, facts, width) for paragraph in paragraphs)


def _shown(paragraph: str, facts: Facts, width: int) -> str:
    """A paragraph with the facts in it."""
    alone = re.fullmatch(r"\{(\w+)\}", paragraph)
    fact = facts[alone[1]]() if alone else re.sub(r"\{(\w+)\}", lambda match: str(facts[match[1]]()), paragraph)
    if not isinstance(fact, str):
        return columns(fact, width)
    return "\n\n".join(laid_out(part, width) for part in fact.split("\n\n"))


def _columns() -> Rows:
    """The names of columns, by role."""
    names: dict[str, list[str]] = {}
    for name, role in roles.NAMES.items():
        names.setdefault(role, []).append(name)
    return _listed(names.items())


def _forms() -> Rows:
    """The roles that make each form of rows."""
    shapes: dict[str, list[str]] = {}
    for shape, needed in roles.SHAPES:
        shapes.setdefault(shape, []).append(" + ".join(needed))
    return _listed(shapes.items())


def _listed(named: Iterable[tuple[str, Sequence[str]]]) -> Rows:
    return [(name, ", ".join(words)) for name, words in named if words]


def _presets(names: Iterable[str]) -> Rows:
    return [(name, presets.find(name).about.what) for name in names]


def _similarities() -> Rows:
    return [(name, _similarity(similarity)) for name, similarity in SIMILARITIES.items()]


def _similarity(similarity: Similarity) -> str:
    unit = similarity.margin.unit
    margin = f", m in {unit}, by default {spell(similarity.default_margin)}" if unit else ""
    return f"{similarity.formula} ({similarity.source}){margin}"


def _run_directory() -> str:
    """The tree in the documentation of its module."""
    return inspect.cleandoc(directory.__doc__ or "").split("\n\n")[1]


def _settings() -> Rows:
    """Every setting with its meaning, what it may be, and its default unless that depends on the objective."""
    defaults: dict[str, set[Value]] = {}
    for spec in catalogue.every():
        for key, setting in sections.settings_of(spec).items():
            defaults.setdefault(key, set()).add(setting.default)
    return [(key, _setting(setting, defaults[key])) for key, setting in sections.all_settings().items()]


def _setting(setting: Setting, defaults: Collection[Value]) -> str:
    unit = f", in {setting.unit}" if setting.unit else ""
    default = spell(setting.default) if len(defaults) == 1 else "by objective"
    return f"{setting.help} ({setting.expected}{unit}; default {default or 'none'})"


FACTS: Facts = {
    "api": lambda: ", ".join(sorted(api.__all__, key=str.lower)),
    "columns": _columns,
    "conversions": lambda: _listed(convert.BECOMES.items()),
    "exit_codes": lambda: [(str(code), meaning) for code, meaning in EXIT_CODES.items()],
    "formats": lambda: list(formats.FORMATS.items()),
    "forms": _forms,
    "labels": lambda: ", ".join(roles.LABELS),
    "measured": lambda: catalogue.MEASURED,
    "needs": lambda: "; ".join(FORMS.values()),
    "objectives": settings.objectives,
    "poolings": lambda: list(sections.POOLINGS.items()),
    "presets": lambda: _presets(presets.names()),
    "python": lambda: inspect.cleandoc(contrastcli.__doc__ or ""),
    "resumable": lambda: ", ".join(sorted(key for key, s in sections.all_settings().items() if s.resumable)),
    "run_directory": _run_directory,
    "settings": _settings,
    "similarities": _similarities,
    "spec": lambda: inspect.getdoc(catalogue.Spec) or "",
    "states": lambda: ", ".join(get_args(status.State)),
    "suites": lambda: [(s.name, f"{s.description} {', '.join(s.tasks)}".rstrip()) for s in SUITES.values()],
    "sweep_presets": lambda: _presets(presets.sweep_names()),
}
