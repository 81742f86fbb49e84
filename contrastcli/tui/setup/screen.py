"""Setup: what is trained, from what, and how; what that does to angles; a dry run; and the start."""

import asyncio
from pathlib import Path
from typing import ClassVar, cast

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.events import DescendantBlur, DescendantFocus
from textual.widgets import Button, Input

from contrastcli.errors import ContrastError
from contrastcli.runs.directory import Run
from contrastcli.runs.results import Suggested
from contrastcli.settings import sections
from contrastcli.tui import processes
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.setup.curve import SimilarityCurves
from contrastcli.tui.setup.draft import COLUMNS, Draft, Field, fill_in, next_draft, suggest_words, with_error
from contrastcli.tui.setup.dry_run_panel import READING, DryRunPanel
from contrastcli.tui.setup.form import FIELD_KEYS, SettingRow, SettingsForm
from contrastcli.tui.setup.rows import Rows
from contrastcli.tui.widgets import PlainText, hidden_key

_HOW_TO = "↓ ↑ go to a setting, Enter opens its list, PgDn shows the summary."

_KEYS: list[BindingType] = [
    Binding("s", "start", "start", tooltip="train this, or go to what must be fixed first"),
    hidden_key("a", "start('--detach --after last')", "queue", "train this when the newest run has ended"),
    Binding("p", "open_list('preset')", "preset", tooltip="start from a published preset, or from nothing"),
    Binding("o", "open_list('objective')", "objective", tooltip="choose the objective"),
    Binding("d", "open_list('data-train')", "data", tooltip="choose the training data"),
    hidden_key("b", "open_list('model-backbone')", "backbone", "choose the encoder to start from"),
    Binding("e", "suggest", "suggest", tooltip="in place of a preset, fill in what suits the data"),
    hidden_key("m", "more", "more", "show every setting, or the essential ones"),
    hidden_key("i", "inspect", "inspect", "show the rows that are unusual, and leave some out"),
    hidden_key("slash", "find", "find", "go to a setting by its name", display="/"),
    hidden_key("g", "gradient", "gradient", "show the curve, its gradient, or its slope"),
    hidden_key("u,ctrl+z", "undo", "undo", "return the field that has the focus, or the last one, to the preset"),
    hidden_key("r", "reset", "reset", "return every field to the preset; u takes it back"),
    *FIELD_KEYS,
    hidden_key("pagedown", "scroll_side(1)", "summary", "down to the command and the summary"),
    hidden_key("pageup", "scroll_side(-1)", "curve", "up to the curve"),
]


