"""Questions and help that lie above a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Static


@dataclass(frozen=True)
class Choice:
    """An answer: the key that gives it, its word, and what is returned."""

    key: str
    word: str
    answer: str


class Question(ModalScreen[str]):
    """Asks; returns the answer that was chosen, empty for Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "back")]

    def __init__(self, text: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._text, self._choices = text, choices

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._text, markup=False, classes="question")
            for choice in self._choices:
                yield Button(f"{choice.key}  {choice.word}", id=f"answer-{choice.answer}", classes="answer")
            yield Static("Esc  back", classes="muted")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss((event.button.id or "").removeprefix("answer-"))

    def on_key(self, event: Key) -> None:
        for choice in self._choices:
            if event.key == choice.key:
                event.stop()
                self.dismiss(choice.answer)


class Help(ModalScreen[None]):
    """What a screen is for, and its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "dismiss", "back"),
    ]

    def __init__(self, title: str, text: str, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._text, self._keys = title, text, keys

    def compose(self) -> ComposeResult:
        keys = (*self._keys, ("esc", "back"))
        width = max(len(key) for key, _ in keys)
        with VerticalScroll(classes="dialog help"):
            yield Static(self._title, markup=False, classes="title")
            yield Static(self._text, markup=False)
            yield Static("\n".join(f"{key:<{width}}  {what}" for key, what in keys), markup=False, classes="keys")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()  # so that ↓ and PgDn show the rest where it is longer than the screen
