"""`python -m contrastcli` is `contrast`: what may be interrupted from its first import, and click's errors as ours."""

from __future__ import annotations

import os
import shlex
import sys

from contrastcli import boundary


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
    from contrastcli.parsing.command import OPTIONS

    debug = "--debug" in sys.argv[1:]
    try:
        boundary.prepare_process(sys.argv)
        if instruction := os.environ.get(options.COMPLETE):
            return options.complete(cli, instruction)
        with cli.make_context("contrast", sys.argv[1:]) as context:
            try:
                return cli.invoke(context) or 0
            except ContrastError as error:
                return boundary.report(error, debug, context.meta[OPTIONS])
    except click.exceptions.Exit as end:
        return end.exit_code
    except BaseException as error:
        return boundary.report(_without_click(error), debug)


def _without_click(error: BaseException) -> BaseException:
    """An error of click as one of ours or of Python; others as they are."""
    import click

    from contrastcli.errors import UsageError
    from contrastcli.parsing import mistyped

    if isinstance(error, click.Abort):
        click.echo(err=True)  # ends the line of the question
        if isinstance(error.__context__, EOFError):
            return UsageError("nobody is there to answer", f"{shlex.join(['contrast', *sys.argv[1:]])} --yes")
        return KeyboardInterrupt()
    if isinstance(error, click.UsageError) and error.ctx:
        return mistyped.explained(error, error.ctx, ())
    return error


if __name__ == "__main__":
    sys.exit(main())
