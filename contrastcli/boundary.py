"""The edge of the process: its version, its streams and what they can show, and an exception as two lines."""

import contextlib
import io
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from contrastcli.errors import ContrastError, ErrorRecord, RunError, UsageError, error_text, in_words, interrupted

__version__ = "0.1.0"

PROGRESS = "CONTRAST_PROGRESS"
"""If it is `json`, an error and the progress of work other than training are JSON on stderr, a line each."""

_REMOTE = "CONTRAST_REMOTE"
"""The variable that names contrast on the machine of --host, where its shell does not find it."""

_typed_runs_dir = ""

_OF_RUNS = "train|sweep|runs|watch|stop|compare|eval|encode|query|export|merge|mine|data|suggest|papers|tui"
_COMMAND = re.compile(rf"\bcontrast (?=(?:{_OF_RUNS})(?![\w.-]))")

CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal, or turn the direction of writing."""

_ASCII = str.maketrans(
    {"·": "-", "°": " deg", "–": "-", "−": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "≠": "!=", "±": "+-"}
    | {"←": "<-", "→": "->", "↑": "up", "↓": "down", "⇧": "shift+", "×": "x", "²": "^2", "✓": "+", "✗": "!"}
    | {"α": "alpha", "β": "beta", "γ": "gamma", "θ": "theta", "κ": "kappa", "λ": "lambda", "σ": "sigma", "τ": "tau"}
    | {"│": "|", "┤": "|", "┊": ":", "◆": "#", "●": "*", "○": "o"}
)


def prepare_process(words: Sequence[str]) -> None:
    """Open streams that were closed, on the null device, and print characters that an encoding lacks as escapes.

    Raises RunError without a working folder, which torch needs; UsageError for words that are not text.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # A file opened later would get the number of a closed stream, and with it what libraries print.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        os.getcwd()
    except OSError as error:
        what = f"the working folder cannot be used: {error_text(error)}"
        raise RunError(what, "change to another folder: cd DIR") from None
    for word in (*words, *(value for name, value in os.environ.items() if name.startswith("CONTRAST_"))):
        # Python keeps bytes that are no text as these.
        if any("\udc80" <= letter <= "\udcff" for letter in word):
            spelled = os.fsencode(word).decode("ascii", "backslashreplace")
            what = f"'{spelled}' is not text in {sys.getfilesystemencoding()}"
            raise UsageError(what, "use a UTF-8 locale, such as LC_ALL=C.UTF-8, or rename the file")


