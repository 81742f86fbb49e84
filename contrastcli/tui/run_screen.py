"""What can be done with a run, and in which states: the keys are the same in Live and Runs."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.screen import ModalScreen

from contrastcli.boundary import printable
from contrastcli.errors import ContrastError
from contrastcli.runs.directory import Run
from contrastcli.runs.status import IN_PROGRESS, Status
from contrastcli.settings.catalogue import find_objective
from contrastcli.settings.sections import EXPORTS
from contrastcli.show.format import size
from contrastcli.tui import processes
from contrastcli.tui.dialogs import Prompt, Question, may_replace, show_late
from contrastcli.tui.fields.choice_field import ChoiceField, ChoiceList
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.widgets import hidden_key

_TELL_SECONDS = 3.0

SHAPES: dict[str, str] = {
    "queued": "◔",
    "starting": "◌",
    "running": "●",
    "silent": "◍",
    "killed": "✖",
    "stopped": "■",
    "finished": "✔",
    "failed": "✖",
    "diverged": "▲",
    "broken": "▣",
}
"""A shape for each state, so that it is seen at a glance without colour too."""


@dataclass(frozen=True)
class RunView:
    """A run as last seen: its status, None where it cannot be read, whether it had a checkpoint, and was pruned."""

    run: Run
    status: Status | None = None
    is_saved: bool = False
    is_pruned: bool = False

    @property
    def is_live(self) -> bool:
        return self.status is not None and not self.status.ended

    @property
    def can_resume(self) -> bool:
        """Whether it has a reason to end otherwise than it did; without a checkpoint it begins again."""
        if self.status is None or not self.status.ended or self.is_pruned:
            return False
        return self.status.state not in ("finished", "diverged")

    @property
    def remedy(self) -> str:
        """What to do about a run that has ended badly."""
        if self.status is None or not self.status.ended or self.status.state == "finished":
            return ""
        if self.status.state == "diverged":
            return "a lower learning rate or a higher τ helps; t takes its settings to Setup, with a lower rate"
        if self.is_pruned:
            return "its model is left, and nothing to resume from; t takes its settings to Setup"
        if self.is_saved:
            return "r resumes from the last checkpoint"
        return "nothing was saved; r starts it again, t takes its settings to Setup"


class RunScreen(ModeScreen):
    """A screen on which a run is chosen, and the actions on that run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "stop", tooltip="save and stop; asks first"),
        Binding("r", "resume", "resume", tooltip="continue from the last checkpoint, if there is one"),
        Binding("e", "use_in('evaluate')", "evaluate", tooltip="evaluate the run's model"),
        Binding("u", "use_in('query')", "query", tooltip="compare sentences with the run's model"),
        hidden_key("t", "use_in('setup')", "set up again", "take the settings to Setup; a lower rate if it diverged"),
        Binding("x", "export", "export", tooltip="write the run's model to a folder"),
        hidden_key("M", "merge", "merge", "write the best model between a backbone and its runs"),
        hidden_key("n", "note", "note", "write a note or tags on the run"),
        hidden_key("D,delete,backspace", "delete", "delete", "delete the run; asks first", display="D"),
    ]

    @property
    def here(self) -> RunView | None:
        """The run that most keys act on."""
        raise NotImplementedError

    @property
    def chosen(self) -> Sequence[RunView]:
        """The runs that are stopped, exported and deleted together."""
        return [self.here] if self.here else []

    def read(self) -> object:
        """Look at the runs again, of which some were deleted, or got a note."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        here = self.here
        has_effect: dict[str, Callable[[], bool]] = {
            "stop": lambda: any(one.is_live for one in self.chosen),
            "resume": lambda: here is not None and here.can_resume and len(self.chosen) == 1,
            "export": lambda: any(one.is_saved for one in self.chosen),
            "merge": lambda: any(one.is_saved for one in self.chosen),
            "use_in": lambda: here is not None and (here.is_saved or parameters == ("setup",)),
            "note": lambda: here is not None,
            "delete": lambda: bool(self.chosen),
        }
        return has_effect[action]() if action in has_effect else super().check_action(action, parameters)

    @work
    async def action_stop(self) -> None:
        live = [one.run for one in self.chosen if one.is_live]
        question = f"Stop {in_words(live)}?\nIt saves first, and can be resumed."
        # Not the key that asks, which may be pressed twice.
        if live and await self.app.push_screen_wait(Question(question, {"y": "stop", "k": "keep running"})) == "y":
            for run in live:
                await self.contrast.stop_run(run)

    def action_resume(self) -> None:
        if self.here and (path := str(self.here.run.path)) not in {worker.name for worker in self.workers}:
            self.run_worker(self._resume(self.here.run, self.contrast.keys.last), path, "resume")

    async def _resume(self, run: Run, key: Key | None) -> None:
        """Resume a run, and go to Live unless a key was pressed after this one."""
        self.app.notify(f"resuming {run.name}: loading the model and the data", markup=False)
        words = ("train", "--resume", str(run.path.resolve()), "--detach")
        done = await processes.run_command(self.contrast.directory, *words)
        if done.error:
            self.contrast.fail(f"{run.name} could not be resumed: {done.error}")
        elif self.is_active and (self.mode == "live" or self.contrast.keys.last is key):
            await self.contrast.open_run(run)
        else:
            self.app.notify(f"resumed {run.name}; 3 lists it", markup=False)

    async def action_use_in(self, mode: str) -> None:
        if self.here:
            try:
                if mode == "setup":
                    find_objective(self.here.run.config().spec.name, remedy="install the package that it comes from")
                await self.contrast.open_run(self.here.run, mode)
            except ContrastError as error:
                self.contrast.fail(error)

    @work
    async def action_note(self) -> None:
        if self.here is None:
            return
        run, question = self.here.run, f"A note on {self.here.run.name}; words with # are tags to filter by"
        # One that is being written is what is changed next.
        async with self.contrast.noting:
            before = printable(run.note())
            text = await self.app.push_screen_wait(Prompt(question, before))
            # One of several lines, which the prompt has in one, stays as it is where nothing else changes.
            if text is not None and text != before:
                await self.contrast.change_run("runs", "note", "--", str(run.path.resolve()), text)
                self.read()

    @work(group="export")
    async def action_export(self) -> None:
        saved = [one.run for one in self.chosen if one.is_saved]
        several = len(saved) > 1
        question = f"Write the best model of {in_words(saved)} to which new folder{', one in it for each' * several}?"
        proposed = "exported" if several else f"exported/{saved[0].name}"
        if not (typed := await self.app.push_screen_wait(Prompt(question, proposed))):
            return
        formats = [(str(name), about) for name, about in EXPORTS.items()]
        field = ChoiceField("In which format?", lambda: formats, formats[0][0])
        if not (kind := await self.app.push_screen_wait(ChoiceList(field, formats))):
            return
        folder = os.path.expanduser(typed)
        places = {run: str(Path(folder, run.name)) if several else folder for run in saved}
        asked = {run: await may_replace(self.app, place) for run, place in places.items()}
        for run, overwrite in asked.items():
            words = ("export", str(run.path.resolve()), places[run], "--format", kind, *(overwrite or ()))
            if overwrite is not None and await self._answer(f"exporting {run.name}", *words):
                self.app.notify(f"exported {run.name} to {places[run]}", timeout=10, markup=False)

    @work(group="merge")
    async def action_merge(self) -> None:
        saved = [one.run for one in self.chosen if one.is_saved]
        try:
            base = saved[0].config().model.backbone
        except ContrastError as error:
            self.contrast.fail(error.what)
            return
        question = f"Write the best model between {base} and {in_words(saved)} to which new folder?"
        proposed = f"merged/{saved[0].name}" + f"+{len(saved) - 1}" * (len(saved) > 1)
        typed = await self.app.push_screen_wait(Prompt(question, proposed))
        folder = os.path.expanduser(typed or "")
        if not folder or (overwrite := await may_replace(self.app, folder)) is None:
            return
        words = (base, *(str(run.path.resolve()) for run in saved), "--out", folder, *overwrite)
        if answer := await self._answer(f"measuring models between {base} and {in_words(saved)}", "merge", *words):
            await show_late(self.app, answer.rstrip())

    async def _answer(self, what: str, *words: str) -> str:
        """What a long command prints, which tells how far it is; empty where it fails, which is shown."""
        reached = deque([""], maxlen=1)

        def tell() -> None:
            # What is typed or chosen in would be covered.
            if not isinstance(self.app.screen, ModalScreen):
                self.app.notify(f"{what}\n{reached[0]}".rstrip(), timeout=_TELL_SECONDS, markup=False)

        tell()
        timer = self.set_interval(_TELL_SECONDS, tell)
        try:
            done = await processes.run_command(self.contrast.directory, *words, on_progress=reached.append)
        finally:
            timer.stop()
        if done.error:
            self.contrast.fail(done.error)
        return "" if done.error else done.stdout

    @work
    async def action_delete(self) -> None:
        live = [one.run for one in self.chosen if one.status and one.status.state in IN_PROGRESS]
        if live:
            self.contrast.fail(f"in progress: {in_words(live)}; stop it first")
            return
        ended = [one.run for one in self.chosen]
        total = sum([await asyncio.to_thread(run.size_bytes) for run in ended])
        answers = {"d": f"delete with the models, {size(total)}", "k": "keep"}
        if await self.app.push_screen_wait(Question(f"Delete {in_words(ended)}?", answers)) == "d":
            self.contrast.deleted.update(ended)
            paths = [str(run.path.resolve()) for run in ended]
            if not await self.contrast.change_run("runs", "rm", "--yes", "--", *paths):
                self.contrast.deleted.difference_update(ended)
            self.read()


def in_words(some: Sequence[Run]) -> str:
    """The name of a run, or how many there are and the names of the first."""
    names = ", ".join(run.name for run in some[:6]) + ", …" * (len(some) > 6)
    return names if len(some) == 1 else f"{len(some)} runs ({names})"
