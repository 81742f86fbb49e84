"""Events to a terminal: progress bars, plain lines, or the bytes of `events.jsonl`."""

import errno
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TextIO

from contrastcli.boundary import PROGRESS, fitting, narrate, printable, to_copy
from contrastcli.data.downloads import OnProgress, shown_by
from contrastcli.runs.event import Event
from contrastcli.runs.events import Done, Progress, Started, encode
from contrastcli.runs.measured import Angles, Evaluated, Step
from contrastcli.runs.text import fixed, score

if TYPE_CHECKING:
    from rich.progress import TaskID

EVERY = 3.0
"""Seconds, at least, between two plain lines of one kind."""

_SHARE_BETWEEN = 0.1
"""Of the time so far, at least between two plain lines of progress."""

_REDRAW_SECONDS = 0.1
_TRAIN = "train"
_CLOSED = (OSError, ValueError)
"""ValueError is that of a stream which was closed on this side."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Console:
    """Shows events; this one shows none."""

    def __call__(self, event: Event) -> None:
        """Show an event."""

    def close(self) -> None:
        """Leave the terminal as it was."""


def console(json: bool = False) -> Console:
    """JSON lines to stdout; or narration to stderr: bars on a terminal, else plain lines."""
    if json:
        return Json(sys.stdout.buffer)
    stream = sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return Lines(stream) if plain else Bars(stream)


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Show work other than training on stderr; yields a function of its name, the amount done and the total."""
    with showing(Json(sys.stderr.buffer) if os.environ.get(PROGRESS) == "json" else console()) as shown:
        yield partial(_advance, shown)


@contextmanager
def showing(console: Console) -> Iterator[Console]:
    """A console that shows nothing more once its terminal or pipe is closed, and is closed after the body.

    It shows the downloads of the body too.
    """
    with closing(IgnoreClosedStream(console)) as shown, shown_by(lambda: nullcontext(partial(_advance, shown))):
        yield shown


def _advance(console: Console, what: str, done: int, total: int) -> None:
    console(Progress(step=0, what=what, done=done, total=total))


class IgnoreClosedStream(Console):
    """Shows nothing more once its terminal or pipe is closed, so that training continues."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: Event) -> None:
        try:
            self._console(event)
        except _CLOSED as error:
            self._console = Console()
            if not isinstance(error, ValueError) and error.errno in _FULL:
                narrate(f"note: events are printed no longer: {error.strerror}; all are in the run's events.jsonl")

    def close(self) -> None:
        with suppress(*_CLOSED):
            self._console.close()


class Json(Console):
    """The bytes of the events and nothing else."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(encode(event))
        self._stream.flush()


class Lines(Console):
    """A line for each event; of steps and angles one every few seconds, of progress fewer the longer it all takes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._steps = 0
        self._begin = 0.0
        # When the last line of a kind of routine events, or of some work, was shown.
        self._shown: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self._steps = event.steps
        if event.routine and not self._is_due(event):
            return
        if text := _line(event, self._steps):
            self._stream.write(fitting(text, self._stream.encoding or "utf-8") + "\n")
            self._stream.flush()

    def _is_due(self, event: Event) -> bool:
        """Whether it is time for another line of a kind or of some work, or this is its first or last one."""
        now = event.time or time.time()
        self._begin = self._begin or now
        topic, is_last, pause = event.kind(), event.step == self._steps, EVERY
        if isinstance(event, Progress):
            topic, is_last = event.what, event.done == event.total
            # The beginning of work that was shown before needs no line.
            pause = max(EVERY, (now - self._begin) * _SHARE_BETWEEN) if event.done else math.inf
        is_due = is_last or topic not in self._shown or now - self._shown[topic] >= pause
        if is_due:
            self._shown[topic] = now
        return is_due


class Bars(Console):
    """A bar for training and one for each other long task, below the lines of the other events."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Display
        from rich.table import Column

        whole, cut = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._terminal = Terminal(file=stream)
        self._display = Display(
            TextColumn("{task.description}", table_column=whole, markup=False),
            BarColumn(bar_width=10),
            MofNCompleteColumn(table_column=whole),
            TextColumn("{task.fields[words]}", table_column=cut, markup=False),
            console=self._terminal,
            expand=True,
            # A thread of its own would print a traceback where the terminal is closed.
            auto_refresh=False,
            redirect_stdout=False,  # stdout is the result
            redirect_stderr=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._loss: list[str] = []
        self._dev: list[str] = []
        self._pace: list[str] = []
        # The last angles that name the closest negative, until they are printed.
        self._angles = ""
        self._drawn = -_REDRAW_SECONDS

    def __call__(self, event: Event) -> None:
        self._display.start()
        match event:
            case Started():
                self._train(event.step, event.steps)
            case Step():
                self._loss = [f"loss {fixed(event.loss, 3)}"]
                # A narrow terminal cuts the rate first.
                self._pace = event.pace()[::-1]
                self._train(event.step, None)
            case Evaluated():
                self._print(self._angles)
                self._angles, self._dev = "", [f"dev {score(event.score)}"]
                self._train(event.step, None)
            case Angles() if event.closest:
                self._angles = event.line()
            case Progress():
                self._advance(event.what, event.done, event.total)
                if event.done == event.total:
                    self._display.remove_task(self._tasks.pop(event.what))
        if not event.routine:
            self._print(_line(event))
        if time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self._display.refresh()
            self._drawn = time.monotonic()
        if isinstance(event, Done):
            self.close()

    def _print(self, text: str) -> None:
        if text:
            text = fitting(text, self._terminal.encoding)
            self._terminal.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Draw the last state and show the cursor again."""
        self._display.refresh()
        self._display.stop()

    def _train(self, step: int, steps: int | None) -> None:
        """Show that training is at this step, so that all other work is over."""
        for what in [what for what in self._tasks if what != _TRAIN]:
            self._display.remove_task(self._tasks.pop(what))
        words = fitting("  ".join([*self._loss, *self._dev, *self._pace]), self._terminal.encoding)
        self._advance(_TRAIN, step, steps, words)

    def _advance(self, what: str, done: int, total: int | None, words: str = "") -> None:
        if what not in self._tasks:
            name = fitting(what, self._terminal.encoding)
            self._tasks[what] = self._display.add_task(name, total=total, words="")
        self._display.update(self._tasks[what], completed=done, total=total, words=words)


def _line(event: Event, steps: int = 0) -> str:
    """The line of an event; none for a failure, which the command line reports itself."""
    return "" if isinstance(event, Done) and event.code and event.message else to_copy(event.line(steps))


def notification(text: str) -> str:
    """The escape code with which a terminal notifies the desktop (OSC 777 in rxvt, foot and VTE, else OSC 9)."""
    term = os.environ.get("TERM", "")
    if term in ("", "dumb", "linux"):
        return ""
    by_777 = term.startswith(("rxvt", "foot")) or "VTE_VERSION" in os.environ
    kind, text = "777;notify;contrast" if by_777 else "9", printable(text).replace(";", ",")
    code = f"\x1b]{kind};{text}\a"
    return f"\x1bPtmux;\x1b{code}\x1b\\" if "TMUX" in os.environ else code  # where tmux passes it on
