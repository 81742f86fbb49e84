"""Setup: what is trained, from what, and how; what that does to angles; a dry run; and the start."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.events import DescendantBlur, DescendantFocus
from textual.widgets import Button

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Progress
from contrastcli.runs.results import Preview
from contrastcli.settings import sections
from contrastcli.tui import processes
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.choice_field import ChoiceField
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.setup.dry_run_panel import DryRunPanel
from contrastcli.tui.setup.form import FIELD_KEYS, Form, SettingRow
from contrastcli.tui.setup.similarity_chart import NEXT, TITLES, View, similarity_picture
from contrastcli.tui.widgets import PlainText

_PAUSE = 0.4  # seconds without a key before the data is read
_HOW_TO = "↓ ↑ go to a setting, Enter opens its list, PgDn shows the summary."


class SetupScreen(ModeScreen):
    """A form, the curve of the similarity, the command line that does the same, and the summary of a dry run."""

    mode = "setup"
    help_text = (
        "What is trained: an encoder (backbone) on your sentences (data), with an objective. Start with what is here "
        "and a small encoder trains in a few minutes; p takes a published preset, o another objective, and every "
        "field can be changed. ● marks what differs from the preset; erase a field to return to it.\n\nThe curve "
        "shows what a similarity makes of the angle between two sentences, and how strongly training pulls at each "
        "angle: change margin, τ or similarity and see it move."
    )
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start", tooltip="train this"),
        Binding("p", "preset", "preset", tooltip="start from a published preset, or from nothing"),
        Binding("o", "objective", "objective", tooltip="choose the objective"),
        Binding("m", "more", "more", tooltip="show every setting, or the essential ones"),
        Binding("slash", "find", "find", key_display="/", tooltip="go to a setting by its name", show=False),
        Binding("g", "gradient", "gradient", tooltip="show the curve, its gradient, or its slope", show=False),
        Binding("r", "reset", "reset", tooltip="return every field to the preset", show=False),
        *FIELD_KEYS,
        Binding("pagedown", "scroll_side(1)", "summary", tooltip="down to the command and the summary", show=False),
        Binding("pageup", "scroll_side(-1)", "curve", tooltip="up to the curve", show=False),
    ]

    _draft: Draft | None = None
    _preview: Preview | None = None
    _asked: object = None
    """The settings that the dry run, done or under way, is for."""
    _view: View = "value"
    _failed = ""
    """Why the dry run or the start failed."""
    _starting = False

    def body(self) -> ComposeResult:
        with Container(id="setup"):
            with Vertical(id="left"):
                yield Form()
                yield PlainText(_HOW_TO, id="about", classes="muted")
            with VerticalScroll(id="side"):
                yield ChartView(title=TITLES["value"], id="value")
                yield ChartView(title=TITLES["pull"], id="gradient")
                yield PlainText(id="command", classes="panel")
                yield DryRunPanel()
        with Horizontal(id="go"):
            yield Button("s  Start", id="start", variant="primary", compact=True)
            yield PlainText(id="ready")

    def on_mount(self) -> None:
        self.query_one("#command").border_title = "Command line (y copies it)"
        self._open()

    def clipboard_text(self) -> str:
        return self._draft.command(self.contrast.directory) if self._draft else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        waits = action in ("start", "preset", "objective", "more", "find", "gradient", "reset")
        return None if waits and self._draft is None else super().check_action(action, parameters)

    @work
    async def _open(self) -> None:
        """Read presets and settings, not on the UI's thread."""
        last = self.contrast.remembered
        self._draft = await asyncio.to_thread(Draft, last.preset, last.typed)
        self._form.fill(self._draft, last.more)
        self.refresh_bindings()
        self._show()

    @property
    def _form(self) -> Form:
        return self.query_one(Form)

    @property
    def draft(self) -> Draft:
        """What is being set up; keys and fields that need it wait until it is there."""
        assert self._draft
        return self._draft

    @on(SettingRow.Typed)
    def _type(self, event: SettingRow.Typed) -> None:
        self.draft.type(event.key, event.text)
        self._show(typing=event.key)

    @on(ChoiceField.Changed, "#preset")
    def _choose_preset(self, event: ChoiceField.Changed) -> None:
        self.draft.choose_preset(event.value)
        self._show()

    @on(Button.Pressed, "#start")
    async def _press_start(self) -> None:
        await self.run_action("start")

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _show_about(self) -> None:
        """Describe the setting that has the focus, else how to use the form."""
        above = self.focused.ancestors if self.focused else ()
        row = next((widget for widget in above if isinstance(widget, SettingRow)), None)
        self.query_one("#about", PlainText).update(row.field.about if row else _HOW_TO)

    async def action_preset(self) -> None:
        """Choose a preset."""
        await self._form.preset.action_open()

    async def action_objective(self) -> None:
        """Choose an objective."""
        await self._form.open_list(sections.OBJECTIVE.key)

    def action_more(self) -> None:
        """Show every setting, or the essential ones."""
        self.contrast.remembered.more = not self.contrast.remembered.more
        self._form.show_more(self.draft, self.contrast.remembered.more)

    def action_find(self) -> None:
        """Search for a setting."""
        self._form.find(self.draft)

    def action_leave_field(self) -> None:
        self._form.end_search()
        super().action_leave_field()

    def action_reset(self) -> None:
        """Forget what was typed."""
        self.draft.reset()
        self._show()

    def action_scroll_side(self, pages: int) -> None:
        """Scroll what is next to the form, or below it."""
        side = self.query_one("#side")
        side.scroll_relative(y=pages * side.size.height)

    def action_gradient(self) -> None:
        """Show the next of value, gradient and slope; where both charts are shown, the value stays."""
        views: list[View] = ["pull", "by_cosine"] if self.has_class("-wide") else ["value", "pull", "by_cosine"]
        before = self._view if self._view in views else "pull"
        self._view = views[(views.index(before) + 1) % len(views)]
        self._draw()

    def _show(self, typing: str = "") -> None:
        """Show all that follows from the draft."""
        draft = self.draft
        self.contrast.remembered.preset, self.contrast.remembered.typed = draft.preset, dict(draft.typed)
        self._form.show(draft, typing)
        self._show_about()
        self.query_one("#command", PlainText).update(self.clipboard_text())
        self._draw()
        if not draft.problem and draft.planned != self._asked:
            self._dry_run()
        self._show_ready()

    def _draw(self) -> None:
        """Draw the curve and its gradient."""
        no_curve = f"no curve: {self.draft.fields['objective.similarity'].off}"
        shown: dict[str, View] = {"value": "value", "gradient": "pull" if self._view == "value" else self._view}
        for name, view in shown.items():
            chart = self.query_one(f"#{name}", ChartView)
            chart.border_subtitle = NEXT[view]
            chart.show(similarity_picture(self.draft, view), no_curve)
        self.query_one("#side").set_class(self._view != "value", "-gradient")

    @work(exclusive=True, group="dry run")
    async def _dry_run(self) -> None:
        """Read the data in a process of its own; a later dry run ends an earlier one's process."""
        panel = self.query_one(DryRunPanel)
        self._asked, self._preview, self._failed = self.draft.planned, None, ""
        panel.show_message("reading the data…")
        self._show_ready()
        await asyncio.sleep(_PAUSE)
        args = ("train", *self.draft.words, "--dry-run", "--json")
        done = await processes.run_command(self.contrast.directory, *args, on_progress=self._advance)
        self._failed = done.error
        if done.error:
            panel.show_message(done.error, wrong=True)
        else:
            self._preview = msgspec.json.decode(done.stdout, type=Preview)
            panel.show(self._preview)
        self._show_ready()

    def _advance(self, event: Progress) -> None:
        self.query_one(DryRunPanel).show_message(f"{event.what} {event.done:,} of {event.total:,}")

    @work(group="start")
    async def action_start(self) -> None:
        """Train in the background, and watch."""
        if self._starting or self.draft.problem:
            return
        if self._failed:  # the cause may be gone by now
            self._dry_run()
            return
        self._starting = True
        self._show_ready()
        done = await processes.run_command(self.contrast.directory, "train", *self.draft.words, "--detach")
        self._starting, self._failed = False, done.error
        self._show_ready()
        if not done.error:
            await self.contrast.open_run(Run(Path(done.stdout.strip())))

    def _show_ready(self) -> None:
        """Show whether training can start, or why not."""
        problem = self.draft.problem or (self._failed and f"{self._failed} (s tries again)")
        text = f"cannot start: {problem}" if problem else "reading the data…"
        if self._starting:
            text = "starting…"
        elif self._preview and not problem:
            text = f"ready: {self._preview.steps:,} steps of {self._preview.sentences_per_step:,} sentences"
        ready = self.query_one("#ready", PlainText)
        ready.update(text)
        ready.set_class(bool(problem), "wrong")
        self.query_one("#start", Button).disabled = bool(problem) or self._starting
