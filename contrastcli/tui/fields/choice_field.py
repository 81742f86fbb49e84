"""A field whose value is chosen from a list, and the list."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from contrastcli.tui.widgets import LineInput, PlainText, cut, has_words, hidden_key, styled

Choices = Sequence[tuple[str, str]]
"""Values, each with a few words about it."""
FOLDER = "folder"
"""What is said of a value that is one, and may be typed on."""


class ChoiceField(Widget, can_focus=True):
    """A value and the list that it is chosen from: Enter or a click opens the list, ← and → step through a short one.

    `blank` stands for the empty value. With `complete`, a value that is not in the list may be typed: it is called, not
    on the UI's thread, with what was typed, and returns such values; the text itself, if it is not among them, is
    offered last, as `other`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("enter,space", "open", "choose", "open the list of values"),
        hidden_key("left", "step(-1)", "previous value", "to the previous value"),
        hidden_key("right", "step(1)", "next value", "to the next value"),
    ]

    @dataclass
    class Changed(Message):
        """Another value was chosen."""

        field: "ChoiceField"
        value: str

        @property
        def control(self) -> "ChoiceField":
            return self.field

    def __init__(
        self,
        title: str,
        choices: Callable[[], Choices],
        value: str = "",
        *,
        blank: str = "–",
        steps: bool = False,
        complete: Callable[[str], Choices] | None = None,
        other: str = "as typed",
        id: str | None = None,
    ) -> None:
        super().__init__(id=id, classes="value")
        self.title, self._choices, self._steps = title, choices, steps
        self.note = ""  # shown after the value
        self.starts_at_first = False
        """Whether its list opens at the first value and not at the present one."""
        self.blank, self.complete, self.other = blank, complete, other
        self.show(value)

    def show(self, value: str) -> None:
        """Show a value without a message."""
        self.value = value
        self.refresh()

    def render(self) -> Content:
        """The value, of a long one its end, and what follows it."""
        rest = ("" if self.disabled else " ▾") + (f"  {self.note}" if self.note else "")
        room = max(self.content_size.width - cell_len(rest), 8)
        return styled(cut(self.value or self.blank, room, at_start=True), (rest, "$foreground-muted"))

    def choose(self, value: str | None) -> None:
        """Show a value and post it if it is another one; None leaves the present one."""
        if value is not None and value != self.value:
            self.show(value)
            self.post_message(self.Changed(self, value))

    async def on_click(self) -> None:
        await self.action_open()

    async def action_open(self) -> None:
        """Read the list, which may take a disk, and open it, unless a click before has done so."""
        choices = await asyncio.to_thread(self._choices)
        if self.screen.is_active:
            await self.app.push_screen(ChoiceList(self, choices), self.choose)

    def action_step(self, by: int) -> None:
        if self._steps:
            values = [value for value, _ in self._choices()]
            here = values.index(self.value) if self.value in values else min(-by, 0)
            self.choose(values[(here + by) % len(values)])


class ChoiceList(ModalScreen[str | None]):
    """The choices of a field, narrowed by typing; returns the value, None for Esc."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back"),
        Binding("down", "move('cursor_down')", "down"),
        Binding("up", "move('cursor_up')", "up"),
        Binding("pagedown", "move('page_down')", "page down"),
        Binding("pageup", "move('page_up')", "page up"),
        Binding("tab", "complete", "complete"),
    ]

    def __init__(self, field: ChoiceField, choices: Choices) -> None:
        super().__init__()
        self._field, self._choices = field, choices
        self._shown: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        field, listed = self._field, dict(self._choices)
        about = PlainText(id="about-choice")
        about.display = any(listed.values()) or bool(field.complete)
        hint = "type to narrow the list" + (", or any other name" if field.complete else "")
        with Vertical(classes="dialog choices"):
            yield PlainText(field.title, classes="title")
            yield LineInput("" if field.value in listed else field.value, placeholder=hint, compact=True)
            yield OptionList(markup=False, compact=True)
            yield about
            completes = "Tab  complete     " if field.complete else ""
            yield PlainText(f"↑ ↓ Enter  choose     {completes}Esc  back", classes="muted")

    async def on_mount(self) -> None:
        # Not as 33vh in the style sheet, which the height of the dialog would not follow.
        self.query_one(OptionList).styles.max_height = self.app.size.height // 3
        await self._list(self.query_one(Input).value)

    async def on_input_changed(self, event: Input.Changed) -> None:
        await self._list(event.value)

    def on_input_submitted(self) -> None:
        self.query_one(OptionList).action_select()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#about-choice", PlainText).update(self._shown.get(event.option.id or "", ""))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id or "")

    def action_move(self, how: str) -> None:
        """Move in the list while the field has the keys."""
        getattr(self.query_one(OptionList), f"action_{how}")()

    def action_complete(self) -> None:
        """Put the highlighted value into the field, to type on from there."""
        option = self.query_one(OptionList).highlighted_option
        if self._field.complete and option and option.id:
            is_folder = self._shown[option.id] == FOLDER
            self.query_one(Input).value = option.id + "/" * is_folder
            self.query_one(Input).action_end()

    async def _list(self, typed: str) -> None:
        """List what matches, and what else may be meant where any name may be chosen."""
        field, typed = self._field, typed.strip()
        extra = await asyncio.to_thread(field.complete, typed) if field.complete and typed else []
        known = dict([*extra, *self._choices])
        shown = narrowed(list(known.items()), typed, field.blank)
        if field.complete and typed and typed not in known:
            shown.append((typed, field.other))
        self._shown = dict(shown)
        width = max((cell_len(value or field.blank) for value in self._shown), default=0)
        options = self.query_one(OptionList).set_options(
            Option(styled(set_cell_size(value or field.blank, width + 2), (about, "dim")), id=value or None)
            for value, about in shown
        )
        is_there = field.value in self._shown and not typed and not field.starts_at_first
        if not shown:
            self.query_one("#about-choice", PlainText).update()
        options.highlighted = list(self._shown).index(field.value) if is_there else 0


def narrowed(choices: Choices, typed: str, blank: str = "") -> list[tuple[str, str]]:
    """The choices with all of the typed words: an exact name first, then names that begin with them, then others."""
    text = typed.strip().lower()

    def rank(choice: tuple[str, str]) -> tuple[bool, bool, bool, bool]:
        name = (choice[0] or blank).lower()
        return choice[0] != typed, name != text, not name.startswith(text), text not in name

    matching = [(value, about) for value, about in choices if has_words(f"{value or blank} {about}", typed)]
    return sorted(matching, key=rank) if text else matching