def on_a_terminal() -> bool:
    """Whether somebody sees a screen of this process, and types."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream.isatty() for stream in streams) and os.environ.get("TERM") != "dumb"


def has_braille() -> bool:
    """Whether the terminal is likely to show braille dots, as any but a console of Linux or a locale of ASCII does."""
    locale = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return os.environ.get("TERM") != "linux" and locale not in ("C", "POSIX") and is_utf8()


def is_utf8() -> bool:
    """Whether what this process prints may hold any letter."""
    return "utf" in (getattr(sys.__stdout__, "encoding", None) or "utf-8").lower()


def run_on_host(host: str | None) -> None:
    """Replace this process by ssh, which runs the same command on that machine, in DIR where one is given.

    Raises UsageError for what names no machine, RunError without ssh.
    """
    if host is None:
        return
    address, _, folder = host.partition(":")
    # ssh would take a leading - for an option of its own, and ssh://HOST would be a machine of the name ssh.
    if not address.rpartition("@")[2] or address.startswith("-") or folder.startswith("//"):
        raise UsageError(f"'{host}' names no machine", "write HOST, user@HOST or user@HOST:DIR")
    words = [word for before, word in pairwise(sys.argv) if before != "--host" and not word.startswith("--host")]
    command = f"{os.environ.get(_REMOTE) or 'contrast'} {shlex.join(words)}"
    if folder := re.sub("^~(/|$)", "", folder):
        command = f"cd {shlex.quote(folder)} && {command}"
    try:
        os.execvp("ssh", ["ssh", "-t" if on_a_terminal() else "-n", "--", address, command])
    except FileNotFoundError:
        raise RunError("there is no command ssh here", "install OpenSSH's client") from None


def print_path(path: Path | str) -> None:
    """Print a path on stdout: a terminal gets it without control characters, a pipe as it is."""
    print(escaped(str(path)) if sys.stdout.isatty() else path, flush=True)


def print_text(texts: str | Iterable[str]) -> None:
    """Print a result on stdout, or the parts of one as they come, in characters that it can show."""
    for text in [texts] if isinstance(texts, str) else texts:
        if text:
            print(fitting(text, sys.stdout.encoding or "utf-8"), flush=True)


def narrate(text: str) -> None:
    """Print to stderr, unless the terminal has gone."""
    _to_stderr(to_copy(text))


def _to_stderr(text: str) -> None:
    with contextlib.suppress(OSError):
        # That of the app has none.
        print(fitting(text, getattr(sys.stderr, "encoding", None) or "utf-8"), file=sys.stderr, flush=True)


def to_copy(text: str) -> str:
    """A text whose commands have the runs directory of this one, so that they can be copied."""
    return _COMMAND.sub(lambda match: f"contrast --runs-dir {_typed_runs_dir} ", text) if _typed_runs_dir else text


def remember_typed(runs_dir: str | None) -> None:
    """Have the commands that the user is told name this runs directory."""
    global _typed_runs_dir
    _typed_runs_dir = shlex.quote(runs_dir) if runs_dir else ""


def narrate_all(notes: Iterable[str]) -> None:
    """Print notes on what was read to stderr, a line each."""
    for note in notes:
        narrate(f"note: {note}")


def fitting(text: str, encoding: str) -> str:
    """The text in characters that a stream of that encoding can show, without control characters."""
    text = escaped(text)
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)


def escaped(text: str) -> str:
    """Lines without control characters but tabs: with the escapes that JSON and TOML have for them."""
    return CONTROLS.sub(lambda match: match[0] if match[0] in "\n\t" else f"\\u{ord(match[0]):04x}", text)


def printable(text: str) -> str:
    """One line without control characters, which data, names and messages may hold."""
    return escaped(text.replace("\n", " ").replace("\t", " "))


def report(error: BaseException, debug: bool, options: Collection[str] | None = None) -> int:
    """Print on stderr what is wrong and the remedy, a line each, or both as JSON; returns the exit code.

    With the `options` of the command, remedies by others are left out: the same data are read by several commands.
    """
    # An error of stdout would come again when the interpreter flushes it at its end.
    if isinstance(error, OSError):
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0  # as of `| head`
    if debug:
        narrate("".join(traceback.format_exception(error)))
    ours = error if isinstance(error, ContrastError) else _explain(error)
    possible = [one for one in ours.remedies if isinstance(one, str) or options is None or one.option in options]
    remedies = possible or ["change the file: contrast help data says what it may hold"]
    if os.environ.get(PROGRESS) == "json":
        copied = [to_copy(one) if isinstance(one, str) else one for one in remedies]
        record = ErrorRecord(to_copy(ours.fault), copied, ours.key, ours.source)
        _to_stderr(json.dumps(msgspec.to_builtins(record)))
    else:
        narrate(f"contrast: error: {printable(ours.what)}\nhint: {printable(in_words(remedies))}")
    return ours.code


def _interruption(error: BaseException | None) -> BaseException | None:
    """What interrupted, where an exception comes of that: an import makes other errors of it."""
    while error and not isinstance(error, EOFError | KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _explain(error: BaseException) -> ContrastError:
    """An exception of Python as an error of ours."""
    if cause := _interruption(error):
        return interrupted(cause, "nothing was changed")
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.filename or 'stdin or stdout'}: {error.strerror}"
        return RunError(what, "check the path, its permissions and the room on its disk")
    # Torch, whose error the second one is, is not imported here.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        hint = "close other programs, give less data at once, or use no GPU: CUDA_VISIBLE_DEVICES= before the command"
        return RunError("there is not enough memory", hint)
    # Such as of a library that finds no memory.
    if isinstance(error, ImportError):
        hint = "raise the limit on memory (ulimit -v), or install contrast again"
        return RunError(f"a library cannot be loaded: {error_text(error)}", hint)
    return ContrastError(f"{type(error).__name__}: {error_text(error)}", "contrast --debug shows where")
