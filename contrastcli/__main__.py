"""`python -m contrastcli` is `contrast`: what may be interrupted from its first import, and click's errors as ours."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from contrastcli import boundary

if TYPE_CHECKING:
    import click


def main() -> int:
    """Run the command line; returns the exit code. Errors become two lines on stderr.

    It may be interrupted while it is imported.
    """
    try:
        return _run()
    except KeyboardInterrupt as error:
        return boundary.report(error, debug=False)


def _run() -> int:
    import click

    from contrastcli import options
    from contrastcli.cli import cli
    from contrastcli.errors import ContrastError

    debug = "--debug" in sys.argv[1:]
    try:
        boundary.prepare_process(sys.argv)
        if instruction := os.environ.get(options.COMPLETE):
            return options.complete(cli, instruction)
        with cli.make_context("contrast", sys.argv[1:]) as context:
            try:
                return cli.invoke(context) or 0
            except ContrastError as error:
                return boundary.report(error, debug, context.meta[options.OPTIONS])
    except click.exceptions.Exit as end:
        return end.exit_code
    except BaseException as error:
        return boundary.report(_without_click(error), debug)


def _without_click(error: BaseException) -> BaseException:
    """An error of click as one of ours or of Python; others as they are."""
    import click

    from contrastcli.errors import UsageError

    if isinstance(error, click.Abort):
        click.echo(err=True)  # ends the line of the question
        if isinstance(error.__context__, EOFError):
            return UsageError("nobody is there to answer", f"{shlex.join(['contrast', *sys.argv[1:]])} --yes")
        return KeyboardInterrupt()
    if not isinstance(error, click.ClickException):
        return error
    context = getattr(error, "ctx", None)
    hint = _remedy(error, context) if context else "see contrast --help"
    return UsageError(error.format_message().rstrip("."), hint)


def _remedy(error: click.ClickException, context: click.Context) -> str:
    """What to type instead, for an error of click in a command."""
    import click

    from contrastcli.commands import mistyped
    from contrastcli.options import WORDS

    command, words = context.command_path, context.meta[WORDS]
    name, params = getattr(error, "option_name", ""), context.command.get_params(context)
    if isinstance(error, click.NoSuchOption):
        known = [one for param in params for one in param.opts]
        if hint := _elsewhere(context, words, name) or mistyped.option(words, name, known):
            return hint
    param = getattr(error, "param", None) or next((one for one in params if name in one.opts), None)
    if not isinstance(param, click.Option):
        arguments = [one for one in params if isinstance(one, click.Argument)]
        given = [*takewhile(lambda word: not word.startswith("-"), words)]
        if param not in arguments[: len(given) + 1] or not words:
            return mistyped.usage(command)
        if isinstance(param.type, click.Choice):
            return f"one of {', '.join(param.type.choices)}, as in {command} {param.type.choices[0]}"
        # Of any number, what stands for the last may be meant: a name that is no path.
        is_last = param.nargs < 0 and 0 < len(given) == len(arguments) - 1 and "/" not in given[-1]
        missing = arguments[-1] if is_last else param
        at = arguments.index(missing)
        following = [one for one in arguments[at + 1 :] if one.required and len(given) <= at]
        names = [one.make_metavar(context) for one in (missing, *following)]
        return mistyped.with_words(words, command, at, names)
    whole = mistyped.with_output(words, command) if param.name == "output" else ""
    return whole or f"such as {_example(param, words)}: see {command} --help"


def _elsewhere(context: click.Context, words: Sequence[str], name: str) -> str:
    """What to type where other commands have an option, those of the group first; "" where none has it."""
    from contrastcli.commands import mistyped

    for group in (context.command, context.find_root().command):
        commands = {"": group, **getattr(group, "commands", {})}
        each = ((whose, param) for whose, one in commands.items() for param in one.get_params(context))
        if having := [(whose, param) for whose, param in each if name in param.opts]:
            whose, param = having[0]
            takes_value = not getattr(param, "is_flag", False)
            below = [whose for whose, _ in having] if group is context.command else []
            return mistyped.elsewhere(words, name, takes_value, context.command_path, below, whose)
    return ""


def _example(param: click.Option, words: Sequence[str]) -> str:
    """The option with a value that it may have, near to the one among the words; with its kind where any may do."""
    import click

    from contrastcli.commands import mistyped

    if isinstance(param.type, click.Choice):
        usual = next((one for one in param.type.choices if one == param.default), param.type.choices[0])
        return mistyped.choice(words, param.opts, str(usual), param.type.choices)
    value: object = param.metavar or param.type.name.upper()
    if isinstance(param.type, click.IntRange | click.FloatRange):
        is_count = isinstance(param.type, click.IntRange)
        usual = (param.default, *(param.type.max, param.type.min)[:: -1 if is_count else 1])
        value = mistyped.number(words, param.opts, usual, is_count, param.type.max == 1)
        first, comma, _ = mistyped.value_of(words, param.opts).partition(",")
        value = f"{value} --seed {first}" if param.name == "seeds" and comma else value
    value = "true" if value == "BOOL" else value
    return f"{param.opts[0]} {'last' if param.name in ('resume', 'model', 'resume_or_start') else value}"


if __name__ == "__main__":
    sys.exit(main())
