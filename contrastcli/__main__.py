"""`python -m contrastcli` is `contrast`."""

import os
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
        return boundary.report(options.without_click(error), debug)


if __name__ == "__main__":
    sys.exit(main())
