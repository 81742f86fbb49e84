"""The app: five screens on a runs directory. It reads run directories, and runs the command line for all else."""

import gc
import os
import time
from asyncio import Lock, to_thread
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from socket import gethostname
from typing import Any, ClassVar, cast

from rich.console import Console
from rich.segment import Segment
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, Key
from textual.filter import LineFilter
from textual.keys import format_key
from textual.reactive import reactive
from textual.screen import Screen
from textual.worker import WorkerError

from contrastcli.boundary import escaped
from contrastcli.errors import ContrastError, error_text
from contrastcli.files import atomic_write, state_dir
from contrastcli.runs.directory import Run, list_runs
from contrastcli.runs.status import IN_PROGRESS, State, read_writer
from contrastcli.settings import catalogue
from contrastcli.show.console import notification
from contrastcli.show.format import Fields
from contrastcli.tui import processes, state
from contrastcli.tui.custom import customise, named
from contrastcli.tui.dialogs import Help, Question
from contrastcli.tui.keys import KeyQueue
from contrastcli.tui.screen import SCREENS, ModeScreen
from contrastcli.tui.screenshot import svg
from contrastcli.tui.terminal import end_with_terminal
from contrastcli.tui.widgets import WithoutControls, hidden_key

_WITHOUT_CONTROLS = WithoutControls()
_ENDED_BY_LEAVING = ("start", "resume", "export", "merge", "evaluation")
"""Groups of workers whose commands end with the app."""
_PALETTE = "the palette: every key by its name, and the themes"
_SCREEN_KEYS = [
    Binding(f"{n},f{n}", f"mode('{mode}')", f"{title} screen", show=False, tooltip=f"go to {title}", id=f"mode.{mode}")
    for n, (mode, title) in enumerate(SCREENS.items(), 1)
]


def show(directory: Path, run: Run | None = None, *, mouse: bool = True) -> None:
    """Run the app until its user leaves it or its terminal has gone. Raises what ends it otherwise."""
    gc.disable()  # until the first frame
    # A scan of all objects delays several frames: ten times rarer than usual.
    gc.set_threshold(700, 10, 100)
    # What a shell exports stays when its terminal changes.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    app = ContrastApp(directory, run)
    end_with_terminal(app)
    app.run(mouse=mouse)
    if app._exception is not None:
        # A worker's is wrapped in WorkerFailed.
        raise getattr(app._exception, "error", app._exception)


def make_screen(mode: str) -> ModeScreen:
    """A screen; its code is imported when it is first opened, so that the first frame waits for one screen only."""
    module = import_module(f"contrastcli.tui.{mode}.screen")
    return cast(ModeScreen, getattr(module, f"{SCREENS[mode]}Screen")())


def screens() -> Fields:
    """Every screen with what it shows, each followed by its keys; those that every screen has come last."""
    rows: list[tuple[str, str]] = []
    for number, (mode, title) in enumerate(SCREENS.items(), 1):
        screen = make_screen(mode)
        bases = [base for base in type(screen).__mro__ if issubclass(base, ModeScreen) and base is not ModeScreen]
        rows.append((f"{number} {title}", " ".join(screen.help_text.split())))
        rows += _keys(key for one in (*screen.parts, *bases) for key in vars(one).get("BINDINGS", ()))
    return [*rows, ("All screens", ""), *_keys([*ModeScreen.BINDINGS, *ContrastApp.BINDINGS])]


def _keys(bindings: Iterable[BindingType]) -> Fields:
    own = [one for one in bindings if isinstance(one, Binding)]
    keys = _by_effect((one.key_display or " ".join(map(format_key, one.key.split(","))), one.tooltip) for one in own)
    return [(f"  {key}", effect) for key, effect in keys]


def _by_effect(pairs: Iterable[tuple[str, str]]) -> Fields:
    """Keys and what they do, where they do something; those that do the same together."""
    keys: dict[str, dict[str, None]] = {}
    for key, effect in pairs:
        keys.setdefault(effect, {})[key] = None
    return [(" ".join(names), effect) for effect, names in keys.items() if effect]


def newest(directory: Path) -> Run | None:
    """The newest run that trains, else that is queued, else that can be read; None without any."""
    states: dict[Run, State] = {}
    with suppress(OSError):
        for run in list_runs(directory):
            with suppress(ContrastError, OSError):
                states[run] = run.status().state
    return min(states, key=lambda run: (states[run] not in IN_PROGRESS, states[run] == "queued"), default=None)


def has_ended(run: Run) -> bool | None:
    """Whether a run has ended; None where it cannot be read."""
    with suppress(ContrastError, OSError):
        return run.status().ended
    return None


