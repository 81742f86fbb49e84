"""What is meant by words that a command does not know, as the hint of an error, and examples of what it knows."""

import os
import re
import shlex
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import dropwhile, pairwise
from pathlib import Path

import click

from contrastcli.errors import UsageError, nearest
from contrastcli.runs.directory import Run, runs_dir
from contrastcli.settings import catalogue, papers, presets, sections
from contrastcli.settings.other_names import our_name


def explained(error: click.UsageError, ctx: click.Context, words: Sequence[str]) -> UsageError:
    """An error that click finds in the words of a command as one of ours, with what to type instead."""
    hint = ""
    if isinstance(error, click.NoSuchOption):
        unknown, hint = _our_options(ctx, words)
        if error.option_name in unknown:
            kind, names = "is no option" if len(unknown) == 1 else "are no options", "', '".join(unknown)
            return UsageError(f"there {kind} '{names}'", hint)
        hint = _elsewhere(ctx, error.option_name) or _nearest_option(ctx, words, error.option_name)
    else:
        name = getattr(error, "option_name", "")
        param = getattr(error, "param", None) or next((one for one in ctx.command.params if name in one.opts), None)
        if isinstance(param, click.Option):
            hint = f"such as {_example(param, words)}: see {ctx.command_path} --help"
    return UsageError(error.format_message().rstrip("."), hint or usage(ctx))


def unexpected(ctx: click.Context, words: Sequence[str], rest: Sequence[str]) -> UsageError:
    """The error for the `rest` of the words, which stand without an option and are no argument."""
    is_file = os.path.isfile(rest[0])
    if place := _in_its_place(ctx, words, rest):
        hint = f"did you mean {place}?"
    elif is_file and sum(isinstance(param, click.Argument) for param in ctx.command.params) == 1:
        options = dropwhile(lambda word: not word.startswith("-"), words)
        hint = f"one at a time: {shlex.join([*ctx.command_path.split(), rest[0], *options])}"
    else:
        hint = usage(ctx)
    return UsageError(f"'{rest[0]}' was not expected", hint)


def options_of(ctx: click.Context) -> set[str]:
    """The names of all options of a command."""
    return {name for param in ctx.command.get_params(ctx) for name in param.opts}


def _our_options(ctx: click.Context, words: Sequence[str]) -> tuple[list[str], str]:
    """Options of other software among the words of a command, and a hint: ours, or what the table says."""
    known, command = options_of(ctx), ctx.command_path.partition(" ")[2]
    typed = dict.fromkeys(word.partition("=")[0] for word in words if re.match(r"--|-[a-z]$", word))
    ours = {word: _our_option(word, known, command, _value_of(words, [word])) for word in typed if word not in known}
    ours = {word: meant for word, meant in ours.items() if meant}
    options = " and ".join(meant for meant in ours.values() if meant.startswith("-"))
    hints = [f"{word}: {to}" for word, to in ours.items() if not to.startswith("-")]
    return list(ours), " ".join(filter(None, [f"did you mean {options}?" if options else "", "; ".join(hints)]))


def _our_option(word: str, known: Collection[str], command: str, value: str) -> str:
    """Our option for one of other software, with what was typed behind it where that is a value."""
    ours, every = our_name(word, "train" if "--set" in known else command), sections.all_settings()
    if "--set" in known:
        keys = {re.sub(r"\W|_", "", key): key for key in every}
        ours = keys.get(re.sub(r"\W|_", "", word), ours)
    name, comma, remark = ours.partition(", ")
    if " " in name:
        return ours
    value = "" if value.startswith("-") else value
    known_values = _objectives() if name == "objective.name" else every[name].choices if name in every else ()
    plain = value or word.strip("-")
    meant = plain if plain in known_values else our_name(plain, "" if name == "objective.name" else name)
    if meant in known_values:
        value, comma = meant, ""
    elif comma or not value:
        value = "VALUE"
    elif name == "--name":  # no path
        value = Path(value).name
    words = every[name].words(value) if name in every else [name, value]
    return shlex.join(words) + (comma and comma + remark) if words[0] in known and words[0] != word else ""


def _in_its_place(ctx: click.Context, words: Sequence[str], rest: Sequence[str]) -> str:
    """The first of the `rest`, words that stand without an option, behind an option; "" where none takes it."""
    word, known = rest[0], options_of(ctx)
    if before := _continued(words[: words.index(word)], rest):
        return before
    if not {"--set", "--data"} <= known:
        return ""
    if "=" in word:
        return f"--grid {word}" if "--grid" in known else _assigned(word)
    every = ",".join([*(ctx.params.get("data__train") or ()), *rest])
    is_data = os.path.exists(word) or os.path.splitext(word)[1]
    ways = {
        f"--config {shlex.quote(word)}": word.endswith((".toml", ".yaml", ".yml")),
        f"--preset {word}": word in presets.names(),
        f"--objective {our_name(word)}": our_name(word) in _objectives(),
        f"--resume {word}": "--resume" in known and _run(ctx, word).exists(),
        f"--data {shlex.quote(every)}": is_data,
    }
    return next((way for way, is_meant in ways.items() if is_meant), "")


