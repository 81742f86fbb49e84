"""The form of Setup: a row for each setting, made from the settings' own descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from contrastcli.settings import presets, sections
from contrastcli.tui.choice_field import ChoiceField, Choices
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.setup.fields import Field
from contrastcli.tui.widgets import PlainText

FIELD_KEYS: tuple[BindingType, ...] = (
    Binding("down", "app.focus_next", "next field", show=False),
    Binding("up", "app.focus_previous", "previous field", show=False),
)
_SECTIONS = ("model", "objective", "data", "dev", "train")
_LONG = 20  # cells that a value has in any case; a longer one takes the whole row


class SettingRow(Horizontal):
    """One setting: its name and symbol, its value, and a note: unit, the paper's value, or what is wrong."""

    @dataclass
    class Typed(Message):
        """A value was typed or chosen."""

        key: str
        text: str

    def __init__(self, field: Field, choices: Choices = ()) -> None:
        super().__init__()
        self.field = field
        self._label = PlainText(classes="label")
        self._choices = choices
        self.value = self._control()
        self._note = PlainText(classes="note")
        self._shown: Field | None = None
        self.show(field)

    def compose(self) -> ComposeResult:
        yield self._label
        yield self.value
        yield self._note

    def show(self, field: Field, *, typing: bool = False) -> None:
        """Take its present state; the text stays while it is being typed."""
        self.field = field
        if field != self._shown:
            self._shown = None if typing else field  # what is being typed is tidied up later
            self._label.update(f"{field.mark} {field.label}")
            self._note.update(field.note)
            self.value.disabled = bool(field.off)
            self.set_class(bool(field.wrong), "-wrong")
            self.set_class(bool(field.off), "-off")
            self.set_class(bool(field.instead), "-changed")
            self.set_class(cell_len(field.text) > _LONG, "-long")
            if not typing:
                self._fill(field.text)

    def _control(self) -> Input | ChoiceField:
        """What it is typed into or chosen with."""
        if self._options():
            title = "Objective" if self._choices else f"{self.field.label}: {self.field.setting.help}"
            return ChoiceField(title, self._options, steps=not self._choices)
        return Input(compact=True, classes="value")

    def _options(self) -> Choices:
        setting = self.field.setting
        values = ("true", "false") if setting.kind is bool else setting.choices
        return self._choices or [(value, "") for value in values]

    def _fill(self, text: str) -> None:
        if isinstance(self.value, ChoiceField):
            self.value.show(text)
        else:
            with self.value.prevent(Input.Changed):
                self.value.value = text

    @on(Input.Changed)
    @on(ChoiceField.Changed)
    def _post_typed(self, event: Input.Changed | ChoiceField.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(self.field.setting.key, event.value))

    @on(Input.Blurred)
    def _tidy(self) -> None:
        self._shown = None
        self.show(self.field)


