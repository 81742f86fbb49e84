"""A value that is chosen from a list, and the list that opens above the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import shorten
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

Choices = Sequence[tuple[str, str]]
"""Values, each with what it is in a few words."""

_FRAME = 8  # columns of the dialog beside its lines
_WIDEST = 104  # columns of the dialog, of which the style sheet knows too


class Pick(Static, can_focus=True):
    """A value and the list that it is chosen from: Enter or a click opens it, ← and → step through a short one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "open", "choose", show=False),
        Binding("left", "step(-1)", "the one before", show=False),
        Binding("right", "step(1)", "the next one", show=False),
    ]

    class Chosen(Message):
        """Another value was taken."""

        def __init__(self, pick: Pick, value: str) -> None:
            super().__init__()
            self.pick, self.value = pick, value

        @property
        def control(self) -> Pick:
            """The field that it was chosen in."""
            return self.pick

    def __init__(
        self, title: str, choices: Callable[[], Choices], *, steps: bool = True, blank: str = "–", id: str | None = None
    ) -> None:
        super().__init__(id=id, classes="value", markup=False)
        self._title, self._choices, self._steps, self._blank = title, choices, steps, blank
        self.value = ""

    def show(self, value: str) -> None:
        """Take a value without a message."""
        self.value = value
        self.update(Content.assemble(value or self._blank, ("" if self.disabled else " ▾", "$foreground-muted")))

    def on_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """Open the list."""
        self.app.push_screen(Picker(self._title, self._choices(), self.value), self._take)

    def action_step(self, by: int) -> None:
        """Take the value before or after."""
        if self._steps:
            values = [value for value, _ in self._choices()]
            self._take(values[(values.index(self.value) + by) % len(values)])

    def _take(self, value: str | None) -> None:
        if value is not None and value != self.value:
            self.show(value)
            self.post_message(self.Chosen(self, value))


class Picker(ModalScreen[str | None]):
    """A list to choose from, which letters narrow; returns the value, None for Esc."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back"),
        Binding("down", "move('cursor_down')", "down"),
        Binding("up", "move('cursor_up')", "up"),
        Binding("pagedown", "move('page_down')", "page down"),
        Binding("pageup", "move('page_up')", "page up"),
    ]

    def __init__(self, title: str, choices: Choices, current: str) -> None:
        super().__init__()
        self._title, self._choices, self._current = title, choices, current

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog picker"):
            yield Static(self._title, markup=False, classes="title")
            yield Input(placeholder="letters narrow the list", compact=True)
            yield OptionList(markup=False, compact=True)
            yield Static(markup=False, id="what")
            yield Static("↑ ↓ Enter  choose     Esc  back", classes="muted")

    def on_mount(self) -> None:
        self.query_one("#what").display = any(what for _, what in self._choices)
        self._list("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list(event.value)

    def on_input_submitted(self) -> None:
        self.query_one(OptionList).action_select()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#what", Static).update(dict(self._choices)[event.option.id or ""])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id or "")

    def action_move(self, how: str) -> None:
        """Move in the list while the field has the keys."""
        getattr(self.query_one(OptionList), f"action_{how}")()

    def _list(self, words: str) -> None:
        """Show what has all of the words."""
        room = min(self.app.size.width * 9 // 10, _WIDEST) - _FRAME
        width = max((cell_len(value) for value, _ in self._choices), default=0)
        found = [
            (value, what)
            for value, what in self._choices
            if all(word in f"{value} {what}".lower() for word in words.lower().split())
        ]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(_line(value, what, width, room), id=value or None) for value, what in found)
        current = next((n for n, (value, _) in enumerate(found) if value == self._current), 0)
        options.highlighted = current if found else None


def _line(value: str, what: str, width: int, room: int) -> Content:
    """One choice on one line."""
    return Content.assemble(
        f"{value:<{width}}  ", (shorten(what, room - width - 2, placeholder=" …"), "$foreground-muted")
    )
