"""What can be done with a run, and in which states: the keys are the same in Live and Runs."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from contrastcli.errors import ContrastError
from contrastcli.runs import directory as runs
from contrastcli.runs.directory import Run
from contrastcli.runs.status import State, Status
from contrastcli.show.format import size
from contrastcli.tui import processes
from contrastcli.tui.dialogs import Prompt, Question
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.widgets import hidden_key

SHAPES: dict[State, str] = {
    "starting": "◌",
    "running": "●",
    "silent": "◍",
    "killed": "✖",
    "stopped": "■",
    "finished": "✔",
    "failed": "✖",
    "diverged": "▲",
}
"""A shape for each state, so that it is seen at a glance without colour too."""


def can_resume(status: Status, is_saved: bool) -> bool:
    """Whether a run has a checkpoint to continue from, and a reason to end otherwise than it did."""
    return is_saved and status.ended and status.state not in ("finished", "diverged")


class RunScreen(ModeScreen):
    """A screen on which a run is chosen, and the actions on that run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "stop", tooltip="finish the step, save and stop; asks first"),
        Binding("r", "resume", "resume", tooltip="continue from the last checkpoint"),
        Binding("e", "use_in('evaluate')", "evaluate", tooltip="evaluate the run's model"),
        Binding("u", "use_in('query')", "query", tooltip="compare sentences with the run's model"),
        hidden_key("t", "use_in('setup')", "set up again", "take the settings to Setup; half the rate if it diverged"),
        hidden_key("x", "export", "export", "write the run's model to a folder"),
        hidden_key("D,delete,backspace", "delete", "delete", "delete the run; asks first", display="D"),
    ]

    _deleted: Run | None = None  # by this app

    @property
    def chosen_run(self) -> Run | None:
        """The run that keys act on."""
        raise NotImplementedError

    @property
    def chosen_status(self) -> Status | None:
        """Its status as last seen; None where there is no run, or its status cannot be read."""
        raise NotImplementedError

    @property
    def chosen_is_saved(self) -> bool:
        """Whether it had a checkpoint then."""
        raise NotImplementedError

    def run_deleted(self) -> None:
        """The chosen run was deleted."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        status = self.chosen_status
        match action:
            case "stop":
                return status is not None and not status.ended
            case "resume":
                return status is not None and can_resume(status, self.chosen_is_saved)
            case "use_in" | "export" if parameters != ("setup",):
                return self.chosen_is_saved
            case "use_in" | "delete":
                return self.chosen_run is not None
        return super().check_action(action, parameters)

    @work
    async def action_stop(self) -> None:
        if run := self.chosen_run:
            question = f"Stop {run.name}?\nIt saves first, and can be resumed."
            answers = {"s": "stop it", "k": "keep it running"}
            if await self.app.push_screen_wait(Question(question, answers)) == "s":
                await self.contrast.stop_run(run)

    @work(group="resume", exclusive=True)
    async def action_resume(self) -> None:
        if run := self.chosen_run:
            self.app.notify(f"resuming {run.name}: loading the model and the data", markup=False)
            words = ("train", "--resume", str(run.path.resolve()), "--detach")
            done = await processes.run_command(self.contrast.directory, *words)
            if done.error:
                self.contrast.fail(f"{run.name} could not be resumed: {done.error}")
            elif self.is_current:
                await self.contrast.open_run(run)

    async def action_use_in(self, mode: str) -> None:
        if run := self.chosen_run:
            await self.contrast.open_run(run, mode)

    @work
    async def action_export(self) -> None:
        if (run := self.chosen_run) is None:
            return
        question = f"Write the best model of {run.name} to which new folder?"
        if folder := await self.app.push_screen_wait(Prompt(question, f"exported/{run.name}")):
            self.app.notify(f"exporting {run.name}", markup=False)
            done = await processes.run_command(self.contrast.directory, "export", str(run.path.resolve()), folder)
            if done.error:
                self.contrast.fail(done.error)
            else:
                self.app.notify(f"exported {run.name} to {done.stdout.strip()}", timeout=10, markup=False)

    @work
    async def action_delete(self) -> None:
        if (run := self.chosen_run) is None:
            return
        if (status := self.chosen_status) and status.state in ("starting", "running"):
            self.contrast.fail(f"{run.name} is in progress: stop it first")
            return
        answers = {"d": f"delete it and its models, {size(await asyncio.to_thread(run.size_bytes))}", "k": "keep it"}
        if await self.app.push_screen_wait(Question(f"Delete {run.name}?", answers)) == "d":
            self._deleted = run
            try:
                await asyncio.to_thread(runs.remove, run)
                self.run_deleted()
            except ContrastError as error:
                self.contrast.fail(error)
