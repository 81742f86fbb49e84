"""Evaluate: measure a run or a model in a child, and see the result beside the papers' rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.widgets import Checkbox, Input, Label, Select, Static
from textual.worker import Worker

from contrastcli.errors import ContrastError
from contrastcli.evaluation.suites import SUITES
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Progress
from contrastcli.settings.config import Config
from contrastcli.settings.sections import Pooling
from contrastcli.show.results import SuiteTable, suite_tables
from contrastcli.tui.children import Finished, contrast
from contrastcli.tui.evaluate.scores import geometry
from contrastcli.tui.live.header import bar
from contrastcli.tui.model_field import NO_MODEL, ModelField
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.widgets import ChartView

_WORKS = 4  # bars at once
_OWN = "the model's own"
_NOTHING = "Nothing has been measured of this model yet. Choose suites, and press s."
_SOON = "Measuring; results stand here when it is done."


class Tick(Checkbox):
    """A checkbox whose state is seen without colour too; arrow keys go from one to the next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "next suite", tooltip="to the next suite", show=False),
        Binding("up", "step(-1)", "suite before", tooltip="to the suite before", show=False),
    ]

    def __init__(self, label: str, value: bool, id: str) -> None:
        super().__init__(label, value, id=id, compact=True)
        self.BUTTON_INNER = "X" if value else " "

    def watch_value(self) -> None:
        self.BUTTON_INNER = "X" if self.value else " "
        super().watch_value()

    def action_step(self, by: int) -> None:
        """Go to the next suite, or to the one before."""
        (self.screen.focus_next if by > 0 else self.screen.focus_previous)(Tick)