def in_progress(directory: Path, shown: Run | None) -> list[Run]:
    """The runs of a directory that are in progress on this machine, and the one in Live where it has not ended."""
    runs = [shown] if shown and has_ended(shown) is False else []
    with suppress(OSError):
        for run in list_runs(directory):
            with suppress(ContrastError, OSError):
                writer = read_writer(run.alive_path)
                if writer and writer.host == gethostname() and run.status().state in IN_PROGRESS:
                    runs.append(run)
    return list(dict.fromkeys(runs))


async def _leave(app: "ContrastApp") -> None:
    """Leave; first ask about what is not done: commands that leaving ends, and runs, those too that one has begun."""
    at_work = {worker.group for worker in app.workers}
    for work in [work for work in _ENDED_BY_LEAVING if work in at_work]:
        question = Question(f"The {work} is not done yet: leaving ends it.", {"l": "leave"})
        if await app.push_screen_wait(question) != "l":
            return
    left = set[Run]()
    while True:
        if runs := [run for run in await to_thread(in_progress, app.directory, app.run_shown) if run not in left]:
            are, them, save = ("are", "them", "they save") if len(runs) > 1 else ("is", "it", "it saves")
            answers = {"k": f"keep {them} running", "s": f"stop {them}; {save} first"}
            question = Question(f"{', '.join(one.name for one in runs)} {are} still training.", answers)
            answer = await app.push_screen_wait(question)
            if answer != "k" and not (answer == "s" and all([await app.stop_run(one) for one in runs])):
                return
            left |= {*runs}
        elif workers := [one for one in app.workers if one.group in _ENDED_BY_LEAVING and not one.is_finished]:
            for worker in workers:
                worker.cancel()
                with suppress(WorkerError):
                    await worker.wait()
        else:
            return app.exit()


