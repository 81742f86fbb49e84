"""What opens over a screen: a question, a line to type, and help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Input

from contrastcli.tui.widgets import PlainText


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


class Prompt(ModalScreen[str]):
    """Asks for a line of text; returns it, empty for Esc."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "back")]

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


class Help(ModalScreen[None]):
    """What a screen is for, and its keys."""

    AUTO_FOCUS = "VerticalScroll"  # so that ↓ and PgDn scroll a text longer than the screen
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
