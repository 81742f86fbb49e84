"""Evaluate: measure a run or a model in a process of its own, and see the result next to the papers' rows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Checkbox, Input
from textual.worker import Worker

from contrastcli.errors import ContrastError
from contrastcli.evaluation.suites import SUITES
from contrastcli.model.locate import resolve
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Progress
from contrastcli.settings.config import Config
from contrastcli.settings.sections import Pooling
from contrastcli.show import pictures
from contrastcli.show.results import suite_tables
from contrastcli.tui import processes
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.choice_field import ChoiceField
from contrastcli.tui.model_field import NO_MODEL, ModelField
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.widgets import FormRow, PlainText, hidden_key, progress_bar

_BARS = 4  # of progress at once
_NOTHING = "This model has not been evaluated here. Choose suites and press s."
_MEASURING = "The results appear here when the evaluation is done."


class SuiteBox(Checkbox):
    """A checkbox whose state is seen without colour too; arrow keys go from one to the next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("down", "step(1)", "next suite", "to the next suite"),
        hidden_key("up", "step(-1)", "previous suite", "to the previous suite"),
    ]

    def __init__(self, label: str, value: bool, id: str) -> None:
        super().__init__(label, value, id=id, compact=True)
        self.BUTTON_INNER = "X" if value else " "

    def watch_value(self) -> None:
        self.BUTTON_INNER = "X" if self.value else " "
        super().watch_value()

    def action_step(self, by: int) -> None:
        (self.screen.focus_next if by > 0 else self.screen.focus_previous)(SuiteBox)


