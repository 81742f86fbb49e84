"""The form of Setup: a row for each setting, made from the settings' own descriptions."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input

from contrastcli.settings import presets, sections
from contrastcli.tui.choice_field import ChoiceField, Choices
from contrastcli.tui.setup.draft import Draft, Field
from contrastcli.tui.widgets import PlainText, has_words, hidden_key

FIELD_KEYS: tuple[BindingType, ...] = (
    hidden_key("down", "app.focus_next", "next field"),
    hidden_key("up", "app.focus_previous", "previous field"),
)
_SECTIONS = ("model", "objective", "data", "dev", "train", "alerts")
_LONG = 20  # cells that a value has in any case; a longer one takes the whole row


class SettingRow(Horizontal):
    """One setting: its name and symbol, its value, and a note: unit, the paper's value, or what is wrong."""

    def __init__(self, field: Field, objectives: Choices = ()) -> None:
        self.field, self._objectives = field, objectives
        self._label, self._note = PlainText(classes="label"), PlainText(classes="note")
        self.value: Input | ChoiceField = Input(compact=True, classes="value")
        if self._objectives:
            self.value = ChoiceField("Objective", self._options, id="objective")
        elif self._options():
            self.value = ChoiceField(f"{field.label}: {field.setting.help}", self._options, steps=True)
        super().__init__(self._label, self.value, self._note)
        self._shown: Field | None = None
        self.show(field)

    def show(self, field: Field, *, typing: bool = False) -> None:
        """Take its present state; the text stays while it is being typed."""
        self.field = field
        if field == self._shown:
            return
        self._shown = None if typing else field  # what is being typed is tidied up later
        self._label.update(f"{'!' if field.wrong else '●' if field.instead else ' '} {field.label}")
        self._note.update(field.note)
        self.value.disabled = bool(field.off)
        for name, applies in (("wrong", field.wrong), ("off", field.off), ("changed", field.instead)):
            self.set_class(bool(applies), f"-{name}")
        self.set_class(cell_len(field.text) > _LONG, "-long")
        if not typing and isinstance(self.value, ChoiceField):
            self.value.show(field.text)
        elif not typing:
            with self.value.prevent(Input.Changed):
                self.value.value = field.text

    def _options(self) -> Choices:
        setting = self.field.setting
        values = ("true", "false") if setting.kind is bool else setting.choices
        return self._objectives or [(value, "") for value in values]

    @on(Input.Blurred)
    def _tidy(self) -> None:
        self._shown = None
        self.show(self.field)


class Form(VerticalScroll, can_focus=False):
    """A preset, and every setting of a run: the essential ones, and with `more` all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [*FIELD_KEYS]  # in place of scrolling, which follows the focus

    def __init__(self) -> None:
        self.preset = ChoiceField("Preset to start from", _presets, blank="nothing", id="preset")
        self._changes = PlainText(classes="note")
        self._find = Input(placeholder="name of a setting; Enter goes to it, Esc ends", compact=True, id="find")
        self._none = PlainText("no setting has this name", id="none", classes="muted")
        preset = Horizontal(PlainText("  preset", classes="label"), self.preset, self._changes, id="from")
        super().__init__(self._find, self._none, preset, id="form")
        self._rows: dict[str, SettingRow] = {}
        self._sections: dict[str, Vertical] = {}
        self._more = False

    def fill(self, draft: Draft, more: bool) -> None:
        """Show a draft in place of the one before."""
        self._draft, self._more = draft, more
        if not self._rows:
            essential = [field for field in draft.fields.values() if field.setting.essential]
            essential.sort(key=lambda field: _SECTIONS.index(field.setting.section))
            self.mount(*map(self._row, essential))
        self.show()

    def show(self, typing: str = "") -> None:
        """Take the draft's present state; the text of the setting that is being typed stays."""
        self.preset.show(self._draft.preset)
        count = len(self._draft.typed)
        self._changes.update(f"{count} changed · r resets" if count else "unchanged")
        self._sift()
        for key, field in self._draft.fields.items():
            if key in self._rows:
                self._rows[key].show(field, typing=key == typing)

    def show_more(self, more: bool) -> None:
        self._more = more
        self._sift()

    def find(self) -> None:
        self._find.display = True
        self._find.focus()

    def end_search(self) -> None:
        self._find.display = False
        self._find.value = ""

    @on(Input.Changed, "#find")
    def _sift(self) -> None:
        """Show the rows that are searched for, or else those that were asked for."""
        typed = self._find.value.strip()
        if (typed or self._more) and not self._sections:
            self._add_rest()
        for key, row in self._rows.items():
            setting = row.field.setting
            is_shown = has_words(f"{row.field.label} {key} {setting.help}", typed) if typed else self._more
            row.display = key in self._draft.fields and (is_shown or (setting.essential and not typed))
        shown = [row.field.setting for row in self._rows.values() if row.display]
        for name, section in self._sections.items():
            section.display = any(setting.section == name and not setting.essential for setting in shown)
        self.query_one("#from").display = not typed
        self._none.display = bool(typed) and not shown

    @on(Input.Submitted, "#find")
    def _go_to_first(self, event: Input.Submitted) -> None:
        typed = event.value.strip().lower()
        rows = [row for row in self._rows.values() if row.display and not row.field.off]
        if rows:
            min(rows, key=lambda row: typed not in row.field.label).value.focus()

    def _add_rest(self) -> None:
        """Add the rows that are not essential, which cost time, when they are first asked for."""
        for name in _SECTIONS:
            section = self._sections[name] = Vertical(classes="section")
            self.mount(section)
            rest = [s for s in self._draft.known.values() if s.section == name and not s.essential]
            rows = [self._row(self._draft.fields.get(setting.key, Field(setting))) for setting in rest]
            section.mount(PlainText(name, classes="heading"), *rows)

    def _row(self, field: Field) -> SettingRow:
        specs = self._draft.objectives if field.setting == sections.OBJECTIVE else ()
        objectives = [(spec.name, f"{spec.paper} · takes {', '.join(spec.needs)}") for spec in specs]
        row = self._rows[field.setting.key] = SettingRow(field, objectives)
        return row


def _presets() -> Choices:
    """All presets of runs with what they are, and no preset."""
    choices = [(name, presets.find(name).about.what) for name in presets.names()]
    choices.sort(key=lambda choice: choice[0] != "starter")
    return [*choices, ("", "every setting at its default")]
