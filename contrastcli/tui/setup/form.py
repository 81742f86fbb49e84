"""The form of Setup: a row for each setting, made from the settings' own descriptions."""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import Input

from contrastcli.settings import catalogue, presets, sections
from contrastcli.tui.fields import completion
from contrastcli.tui.fields.choice_field import ChoiceField, Choices
from contrastcli.tui.fields.columns import ColumnsField
from contrastcli.tui.fields.model_field import list_models
from contrastcli.tui.setup.draft import COLUMNS, Draft, Field
from contrastcli.tui.widgets import LineInput, PlainText, has_words, hidden_key

if TYPE_CHECKING:
    from contrastcli.tui.app import ContrastApp

FIELD_KEYS: tuple[BindingType, ...] = (
    hidden_key("down", "app.focus_next", "next field", "to the next field"),
    hidden_key("up", "app.focus_previous", "previous field", "to the previous field"),
)
_SECTIONS: Mapping[str, str] = {
    "model": "Encoder",
    "objective": "Objective",
    "data": "Training data",
    "dev": "Dev set",
    "train": "Training",
    "alerts": "Alerts: when a run calls for attention",
    "track": "Tracker",
}
"""The groups of settings, in their order, with their titles."""
_HEADED = ("model", "objective", "data", "train")
"""Those that always have a heading: two rows. The others have one where all of their settings are shown."""
_WIDTH_OF_NOTES = 70
_VALUE_WIDTH = 20  # a longer one takes the row
_COMPLETED = dict.fromkeys(("data.train", "dev.data"), completion.complete_data)
_STARTER = ("starter", "texts that come with contrast")
_KNOWN: Mapping[str, Choices] = {
    "data.train": [_STARTER],
    "dev.data": [
        ("auto", "5% of pairs; stsb for NLI and sentences"),
        _STARTER,
        ("stsb", "the dev set of STS-B"),
        ("split:5%", "that share of the training data"),
        ("none", "no dev set: the last checkpoint is the best"),
    ],
}


class SettingRow(Horizontal):
    """One setting: its name and symbol, its value, and a note: unit, the paper's value, or what is wrong."""

    def __init__(self, field: Field, columns: ColumnsField | None) -> None:
        self.field = field
        self._label, self._note = PlainText(classes="label"), PlainText(classes="note")
        self.value: Input | ChoiceField
        title, names_model = f"{field.label}: {field.setting.help}", field.setting.names_model == "one"
        complete = completion.complete_model if names_model else _COMPLETED.get(field.setting.key)
        if field.setting == sections.OBJECTIVE:
            self.value = ChoiceField("Objective", _objectives, id="objective")
        elif columns:
            self.value = columns
        elif complete:
            other = completion.ABSENT if names_model else "as typed"
            id = field.setting.key.replace(".", "-")
            self.value = ChoiceField(title, self._offered, complete=complete, other=other, id=id)
            # Where one's own files are.
            self.value.starts_at_first = field.setting.key == "data.train"
        elif self._options():
            self.value = ChoiceField(title, self._options, steps=True)
        else:
            self.value = LineInput(compact=True, password=field.setting.secret, classes="value")
        super().__init__(self._label, self.value, self._note)
        self.show(field)

    def show(self, field: Field, *, typing: bool = False) -> None:
        """Take its present state; the text stays while it is being typed."""
        self.field = field
        self._label.update(f"{'!' if field.wrong else '●' if field.instead else ' '} {field.label}")
        self.value.disabled = bool(field.off)
        states = {"wrong": field.wrong, "off": field.off, "changed": field.instead, "suggested": field.reason}
        for name, applies in (states | {"doubtful": field.doubt}).items():
            self.set_class(bool(applies), f"-{name}")
        self.set_class(cell_len(field.text) > _VALUE_WIDTH, "-long")
        if not typing and isinstance(self.value, ChoiceField):
            self.value.show(field.text)
        elif not typing:
            with self.value.prevent(Input.Changed):
                self.value.value = field.text

    def describe(self, *, briefly: bool) -> None:
        self._note.update(self.field.brief if briefly else self.field.note)

    def _options(self) -> Choices:
        setting = self.field.setting
        return [(value, "") for value in (("true", "false") if setting.kind is bool else setting.choices)]

    def _offered(self) -> Choices:
        """Names that are known, those that earlier runs used first."""
        directory, key = cast("ContrastApp", self.app).directory, self.field.setting.key
        known = list_models(directory) if key == "model.backbone" else [*completion.data_files(), *_KNOWN[key]]
        return list(dict([*completion.used_before(directory, key), *(choice for choice in known if choice[0])]).items())

    @on(Input.Blurred)
    def _tidy(self) -> None:
        self.show(self.field)


