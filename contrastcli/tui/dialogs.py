"""What opens over a screen: a question, a line to type, and help."""

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList

from contrastcli.tui.processes import COMMANDS, Command
from contrastcli.tui.widgets import PlainText, styled

_ABOUT_WIDTH = 30
"""Characters of what the log says of a command before its line."""


class Question(ModalScreen[str]):
    """Asks; returns the key of the answer, empty for Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "back")]

    def __init__(self, question: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._question, self._answers = question, answers

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield PlainText(self._question, classes="question")
            for key, answer in self._answers.items():
                yield Button(f"{key}  {answer}", classes="answer", action=f"screen.dismiss('{key}')")
            yield PlainText("Esc  back", classes="muted")

    def on_key(self, event: Key) -> None:
        if event.key in self._answers:
            event.stop()
            self.dismiss(event.key)


class Prompt(ModalScreen[str | None]):
    """Asks for a line of text; returns it, None for Esc."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "back")]

    def __init__(self, question: str, text: str) -> None:
        super().__init__()
        self._question, self._text = question, text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog prompt"):
            yield PlainText(self._question, classes="question")
            yield Input(self._text)
            yield PlainText("Enter  continue     Esc  back", classes="muted")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class Chooser(ModalScreen[tuple[str, ...]]):
    """What is shown of several things, and in which order; returns their names."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "done", "done", priority=True),
        Binding("space", "show_or_hide", "show or hide"),
        Binding("u", "move(-1)", "up"),
        Binding("d", "move(1)", "down"),
    ]

    def __init__(self, title: str, names: Sequence[str], shown: Sequence[str]) -> None:
        super().__init__()
        self._title, self._shown = title, {name for name in shown if name in names}
        self._names = [*(name for name in shown if name in names), *(name for name in names if name not in shown)]

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog choices"):
            yield PlainText(self._title, classes="title")
            yield OptionList(markup=False, compact=True)
            yield PlainText("↑ ↓  go     Space  show or hide     u d  move     Esc  done", classes="muted")

    def on_mount(self) -> None:
        self.query_one(OptionList).styles.max_height = self.app.size.height // 3
        self._list(0)

    def action_show_or_hide(self) -> None:
        self._shown ^= {self._names[self._here]}
        self._list(self._here)

    def action_move(self, by: int) -> None:
        here, there = self._here, min(max(self._here + by, 0), len(self._names) - 1)
        self._names.insert(there, self._names.pop(here))
        self._list(there)

    def action_done(self) -> None:
        self.dismiss(tuple(name for name in self._names if name in self._shown))

    @property
    def _here(self) -> int:
        return self.query_one(OptionList).highlighted or 0

    def _list(self, here: int) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([f"{'●' if name in self._shown else '○'} {name}" for name in self._names])
        options.highlighted = here


class CommandLog(ModalScreen[str]):
    """The commands that the app ran; returns the line of one that is to be copied, empty for Esc."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,semicolon,q", "dismiss('')", "back"),
        Binding("y", "copy", "copy"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[str, Command]] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog choices"):
            yield PlainText("Commands that the app ran", classes="title")
            yield OptionList(markup=False, compact=True)
            yield PlainText("none so far", id="about-choice")
            yield PlainText("↑ ↓  go     Enter y  copy     Esc  back", classes="muted")

    def on_mount(self) -> None:
        self.query_one(OptionList).styles.max_height = self.app.size.height // 2
        self._list()
        self.set_interval(1.0, self._list)

    def _list(self) -> None:
        rows = [(command.about, command) for command in COMMANDS]
        if rows == self._rows:
            return
        self._rows, options = rows, self.query_one(OptionList)
        here = options.highlighted
        options.clear_options()
        lines = ((about, shlex.join(command.words)) for about, command in rows)
        options.add_options([styled((f"{about:<{_ABOUT_WIDTH}}", "dim"), words) for about, words in lines])
        options.highlighted = len(rows) - 1 if here is None else here

    @on(OptionList.OptionHighlighted)
    def _show_whole(self) -> None:
        self.query_one("#about-choice", PlainText).update(self._line)

    @on(OptionList.OptionSelected)
    def action_copy(self) -> None:
        self.dismiss(self._line)

    @property
    def _line(self) -> str:
        here = self.query_one(OptionList).highlighted
        return "" if here is None else self._rows[here][1].line


class Help(ModalScreen[None]):
    """What a screen is for, and its keys."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss", "back")]

    def __init__(self, title: str, text: str, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._text, self._keys = title, text, (*keys, ("esc", "back"))

    def compose(self) -> ComposeResult:
        width = max(len(key) for key, _ in self._keys)
        with VerticalScroll(classes="dialog help"):
            yield PlainText(self._title, classes="title")
            yield PlainText(self._text)
            yield PlainText("\n".join(f"{key:<{width}}  {what}" for key, what in self._keys), classes="keys")
