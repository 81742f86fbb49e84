"""`contrast help`: topics in plain text, prose from `help/` with tables made from the program's own data."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from contrastcli import api
from contrastcli.data import forms
from contrastcli.errors import EXIT_CODES, UsageError, nearest
from contrastcli.evaluation.suites import all_suites
from contrastcli.files import user_file
from contrastcli.runs import directory, status
from contrastcli.settings import catalogue, papers, presets, sections
from contrastcli.settings.objective import Spec
from contrastcli.settings.other_names import our_name
from contrastcli.settings.setting import Value, spell
from contrastcli.settings.similarity import SIMILARITIES
from contrastcli.show import papers as show_papers
from contrastcli.show import settings
from contrastcli.show.format import Fields, columns, laid_out

Facts = Mapping[str, Callable[[], str | Fields]]
"""What replaces {name} in a text: words, or a table in place of a paragraph."""

FOLDER = Path(__file__).parents[1] / "help"
"""One text file a topic; its first line says what it is about."""


def topics() -> dict[str, str]:
    """The first line of each topic, by name."""
    return {path.stem: path.read_text(encoding="utf-8").partition("\n")[0] for path in sorted(FOLDER.glob("*.txt"))}


def answer(words: Sequence[str], width: int, commands: Iterable[str], more: Facts) -> str:
    """The topic, setting or objective that is asked for, else every topic with its first line. Raises UsageError."""
    if not words:
        last = "contrast help TOPIC shows one of these, contrast help COMMAND the options of a command."
        return f"{columns(list(topics().items()), width)}\n\n{laid_out(last, width)}"
    if words[0] not in topics():
        ours, described = our_name(words[0], "help"), [*_settings(), *settings.objectives()]
        for word in (words[0], ours.partition(",")[0]):
            names = word, word.removeprefix("--").replace("-", "_")
            known = [(key, text) for key, text in described if key in names or key.partition(".")[2] in names]
            if known and word not in topics():
                return columns(known, width)
        hint = nearest(ours, [*topics(), *commands], "contrast help")
        raise UsageError(f"there is no help on '{words[0]}'", hint)
    options = f"\n\nThe options of the command: contrast {words[0]} --help" if words[0] in commands else ""
    return topic(words[0], width, more) + options


def topic(name: str, width: int, more: Facts) -> str:
    """A topic as text of that width, with FACTS and `more` facts filled in.

    In a source a line of a table continues on lines that are indented.
    """
    facts = {**FACTS, **more}
    parts = []
    for paragraph in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip().split("\n\n"):
        if not paragraph.startswith(" "):
            paragraph = re.sub(r"\n +", " ", paragraph)
        alone = re.fullmatch(r"\{(\w+)\}", paragraph)
        fact = facts[alone[1]]() if alone else re.sub(r"\{(\w+)\}", lambda match: str(facts[match[1]]()), paragraph)
        if isinstance(fact, str):
            parts += [laid_out(part, width) for part in fact.split("\n\n")]
        else:
            parts.append(columns(fact, width))
    return "\n\n".join(parts)


def _by_value(pairs: Iterable[tuple[str, str]]) -> Fields:
    """Each second word with the first words that go with it."""
    grouped: dict[str, list[str]] = {}
    for word, value in pairs:
        grouped.setdefault(value, []).append(word)
    return [(value, ", ".join(words)) for value, words in grouped.items()]


def _presets(names: Iterable[str]) -> Fields:
    return [(name, presets.find(name).about.what) for name in names]


def _similarities() -> Iterator[tuple[str, str]]:
    for name, one in SIMILARITIES.items():
        unit = one.margin.unit
        margin = f", m in {unit}, by default {spell(one.default_margin)}" if unit else ""
        yield name, f"{one.formula} ({one.source}){margin}"


def _settings() -> Iterator[tuple[str, str]]:
    """Every setting with its meaning, its possible values, and its default unless that depends on the objective."""
    defaults: dict[str, set[Value]] = {}
    for spec in catalogue.all_objectives():
        for key, setting in sections.settings_of(spec).items():
            defaults.setdefault(key, set()).add(setting.default)
    for key, setting in sections.all_settings().items():
        unit = f", in {setting.unit}" if setting.unit else ""
        default = (spell(setting.default) or "none") if len(defaults[key]) == 1 else "by objective"
        yield key, f"{setting.help} ({setting.expected}{unit}; default {default})"


FACTS: Facts = {
    "api": lambda: ", ".join(sorted(api.__all__, key=str.lower)),
    "columns": lambda: _by_value(forms.NAMES.items()),
    "conversions": lambda: [(form, ", ".join(others)) for form, others in forms.BECOMES.items()],
    "exit_codes": lambda: [(str(code), meaning) for code, meaning in EXIT_CODES.items()],
    "formats": lambda: list(forms.FORMATS.items()),
    "forms": lambda: _by_value((" + ".join(needed), shape) for shape, needed in forms.SHAPES),
    "kinds": lambda: list(forms.KINDS.items()),
    "labels": lambda: ", ".join(forms.LABELS),
    "largest_json": lambda: str(forms.LARGEST_JSON >> 20),
    "longest": lambda: f"{forms.LONGEST:,}",
    "measured": lambda: catalogue.MEASURED,
    "needs": lambda: [(form, forms.FORMS[form]) for form in catalogue.NEEDED],
    "objectives": settings.objectives,
    "papers": lambda: [(f"{i.paper} {i.key}", f"{i.title}; {show_papers.needs(i)}") for i in papers.items()],
    "poolings": lambda: list(sections.POOLINGS.items()),
    "presets": lambda: _presets(presets.names()),
    "resumable": lambda: ", ".join(sorted(key for key, s in sections.all_settings().items() if s.resumable)),
    "run_directory": lambda: inspect.cleandoc(directory.__doc__ or "").split("\n\n")[1],
    "settings": lambda: list(_settings()),
    "similarities": lambda: list(_similarities()),
    "spec": lambda: inspect.getdoc(Spec) or "",
    "states": lambda: ", ".join(get_args(status.State)),
    "user_folder": lambda: str(user_file().parent),
    "suites": lambda: [(s.name, f"{s.description} {', '.join(s.tasks)}".rstrip()) for s in all_suites().values()],
    "sweep_presets": lambda: _presets(presets.sweep_names()),
}