class SettingsForm(VerticalScroll, can_focus=False):
    """A preset, and the settings of a run in groups.

    Shown are those that are essential, changed or wrong, and groups whole as there is room; with `more` all of them.
    Arrows go from field to field in place of scrolling, which follows the focus.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*FIELD_KEYS]

    def __init__(self) -> None:
        self.preset = ChoiceField("Preset to start from", _presets, blank="nothing", id="preset")
        self._find = Input(placeholder="a setting: Enter goes to it, Esc ends", compact=True, id="find")
        self._none = PlainText("no setting has this name", id="none", classes="muted")
        preset = Horizontal(PlainText("  preset", classes="label"), self.preset, id="from")
        self._sections = {
            name: Vertical(PlainText(title, classes="heading"), id=f"of-{name}", classes="section")
            for name, title in _SECTIONS.items()
        }
        self._hidden = PlainText(id="hidden", classes="muted")
        super().__init__(self._find, self._none, preset, *self._sections.values(), self._hidden, id="form")
        self._rows: dict[str, SettingRow] = {}
        self._draft: Draft | None = None
        self.fields: Mapping[str, Field] = {}
        self._more = False

    def show(self, draft: Draft, fields: Mapping[str, Field], more: bool, typing: str = "") -> None:
        """Show the present state of a draft; the text of the setting that is being typed stays."""
        self._draft, self.fields, self._more = draft, fields, more
        self.preset.show(draft.preset)
        for key, field in fields.items():
            if key in self._rows:
                self._rows[key].show(field, typing=key == typing)
        self._sift()

    @property
    def faulty(self) -> Field | None:
        """The first field that must be fixed."""
        return next((field for field in self.fields.values() if field.wrong), None)

    @property
    def focused_key(self) -> str:
        return next((key for key, row in self._rows.items() if row.has_focus_within), "")

    def find(self) -> None:
        self._find.display = True
        self._find.focus()

    def end_search(self) -> None:
        self._find.display = False
        self._find.value = ""

    def go_to(self, key: str) -> None:
        """Give the focus to a setting that is shown when nothing is searched for."""
        self.end_search()
        self._sift()
        self._rows[key].value.focus()

    @on(Input.Changed, "#find")
    @on(Resize)
    def _sift(self) -> None:
        """Show the rows that are searched for, or else those that were asked for, matter here or have room."""
        typed, fields, whole = self._find.value.strip(), self.fields, set[str]()
        matter = {key for key, one in fields.items() if one.differs or (one.setting.essential and not one.off)}
        room = self.size.height - len(matter) - 2 * len(_HEADED) - 3
        used = set(self._draft.config.flat() if self._draft and not self._more else fields)
        rests = Counter(fields[key].setting.section for key in used - matter)
        for name, rest in sorted(rests.items(), key=lambda of: (of[0] in ("alerts", "track"), of[1])):
            rest += 0 if name in _HEADED else 2
            if self._more or rest <= room:
                whole.add(name)
                room -= rest
        if typed:
            whole = set()
            matter = {key for key, one in fields.items() if has_words(f"{one.label} {key} {one.setting.help}", typed)}
        matter |= {key for key, row in self._rows.items() if row.value.has_focus}
        shown = {k for k, one in fields.items() if k in matter or (one.setting.section in whole and k in used)}
        self._add_rows(fields, shown)
        for key, row in self._rows.items():
            row.display = key in shown
            row.describe(briefly=self.size.width < _WIDTH_OF_NOTES)
        for name, section in self._sections.items():
            section.display = any(key.startswith(f"{name}.") for key in shown)
            section.set_class(bool(typed) or name in whole, "-whole")
        hidden = len(used - shown)
        self._hidden.update(f"  {hidden} more: m shows them, / finds one" if hidden else "  m hides most")
        self._hidden.display = not typed and (
            self._more or (hidden > 0 and self.size.height > len(shown) + len(_HEADED) + 1)
        )
        self.query_one("#from").display = not typed
        self._none.display = bool(typed) and not shown

    @on(Input.Submitted, "#find")
    def _go_to_first(self, event: Input.Submitted) -> None:
        typed = event.value.strip().lower()
        rows = [row for row in self._rows.values() if row.display and not row.field.off]
        if rows:
            min(rows, key=lambda row: typed not in row.field.label).value.focus()

    def _add_rows(self, fields: Mapping[str, Field], shown: AbstractSet[str]) -> None:
        """Add the rows that are to be shown for the first time: a row costs time."""
        for name, section in self._sections.items():
            missing = shown - self._rows.keys()
            here = [one for key, one in fields.items() if key in missing and one.setting.section == name]
            here.sort(key=lambda field: not field.setting.essential)
            added = [SettingRow(field, self._columns() if field.setting.key == COLUMNS else None) for field in here]
            self._rows |= {row.field.setting.key: row for row in added}
            # The app may be leaving, when an answer that came before is shown.
            if section.is_attached:
                section.mount(*added)

    def _columns(self) -> ColumnsField:
        app = cast("ContrastApp", self.app)
        return ColumnsField(app.directory, app.project, lambda: self._draft.config.data.train if self._draft else "")


def _objectives() -> Choices:
    specs = catalogue.all_objectives()
    return [(s.name, f"{s.about} {s.paper}; takes {', '.join(s.needs)}".strip()) for s in specs]


def _presets() -> Choices:
    choices = [(name, presets.find(name).about.what) for name in presets.names()]
    choices.sort(key=lambda choice: choice[0] != "starter")
    return [*choices, ("", "every setting at its default")]