def _objectives() -> set[str]:
    return {spec.name for spec in catalogue.all_objectives()}


def _continued(words: Sequence[str], rest: Sequence[str]) -> str:
    """The last of the words with the `rest` too: a file with blanks, a key without its value, values of a grid."""
    option, value = ["", "", *words][-2:]
    for count in range(len(rest), 0, -1):
        if os.path.exists(file := " ".join([value, *rest[:count]])):
            return shlex.quote(file)
    if option in ("--grid", "--set") and "=" not in value:
        keys = (one.key for one in sections.all_settings().values() if one.name == value and option == "--set")
        return f"{option} {next(keys, value)}={','.join(rest)}"
    if option == "--grid" and not any("=" in one for one in rest):
        return f"{option} {','.join([value, *rest])}"
    return ""


def _assigned(word: str) -> str:
    key, _, value = word.partition("=")
    names = (key, our_name(key), f"--{key.replace('_', '-')}")
    meant = (one for one in sections.all_settings().values() if one.key in names or one.flag in names)
    return " ".join(next((one.words(value) for one in meant), ["--set", word]))


def command(ctx: click.Context, words: Sequence[str], known: Collection[str]) -> str:
    """A hint with the command that is meant by the first of some words, or is nearest to it in a group."""
    word, group = words[0], ctx.command_path
    kind = group.partition(" ")[2] or "runs"
    names = {"presets": [*presets.names(), *presets.sweep_names()], "papers": [*papers.book().papers]}
    if word in names.get(kind, ()) or (kind == "runs" and _run(ctx, word).exists()):
        return f"did you mean {shlex.join(['contrast', kind, 'show', *words])}?"
    ours = our_name(word, group.rpartition(" ")[2])
    if ours.startswith("--") or ours.split()[0].strip(",") in known:
        return f"did you mean {group} {ours}?"
    return ours if " " in ours else nearest(word, known)


def _run(ctx: click.Context, name: str) -> Run:
    """The run of that name, which may not be there."""
    return Run(runs_dir(ctx.find_root().params.get("runs_dir")) / name)


def _value_of(words: Sequence[str], names: Sequence[str]) -> str:
    """What was typed behind one of an option's names, or ""."""
    parts = (part for word in words for part in word.split("=", 1))
    return next((value for name, value in pairwise(parts) if name in names), "")


def _example(param: click.Option, words: Sequence[str]) -> str:
    """The option with a value that it may have, near to what was typed behind it; with its kind where any may do."""
    option, typed = param.opts[0], _value_of(words, param.opts)
    if isinstance(param.type, click.Choice):
        known: Sequence[str] = param.type.choices
        usual = next((one for one in known if one == param.default), known[0])
        meant = our_name(typed or usual, option)
        near = [meant] if meant in known else get_close_matches((typed or usual).lower(), known, 1, 0.5)
        return meant if meant.startswith("--") else f"{option} {next(iter(near), usual)}"
    if param.name in ("resume", "model", "resume_or_start"):
        return f"{option} last"
    kind = "NUMBER" if isinstance(param.type, click.IntRange | click.FloatRange) else param.type.name.upper()
    default = param.default if isinstance(param.default, int | float | str) else ""
    value = default or param.metavar or kind
    return f"{option} {'true' if value == 'BOOL' else value}"


def _nearest_option(ctx: click.Context, words: Sequence[str], name: str) -> str:
    """A hint with the option whose name is nearest to one that is none, and what was typed behind it."""
    near = get_close_matches(name, options_of(ctx), 1, 0.75)
    return f"did you mean {shlex.join([*near, *filter(None, [_value_of(words, [name])])])}?" if near else ""


def _elsewhere(ctx: click.Context, name: str) -> str:
    """A hint with the place of an option of the program or of other commands; "" where none has it."""
    program, *rest = ctx.command_path.split()
    root = ctx.find_root().command
    for param in root.params:
        if name in param.opts:
            before = " ".join(filter(None, (program, name, param.metavar, *rest)))
            return f"put it before the command: {before}"
    group = ctx.command if isinstance(ctx.command, click.Group) else root
    commands = getattr(group, "commands", {}).items()
    whose = next((one for one, command in commands if any(name in p.opts for p in command.get_params(ctx))), "")
    if not whose or not name.startswith("--"):
        return ""
    behind = f"put it behind a command: {ctx.command_path} COMMAND {name}"
    return behind if group is ctx.command else f"contrast {whose} has it"


def usage(ctx: click.Context) -> str:
    """Where a command is explained, and one of its examples."""
    return f"see {ctx.command_path} --help, such as: {examples(ctx.command_path)[0]}"


def examples(command: str) -> list[str]:
    """The command lines that show how a command is used, which stand in examples.txt below its name."""
    text = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8")
    paragraphs = (paragraph.splitlines() for paragraph in text.split("\n\n"))
    return next(([line.strip() for line in lines] for name, *lines in paragraphs if name == command), [])
