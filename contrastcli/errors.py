"""One error type, what is wrong and what to do about it, and the exit codes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import ClassVar

EXIT_CODES: Mapping[int, str] = {
    0: "done, or stopped and saved",
    1: "failed: not writable, disk full, locked by another writer, or anything unexpected",
    2: "a bad value, key, preset or combination",
    3: "data, model or run missing, malformed or unsuitable; an evaluation without all of its sets, after the rest",
    4: "diverged: the batch is written down and the last good checkpoint kept",
    130: "interrupted before anything was saved",
}


class ContrastError(Exception):
    """An error that a user can act on.

    `what` says what is wrong in one line, `hint` the remedy in one line; the command line prints just these two.
    `key` is the setting at fault and `source` the place that its value is from, which `what` ends with; empty where
    no setting is.
    """

    code: ClassVar[int] = 1

    def __init__(self, what: str, hint: str, *, key: str = "", source: str = "") -> None:
        self.what = f"{what} ({source})" if source else what
        super().__init__(self.what)
        self.hint = hint
        self.key = key
        self.source = source


class RunError(ContrastError):
    """A run directory cannot be used: not writable, locked by another writer, disk full."""


class UsageError(ContrastError):
    """A value, key, preset or combination that makes no sense."""

    code = 2


class DataError(ContrastError):
    """Data, a model or a run is missing, malformed or unsuitable."""

    code = 3


class DivergedError(ContrastError):
    """The loss or a gradient became infinite or not a number."""

    code = 4


class InterruptedEarly(ContrastError):
    """The user interrupted before anything was saved."""

    code = 130


def nearest(word: str, known: Iterable[str]) -> str:
    """A clause that names the nearest known word, for unknown keys and names; of a key its last part is enough."""
    names = sorted(known)
    close = [name for name in names if name.endswith(f".{word}")] or difflib.get_close_matches(word, names, 1, 0.5)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"
