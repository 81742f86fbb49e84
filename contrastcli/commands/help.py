"""`contrast help`: topics in plain text, prose from `help/` with tables of what the program itself uses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import get_args

import click

import contrastcli
from contrastcli import api
from contrastcli.data import convert, formats, roles
from contrastcli.data.examples import FORMS
from contrastcli.errors import EXIT_CODES, UsageError, nearest
from contrastcli.evaluation.suites import SUITES
from contrastcli.runs import directory, status
from contrastcli.settings import catalogue, presets, sections
from contrastcli.settings.setting import Setting, Value, spell
from contrastcli.settings.similarity import SIMILARITIES, Similarity
from contrastcli.show import settings

Rows = Sequence[tuple[str, str]]
"""A term and what is said of it, a row each."""

Facts = Mapping[str, Callable[[], str | Rows]]
"""What stands in a text as {name}: words, or a table where it is a paragraph of its own."""

FOLDER = Path(__file__).parents[1] / "help"
"""One text file a topic; its first line says what it is about."""

_ROW = re.compile(r"( *\S+(?: \S+)*)(?:  +(.*))?")
"""A line of two columns, with two spaces or more between them."""


def topics() -> dict[str, str]:
    """What each topic is about, by name."""
    return {path.stem: path.read_text(encoding="utf-8").partition("\n")[0] for path in sorted(FOLDER.glob("*.txt"))}


def overview(width: int) -> str:
    """Every topic with its line."""
    last = "contrast help TOPIC shows one of these, contrast help COMMAND the options of a command."
    return f"{_table(list(topics().items()), width)}\n\n{_wrapped(last, width)}"


def topic(name: str, width: int, more: Facts) -> str:
    """A topic as text of that width; `more` are facts that only the caller has."""
    facts = {**FACTS, **more}
    paragraphs = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip().split("\n\n")
    return "\n\n".join(_shown(paragraph, facts, width) for paragraph in paragraphs)


def command(words: Sequence[str], ctx: click.Context) -> str:
    """The options of a command, or what a group has. Raises UsageError where there is none of that name."""
    for word in words:
        known = ctx.command.commands if isinstance(ctx.command, click.Group) else {}
        if word not in known:
            names = [*known, *topics()] if ctx.parent is None else known
            raise UsageError(f"there is no help on '{' '.join(words)}'", nearest(word, names))
        ctx = click.Context(known[word], parent=ctx, info_name=word)
    return ctx.get_help()


def _shown(paragraph: str, facts: Facts, width: int) -> str:
    """A paragraph or table with the facts in it."""
    alone = re.fullmatch(r"\{(\w+)\}", paragraph)
    fact = facts[alone[1]]() if alone else re.sub(r"\{(\w+)\}", lambda match: str(facts[match[1]]()), paragraph)
    if isinstance(fact, str):
        return "\n\n".join(_laid_out(part, width) for part in fact.split("\n\n"))
    return _table(fact, width)


def _laid_out(paragraph: str, width: int) -> str:
    """Lines with two spaces in them as a table, other lines wrapped unless they are indented."""
    rows = [(match[1], match[2] or "") for match in map(_ROW.fullmatch, paragraph.splitlines()) if match]
    if any(text for _, text in rows):
        return _table(rows, width)
    return paragraph if paragraph.startswith(" ") else _wrapped(paragraph, width)


def _table(rows: Rows, width: int) -> str:
    """Two columns, the second wrapped; terms longer than half a line have a line of their own."""
    short = [len(term) for term, _ in rows if len(term) <= width // 2]
    column = max(short, default=2) + 2
    return "\n".join(_row(term, text, column, width) for term, text in rows)


def _row(term: str, text: str, column: int, width: int) -> str:
    if text and len(term) < column:
        return _wrapped(text, width, term.ljust(column), " " * column)
    return "\n".join(filter(None, [term, _wrapped(text, width, " " * column, " " * column)]))


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> str:
    """Lines between words; names with hyphens stay whole."""
    return fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


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


def _suites() -> Rows:
    """Every suite with its description and its tasks."""
    return [(suite.name, f"{suite.description} {', '.join(suite.tasks)}".rstrip()) for suite in SUITES.values()]


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
    "suites": _suites,
    "sweep_presets": lambda: _presets(presets.sweep_names()),
}
