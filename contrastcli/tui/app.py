"""The app: five screens on a runs directory. It reads run directories, and asks the command line for all else."""

from __future__ import annotations

import gc
from asyncio import to_thread
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.screen import Screen

from contrastcli.errors import ContrastError
from contrastcli.files import state_dir
from contrastcli.runs import process
from contrastcli.runs.directory import Run
from contrastcli.tui import state
from contrastcli.tui.dialogs import Choice, Help, Question
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.widgets import SCREENS

_LIVE = ("starting", "running")
_UNTOLD = ("screen.copy_text", "help_quit", "page_left", "page_right")  # Textual's own, and no help here
_IN_OUR_WORDS = {
    "app.focus_next": "to the next field",
    "app.focus_previous": "to the field before",
    "command_palette": "the palette: every key by its words, and the themes",
}


def show(directory: Path, run: Run | None = None, *, mouse: bool = True) -> None:
    """Run the app until its user leaves it."""
    ContrastApp(directory, run).run(mouse=mouse)


def _settle() -> None:
    """What is there by now stays: the collector need not look at it again, which would hold up a frame or two."""
    gc.collect()
    gc.freeze()


def _setup() -> Screen[None]:
    from contrastcli.tui.setup.screen import SetupScreen

    return SetupScreen()


def _live() -> Screen[None]:
    from contrastcli.tui.live.screen import LiveScreen

    return LiveScreen()


def _runs() -> Screen[None]:
    from contrastcli.tui.runs.screen import RunsScreen

    return RunsScreen()


def _evaluate() -> Screen[None]:
    from contrastcli.tui.evaluate.screen import EvaluateScreen

    return EvaluateScreen()


def _query() -> Screen[None]:
    from contrastcli.tui.query.screen import QueryScreen

    return QueryScreen()


class ContrastApp(App[None]):
    """Setup, Live, Runs, Evaluate and Query."""

    TITLE = "contrast"
    CSS_PATH = "style.tcss"
    AUTO_FOCUS = None  # so that plain letters are keys from the first moment
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {  # a screen is imported when it is first opened
        "setup": _setup,
        "live": _live,
        "runs": _runs,
        "evaluate": _evaluate,
        "query": _query,
    }
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - declared so by its base
        (0, "-narrow"),
        (100, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(f"{number},f{number}", f"mode('{mode}')", title, show=False, id=f"mode.{mode}")
            for number, (mode, title) in enumerate(SCREENS.items(), 1)
        ),
        Binding("y", "copy", "copy", tooltip="copy what the screen holds, and write it to a file", show=False),
        Binding("q", "leave", "leave", tooltip="leave the app; training may go on"),
        Binding("ctrl+q", "leave", "leave", tooltip="leave the app; training may go on", show=False),
        Binding("question_mark", "help", "help", key_display="?", tooltip="what this screen shows, and its keys"),
    ]

    watched: reactive[str] = reactive("")
    """How the run in Live is, in a few words: every screen shows it."""

    def __init__(self, directory: Path, run: Run | None = None) -> None:
        self.remembered = state.load()
        super().__init__()
        self.directory = directory
        self.run_shown = run
        """The run that Live shows."""

    async def on_mount(self) -> None:
        if self.remembered.theme in self.available_themes:
            self.theme = self.remembered.theme
        self.theme_changed_signal.subscribe(self, self._remember_theme)
        await self.switch_mode("live" if self.run_shown else "setup")
        self.call_after_refresh(_settle)

    def _remember_theme(self, theme: object) -> None:
        self.remembered.theme = self.theme

    def on_unmount(self) -> None:
        state.save(self.remembered)

    async def action_mode(self, mode: str) -> None:
        """Go to a screen."""
        if not self.screen.is_modal:
            await self.switch_mode(mode)

    async def open_run(self, run: Run) -> None:
        """Show a run in Live, in progress or ended."""
        from contrastcli.tui.live.screen import LiveScreen

        self.run_shown = run
        await self.switch_mode("live")
        cast(LiveScreen, self.screen).attach(run)

    async def evaluate_model(self, name: str) -> None:
        """Go to Evaluate with a run or model chosen."""
        from contrastcli.tui.evaluate.screen import EvaluateScreen

        await self.switch_mode("evaluate")
        cast(EvaluateScreen, self.screen).choose(name)

    async def query_model(self, name: str) -> None:
        """Go to Query with a run or model chosen."""
        from contrastcli.tui.query.screen import QueryScreen

        await self.switch_mode("query")
        cast(QueryScreen, self.screen).choose(name)

    def action_copy(self) -> None:
        """What the screen holds, to the terminal's clipboard (OSC 52) and to a file: not every terminal has one."""
        if isinstance(self.screen, ModeScreen) and (text := self.screen.copied()):
            self.copy(text)

    def copy(self, text: str) -> None:
        """Put a text into the clipboard and a file."""
        self.copy_to_clipboard(text)
        path = state_dir() / "copied.txt"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        except OSError:
            self.notify("copied")
        else:
            self.notify(f"copied; also in {path}", markup=False)

    def action_help(self) -> None:
        """What the screen shows, and its keys."""
        if isinstance(self.screen, ModeScreen):
            keys: dict[str, list[str]] = {}
            for active in self.screen.active_bindings.values():
                binding = active.binding
                words = _IN_OUR_WORDS.get(binding.action) or binding.tooltip or binding.description
                if words and binding.action not in _UNTOLD:
                    keys.setdefault(words, []).append(self.get_key_display(binding))
            told = [(" ".join(dict.fromkeys(names)), words) for words, names in keys.items()]
            self.push_screen(Help(SCREENS[self.screen.mode], self.screen.help_text, told))

    def fail(self, words: str) -> None:
        """Say what went wrong."""
        self.notify(words, severity="error", timeout=10, markup=False)

    @work
    async def action_leave(self) -> None:
        """Leave; while the run in Live is in progress, ask what becomes of it."""
        run = self.run_shown
        if run is None or not run.path.exists() or (await to_thread(run.status)).state not in _LIVE:
            self.exit()
            return
        choices = (Choice("k", "keep it running", "keep"), Choice("s", "stop it; it saves first", "stop"))
        answer = await self.push_screen_wait(Question(f"{run.name} is still training.", choices))
        if answer == "stop":
            await self.stop_run(run)
        if answer:
            self.exit()

    async def stop_run(self, run: Run) -> None:
        """Ask a run to end its step, save and stop."""
        try:
            await to_thread(process.request_stop, run)
            self.notify(f"{run.name} ends its step, saves and stops", markup=False)
        except ContrastError as error:
            self.fail(f"{error.what}\n{error.hint}")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every key of the screen by its words, the screens, and Textual's own."""
        told = {*_UNTOLD, *_IN_OUR_WORDS}
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.description and binding.action not in told:
                told.add(binding.action)  # once, however many keys it has
                yield SystemCommand(
                    binding.description.capitalize(),
                    binding.tooltip or f"key {self.get_key_display(binding)}",
                    partial(self.run_action, binding.action, active.node),
                )
        for command in super().get_system_commands(screen):
            if command.title not in ("Quit", "Keys"):
                yield command
