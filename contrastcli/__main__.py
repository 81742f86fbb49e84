"""`python -m contrastcli` is `contrast`."""

import sys

from contrastcli.cli import main

if __name__ == "__main__":
    sys.exit(main())
