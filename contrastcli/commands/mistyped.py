"""What is meant by words that a command does not know, and examples of what it knows."""

import math
import os
import re
import shlex
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from itertools import pairwise, takewhile
from pathlib import Path

from contrastcli.data.lines import as_number
from contrastcli.errors import nearest
from contrastcli.runs.directory import Run
from contrastcli.settings import catalogue, papers, presets, sections
from contrastcli.settings.other_names import our_name

_WRITTEN = ".npy", ".safetensors", ".parquet", ".jsonl", ".csv"
_DELETING = "rm", "prune"


def our_options(
    words: Sequence[str], known: Collection[str], command: str, fits: Callable[[Sequence[str]], bool]
) -> tuple[list[str], str]:
    """Options of other software among the words of a command, and a hint: `known` ones, or what the table says.

    `fits` says whether a command takes so many words.
    """
    typed = dict.fromkeys(word.partition("=")[0] for word in words if re.match(r"--|-[a-z]$", word))
    values = {word: value_of(words, [word]) for word in typed if word not in known}
    ours = {word: meant for word, value in values.items() if (meant := _our_option(word, known, command, value))}
    options = " and ".join(meant for meant in ours.values() if meant.startswith("-"))
    parts = [word.partition("=") for word in words]
    rest = [
        *filter(None, (value if ours.get(name) == "VALUE" else name + equals + value for name, equals, value in parts))
    ]
    alone = shlex.join([*command.split(), *rest])
    if not fits(rest):
        without = _without(words, [option for option, to in ours.items() if to == "VALUE"])
        alone = f"one alone: {shlex.join([*command.split(), *without])}"
    hints = [alone if to == "VALUE" else f"{word}: {to}" for word, to in ours.items() if not to.startswith("-")]
    if {*ours.values()} == {"leave it out"}:
        hints = [f"leave it out: {shlex.join([*command.split(), *_without(words, ours)])}"]
    question = f"did you mean {options}? " if options else ""
    return list(ours), (question + "; ".join(dict.fromkeys(hints))).strip()


def _without(words: Sequence[str], options: Collection[str]) -> list[str]:
    """The words without some options and what stands behind each."""
    kept = []
    for before, word in pairwise(["", *words]):
        is_value = before in options and not word.startswith("-")
        kept += [word] * (word.partition("=")[0] not in options and not is_value)
    return kept


def _our_option(word: str, known: Collection[str], command: str, value: str) -> str:
    """Our option for one of other software, with what was typed behind it where that is a value."""
    if f"--{value}" in known and "--set" not in known:
        return f"--{value}"  # such as of `--test bootstrap`
    ours = our_name(word, "train" if "--set" in known else command.partition(" ")[2])
    every = sections.all_settings()
    keys = {re.sub(r"\W|_", "", key): key for key in every if "--set" in known}
    ours = keys.get(re.sub(r"\W|_", "", word), ours)
    name, comma, remark = ours.partition(", ")
    if " " in name or name == "VALUE":
        return ours
    value = "" if value.startswith("-") else value
    known_values = _objectives() if name == "objective.name" else every[name].choices if name in every else ()
    plain = value or word.strip("-")
    meant = plain if plain in known_values else our_name(plain, "" if name == "objective.name" else name)
    nearer = every[name].meant(value) if name in every else []
    if meant in known_values:
        value, comma = meant, ""
    elif remark.startswith("1 divided by") and as_number(value) > 0:
        value, comma = f"{1 / as_number(value):.4g}", ""
    elif nearer:
        value = nearer[0]
    elif comma or not value:
        value = "VALUE"
    elif name == "--name":  # no path
        value = Path(value).name
    words = every[name].words(value) if name in every else [name, value]
    return shlex.join(words) + (comma and comma + remark) if words[0] in known and words[0] != word else ""


