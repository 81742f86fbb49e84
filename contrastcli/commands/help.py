"""`contrast help`: topics in plain text, prose from `help/` with tables of what the program itself uses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import click

import contrastcli
from contrastcli.data import convert, formats, roles
from contrastcli.errors import EXIT_CODES, UsageError, nearest
from contrastcli.runs import directory, status
from contrastcli.settings import catalogue, presets, sections
from contrastcli.settings.setting import Setting, Value, spell

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


def overview(formatter: click.HelpFormatter) -> str:
    """Every topic with its line."""
    formatter.write_dl(list(topics().items()))
    formatter.write("\n")
    formatter.write_text("contrast help TOPIC shows one of these, contrast help COMMAND the options of a command.")
    return formatter.getvalue()


def topic(name: str, formatter: click.HelpFormatter, more: Facts) -> str:
    """A topic as text, as wide as the formatter; `more` are facts that only the caller has."""
    facts = {**FACTS, **more}
    for paragraph in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip().split("\n\n"):
        alone = re.fullmatch(r"\{(\w+)\}", paragraph)
        _write(facts[alone[1]]() if alone else _filled(paragraph, facts), formatter)
    return formatter.getvalue().rstrip()


def command(words: Sequence[str], ctx: click.Context) -> str:
    """The options of a command, or what a group has. Raises UsageError where there is none of that name."""
    for word in words:
        known = ctx.command.commands if isinstance(ctx.command, click.Group) else {}
        if word not in known:
            names = [*known, *topics()] if ctx.parent is None else known
            raise UsageError(f"there is no help on '{' '.join(words)}'", nearest(word, names))
        ctx = click.Context(known[word], parent=ctx, info_name=word)
    return ctx.get_help()


def _filled(paragraph: str, facts: Facts) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: str(facts[match[1]]()), paragraph)


def _write(fact: str | Rows, formatter: click.HelpFormatter) -> None:
    """Two columns for rows and for lines with two spaces in them; other lines are wrapped unless they are indented."""
    if not isinstance(fact, str):
        formatter.write_dl(fact, col_max=34)
        formatter.write("\n")
        return
    for paragraph in fact.split("\n\n"):
        rows = [(match[1], match[2] or "") for match in map(_ROW.fullmatch, paragraph.splitlines()) if match]
        if any(text for _, text in rows):
            _write(rows, formatter)
        elif paragraph.startswith(" "):
            formatter.write(f"{paragraph}\n\n")
        else:
            formatter.write_text(paragraph)
            formatter.write("\n")


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
    "columns": _columns,
    "conversions": lambda: _listed(convert.BECOMES.items()),
    "exit_codes": lambda: [(str(code), meaning) for code, meaning in EXIT_CODES.items()],
    "formats": lambda: list(formats.FORMATS.items()),
    "forms": _forms,
    "labels": lambda: ", ".join(roles.LABELS),
    "poolings": lambda: list(sections.POOLINGS.items()),
    "python": lambda: inspect.cleandoc(contrastcli.__doc__ or ""),
    "resumable": lambda: ", ".join(sorted(key for key, s in sections.all_settings().items() if s.resumable)),
    "run_directory": _run_directory,
    "settings": _settings,
    "spec": lambda: inspect.getdoc(catalogue.Spec) or "",
    "states": lambda: ", ".join(get_args(status.State)),
    "sweep_presets": lambda: [(name, presets.find(name).about.what) for name in presets.sweep_names()],
}
