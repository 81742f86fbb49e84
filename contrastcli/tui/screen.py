"""What the five screens have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widget import Widget

from contrastcli.runs.directory import Run
from contrastcli.tui import processes
from contrastcli.tui.custom import named
from contrastcli.tui.fields.choice_field import ChoiceField, ChoiceList
from contrastcli.tui.fields.model_field import ModelField
from contrastcli.tui.widgets import KeyBar, Links, PlainText

if TYPE_CHECKING:
    from contrastcli.tui.app import ContrastApp

SCREENS = {"setup": "Setup", "live": "Live", "runs": "Runs", "evaluate": "Evaluate", "query": "Query"}
"""The screens on keys 1 to 5, in that order. Each is the class …Screen in the folder of its name."""


class ModeScreen(Screen[None]):
    """One of the five: the bar of screens and the state of the run in Live, its own body, and the keys."""

    mode: ClassVar[str]
    parts: ClassVar[Sequence[type[Widget]]] = ()
    """The widgets whose keys help lists with those of the screen."""
    CSS_PATH = "screen.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave_field", "back", tooltip="leave the field: letters are keys again"),
        Binding("tab", "app.focus_next", show=False, tooltip="to the next field"),
        Binding("shift+tab", "app.focus_previous", show=False, tooltip="to the previous field"),
    ]

    def __init_subclass__(cls) -> None:
        cls.BINDINGS = named(getattr(cls, "mode", "run"), vars(cls).get("BINDINGS", ()))
        super().__init_subclass__()

    def __init__(self) -> None:
        super().__init__()
        self._watched = PlainText(id="watched")

    @property
    def contrast(self) -> "ContrastApp":
        """The app, as the type that it is."""
        return cast("ContrastApp", self.app)

    def compose(self) -> ComposeResult:
        # Before a child is styled, which Textual does a frame later.
        breakpoints = self.HORIZONTAL_BREAKPOINTS or self.app.HORIZONTAL_BREAKPOINTS or []
        width = self.app.size.width
        self.add_class(max(one for one in breakpoints if one[0] <= width)[1], update=False)
        with Horizontal(id="modes"):
            yield Links("".join(self._tab(number, mode) for number, mode in enumerate(SCREENS, 1)), id="tabs")
            yield self._watched
        yield from self.body()
        yield KeyBar()

    def _tab(self, number: int, mode: str) -> str:
        style = "bold reverse $text" if mode == self.mode else "$foreground-muted"
        return f"[{style} @click=app.mode('{mode}')] {number} {SCREENS[mode]} [/]"

    def on_mount(self) -> None:
        # Where the app is being left, the screen has no children any more.
        self.watch(self.app, "watched", lambda summary: self._watched.update(summary, layout=False))

    def on_screen_resume(self) -> None:
        for field in self.query(ModelField):
            field.poll()

    @property
    def is_ready(self) -> bool:
        """Whether keys have their meaning by now; until then they wait."""
        return bool(self.children) and all(field.ready for field in self.query(ModelField))

    @property
    def help_text(self) -> str:
        """What the screen shows, for somebody who sees it for the first time: help.txt in its folder."""
        text = Path(__file__).with_name(self.mode).joinpath("help.txt").read_text(encoding="utf-8")
        return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))

    def body(self) -> ComposeResult:
        """The widgets between the bars."""
        raise NotImplementedError

    def choose(self, run: Run) -> None:
        """Show this run, or use its model."""

    def clipboard_text(self) -> str:
        """What the copy key takes; empty where there is nothing to copy."""
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.focused is not None if action == "leave_field" else super().check_action(action, parameters)

    def action_leave_field(self) -> None:
        self.set_focus(None)

    def action_edit(self, field: str) -> None:
        self.query_one(f"#{field}").focus()

    async def action_open_list(self, field: str) -> None:
        await self.query_one(f"#{field}").run_action("open")

    def action_commands(self) -> None:
        """List the commands that the app ran, the newest last; the one that is chosen is copied."""
        lines = {f"{command.about}  {command.line}": command.line for command in processes.COMMANDS}
        field = ChoiceField("Commands that the app ran; Enter copies one", list, next(reversed(lines), ""))
        choices = [(line, "") for line in lines]
        self.app.push_screen(ChoiceList(field, choices), lambda one: self.contrast.copy(lines.get(one or "", "")))