def in_its_place(words: Sequence[str], rest: Sequence[str], known: Collection[str], data: str, directory: Path) -> str:
    """The first of the `rest`, words that stand without an option, behind one of the `known`; "" where none takes it.

    `data` are the files that the words of the command name already.
    """
    word = rest[0]
    if before := _continued(words[: words.index(word)], rest):
        return before
    if not {"--set", "--data"} <= {*known}:
        return _without_settings(words, word, known)
    if "=" in word:
        return f"--grid {word}" if "--grid" in known else _assigned(word)
    run, every = Run(directory / word), ",".join(filter(None, [data, *rest]))
    of_run = f"--resume {word}" if "--resume" in known else f"--config {shlex.quote(str(run.config_path))}"
    ways = {
        f"contrast help {word}": any(word in (one.key, one.name) for one in sections.all_settings().values()),
        f"--config {shlex.quote(word)}": word.endswith((".toml", ".yaml", ".yml")),
        f"--preset {word}": word in presets.names(),
        f"--objective {our_name(word)}": our_name(word) in _objectives(),
        of_run: run.exists(),
    }
    return next((way for way, is_meant in ways.items() if is_meant), f"--data {shlex.quote(every)}")


def _without_settings(words: Sequence[str], word: str, known: Collection[str]) -> str:
    """A word behind an option of a command that has no settings: a model, a file to write, or one text file more."""
    texts = [one for one in words if one.endswith(".txt") and os.path.isfile(one)]
    if "--dtype" in known and word in texts[1:]:
        others = [one for one in words if one not in texts]
        return f"{shlex.join(['cat', *texts])} | {shlex.join(['contrast', 'encode', '-', *others])}"
    to = "--backbone" if "--backbone" in known and os.path.isdir(word) else "--model"
    if "-o" in known and "-o" not in words and os.path.splitext(word)[1] in _WRITTEN:
        to = "-o"
    elif os.path.isfile(word):
        to = ""
    return f"{to} {word}" if to in known else ""


def _objectives() -> set[str]:
    return {spec.name for spec in catalogue.all_objectives()}


def _continued(words: Sequence[str], rest: Sequence[str]) -> str:
    """The last of the words with the `rest` too: a file with blanks, a key without its value, a list of numbers."""
    option, value = ["", "", *words][-2:]
    for count in range(len(rest), 0, -1):
        if os.path.exists(file := " ".join([value, *rest[:count]])):
            return shlex.quote(file)
    if option in ("--grid", "--set") and "=" not in value:
        keys = (one.key for one in sections.all_settings().values() if one.name == value and option == "--set")
        return f"{option} {next(keys, value)}={','.join(rest)}"
    if option == "--grid" and not any("=" in one for one in rest):
        return f"{option} {','.join([value, *rest])}"
    lists = [setting.flag for setting in sections.all_settings().values() if setting.kind is str]
    numbers = list(takewhile(lambda one: math.isfinite(as_number(one)), [value, *rest]))
    return f"{option} {','.join(numbers)}" if option in lists and len(numbers) > 1 else ""


def _assigned(word: str) -> str:
    key, _, value = word.partition("=")
    names = (key, our_name(key), f"--{key.replace('_', '-')}")
    meant = (one for one in sections.all_settings().values() if one.key in names or one.flag in names)
    return " ".join(next((one.words(value) for one in meant), ["--set", word]))


def command(words: Sequence[str], group: str, known: Collection[str], directory: Path) -> str:
    """A hint with the command that is meant by the first of some words, or is nearest to it in a group."""
    word = words[0]
    kind = group.partition(" ")[2] or "runs"
    names = {"presets": [*presets.names(), *presets.sweep_names()], "papers": [*papers.book().papers]}
    if word in names.get(kind, ()) or (kind == "runs" and Run(directory / word).exists()):
        return f"did you mean {shlex.join(['contrast', kind, 'show', *words])}?"
    ours = our_name(word, group.rpartition(" ")[2])
    if ours.startswith("--") or ours.split()[0].strip(",") in known:
        return f"did you mean {group} {ours}?"
    if " " in ours:
        return ours
    # Nobody is told to delete who is not sure to mean it.
    near, sure = (get_close_matches(word, known, 1, likeness) for likeness in (0.5, 0.75))
    return nearest(word, known) if sure or {*near}.isdisjoint(_DELETING) else f"known: {', '.join(sorted(known))}"