class EvaluateScreen(ModeScreen):
    """Which suites to run on which model, their progress, and the results."""

    CSS_PATH = "screen.tcss"
    mode = "evaluate"
    help_text = (
        "How good is a model? Choose a run, a folder or a name on the hub, tick suites, and start. Earlier results "
        "are shown at once; columns [1], [2] … are what the papers report. The data are looked for in the folder, "
        "which has SentEval's layout, else on the hub. A suite that is done is kept, even if the evaluation is stopped."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start", tooltip="evaluate the ticked suites"),
        Binding("x", "stop", "stop", tooltip="stop the evaluation; suites that are done are kept"),
        Binding("m", "open_list('model')", "model", tooltip="choose the model"),
        Binding("t", "edit('sts')", "suites", tooltip="go to the suites; Space ticks"),
        Binding("d", "edit('data')", "data", tooltip="choose the folder of the data"),
        Binding("p", "open_list('pooling')", "pooling", tooltip="choose another pooling than the model's own"),
    ]

    measuring: reactive[Worker[None] | None] = reactive(None, init=False, repaint=False, bindings=True)

    def __init__(self) -> None:
        super().__init__()
        self._status, self._nothing = PlainText(id="status"), PlainText(id="nothing")
        self._works: dict[str, Progress] = {}
        self._scores: Mapping[str, Any] = {}
        self._config: Config | None = None

    def body(self) -> ComposeResult:
        last = self.contrast.remembered
        last.suites = tuple(name for name in last.suites if name in SUITES)
        self._model = ModelField(self.contrast.directory, "", id="model")
        self._pooling = ChoiceField(
            "Pooling: how a text becomes one vector",
            lambda: [("", ""), *((pooling, "") for pooling in get_args(Pooling))],
            blank="the model's own",
            steps=True,
            id="pooling",
        )
        data = Input(last.data_dir, placeholder="SentEval's folder; else the hub", id="data", compact=True)
        with VerticalScroll(id="evaluate", can_focus=False):
            with Vertical(id="form") as form:
                form.border_title = "Suites"
                yield FormRow("Model", self._model)
                with FormRow("Suites"), Container(id="suites"):
                    for name, suite in SUITES.items():
                        yield SuiteBox(f"{name:<10}  {suite.about}", name in last.suites, id=name)
                yield FormRow("Data", data)
                yield FormRow("Pooling", self._pooling)
                yield self._status
            with VerticalScroll(id="results") as results:
                results.border_title = "Results"
                yield self._nothing
                yield Vertical(id="tables")
                with Container(id="pictures"):
                    yield ChartView("measured by the suite geometry", "Angles, % of pairs", id="angles")
                    yield ChartView("measured by the suite geometry", "Sentences in a plane", id="plane")

    def on_screen_resume(self) -> None:
        self._model.poll()

    def choose(self, run: Run) -> None:
        self._model.choose(self.contrast.name_of(run))

    @on(ChoiceField.Changed, "#model")
    @work(group="known", exclusive=True)
    async def _show_earlier_scores(self) -> None:
        scores, self._config = await asyncio.to_thread(_earlier_scores, self.contrast.directory, self._model.model)
        await self._show(scores)

    async def _show(self, scores: Mapping[str, Any]) -> None:
        self._scores = scores
        shown = suite_tables(scores, self._config)
        self._explain_nothing()
        self._nothing.display = not shown
        title = f"Results of {self._model.model}" if shown else "Results"
        self.query_one("#results").border_title = Content(title)
        place = self.query_one("#tables")
        await place.remove_children()
        await place.mount_all(
            PlainText(text, classes=name)
            for table in shown
            for name, text in (
                ("suite", table.suite),
                ("scores", table.text),
                ("notes", "\n".join([*table.notes, *table.missing])),
            )
        )
        drawn = pictures.of_geometry(scores.get("suites", {}).get("geometry", {}))
        self.query_one("#pictures").display = bool(drawn) or "geometry" in self.contrast.remembered.suites
        for view, picture in zip(self.query(ChartView), drawn, strict=False):
            view.show(picture)

    @on(Checkbox.Changed)
    def _remember_suites(self) -> None:
        self.contrast.remembered.suites = tuple(name for name in SUITES if self.query_one(f"#{name}", Checkbox).value)

    @on(Input.Changed, "#data")
    def _remember_data(self, event: Input.Changed) -> None:
        self.contrast.remembered.data_dir = event.value.strip()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("start", "stop"):
            return (self.measuring is None) == (action == "start")
        return super().check_action(action, parameters)

    def action_start(self) -> None:
        if not self._model.model:
            self._status.update(NO_MODEL)
        elif not self.contrast.remembered.suites:
            self._status.update("Tick a suite first: t goes to the suites, Space ticks.")
        else:
            self.measuring = self._measure(self._model.model, self._pooling.value)

    def action_stop(self) -> None:
        if self.measuring:
            self.measuring.cancel()

    @work(group="measuring")
    async def _measure(self, model: str, pooling: str) -> None:
        self._works = {}
        self._status.update("loading the model…")
        data = self.contrast.remembered.data_dir
        folder = ("--data-dir", str(Path(data).expanduser())) if data else ()
        other_pooling = ("--pooling", pooling) if pooling else ()
        args = ("eval", model, "--suite", ",".join(self.contrast.remembered.suites), *folder, "--json", *other_pooling)
        try:
            done = await processes.run_command(self.contrast.directory, *args, on_progress=self._show_progress)
            self._status.update(done.error or "Done.")
            with contextlib.suppress(msgspec.DecodeError):  # where there is no result, the error says why
                scores = msgspec.json.decode(done.stdout, type=dict[str, Any]).get("suites", {})
                if model == self._model.model:  # results of another pooling are no results of the model
                    before = {} if pooling else self._scores.get("suites", {})
                    await self._show({"suites": {**before, **scores}})
                    self.call_after_refresh(self.query_one("#results").scroll_visible, animate=False, top=True)
        except asyncio.CancelledError:
            self._status.update("Stopped. Suites that were done are kept.")
            raise
        finally:
            self.measuring = None

    def _show_progress(self, event: Progress) -> None:
        """Show the last few kinds of work that report progress."""
        self._works.pop(event.what, None)
        self._works[event.what] = event
        self._status.update(
            "\n".join(
                f"{work.what}  {work.done:,} of {work.total:,}\n{progress_bar(work.done / max(1, work.total))}"
                for work in list(self._works.values())[-_BARS:]
            )
        )

    def watch_measuring(self) -> None:
        self._explain_nothing()

    def _explain_nothing(self) -> None:
        text = _MEASURING if self.measuring else _NOTHING
        self._nothing.update(text if self._model.model else NO_MODEL)

    def clipboard_text(self) -> str:
        shown = suite_tables(self._scores, self._config)
        return "\n\n".join("\n".join([table.suite, table.text, *table.notes, *table.missing]) for table in shown)


def _earlier_scores(directory: Path, model: str) -> tuple[Mapping[str, Any], Config | None]:
    """What was measured of a model before, and its settings, if it is a run."""
    try:
        run = resolve(model, directory).run
        return (run.scores(), run.config()) if run else ({}, None)
    except (ContrastError, OSError):  # a word that means several runs, or one that cannot be read
        return {}, None
