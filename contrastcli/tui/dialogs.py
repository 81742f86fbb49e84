"""What opens over a screen: a question, a line to type, and help."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList

from contrastcli.tui.widgets import LineInput, PlainText

_POLL_SECONDS = 0.1


async def show_late(app: App[Any], text: str) -> None:
    """Show what comes long after its key, once nobody types."""
    while isinstance(app.focused, Input):
        await asyncio.sleep(_POLL_SECONDS)
    await app.push_screen_wait(Question(text, {}))


async def may_replace(app: App[Any], path: str) -> list[str] | None:
    """The option to replace a file or an export at a path, which is asked; nothing where none is there, None for no.

    A command fills an empty folder, and refuses one without a card, which is no export.
    """
    if not os.path.isfile(path) and not os.path.isfile(os.path.join(path, "README.md")):
        return []
    question = Question(f"{path} is there. Replace it?", {"r": "replace"})
    return ["--overwrite"] if await app.push_screen_wait(question) == "r" else None


class Question(ModalScreen[str]):
    """Asks; returns the key of the answer, empty for Esc."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "back")]

    def __init__(self, question: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._question, self._answers = question, answers

    def on_mount(self) -> None:
        # They would lie on the answers.
        self.app.clear_notifications()

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
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
            yield LineInput(self._text)
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
        options.set_options([f"{'●' if name in self._shown else '○'} {name}" for name in self._names])
        options.highlighted = here


class Help(ModalScreen[None]):
    """The keys of a screen, and what it is for."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q", "dismiss", "back")]

    def __init__(self, title: str, text: str, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._text, self._keys = title, text, (*keys, ("esc", "back"))

    def compose(self) -> ComposeResult:
        width = max(len(key) for key, _ in self._keys)
        with VerticalScroll(classes="dialog help"):
            yield PlainText(self._title, classes="title")
            yield PlainText("\n".join(f"{key:<{width}}  {what}" for key, what in self._keys), classes="keys")
            yield PlainText(self._text)
