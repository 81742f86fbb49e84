"""What is meant by words that a command does not know, as the hint of an error, and examples of what it knows."""

import math
import os
import re
import shlex
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path

import click

from contrastcli.data.lines import as_number
from contrastcli.errors import UsageError, nearest
from contrastcli.runs.directory import Run, runs_dir
from contrastcli.settings import catalogue, papers, presets, sections
from contrastcli.settings.other_names import our_name

_WRITTEN = ".npy", ".safetensors", ".parquet", ".jsonl", ".csv"
_DELETING = "rm", "prune"


def explained(error: click.UsageError, ctx: click.Context, words: Sequence[str]) -> UsageError:
    """An error that click finds in the words of a command as one of ours, with what to type instead."""
    if isinstance(error, click.NoSuchOption):
        unknown, hint = _our_options(ctx, words)
        if error.option_name in unknown:
            kind, names = "is no option" if len(unknown) == 1 else "are no options", "', '".join(unknown)
            return UsageError(f"there {kind} '{names}'", hint)
        hint = _elsewhere(ctx, words, error.option_name) or _nearest_option(ctx, words, error.option_name)
    else:
        name, params = getattr(error, "option_name", ""), ctx.command.get_params(ctx)
        param = getattr(error, "param", None) or next((one for one in params if name in one.opts), None)
        hint = _with_option(ctx, words, param) if isinstance(param, click.Option) else _with_argument(ctx, words, param)
    return UsageError(error.format_message().rstrip("."), hint or usage(ctx))


def unexpected(ctx: click.Context, words: Sequence[str], rest: Sequence[str]) -> UsageError:
    """The error for the `rest` of the words, which stand without an option and are no argument."""
    if place := _in_its_place(ctx, words, rest):
        hint = f"did you mean {place}?"
    elif sum(isinstance(param, click.Argument) for param in ctx.command.params) == 1:
        options = dropwhile(lambda word: not word.startswith("-"), words)
        hint = f"one at a time: {_line(ctx, [rest[0], *options])}"
    else:
        hint = usage(ctx)
    return UsageError(f"'{rest[0]}' was not expected", hint)


def options_of(ctx: click.Context) -> set[str]:
    """The names of all options of a command."""
    return {name for param in ctx.command.get_params(ctx) for name in param.opts}


def _line(ctx: click.Context, words: Sequence[str]) -> str:
    """The command with other words."""
    return shlex.join([*ctx.command_path.split(), *words])


def _our_options(ctx: click.Context, words: Sequence[str]) -> tuple[list[str], str]:
    """Options of other software among the words of a command, and a hint: ours, or what the table says."""
    known = options_of(ctx)
    typed = dict.fromkeys(word.partition("=")[0] for word in words if re.match(r"--|-[a-z]$", word))
    values = {word: _value_of(words, [word]) for word in typed if word not in known}
    command = ctx.command_path.partition(" ")[2]
    ours = {word: meant for word, value in values.items() if (meant := _our_option(word, known, command, value))}
    options = " and ".join(meant for meant in ours.values() if meant.startswith("-"))
    parts = [word.partition("=") for word in words]
    rest = [value if ours.get(name) == "VALUE" else name + equals + value for name, equals, value in parts]
    rest = [word for word in rest if word]
    alone = _line(ctx, rest)
    if not _fits(ctx, rest):
        others, _ = _split(words, [option for option, to in ours.items() if to == "VALUE"])
        alone = f"one alone: {_line(ctx, others)}"
    hints = [alone if to == "VALUE" else f"{word}: {to}" for word, to in ours.items() if not to.startswith("-")]
    if {*ours.values()} == {"leave it out"}:
        hints = [f"leave it out: {_line(ctx, _split(words, ours)[0])}"]
    question = f"did you mean {options}? " if options else ""
    return list(ours), (question + "; ".join(dict.fromkeys(hints))).strip()


def _fits(ctx: click.Context, words: Sequence[str]) -> bool:
    """Whether a command line without options that it lacks has no more words than the command takes."""
    try:
        return not ctx.command.make_parser(ctx).parse_args([*words])[1]
    except click.ClickException:
        return True


def _split(words: Sequence[str], options: Collection[str], takes_value: bool = True) -> tuple[list[str], list[str]]:
    """The words without some options, with what stands behind each where they take a value; and what was left out."""
    others: list[str] = []
    taken: list[str] = []
    for before, word in pairwise(["", *words]):
        # A negative number is no option.
        is_value = takes_value and before in options and not re.match(r"-(\D|$)", word)
        (taken if is_value or word.partition("=")[0] in options else others).append(word)
    return others, taken


def _our_option(word: str, known: Collection[str], command: str, value: str) -> str:
    """Our option for one of other software, with what was typed behind it where that is a value."""
    if f"--{value}" in known and "--set" not in known:
        return f"--{value}"  # such as of `--test bootstrap`
    ours = our_name(word, "train" if "--set" in known else command)
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


