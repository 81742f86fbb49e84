"""`python -m contrastcli` is `contrast`."""

import sys

from contrastcli import boundary


def main() -> int:
    """Run the command line; returns the exit code. It may be interrupted while it is imported."""
    try:
        from contrastcli.cli import main
    except KeyboardInterrupt as error:
        return boundary.report(error, debug=False)
    return main()


if __name__ == "__main__":
    sys.exit(main())
