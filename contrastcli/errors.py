"""The one error type, which says what is wrong and what helps, its exit codes, and what libraries' errors say."""

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec

EXIT_CODES: Mapping[int, str] = {
    0: "done, or stopped and saved",
    1: "failed: not writable, disk full, locked by another writer, or an unexpected error",
    2: "a bad value, key, preset or combination",
    3: "data, model or run missing, malformed or unsuitable; an evaluation without all of its sets, after the rest",
    4: "diverged: the batch is saved, and the last good checkpoint is kept",
    6: "not as --require asks",
    75: "preempted: ended by SIGTERM or SIGUSR1 before the last step; stderr says how to go on",
    130: "interrupted before anything was saved",
}


_MOST_CHARACTERS = 1_000
"""Of what is wrong: data may have 100,000 columns."""


class Use(msgspec.Struct, frozen=True):
    """A remedy by an option of the command line, such as `give --dev FILE`; the app has a field in its place."""

    option: str
    value: str = ""
    verb: str = ""

    def words(self, option: str) -> str:
        """The remedy, with the option called that. A value with = stands as a shell takes it."""
        value = shlex.quote(self.value) if option.startswith("--") and "=" in self.value else self.value
        return " ".join(part for part in (self.verb, option, value) if part)


Remedy = str | Use
Hint = Remedy | Sequence[Remedy]
"""One remedy, or several of which any helps."""


class ContrastError(Exception):
    """An error that a user can act on.

    `what` is wrong, and any one of `remedies` helps; the command line prints them as two lines. If the value of a
    setting is wrong, `key` is that of the setting, and `source` is where the value is from.
    """

    code: ClassVar[int] = 1

    def __init__(self, what: str, hint: Hint, *, key: str = "", source: str = "") -> None:
        self.fault = what if len(what) <= _MOST_CHARACTERS else f"{what[:500]} … {what[-250:]}"
        self.remedies: Sequence[Remedy] = (hint,) if isinstance(hint, str | Use) else hint
        self.key = key
        self.source = source
        super().__init__(self.what)

    def __reduce__(self) -> tuple[Any, ...]:
        # By its arguments, Python would make it again from `what` alone: pools of processes send errors so.
        return type(self).__new__, (type(self), *self.args), vars(self)

    @property
    def what(self) -> str:
        """What is wrong, and at its end where the value is from."""
        return f"{self.fault} ({self.source})" if self.source else self.fault

    @property
    def hint(self) -> str:
        return in_words(self.remedies)


class ErrorRecord(msgspec.Struct, frozen=True, tag_field="event", tag="error"):
    """An error as the app reads it from another process: a line of JSON, as are the events of its progress."""

    what: str
    remedies: Sequence[Remedy]
    key: str = ""
    source: str = ""


def in_words(remedies: Sequence[Remedy], name: Callable[[str], str] = str) -> str:
    """The remedies in a line, with options called by `name`."""
    line = ", or ".join(one if isinstance(one, str) else one.words(name(one.option)) for one in remedies)
    return line if len(line) <= 2 * _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]} …"


class RunError(ContrastError):
    """A run directory cannot be used: not writable, locked by another writer, disk full."""


class InUse(RunError):
    """Another process works there."""


class NoRoom(RunError):
    """The disk is full, or the user's share of it."""


class UsageError(ContrastError):
    """A bad value, key, preset or combination."""

    code = 2


class DataError(ContrastError):
    """Data, a model or a run is missing, malformed or unsuitable."""

    code = 3


class DivergedError(ContrastError):
    """The loss or a gradient became infinite or not a number."""

    code = 4


class Unmet(ContrastError):
    """A comparison does not show what --require asks for."""

    code = 6


class InterruptedEarly(ContrastError):
    """The user interrupted before anything was saved."""

    code = 130


class Preempted(ContrastError):
    """SIGTERM or SIGUSR1 ended the training before its last step."""

    code = 75


class Preemption(KeyboardInterrupt):
    """SIGTERM or SIGUSR1, which no handler of errors may swallow."""


def interrupted(error: BaseException, hint: Hint) -> ContrastError:
    """What a KeyboardInterrupt before anything was saved is reported as."""
    return Preempted("preempted", hint) if isinstance(error, Preemption) else InterruptedEarly("interrupted", hint)


def error_text(error: BaseException) -> str:
    """What an exception of a library says, in one line without names of classes; its kind in words if it is silent."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
    if isinstance(error, KeyError):
        text = f"there is no {text}"
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        text = f"exit {text}"
    # A line that ends in a colon has its reason in the next, and a list goes on there.
    text = re.sub(r"(?<!call last\))(:|,| or)\s*\n\s*", r"\1 ", text)
    line = (text.splitlines() or [re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()])[0]
    return re.sub(r"\b\w+(Error|Exception): ", "", line)


@contextmanager
def failing_as(kind: type[ContrastError], what: str, hint: Hint) -> Iterator[None]:
    """Turn an error of a library in the body, which may be of any type, into one of ours, which ends in its words."""
    try:
        yield
    except ContrastError:
        raise
    except BaseException as error:
        # As what is written in Rust panics.
        if not isinstance(error, Exception | SystemExit) and type(error).__name__ != "PanicException":
            raise
        raise kind(f"{what}: {error_text(error)}", hint) from error


_MOST_CANDIDATES, _MOST_LISTED, _SURE = 2_000, 20, 0.75


def nearest(word: str, known: Iterable[str], command: str = "", remark: str = "") -> str:
    """A hint with the known word that is nearest to an unknown one, and a `remark` on it.

    Its first or last part decides, or all in any order. Where none is near and there are many, `command` lists them.
    """
    names = sorted({*known})[:_MOST_CANDIDATES]
    plain, word = {name.lower(): name for name in names}, word.lower()
    last, parts = word.rpartition(".")[2], {name: {*re.split(r"[\W_]+", name)} for name in (*plain, word)}
    close = [name for name in plain if name.endswith(f".{last}") or f"{name}-".startswith((f"{word}-", f"{word} "))]
    within = [name for name in plain if len(parts[name]) > 1 and parts[name] <= parts[word]]
    close = close or sorted(within, key=lambda name: -len(parts[name]))
    inside = [plain[name] for name in plain if word and word in name]
    if not close and 2 < len(inside) <= _MOST_LISTED:
        return f"several have that: {', '.join(inside)}"
    # A slip in the last part of a setting is one among those of its section.
    section = word.removesuffix(last)
    of_section = [name for name in plain if section and name.startswith(section)]
    close = close or difflib.get_close_matches(word, of_section, 1, 0.9)
    tails = {name.rpartition(".")[2]: name for name in plain}
    close = close or [tails[tail] for tail in difflib.get_close_matches(last, tails, 1, _SURE)]
    # A part of several names means none of them.
    likeness = 1 if sum(word in words for words in parts.values()) > 2 else 0.6
    close = close or difflib.get_close_matches(word, plain, 1, likeness)
    if command and not close and len(names) > _MOST_LISTED:
        return f"{command} lists them"
    return f"did you mean '{plain[close[0]]}'{remark}?" if close else f"known: {', '.join(names)}"
