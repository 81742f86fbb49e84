"""Other packages kept from writing to the terminal: stdout is for results, stderr for our own narration."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def logging_disabled() -> Iterator[None]:
    """No log record is shown in the body."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def silenced() -> Iterator[None]:
    """Nothing is shown in the body: no log record, no warning, nothing printed."""
    stream = io.StringIO()
    with logging_disabled(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with redirect_stdout(stream), redirect_stderr(stream):
            yield