class ContrastApp(App[None]):
    """Setup, Live, Runs, Evaluate and Query."""

    TITLE = "contrast"
    CSS_PATH = "style.tcss"
    AUTO_FOCUS = None
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {
        mode: partial(make_screen, mode) for mode in SCREENS
    }
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - declared so by its base
    BINDINGS: ClassVar[list[BindingType]] = named(
        "app",
        [
            *_SCREEN_KEYS,
            hidden_key("y", "copy", "copy", "copy the content of the screen, also to a file"),
            hidden_key("semicolon", "screen.commands", "commands", "the commands that the app ran, to copy", ";"),
            Binding("q", "leave", "leave", tooltip="leave the app; training may continue"),
            hidden_key("ctrl+q", "leave", "leave in any case", "leave the app; training may continue"),
            Binding("question_mark", "help", "help", key_display="?", tooltip="what this screen shows, and its keys"),
            Binding("ctrl+p", "command_palette", show=False, priority=True, tooltip=_PALETTE),
        ],
    )

    watched: reactive[str] = reactive("")
    """The state of the run in Live, in a few words: every screen shows it."""

    def __init__(self, directory: Path, run: Run | None = None) -> None:
        self.DEFAULT_MODE = "live" if run else "setup"  # type: ignore[misc]
        self.remembered = state.load()
        super().__init__()
        self.directory, self.project = directory, self.remembered.project(directory)
        is_here = run and run.path.parent.resolve() == directory.resolve()
        self.run_shown = Run(directory / run.name) if run and is_here else run  # as Runs lists it
        self.deleted: set[Run] = set()  # which Live need not miss
        self.keys, self.noting = KeyQueue(self), Lock()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), _WITHOUT_CONTROLS]

    def clear_selection(self) -> None:
        # From Python 3.12 on tasks begin at once: a line of the first screen is ready before that screen is shown.
        if self.screen_stack:
            super().clear_selection()

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key) and not event.is_forwarded:
            self.keys.put(event)
        else:
            await super().on_event(event)

    def on_load(self) -> None:
        broken = [f"{one.what}\n{one.hint}" for one in catalogue.outside_objectives()[1].values()]
        for problem in [*customise(self, self.command_names), *broken]:
            self.warn(problem)
        if self.remembered.theme in self.available_themes:
            self.theme = self.remembered.theme

    def on_mount(self) -> None:
        self.run_worker(self.keys.run(super().on_event), group="keys")
        # After ctrl+z and fg the terminal's screen is blank.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        # Scanning what exists by now would delay a frame or two.
        self.call_after_refresh(gc.freeze)
        self.call_after_refresh(gc.enable)

    def on_unmount(self) -> None:
        # One that ended the app would end it again.
        if self._exception is None:
            self.remembered.theme = self.theme
        self.remembered.keep(self.directory, self.project)
        state.save(self.remembered)

    def command_names(self) -> set[str]:
        """The ids of all bindings of the app and its screens, by which app.toml names them."""
        nodes = [self, *map(make_screen, SCREENS)]
        return {one.id for node in nodes for _, one in node._bindings if one.id}

    async def action_mode(self, mode: str) -> None:
        """Go to a screen; to Live, where no run was chosen, with the newest that trains, else the newest."""
        if not self.screen.is_modal:
            run = await to_thread(newest, self.directory) if mode == "live" and not self.run_shown else None
            await (self.open_run(run) if run else self.switch_mode(mode))

    async def open_run(self, run: Run, mode: str = "live") -> None:
        """Go to a screen with a run chosen."""
        await self.switch_mode(mode)
        cast(ModeScreen, self.screen).choose(run)

    def action_copy(self) -> None:
        if isinstance(self.screen, ModeScreen):
            self.copy(self.screen.clipboard_text())

    def copy(self, text: str) -> None:
        """Copy to the terminal's clipboard (OSC 52) and to a file: not every terminal has a clipboard."""
        if not text:
            return
        text = escaped(text)  # it may reach a terminal
        self.copy_to_clipboard(text)
        path = state_dir() / "copied.txt"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, f"{text}\n".encode())
        except OSError:
            self.notify("copied")
        else:
            self.notify(f"copied; also in {path}", markup=False)

    def export_screenshot(self, *, title: str | None = None, simplify: bool = True) -> str:
        stack = self._background_screens
        update = self.screen._compositor.render_update(full=True, screen_stack=stack, simplify=simplify)
        segments = (one for one in Console(width=self.size.width).render(update or "") if not one.control)
        return svg(Segment.split_lines(segments), self.size.width, title or self.title)

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> None:
        """Write a picture of the screen into the current folder."""
        name = filename or f"contrast-{self.current_mode}-{time.strftime('%Y%m%d-%H%M%S')}.svg"
        picture = Path(path or ".", name).resolve()
        self.write(picture, self.export_screenshot(), f"the screen is in {picture}")

    def write(self, path: Path, text: str, told: str) -> None:
        """Write a text to a file and tell this, or why that failed."""
        try:
            atomic_write(path, text.encode())
            self.notify(told, markup=False)
        except OSError as error:
            self.fail(f"{path} cannot be written: {error_text(error)}")

    def action_help(self) -> None:
        if isinstance(self.screen, ModeScreen):
            bindings = [active.binding for active in self.screen.active_bindings.values()]
            lines = _by_effect((self.get_key_display(one), one.tooltip) for one in bindings)
            self.push_screen(Help(SCREENS[self.screen.mode], self.screen.help_text, lines))

    def alert(self, text: str) -> None:
        """Ring the bell, notify the desktop, and say it on the screen."""
        self.bell()
        if self._driver:
            self._driver.write(notification(text))
        self.warn(text)

    def warn(self, text: str) -> None:
        self.notify(text, severity="warning", timeout=15, markup=False)

    def fail(self, error: str | ContrastError) -> None:
        text = f"{error.what}\n{error.hint}" if isinstance(error, ContrastError) else error
        self.notify(text, severity="error", timeout=10, markup=False)

    def _print_error_renderables(self) -> None:
        """Print no traceback: the command line reports the error, which `show` raises."""
        self._exit_renderables.clear()

    def exit(self, *args: Any, **options: Any) -> None:
        """End the workers, then close the screens that they draw on."""
        self.workers.cancel_all()
        super().exit(*args, **options)

    def action_leave(self) -> None:
        # The next key waits for the dialog of an action's worker.
        self.run_worker(_leave(self), "action_leave", "leave", exclusive=True)

    async def stop_run(self, run: Run) -> bool:
        """Let a run stop; returns whether it will, or has."""
        if await to_thread(has_ended, run):  # while the question stood there
            self.notify(f"{run.name} has ended already", markup=False)
            return True
        stops = await self.change_run("stop", "--wait", "0", "--", str(run.path.resolve()))
        if stops:
            self.notify(f"{run.name} is asked to save and stop", markup=False)
        return stops

    async def change_run(self, *words: str) -> bool:
        """Change runs by a command; returns whether that was done, and shows why not."""
        error = (await processes.run_command(self.directory, *words)).error
        if error:
            self.fail(error)
        return not error

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every key of the screen by its name, the screens, and Textual's own."""
        listed = set[str]()
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.description and binding.tooltip and binding.action not in listed:
                listed.add(binding.action)
                about = f"key {self.get_key_display(binding)} · {binding.tooltip}"
                action = partial(self.run_action, binding.action, active.node)
                yield SystemCommand(binding.description.capitalize(), about, action)
        for command in super().get_system_commands(screen):
            if command.title not in ("Quit", "Keys", "Maximize", "Minimize"):
                yield command
