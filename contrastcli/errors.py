"""Errors, which say what is wrong and what to do about it, and the exit codes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

EXIT_CODES: Mapping[int, str] = {
    0: "done, or stopped and saved",
    1: "failed: not writable, disk full, locked by another writer, or an unexpected error",
    2: "a bad value, key, preset or combination",
    3: "data, model or run missing, malformed or unsuitable; an evaluation without all of its sets, after the rest",
    4: "diverged: the batch is saved, and the last good checkpoint is kept",
    130: "interrupted before anything was saved",
}


_LONGEST = 1_000  # characters of what is wrong: data may have 100,000 columns


class ContrastError(Exception):
    """An error that a user can act on.

    `what` is wrong, and `hint` is the remedy; the command line prints them as two lines. If the value of a setting is
    wrong, `key` is that of the setting, and `source` is where the value is from, which `what` names at its end.
    """

    code: ClassVar[int] = 1

    def __init__(self, what: str, hint: str, *, key: str = "", source: str = "") -> None:
        what = what if len(what) <= _LONGEST else f"{what[: _LONGEST // 2]} … {what[-_LONGEST // 4 :]}"
        self.what = f"{what} ({source})" if source else what
        super().__init__(self.what)
        self.hint = hint if len(hint) <= 2 * _LONGEST else f"{hint[:_LONGEST]} …"
        self.key = key
        self.source = source


class RunError(ContrastError):
    """A run directory cannot be used: not writable, locked by another writer, disk full."""


class UsageError(ContrastError):
    """A bad value, key, preset or combination."""

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


def error_text(error: BaseException) -> str:
    """What an exception of a library says, in one line without names of classes; its kind in words if it is silent."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
    if isinstance(error, KeyError):
        text = f"there is no {text}"
    line = (text.splitlines() or [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()])[0]
    return re.sub(r"\b\w+(Error|Exception): ", "", line)


_NAMES = 2_000  # that are compared with a word


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the known word that is nearest to an unknown one; the last part of a key is enough."""
    names = sorted(known)[:_NAMES]
    close = [name for name in names if name.endswith(f".{word}")] or difflib.get_close_matches(word, names, 1, 0.5)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"


def possible(hint: str, options: Collection[str]) -> str:
    """The alternatives of a hint that a command with these options has: the data are read by several commands."""
    if "contrast " in hint:
        return hint
    alternatives = [
        words
        for words in hint.split(", or ")
        if set(re.findall(r"--[a-z-]+", re.sub(r"\(.*\)", "", words))) <= {*options}  # in brackets are examples
    ]
    return ", or ".join(alternatives) or "change the file: contrast help data says what it may hold"
