"""Setup: what is trained, from what, and how; what that does to angles and comes to; and the start."""

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
from contrastcli.settings import sections
from contrastcli.show.chart import Chart
from contrastcli.tui.children import contrast
from contrastcli.tui.picker import Pick
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.setup.curves import NEXT, TITLES, View, compared
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.setup.dry_run_panel import Facts, FactsView
from contrastcli.tui.setup.form import FIELD_KEYS, Form, Row, Words
from contrastcli.tui.widgets import ChartView

_PAUSE = 0.4  # seconds without a key before the data is read
_USE = "↓ ↑ go to a setting, Enter opens its list; PgDn shows facts and the command."


class SetupScreen(ModeScreen):
    """A form, the curve of the similarity, the facts of a dry run, and the command that does the same."""

    mode = "setup"
    help_text = (
        "What is trained: an encoder (backbone) on your sentences (data), towards an objective. Start as it is and a "
        "small encoder trains in a few minutes; p takes a published setting, o another objective, and every field can "
        "be typed over. ● marks what differs from the preset; a field that is erased falls back to it.\n\nThe curve "
        "shows what a similarity makes of the angle between two sentences, and how hard training pulls at each angle: "
        "change margin, τ or similarity and see it move."
    )
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start", tooltip="train this"),
        Binding("p", "preset", "preset", tooltip="start from a published setting, or from nothing"),
        Binding("o", "objective", "objective", tooltip="choose what is trained for"),
        Binding("m", "more", "more", tooltip="every setting, or the essential ones"),
        Binding("slash", "find", "find", key_display="/", tooltip="go to a setting by its name", show=False),
        Binding("g", "gradient", "gradient", tooltip="the curve, its gradient, or its slope", show=False),
        Binding("r", "reset", "reset", tooltip="forget what was typed over the preset", show=False),
        *FIELD_KEYS,
        Binding("pagedown", "beside(1)", "facts", tooltip="down to the command and the facts", show=False),
        Binding("pageup", "beside(-1)", "curve", tooltip="up to the curve", show=False),
    ]

    _draft: Draft | None = None
    _facts: Facts | None = None
    _planned: object = None
    """What the facts, or the reading under way, were asked for."""
    _view: View = "value"
    _failed = ""
    """Why the data cannot be read, or a start went wrong."""
    _starting = False

    def body(self) -> ComposeResult:
        with Container(id="setup"):
            with Vertical(id="left"):
                yield Form()
                yield Words(_USE, id="about", classes="muted")
            with VerticalScroll(id="beside"):
                yield ChartView(TITLES["value"], id="value")
                yield ChartView(TITLES["pull"], id="gradient")
                yield Words(id="command", classes="panel")
                yield FactsView()
        with Horizontal(id="go"):
            yield Button("s  Start", id="start", variant="primary", compact=True)
            yield Words(id="ready")

    def on_mount(self) -> None:
        self.query_one("#command").border_title = "The same from a shell (y copies it)"
        self._open()

    def copied(self) -> str:
        return self._draft.command(self.contrast.directory) if self._draft else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        waits = action in ("start", "preset", "objective", "more", "find", "gradient", "reset")
        return None if waits and self._draft is None else super().check_action(action, parameters)

    @work
    async def _open(self) -> None:
        """Read presets and settings, beside the UI's thread."""
        last = self.contrast.remembered
        self._draft = await asyncio.to_thread(Draft, last.preset, last.typed)
        self._form.fill(self._draft, last.more)
        self.refresh_bindings()
        self._show()

    @property
    def _form(self) -> Form:
        return self.query_one(Form)

    @on(Row.Typed)
    def _typed(self, event: Row.Typed) -> None:
        if self._draft:
            self._draft.type(event.key, event.text)
            self._show(typing=event.key)

    @on(Pick.Chosen, "#preset")
    def _preset_chosen(self, event: Pick.Chosen) -> None:
        if self._draft:
            self._draft.choose_preset(event.value)
            self._show()

    @on(Button.Pressed, "#start")
    async def _pressed(self) -> None:
        await self.run_action("start")

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _tell_about(self) -> None:
        """Say what the setting is that has the focus, else how to go about."""
        above = self.focused.ancestors if self.focused else ()
        row = next((widget for widget in above if isinstance(widget, Row)), None)
        self.query_one("#about", Words).say(row.field.about if row else _USE)

    def action_preset(self) -> None:
        """Choose a preset."""
        self._form.preset.action_open()

    def action_objective(self) -> None:
        """Choose an objective."""
        self._form.open_list(sections.OBJECTIVE.key)

    def action_more(self) -> None:
        """Show every setting, or the essential ones."""
        if self._draft:
            self.contrast.remembered.more = not self.contrast.remembered.more
            self._form.show_more(self._draft, self.contrast.remembered.more)

    def action_find(self) -> None:
        """Search a setting."""
        if self._draft:
            self._form.find(self._draft)

    def action_leave_field(self) -> None:
        self._form.end_search()
        super().action_leave_field()

    def action_reset(self) -> None:
        """Forget what was typed."""
        if self._draft:
            self._draft.reset()
            self._show()

    def action_beside(self, pages: int) -> None:
        """Scroll what stands beside the form, or below it."""
        beside = self.query_one("#beside")
        beside.scroll_relative(y=pages * beside.size.height)

    def action_gradient(self) -> None:
        """Show the next of value, gradient and slope; where both charts are shown, the value stays."""
        views: list[View] = ["pull", "by_cosine"] if self.has_class("-wide") else ["value", "pull", "by_cosine"]
        before = self._view if self._view in views else "pull"
        self._view = views[(views.index(before) + 1) % len(views)]
        self._draw()

    def _show(self, typing: str = "") -> None:
        """All that follows from the draft."""
        draft = self._draft
        assert draft
        self.contrast.remembered.preset, self.contrast.remembered.typed = draft.preset, dict(draft.typed)
        self._form.show(draft, typing)
        self._tell_about()
        self.query_one("#command", Words).say(self.copied())
        self._draw()
        if not draft.problem and draft.planned != self._planned:
            self._ask()
        self._say()

    def _draw(self) -> None:
        """The charts."""
        if self._draft is None:
            return
        found = compared(self._draft)
        none = f"no curve: {self._draft.fields['objective.similarity'].off}"
        second: View = "pull" if self._view == "value" else self._view
        shown: dict[str, View] = {"value": "value", "gradient": second}
        for name, view in shown.items():
            chart = self.query_one(f"#{name}", ChartView)
            chart.border_title, chart.border_subtitle = TITLES[view], NEXT[view]
            chart.show(found.chart(view) if found else Chart(), none)
        self.query_one("#beside").set_class(self._view != "value", "-gradient")

    @work(exclusive=True, group="facts")
    async def _ask(self) -> None:
        """Let a child read the data; a later question ends an earlier one's child."""
        draft = self._draft
        assert draft
        self._planned, self._facts, self._failed = draft.planned, None, ""
        self.query_one(FactsView).say("reading the data…")
        self._say()  # what was ready is no longer what would start
        await asyncio.sleep(_PAUSE)
        done = await contrast(
            self.contrast.directory, "train", *draft.words, "--dry-run", "--json", on_progress=self._reading
        )
        if done.error:
            self._failed = done.error
            self.query_one(FactsView).say(done.error, wrong=True)
        else:
            self._facts = msgspec.json.decode(done.stdout, type=Facts)
            self.query_one(FactsView).show(self._facts)
        self._say()

    def _reading(self, event: Progress) -> None:
        self.query_one(FactsView).say(f"{event.what}: {event.done:,} of {event.total:,}")

    @work(group="start")
    async def action_start(self) -> None:
        """Train in the background, and watch."""
        draft = self._draft
        if draft is None or self._starting or draft.problem:
            return
        if self._failed:  # perhaps it has been mended outside
            self._ask()
            return
        self._starting = True
        self._say()
        done = await contrast(self.contrast.directory, "train", *draft.words, "--detach")
        self._starting, self._failed = False, done.error
        self._say()
        if not done.error:
            await self.contrast.open_run(Run(Path(done.stdout.strip())))

    def _say(self) -> None:
        """Whether it can start, or why not."""
        problem = (self._draft.problem if self._draft else "") or (self._failed and f"{self._failed} (s: look again)")
        words = f"cannot start: {problem}" if problem else "reading the data…"
        if self._starting:
            words = "starting…"
        elif self._facts and not problem:
            words = f"ready: {self._facts.short}"
        ready = self.query_one("#ready", Words)
        ready.say(words)
        ready.set_class(bool(problem), "wrong")
        self.query_one("#start", Button).disabled = bool(problem) or self._starting