class EvaluateScreen(ModeScreen):
    """What to measure of which model, how far that is, and what came of it."""

    CSS_PATH = ["../model_field.tcss", "screen.tcss"]  # noqa: RUF012 - declared so by its base
    mode = "evaluate"
    help_text = (
        "How good is a model? Choose a run, a folder or a name on the hub, tick suites, and start. What was measured "
        "before is shown at once; columns [1], [2] … are what the papers report. The data are looked for in the "
        "folder, which is laid out as SentEval's, else on the hub. A suite that is done is kept, also where the "
        "measuring is stopped."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start", id="evaluate.start", tooltip="measure the suites that are ticked"),
        Binding("x", "stop", "stop", id="evaluate.stop", tooltip="measure no more; what is done is kept"),
        Binding("m", "edit('model Input')", "model", id="evaluate.model", tooltip="choose the model"),
        Binding("t", "edit('sts')", "suites", id="evaluate.suites", tooltip="go to the suites; Space ticks"),
        Binding("d", "edit('data')", "data", id="evaluate.data", tooltip="choose the folder of the data"),
        Binding("p", "edit('pooling')", "pooling", id="evaluate.pooling", tooltip="another pooling than its own"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._measuring: Worker[None] | None = None
        self._works: dict[str, Progress] = {}
        self._scores: Mapping[str, Any] = {}
        self._config: Config | None = None

    def body(self) -> ComposeResult:
        last = self.contrast.remembered
        with VerticalScroll(id="evaluate", can_focus=False):
            with Vertical(id="what"):
                with Horizontal(classes="row"):
                    yield Label("Model", classes="name")
                    yield ModelField(self.contrast.directory, "", id="model")
                with Horizontal(classes="row"):
                    yield Label("Suites", classes="name")
                    with Container(id="suites"):
                        for name, suite in SUITES.items():
                            yield Tick(f"{name:<10}  {suite.about}", name in last.suites, id=name)
                with Horizontal(classes="row"):
                    yield Label("Data", classes="name")
                    yield Input(
                        last.data_dir, placeholder="folder as SentEval's; else the hub", id="data", compact=True
                    )
                with Horizontal(classes="row"):
                    yield Label("Pooling", classes="name")
                    yield Select([(word, word) for word in get_args(Pooling)], prompt=_OWN, id="pooling", compact=True)
                yield Static("", id="said", markup=False)
            with VerticalScroll(id="results"):
                yield Static(_NOTHING, id="nothing", markup=False)
                yield Vertical(id="tables")
                with Container(id="pictures"):
                    yield ChartView("Angles, % of pairs", "measured by the suite geometry", id="angles")
                    yield ChartView("Sentences in the plane", "measured by the suite geometry", id="plane")

    def on_mount(self) -> None:
        self.query_one("#what").border_title = "What to measure"
        self.query_one("#results").border_title = "Results"

    def on_screen_resume(self) -> None:
        self._field.look()

    def choose(self, name: str) -> None:
        """Take a run or model."""
        self._field.choose(name)

    @property
    def _field(self) -> ModelField:
        return self.query_one("#model", ModelField)

    @property
    def _suites(self) -> tuple[str, ...]:
        return tuple(suite for suite in SUITES if self.query_one(f"#{suite}", Checkbox).value)

    @property
    def _pooling(self) -> str:
        chosen = self.query_one("#pooling", Select).value
        return chosen if isinstance(chosen, str) else ""

    @on(ModelField.Chosen)
    @work(group="known", exclusive=True)
    async def _chosen(self) -> None:
        """Show what was measured before."""
        model = self._field.model
        scores, self._config = await asyncio.to_thread(_known, self.contrast.directory, model)
        await self._show(scores)

    async def _show(self, scores: Mapping[str, Any]) -> None:
        """Show results: a table a suite, and the pictures."""
        self._scores = scores
        found = suite_tables(scores, self._config)
        self._say_nothing()
        self.query_one("#nothing").display = not found
        self.query_one("#results").border_title = f"Results of {self._field.model}" if found else "Results"
        place = self.query_one("#tables")
        await place.remove_children()
        await place.mount_all(widget for table in found for widget in _widgets(table))
        shape = geometry(scores)
        self.query_one("#pictures").display = shape is not None or "geometry" in self._suites
        if shape:
            angles, plane = self.query_one("#angles", ChartView), self.query_one("#plane", ChartView)
            angles.border_title = f"Angles of {shape.source}, % of pairs"
            angles.show(shape.angles)
            plane.border_title = f"Its sentences in a plane (PCA, {shape.explained:.0f} % of the variance)"
            plane.show(shape.plane)

    @on(Checkbox.Changed)
    def _ticked(self) -> None:
        self.contrast.remembered.suites = self._suites

    @on(Input.Changed, "#data")
    def _typed(self, event: Input.Changed) -> None:
        self.contrast.remembered.data_dir = event.value.strip()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("start", "stop"):
            return (self._measuring is None) == (action == "start")
        return super().check_action(action, parameters)

    def action_edit(self, field: str) -> None:
        """Go to a field."""
        self.query_one(f"#{field}").focus()

    def action_start(self) -> None:
        """Measure, unless something is missing."""
        if not self._field.model:
            self._say(NO_MODEL)
        elif not self._suites:
            self._say("Tick a suite first: t goes to them, Space ticks.")
        else:
            self._measuring = self._measure(self._field.model, self._pooling)
            self._say_nothing()
            self.refresh_bindings()

    def action_stop(self) -> None:
        """Measure no more."""
        if self._measuring:
            self._measuring.cancel()

    @work(group="measuring")
    async def _measure(self, model: str, pooling: str) -> None:
        """Let a child measure; show what it has, be it all or not."""
        self._works = {}
        self._say("loading the model…")
        data = self.contrast.remembered.data_dir
        folder = ("--data-dir", str(Path(data).expanduser())) if data else ()
        words = ("eval", model, "--suite", ",".join(self._suites), *folder, "--json")
        try:
            done = await contrast(
                self.contrast.directory,
                *words,
                *(("--pooling", pooling) if pooling else ()),
                on_progress=self._advance,
            )
            self._say(done.error or "Done.")
            if model == self._field.model:
                await self._take(done, pooling)
        except asyncio.CancelledError:
            self._say("Stopped. Suites that were done are kept.")
            raise
        finally:
            self._measuring = None
            self._say_nothing()
            self.refresh_bindings()

    async def _take(self, done: Finished, pooling: str) -> None:
        """Show the result of a child beside what was measured before, if that is of the same model and pooling."""
        try:
            found = msgspec.json.decode(done.stdout, type=dict[str, Any])
        except msgspec.DecodeError:
            return  # it has said why there is none
        before = {} if pooling else self._scores.get("suites", {})
        await self._show({"suites": {**before, **found.get("suites", {})}})
        self.call_after_refresh(self.query_one("#results").scroll_visible, animate=False, top=True)

    def _advance(self, event: Progress) -> None:
        """Show how far the child is, with what."""
        self._works.pop(event.what, None)
        self._works[event.what] = event
        shown = list(self._works.values())[-_WORKS:]
        lines = [
            f"{work.what}  {work.done:,} of {work.total:,}\n{bar(work.done / max(1, work.total))}" for work in shown
        ]
        self._say("\n".join(lines))

    def _say(self, words: str) -> None:
        for said in self.query("#said").results(Static):  # none once the app is being closed
            said.update(words)

    def _say_nothing(self) -> None:
        """Words that stand where results will."""
        for nothing in self.query("#nothing").results(Static):
            nothing.update(NO_MODEL if not self._field.model else _SOON if self._measuring else _NOTHING)

    def copied(self) -> str:
        """The tables."""
        found = suite_tables(self._scores, self._config)
        return "\n\n".join("\n".join([table.suite, table.text, *table.notes, *table.missing]) for table in found)


def _widgets(table: SuiteTable) -> list[Static]:
    return [
        Static(table.suite, classes="suite", markup=False),
        Static(table.text, classes="scores", markup=False),
        Static("\n".join([*table.notes, *table.missing]), classes="notes", markup=False),
    ]


def _known(directory: Path, model: str) -> tuple[Mapping[str, Any], Config | None]:
    """What was measured of a model before, and its settings, if it is a run."""
    places = (Run(directory / model), Run(Path(model))) if model else ()
    run = next((run for run in places if run.config_path.is_file()), None)
    if run is None:
        return {}, None
    try:
        return run.scores(), run.config()
    except (ContrastError, OSError):
        return {}, None
