"""The columns of a file, over a screen: each with its first value, and a role to choose."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, get_args

import msgspec
from rich.cells import set_cell_size
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList

from contrastcli.boundary import printable
from contrastcli.data.forms import FORMS, SHAPES, Role
from contrastcli.runs.results import Inspected
from contrastcli.settings.setting import join_items
from contrastcli.tui import processes
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.state import Project
from contrastcli.tui.widgets import PlainText, after, styled

_ROLES: tuple[str, ...] = ("", *get_args(Role))
_NAME_CELLS = 18
_KEYS = f"↑ ↓  column    ← →  role, or its first letter: {', '.join(_ROLES[1:])}    Enter  take    Esc  back"


class Columns(ModalScreen[str | None]):
    """Asks `contrast data` for the columns of a file, for which keys wait; returns data.columns, None to leave it."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back"),
        Binding("left", "next_role(-1)", "previous role"),
        Binding("right", "next_role(1)", "next role"),
        *(Binding(letter, f"next_role(1, '{letter}')", "role") for letter in {role[0] for role in _ROLES[1:]}),
    ]

    def __init__(self, directory: Path, source: str, columns: str) -> None:
        super().__init__()
        self._directory, self._source = directory, source
        chosen = ["--columns", columns] if columns else []
        self._status = PlainText("reading…", id="about-choice")
        self._words = ["data", os.path.expanduser(source), *chosen, "--list-columns", "--json"]
        self._first: Mapping[str, str] = {}  # value, by column
        self._roles: list[str] = []
        self._given: tuple[int, Sequence[str]] = -1, ()
        """The column that a role is being given to, and the roles before that."""
        self.is_ready = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog choices"):
            yield PlainText(f"Columns of {self._source}", classes="title")
            yield OptionList(markup=False, compact=True)
            yield self._status
            yield PlainText(_KEYS, classes="muted")

    def on_mount(self) -> None:
        self.query_one(OptionList).styles.max_height = self.app.size.height // 2
        self._read()

    @work
    async def _read(self) -> None:
        done = await processes.run_command(self._directory, *self._words, on_progress=self._status.update)
        if done.error:
            self._status.update(done.error)
        else:
            columns = msgspec.json.decode(done.stdout, type=Inspected).columns
            self._first = {name: column["first"] for name, column in columns.items()}
            self._roles = self._before = [column["role"] for column in columns.values()]
            self.query_one(OptionList).add_options(self._lines()).highlighted = 0
            self._show()
        self.is_ready = True

    def action_next_role(self, by: int, letter: str = "") -> None:
        """Give the highlighted column the next role; one of no negatives is taken from the column that has it."""
        if (here := self.query_one(OptionList).highlighted) is not None:
            role = after(self._roles[here], [role for role in _ROLES[::by] if role.startswith(letter)])
            # A role that is only passed stays where it was.
            self._given = self._given if self._given[0] == here else (here, self._roles)
            self._roles = ["" if other == role and "negative" not in role else other for other in self._given[1]]
            self._roles[here] = role
            self._show()

    def _show(self) -> None:
        for place, line in enumerate(self._lines()):
            self.query_one(OptionList).replace_option_prompt_at_index(place, line)
        form = next((form for form, needed in SHAPES if {*needed} <= {*self._roles}), None)
        self._status.update(FORMS[form] if form else "neither sentences nor pairs, which need an anchor and a positive")

    def _lines(self) -> Iterator[Content]:
        for (name, first), role in zip(self._first.items(), self._roles, strict=True):
            name = set_cell_size(printable(name), _NAME_CELLS)
            yield styled(f"{name}  ", (f"{role or '–':<13} ", "bold"), (first, "dim"))

    @on(OptionList.OptionSelected)
    def _take(self) -> None:
        items = []
        for place, (name, role) in enumerate(zip(self._first, self._roles, strict=True), 1):
            number = f"_{place}" if "negative" in role and self._roles.count(role) > 1 else ""
            items += [f"{role}{number}={name}"] if role else []
        self.dismiss(join_items(items) if self._roles != self._before else None)


class ColumnsField(ChoiceField):
    """What the columns of a data file hold, which is remembered for the file from one screen to another."""

    def __init__(self, directory: Path, project: Project, data: Callable[[], str]) -> None:
        self._directory, self._project, self._data = directory, project, data
        super().__init__("Columns", list, blank="by their names")
        self.recall()

    def recall(self) -> None:
        """Show what is known of the columns of the file that is chosen by now."""
        self.disabled = not self._data()
        self.show(self._project.roles_of(self._data()))

    def choose(self, value: str | None) -> None:
        if value is not None:
            self._project.keep_roles(self._data(), value)
        super().choose(value)

    async def action_open(self) -> None:
        await self.app.push_screen(Columns(self._directory, self._data(), self.value), self.choose)