class Form(VerticalScroll, can_focus=False):
    """A preset, and every setting of a run: the essential ones, and with `more` all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [*FIELD_KEYS]  # in place of scrolling, which follows the focus

    def __init__(self) -> None:
        super().__init__(id="form")
        self.preset = ChoiceField("Preset to start from", _presets, blank="nothing", id="preset")
        self._changes = PlainText(classes="note")
        self._find = Input(placeholder="name of a setting; Enter goes to it, Esc ends", compact=True, id="find")
        self._none = PlainText("no setting has this name", id="none", classes="muted")
        self._rows: dict[str, SettingRow] = {}
        self._rest: dict[str, Vertical] = {}
        self._more = False

    def compose(self) -> ComposeResult:
        yield self._find
        yield self._none
        with Horizontal(id="from"):
            yield PlainText("  preset", classes="label")
            yield self.preset
            yield self._changes

    def fill(self, draft: Draft, more: bool) -> None:
        """Show a draft for the first time."""
        essential = [field for field in draft.fields.values() if field.setting.essential]
        essential.sort(key=lambda field: _SECTIONS.index(field.setting.section))
        self.mount(*(self._row(field, draft) for field in essential))
        self.show(draft)
        if more:
            self.show_more(draft, True)

    def show(self, draft: Draft, typing: str = "") -> None:
        """Take a draft's present state; the text of the setting that is being typed stays."""
        self.preset.show(draft.preset)
        count = len(draft.typed)
        self._changes.update(f"{count} changed · r resets" if count else "unchanged")
        self._fit(draft)
        for key, row in self._rows.items():
            row.show(draft.fields[key], typing=key == typing)

    async def open_list(self, key: str) -> None:
        """Open the list of a setting that is chosen from one."""
        if isinstance(value := self._rows[key].value, ChoiceField):
            await value.action_open()

    def show_more(self, draft: Draft, more: bool) -> None:
        """Show every setting, or the essential ones."""
        self._more = more
        self._grow(draft)
        self._sift()

    def find(self, draft: Draft) -> None:
        """Open the field for the name of a setting."""
        self._grow(draft)
        self._find.display = True
        self._find.focus()

    def end_search(self) -> None:
        """Show everything again."""
        self._find.display = False
        with self._find.prevent(Input.Changed):
            self._find.value = ""
        self._sift()

    @on(Input.Changed, "#find")
    def _narrow(self, event: Input.Changed) -> None:
        event.stop()
        self._sift()

    @on(Input.Submitted, "#find")
    def _go_to_first(self, event: Input.Submitted) -> None:
        event.stop()
        typed = event.value.strip().lower()
        rows = [row for row in self._rows.values() if row.display and not row.field.off]
        if rows:
            min(rows, key=lambda row: typed not in row.field.label).value.focus()

    def _sift(self) -> None:
        """Show the rows that are searched for, or else those that were asked for."""
        typed = self._find.value.strip()
        for row in self._rows.values():
            row.display = row.field.matches(typed) if typed else row.field.setting.essential or self._more
        for section in self._rest.values():
            section.display = any(row.display for row in section.query(SettingRow))
        self.query_one("#from").display = not typed
        self._none.display = bool(typed) and not any(row.display for row in self._rows.values())

    def _grow(self, draft: Draft) -> None:
        """Make the rows beyond the essential ones, which cost time, when they are first asked for."""
        if not self._rest:
            self._rest = {section: Vertical(classes="section") for section in _SECTIONS}
            self.mount(*self._rest.values())
            for section in _SECTIONS:
                self._fit_section(section, draft)

    def _fit(self, draft: Draft) -> None:
        """Let the rows be those of the objective."""
        wanted = [field.setting for field in _beyond(draft, "objective")]
        present = [row.field.setting for row in self._rows.values() if _is_beyond(row.field, "objective")]
        if self._rest and wanted != present:
            self._rest["objective"].remove_children()
            self._rows = {key: row for key, row in self._rows.items() if not _is_beyond(row.field, "objective")}
            self._fit_section("objective", draft)
            self._sift()

    def _fit_section(self, section: str, draft: Draft) -> None:
        rows = {field.setting.key: self._row(field, draft) for field in _beyond(draft, section)}
        self._rest[section].mount(PlainText(section, classes="heading"), *rows.values())

    def _row(self, field: Field, draft: Draft) -> SettingRow:
        choices = draft.choices if field.setting == sections.OBJECTIVE else ()
        row = self._rows[field.setting.key] = SettingRow(field, choices)
        return row


def _beyond(draft: Draft, section: str) -> Iterator[Field]:
    """The settings of a section that are not essential."""
    return (field for field in draft.fields.values() if _is_beyond(field, section))


def _is_beyond(field: Field, section: str) -> bool:
    return field.setting.section == section and not field.setting.essential


def _presets() -> Choices:
    """All presets of runs with what they are, and no preset."""
    choices = [(name, presets.find(name).about.what) for name in presets.names()]
    choices.sort(key=lambda choice: choice[0] != "starter")
    return [*choices, ("", "every setting at its default")]
