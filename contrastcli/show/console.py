"""Events to a terminal: progress bars, plain lines, or the bytes of `events.jsonl`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO

from contrastcli.runs.events import Done, Evaluated, Event, Progress, Started, Step, encode
from contrastcli.runs.text import fixed, score

if TYPE_CHECKING:
    from rich.progress import TaskID

PROGRESS = "CONTRAST_PROGRESS"
"""Set to `json`, the progress of work that is no training is a JSON event a line on stderr, for another program."""

EVERY = 3.0
"""Seconds at least between two plain lines of one kind."""

_REDRAW = 0.1  # seconds
_TRAIN = "train"
_ASCII = str.maketrans(
    {"·": "-", "°": " deg", "–": "-", "−": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "τ": "tau", "λ": "lambda"}
)


class Console(Protocol):
    """Something that shows events."""

    def __call__(self, event: Event, line: bytes) -> None:
        """Show an event; `line` is how it stands in `events.jsonl`."""

    def close(self) -> None:
        """Leave the terminal as it was."""


def console(json: bool = False, stream: TextIO | None = None) -> Console:
    """JSON lines to stdout; or narration to stderr, as bars on a terminal and else as plain lines.

    `stream` stands in for either.
    """
    if json:
        return Json((stream or sys.stdout).buffer)
    stream = stream or sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return Lines(stream) if plain else Bars(stream)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show long work that is no training on stderr: call what is yielded with its name, what is done and the total."""
    shown = Forgiving(Json(sys.stderr.buffer) if os.environ.get(PROGRESS) == "json" else console())

    def show(what: str, done: int, total: int) -> None:
        event = Progress(step=0, what=what, done=done, total=total)
        shown(event, encode(event))

    try:
        yield show
    finally:
        shown.close()


class Forgiving:
    """Falls silent where its terminal or pipe has gone, so that training goes on."""

    def __init__(self, console: Console) -> None:
        self._console: Console | None = console

    def __call__(self, event: Event, line: bytes) -> None:
        try:
            if self._console:
                self._console(event, line)
        except (OSError, ValueError):  # ValueError: the stream was closed on this side
            self._console = None

    def close(self) -> None:
        try:
            if self._console:
                self._console.close()
        except (OSError, ValueError):
            self._console = None


class Json:
    """The bytes of the events and nothing else."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __call__(self, event: Event, line: bytes) -> None:
        self._stream.write(line)
        self._stream.flush()

    def close(self) -> None:
        """Nothing is held."""


class Lines:
    """One line an event; steps, angles and progress no more often than every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._steps = 0
        self._shown: dict[str, float] = {}  # topic -> when its last line was shown

    def __call__(self, event: Event, line: bytes) -> None:
        if isinstance(event, Started):
            self._steps = event.steps
        if self._due(event) and (text := _line(event, self._steps)):
            self._stream.write(fitting(text, self._stream.encoding or "utf-8") + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Nothing is held."""

    def _due(self, event: Event) -> bool:
        if not event.routine:
            return True
        now = time.monotonic()
        if now - self._shown.get(event.topic, -EVERY) < EVERY and not event.completes(self._steps):
            return False
        self._shown[event.topic] = now
        return True


class Bars:
    """A bar for training and one for each other long work, below the lines of what happens once in a while."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Display
        from rich.table import Column

        whole, cut = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._terminal = Terminal(file=stream)
        self._display = Display(
            TextColumn("{task.description}", table_column=whole),
            BarColumn(bar_width=10),
            MofNCompleteColumn(table_column=whole),
            TextColumn("{task.fields[words]}", table_column=cut, markup=False),
            console=self._terminal,
            expand=True,
            auto_refresh=False,  # no thread of its own: a terminal that has gone must not end in its traceback
            redirect_stdout=False,  # stdout is the result
            redirect_stderr=False,
        )
        self._tasks: dict[str, TaskID] = {}
        self._loss: Step | None = None
        self._dev: Evaluated | None = None
        self._drawn = -_REDRAW

    def __call__(self, event: Event, line: bytes) -> None:
        self._display.start()
        match event:
            case Started():
                self._train(event.step, event.steps)
            case Step():
                self._loss = event
                self._train(event.step, None)
            case Evaluated():
                self._dev = event
                self._train(event.step, None)
            case Progress():
                self._advance(event.what, event.done, event.total)
                if event.done == event.total:
                    self._display.remove_task(self._tasks.pop(event.what))
        if not event.routine and (text := _line(event)):
            text = fitting(text, self._terminal.encoding)
            self._terminal.print(text, markup=False, highlight=False, soft_wrap=True)
        self._draw()
        if isinstance(event, Done):
            self.close()

    def close(self) -> None:
        """Draw the last state and give the cursor back."""
        self._display.refresh()
        self._display.stop()

    def _train(self, step: int, steps: int | None) -> None:
        """Training has come to that step, so no other work goes on."""
        for what in [what for what in self._tasks if what != _TRAIN]:
            self._display.remove_task(self._tasks.pop(what))
        self._advance(_TRAIN, step, steps)

    def _advance(self, what: str, done: int, total: int | None) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._display.add_task(what, total=total, words="")
        words = fitting(self._words(), self._terminal.encoding) if what == _TRAIN else ""
        self._display.update(self._tasks[what], completed=done, total=total, words=words)

    def _words(self) -> str:
        loss = [f"loss {fixed(self._loss.loss, 3)}"] if self._loss else []
        dev = [f"dev {score(self._dev.spearman)}"] if self._dev else []
        pace = reversed(self._loss.pace()) if self._loss else ()  # a narrow terminal cuts the rate first
        return "  ".join([*loss, *dev, *pace])

    def _draw(self) -> None:
        if time.monotonic() - self._drawn >= _REDRAW:
            self._display.refresh()
            self._drawn = time.monotonic()


def _line(event: Event, steps: int = 0) -> str:
    """The line of an event; none for a failure, of which the command line prints what is wrong and the remedy."""
    return "" if isinstance(event, Done) and event.code else event.line(steps)


def fitting(text: str, encoding: str) -> str:
    """The text as far as a stream of that encoding can show it."""
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