def value_of(words: Sequence[str], names: Sequence[str]) -> str:
    """What was typed behind one of an option's names, or ""."""
    parts = (part for word in words for part in word.split("=", 1))
    return next((value for name, value in pairwise(parts) if name in names), "")


def choice(words: Sequence[str], names: Sequence[str], usual: str, known: Sequence[str]) -> str:
    """The option with the one of its values that is meant by what was typed, or is nearest to it."""
    typed = value_of(words, names) or usual
    meant = our_name(typed, names[0])
    near = [meant] if meant in known else get_close_matches(typed.lower(), known, 1, 0.5)
    return meant if meant.startswith("--") else f"{names[0]} {next(iter(near), usual)}"


def number(
    words: Sequence[str], names: Sequence[str], usual: Sequence[object], is_count: bool, is_share: bool
) -> float:
    """A value of an option for what was typed: how many, of a list; a share for a percentage; else the usual one."""
    typed = value_of(words, names)
    if is_count and "," in typed:
        return typed.count(",") + 1
    share = as_number(typed.replace(",", ".").removesuffix("%"))
    share = share if share <= 1 else share / 100
    return share if is_share and 0.05 <= share <= 1 else next(one for one in usual if isinstance(one, int | float))


def with_output(words: Sequence[str], command: str) -> str:
    """A command line with the file to write behind -o, or "" where no word has the ending of one."""
    for at, word in enumerate(words):
        if at and (word.endswith(_WRITTEN[:2]) or (word.endswith(_WRITTEN) and not os.path.exists(word))):
            return shlex.join([*command.split(), *words[:at], *words[at + 1 :], "-o", word])
    return ""


def with_words(words: Sequence[str], command: str, at: int, missing: Sequence[str]) -> str:
    """A command line with the names of what is missing in its place."""
    before, after = shlex.join(words[:at]), shlex.join(words[at:])
    names = [name.partition("|")[0].strip("[]. ") for name in missing]
    return " ".join(filter(None, [command, before, *names, after]))


def option(words: Sequence[str], name: str, known: Sequence[str]) -> str:
    """A hint with the option whose name is nearest to one that is none, and what was typed behind it."""
    near = get_close_matches(name, known, 1, 0.75)
    return f"did you mean {shlex.join([*near, *filter(None, [value_of(words, [name])])])}?" if near else ""


def elsewhere(
    words: Sequence[str], name: str, takes_value: bool, command: str, below: Sequence[str], whose: str
) -> str:
    """A hint with the command line for an option that those `below` a group have, else one `whose` it is.

    Without a name it belongs to all commands, and stands before them.
    """
    option: list[str] = []
    others = [*words]
    while (at := next((n for n, word in enumerate(others) if word.partition("=")[0] == name), None)) is not None:
        size = 2 if takes_value and "=" not in others[at] else 1
        option += others[at : at + size]
        del others[at : at + size]
    # It may be one of several letters behind a dash.
    if not option:
        return ""
    program, *rest = command.split()
    if below:
        meant = next((word for word in others if word in below), below[0])
        behind = [word for word in others if word != meant]
        return f"did you mean {shlex.join([program, *rest, meant, *behind, *option])}?"
    if whose and rest[-1] in _DELETING:
        return ""
    if whose:
        return f"contrast {whose} has it; without it: {shlex.join([program, *rest, *others])}"
    return f"put it before the command: {shlex.join([program, *option, *rest, *others])}"


def usage(command: str) -> str:
    """Where a command is explained, and one of its examples."""
    return f"see {command} --help, such as: {examples(command)[0]}"


def examples(command: str) -> list[str]:
    """The command lines that show how a command is used, which stand in examples.txt below its name."""
    text = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8")
    paragraphs = (paragraph.splitlines() for paragraph in text.split("\n\n"))
    return next(([line.strip() for line in lines] for name, *lines in paragraphs if name == command), [])
