"""The field that names a model: a run, a folder or a name of the hub. Runs are offered as one types."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import DescendantBlur, DescendantFocus
from textual.message import Message
from textual.widgets import Input, OptionList

from contrastcli.errors import ContrastError
from contrastcli.runs import directory as runs

_OFFERED = 8  # runs at once, below the field

NO_MODEL = (
    "A model is needed, and no run here has one yet. Press 1, then s, to train one; "
    "or name a folder, a model of the hub, or starter, which comes with contrast and is not trained yet."
)


@dataclass(frozen=True)
class Known:
    """The runs that have a model, the newest first; and the model that is meant where none is named, if any."""

    names: tuple[str, ...] = ()
    usual: str = ""


def known(directory: Path) -> Known:
    """What may be named: CONTRAST_MODEL, else the newest run that has ended, is the usual one."""
    try:
        found = [run for run in runs.list_runs(directory) if run.checkpoints_path.is_file()]
        ended = (run.name for run in found if run.status().state in ("finished", "stopped"))
        return Known(tuple(run.name for run in found), os.environ.get("CONTRAST_MODEL") or next(ended, ""))
    except (OSError, ContrastError):  # a run that is being deleted
        return Known(usual=os.environ.get("CONTRAST_MODEL", ""))


class ModelField(Vertical):
    """A line to type a model's name into, with the runs that it may mean below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "offer(1)", "next run", show=False),
        Binding("up", "offer(-1)", "previous run", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Another model is meant from now on."""

        field: ModelField

        @property
        def control(self) -> ModelField:
            return self.field

    def __init__(self, directory: Path, name: str, id: str) -> None:
        super().__init__(id=id, classes="model-field")
        self._directory, self._typed = directory, name
        self._known: Known | None = None
        self._said: tuple[str, str] | None = None  # what was typed and meant at the last message

    def compose(self) -> ComposeResult:
        yield Input(self._typed, compact=True)
        offered = OptionList(compact=True, markup=False, classes="offered")
        offered.can_focus = False  # the line keeps the focus, and the arrow keys move in the list
        yield offered

    def on_mount(self) -> None:
        self.look()

    @property
    def typed(self) -> str:
        """The name as typed."""
        return self._input.value.strip()

    @property
    def model(self) -> str:
        """The model that is meant; empty where none is named and there is no usual one."""
        return self.typed or (self._known.usual if self._known else "")

    @property
    def ready(self) -> bool:
        """Whether it is known what is there."""
        return self._known is not None

    def choose(self, name: str) -> None:
        """Take a name."""
        self._input.value = name
        self._say()

    @work(exclusive=True)
    async def look(self) -> None:
        """See anew which runs there are."""
        self._known = await asyncio.to_thread(known, self._directory)
        usual = self._known.usual
        self._input.placeholder = f"{Path(usual).name} (newest; ↓ more)" if usual else "none yet"
        if self._input.has_focus:
            self._offer()
        else:
            self._say()

    def _say(self) -> None:
        self._list.display = False
        if self._known and self._said != (self.typed, self.model):
            self._said = (self.typed, self.model)
            self.post_message(self.Chosen(self))

    @property
    def _input(self) -> Input:
        return self.query_one(Input)

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    def _offer(self) -> None:
        """The runs that hold what is typed, while there is something to choose."""
        found = self._known.names if self._known else ()
        names = [name for name in found if self.typed in name and self.typed != name]
        self._list.clear_options()
        self._list.add_options(names[:_OFFERED])
        self._list.display = bool(names) and self._input.has_focus

    def action_offer(self, by: int) -> None:
        """Move in the list."""
        if not self._list.display:
            self._offer()
        elif by > 0:
            self._list.action_cursor_down()
        else:
            self._list.action_cursor_up()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._input.has_focus:
            self._offer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._list.display and self._list.highlighted is not None:
            self._take(self._list.highlighted)
        else:
            self._say()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._take(event.option_index)

    def _take(self, index: int) -> None:
        """The run at that place of the list."""
        self._input.value = str(self._list.get_option_at_index(index).prompt)
        self._input.cursor_position = len(self._input.value)
        self._say()

    @on(DescendantFocus)
    def _entered(self) -> None:
        self.look()

    @on(DescendantBlur)
    def _left(self) -> None:
        self._say()
