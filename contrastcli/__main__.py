"""`python -m contrastcli` is `contrast`: what may be interrupted from its first import, and click's errors as ours."""

import os
import shlex
import sys

from contrastcli import boundary


def main() -> int:
    """Run the command line; returns the exit code. Errors become two lines on stderr.

    It may be interrupted while it is imported.
    """
    debug = "--debug" in sys.argv[1:]
    try:
        return _run(debug)
    except BaseException as error:
        return boundary.report(error, debug)


def _run(debug: bool) -> int:
    import click

    from contrastcli import options
    from contrastcli.cli import cli
    from contrastcli.errors import ContrastError, UsageError
    from contrastcli.parsing import mistyped
    from contrastcli.parsing.command import OPTIONS

    boundary.prepare_process(sys.argv)
    try:
        if instruction := os.environ.get(options.COMPLETE):
            return options.complete(cli, instruction)
        with cli.make_context("contrast", sys.argv[1:]) as context:
            try:
                return cli.invoke(context) or 0
            except ContrastError as error:
                return boundary.report(error, debug, context.meta[OPTIONS])
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort as abort:
        click.echo(err=True)  # ends the line of the question
        if isinstance(abort.__context__, EOFError):
            answered = f"{shlex.join(['contrast', *sys.argv[1:]])} --yes"
            raise UsageError("nobody is there to answer", answered) from None
        raise KeyboardInterrupt from None
    except click.UsageError as error:
        raise (mistyped.explained(error, error.ctx, ()) if error.ctx else error) from None


if __name__ == "__main__":
    sys.exit(main())