class SetupScreen(ModeScreen):
    """A form, the curve of the similarity, the command line that does the same, and the summary of a dry run."""

    mode = "setup"
    BINDINGS: ClassVar[list[BindingType]] = _KEYS
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - so that a note has a line

    draft: Draft
    is_ready = False
    _is_starting = False

    def body(self) -> ComposeResult:
        with Container(id="setup"):
            self._form, self._curves = SettingsForm(), SimilarityCurves()
            self._command, self._dry_run = PlainText(id="command"), DryRunPanel(self.contrast.directory)
            yield self._form
            with VerticalScroll(id="side", can_focus=False):
                yield self._curves
                self._command.add_class("panel").border_title = "Command line (y copies it)"
                yield self._command
                yield self._dry_run
            yield PlainText(_HOW_TO, id="about", classes="muted")
        with Horizontal(id="go"):
            yield Button("s  Start", id="start", variant="primary", action="screen.start", compact=True)
            yield PlainText(id="ready")

    def on_mount(self) -> None:
        self._open()

    def on_screen_resume(self) -> None:
        """Take over what another screen has added to the draft."""
        if self.is_ready and _kept(self.draft) != self.contrast.project.draft:
            self._open()

    def clipboard_text(self) -> str:
        return processes.command_line(self.contrast.directory, ["train", *self.draft.words]) if self.is_ready else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return super().check_action(action, parameters) if self.is_ready else None

    def choose(self, run: Run) -> None:
        # So that the screen, which resumes after this, does not open the last draft instead.
        self.is_ready = False
        self._open(run)

    @work(group="open", exclusive=True)
    async def _open(self, run: Run | None = None) -> None:
        """Read presets and settings, those of a run or the last ones, not on the UI's thread."""
        last, self.is_ready = self.contrast.project.draft, False
        try:
            self.draft = await asyncio.to_thread(next_draft, last, run)
        except ContrastError as error:
            self.contrast.fail(error)
            self.draft = await asyncio.to_thread(Draft, *last)
        self.is_ready = True
        self.refresh_bindings()
        self._keep() if run or self.contrast.project.draft == last else self._show()

    @on(Input.Changed, "SettingRow Input")
    @on(ChoiceField.Changed, "SettingRow ChoiceField")
    def _type(self, event: Input.Changed | ChoiceField.Changed) -> None:
        key = cast(SettingRow, event.control.parent).field.setting.key
        self.draft.type(key, event.value)
        if key == "data.train":
            self.draft.type(COLUMNS, self.contrast.project.roles_of(event.value))
        self._keep(typing=key)

    @on(ChoiceField.Changed, "#preset")
    def _choose_preset(self, event: ChoiceField.Changed) -> None:
        self.draft.choose_preset(event.value)
        self._keep()

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _show_about(self) -> None:
        """Describe the setting that has the focus, else how to use the form; say what undoes here."""
        undo = "Ctrl+Z" if isinstance(self.focused, Input) else "u"
        field = self._form.fields.get(self._form.focused_key)
        self.query_one("#about", PlainText).update(field.about(undo) if field else _HOW_TO, layout=False)
        self._command.border_subtitle = _changes(self.draft, undo)

    def action_more(self) -> None:
        self.contrast.remembered.more = not self.contrast.remembered.more
        self._show()

    def action_find(self) -> None:
        self._form.find()

    def action_leave_field(self) -> None:
        self._form.end_search()
        super().action_leave_field()

    def action_undo(self) -> None:
        self.draft.undo(self._form.focused_key)
        self._keep()

    def action_reset(self) -> None:
        self.draft.reset()
        self._keep()

    @work(group="suggest", exclusive=True)
    async def action_suggest(self) -> None:
        """Fill in what `contrast suggest` says of the data."""
        if not self._has_data():
            return
        draft, words, show = self.draft, suggest_words(self.draft), self.query_one("#ready", PlainText).update
        show(READING)
        done = await processes.run_command(self.contrast.directory, *words, on_progress=show)
        if self.draft is not draft or suggest_words(draft) != words or _kept(draft) != self.contrast.project.draft:
            self.contrast.warn("what was suggested was for an earlier draft, and is not filled in\nask again: e")
        elif field := draft.fields.get(done.record.key):
            self._dry_run.take(done, draft)
            self.contrast.fail(f"nothing is suggested before this is solved: {field.label}")
        elif done.error:
            self.contrast.fail(done.error)
        else:
            self.app.notify(fill_in(draft, msgspec.json.decode(done.stdout, type=Suggested).settings), markup=False)
            self._keep()
        self._show()

    def _has_data(self) -> bool:
        """Whether there are data to read; if not, the app says how to choose some."""
        if not self.draft.config.data.train:
            self.contrast.fail("there are no data to suggest settings for, or to inspect\nchoose some: d")
        return bool(self.draft.config.data.train)

    @work(group="inspect", exclusive=True)
    async def action_inspect(self) -> None:
        """Show the unusual rows of the data, and train on what remains where that is written."""
        rows = Rows(self.contrast.directory, self.draft)
        if self._has_data() and (clean := await self.app.push_screen_wait(rows)):
            self.draft.type("data.train", clean)
            self.contrast.project.keep_roles(clean, self.draft.config.data.columns)
            self._keep()

    def action_scroll_side(self, pages: int) -> None:
        side = self.query_one("#side")
        side.scroll_relative(y=pages * side.size.height)

    def action_gradient(self) -> None:
        """Show the next of value, gradient and slope; where both charts are shown, the value stays."""
        self._curves.show_next(self.draft, with_value=not self.has_class("-wide"))

    def _keep(self, typing: str = "") -> None:
        """Keep the draft as it was changed here, and show it."""
        self.contrast.project.draft = _kept(self.draft)
        self._show(typing)

    def _show(self, typing: str = "") -> None:
        draft, more = self.draft, self.contrast.remembered.more
        self._dry_run.show(draft)
        self._form.show(draft, with_error(draft.fields, self._dry_run.last.record), more, typing)
        self._show_about()
        self._command.update(self.clipboard_text())
        self._curves.show(draft)
        self._show_ready()

    @work(group="start")
    async def action_start(self, options: str = "--detach") -> None:
        """Start what is set up, and go to Live unless a key was pressed meanwhile."""
        if field := self._form.faulty:
            self._form.go_to(field.setting.key)
        if self._is_starting or not self.draft.can_run:
            return
        if self._dry_run.last.error:  # perhaps solved by now
            self._dry_run.run(self.draft)
            return
        self._is_starting, last_key = True, self.contrast.keys.last
        self._show_ready()
        words, show = self.draft.words, self.query_one("#ready", PlainText).update
        done = await processes.run_command(self.contrast.directory, "train", *words, *options.split(), on_progress=show)
        self._is_starting = False
        self._show_ready()
        if is_of_draft := self.draft.words == words:
            self._dry_run.take(done, self.draft)
        if done.error and not (is_of_draft and self.is_current):
            self.contrast.fail(done.error)
        if done.error:
            return
        run = Run(self.contrast.directory / Path(done.stdout.strip()).name)  # as Runs lists it
        if self.is_current and is_of_draft and self.contrast.keys.last is last_key:
            await self.contrast.open_run(run)
        else:
            self.app.notify(f"started {run.name}; 3 lists it", markup=False)

    @on(DryRunPanel.Changed)
    def _take_error(self) -> None:
        """Show what the command line says; if that is of columns, go to their field unless somebody is typing."""
        self._show(typing=self._form.focused_key)
        if self._dry_run.last.record.key == COLUMNS and self.is_current and not isinstance(self.focused, Input):
            self._form.go_to(COLUMNS)

    def _show_ready(self) -> None:
        problem = _problem(self._form.faulty, self.draft, self._dry_run.last.error)
        text = f"cannot start: {problem}" if problem else self._dry_run.state
        ready = self.query_one("#ready", PlainText).set_class(bool(problem), "wrong")
        ready.update("starting…" if self._is_starting else text)
        self.query_one("#start", Button).disabled = bool(problem) or self._is_starting


def _kept(draft: Draft) -> tuple[str, dict[str, str]]:
    """What is remembered of a draft."""
    return draft.preset, dict(draft.typed)


def _changes(draft: Draft, undo: str) -> str:
    """How many settings are changed, and the keys that take that back; in a text r is a letter, as u is."""
    keys = f"{undo} undo{', r reset' * (undo == 'u')}"
    return f"{len(draft.typed)} changed: {keys}" if draft.typed else f"reset: {undo} undo" * bool(draft.before_reset)


def _problem(field: Field | None, draft: Draft, error: str) -> str:
    """Why a draft cannot be trained, and what helps; empty where it can, as far as is known."""
    if field:
        remedy = "e fills in what suits the data" if field.setting == sections.OBJECTIVE else "s goes there"
        return f"{field.label} ({remedy})"
    return draft.error or (f"{error} (s tries again)" if error else "")
