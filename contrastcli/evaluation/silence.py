"""What other packages tell a terminal, kept off it: stdout is our result, stderr our narration."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def unlogged() -> Iterator[None]:
    """In the body nobody's log is shown: for packages that narrate on a user's terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def hushed() -> Iterator[None]:
    """In the body nothing is shown at all: no log, no warning, nothing printed."""
    nowhere = io.StringIO()
    with unlogged(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with redirect_stdout(nowhere), redirect_stderr(nowhere):
            yield
