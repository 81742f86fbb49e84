"""Suppress the output of other packages: stdout is for results, stderr for our own messages."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def logging_disabled() -> Iterator[None]:
    """Suppress log records in the body."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress log records, warnings and printed text in the body."""
    stream = io.StringIO()
    with logging_disabled(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with redirect_stdout(stream), redirect_stderr(stream):
            yield
