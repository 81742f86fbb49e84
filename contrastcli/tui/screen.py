"""What the five screens have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer

from contrastcli.tui.widgets import ModeBar

if TYPE_CHECKING:
    from contrastcli.tui.app import ContrastApp


class ModeScreen(Screen[None]):
    """One of the five: the bar of screens above, its own body, and the keys below."""

    mode: ClassVar[str]
    help_text: ClassVar[str]
    """What the screen shows, for who has read nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave_field", "back", tooltip="leave the field: letters are keys again")
    ]

    @property
    def contrast(self) -> ContrastApp:
        """The app, as the type that it is."""
        return cast("ContrastApp", self.app)

    def compose(self) -> ComposeResult:
        yield ModeBar(self.mode)
        yield from self.body()
        yield Footer(show_command_palette=False)

    def body(self) -> ComposeResult:
        """The widgets between the bars."""
        raise NotImplementedError

    def copied(self) -> str:
        """What the key for copying takes; nothing where empty."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key means something now."""
        return self.focused is not None if action == "leave_field" else super().check_action(action, parameters)

    def action_leave_field(self) -> None:
        """Give the keys back to the screen."""
        self.set_focus(None)