def _in_its_place(ctx: click.Context, words: Sequence[str], rest: Sequence[str]) -> str:
    """The first of the `rest`, words that stand without an option, behind an option; "" where none takes it."""
    word, known = rest[0], options_of(ctx)
    if before := _continued(words[: words.index(word)], rest):
        return before
    if not {"--set", "--data"} <= known:
        return _without_settings(words, word, known)
    if "=" in word:
        return f"--grid {word}" if "--grid" in known else _assigned(word)
    run, every = _run(ctx, word), ",".join([*(ctx.params.get("data__train") or ()), *rest])
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
    if " " in ours:
        return ours
    # Nobody is told to delete who is not sure to mean it.
    near, sure = (get_close_matches(word, known, 1, likeness) for likeness in (0.5, 0.75))
    return nearest(word, known) if sure or {*near}.isdisjoint(_DELETING) else f"known: {', '.join(sorted(known))}"


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
    value: object = param.metavar or param.type.name.upper()
    if isinstance(param.type, click.IntRange | click.FloatRange):
        value = _number(param.type, param.default, typed)
        first, comma, _ = typed.partition(",")
        value = f"{typed.count(comma) + 1} --seed {first}" if param.name == "seeds" and comma else value
    return f"{option} {'true' if value == 'BOOL' else value}"


def _number(kind: click.IntRange | click.FloatRange, default: object, typed: str) -> float:
    """A number for what was typed: the first of a list; a share for a percentage; else the default or a bound."""
    is_count = isinstance(kind, click.IntRange)
    if is_count and "," in typed and (first := typed.partition(",")[0]).isdecimal():
        return max(int(first), kind.min or 0)
    share = as_number(typed.replace(",", ".").removesuffix("%"))
    share = share if share <= 1 else share / 100
    bounds = (kind.min, kind.max) if is_count else (kind.max, kind.min)
    usual = next(one for one in (default, *bounds) if isinstance(one, int | float))
    return share if kind.max == 1 and 0.05 <= share <= 1 else usual


def _with_argument(ctx: click.Context, words: Sequence[str], param: click.Parameter | None) -> str:
    """What to type for an argument that is missing or wrong; "" where another one was reached, or nothing was typed."""
    arguments = [one for one in ctx.command.get_params(ctx) if isinstance(one, click.Argument)]
    given = [*takewhile(lambda word: not word.startswith("-"), words)]
    if param not in arguments[: len(given) + 1] or not words:
        return ""
    if isinstance(param.type, click.Choice):
        return f"one of {', '.join(param.type.choices)}, as in {ctx.command_path} {param.type.choices[0]}"
    at = arguments.index(param)
    following = [one for one in arguments[at + 1 :] if one.required and len(given) <= at]
    names = [one.make_metavar(ctx).partition("|")[0].strip("[]. ") for one in (param, *following)]
    return " ".join(filter(None, [ctx.command_path, shlex.join(words[:at]), *names, shlex.join(words[at:])]))


def _with_option(ctx: click.Context, words: Sequence[str], param: click.Option) -> str:
    """What to type for an option that is missing or wrong: the file or folder to write behind -o, or an example."""
    given = [*takewhile(lambda word: not word.startswith("-"), words)]
    if param.name == "dest" and given:
        # The last word is that folder, unless it is one of the models.
        is_model = len(given) < 3 or os.path.isdir(given[-1]) or _run(ctx, given[-1]).exists()
        at = len(given) if is_model else len(given) - 1
        return _line(ctx, [*words[:at], "-o", *(["DIR"] if is_model else []), *words[at:]])
    for at, word in enumerate(words) if param.name == "output" else ():
        if at and (word.endswith(_WRITTEN[:2]) or (word.endswith(_WRITTEN) and not os.path.exists(word))):
            return _line(ctx, [*words[:at], *words[at + 1 :], "-o", word])
    return f"such as {_example(param, words)}: see {ctx.command_path} --help"


def _nearest_option(ctx: click.Context, words: Sequence[str], name: str) -> str:
    """A hint with the option whose name is nearest to one that is none, and what was typed behind it."""
    near = get_close_matches(name, options_of(ctx), 1, 0.75)
    return f"did you mean {shlex.join([*near, *filter(None, [_value_of(words, [name])])])}?" if near else ""


def _elsewhere(ctx: click.Context, words: Sequence[str], name: str) -> str:
    """A hint with the command line for an option of other commands, those of the group first; "" where none has it."""
    for group in (ctx.command, ctx.find_root().command):
        commands = {"": group, **getattr(group, "commands", {})}
        each = [(whose, param) for whose, one in commands.items() for param in one.get_params(ctx)]
        having = {whose: param for whose, param in each if name in param.opts}
        if having:
            break
    whose, param = next(iter(having.items()), ("", None))
    others, typed = _split(words, [name], not getattr(param, "is_flag", False))
    # It may be one of several letters behind a dash.
    if param is None or not typed:
        return ""
    program, *rest = ctx.command_path.split()
    if group is ctx.command:
        for word in [one for one in others if isinstance(commands.get(one), click.Group)]:
            usual = [name for name in ("list", "show") if name in commands[word].commands and not others[1:]]
            return f"did you mean {_line(ctx, [*others, *usual[:1], *typed])}?"
        meant = next((word for word in others if word in having), whose)
        behind = [word for word in others if word != meant]
        return f"did you mean {_line(ctx, [meant, *behind, *typed])}?"
    # An option of the program belongs to all commands.
    if not whose:
        return f"put it before the command: {shlex.join([program, *typed, *rest, *others])}"
    return "" if rest[-1] in _DELETING else f"contrast {whose} has it; without it: {_line(ctx, others)}"


def usage(ctx: click.Context) -> str:
    """Where a command is explained, and one of its examples."""
    return f"see {ctx.command_path} --help, such as: {examples(ctx.command_path)[0]}"


def examples(command: str) -> list[str]:
    """The command lines that show how a command is used, which stand in examples.txt below its name."""
    text = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8")
    paragraphs = (paragraph.splitlines() for paragraph in text.split("\n\n"))
    return next(([line.strip() for line in lines] for name, *lines in paragraphs if name == command), [])
