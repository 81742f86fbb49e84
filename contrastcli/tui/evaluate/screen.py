"""Evaluate: measure a run or a model in a process of its own, and see the result next to the papers' rows."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, ClassVar, get_args

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Checkbox

from contrastcli.errors import ContrastError
from contrastcli.evaluation.suites import OWN, all_suites
from contrastcli.model.locate import resolve
from contrastcli.runs.directory import Run
from contrastcli.runs.scores import read_scores
from contrastcli.settings.config import Config
from contrastcli.settings.sections import Pooling
from contrastcli.show import pictures
from contrastcli.show.scores import suite_tables
from contrastcli.tui import processes
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.evaluate import viewer
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.fields.columns import ColumnsField
from contrastcli.tui.fields.completion import complete_data, complete_path, data_files
from contrastcli.tui.fields.model_field import NO_MODEL, ModelField
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.state import Project
from contrastcli.tui.widgets import FormRow, PlainText, hidden_key

_POLL_SECONDS = 1.0
_NOTHING = "This model has not been evaluated here. Choose suites and press s."
_NO_PICTURE = pictures.Picture("", "Not measured", "points", "", "", ())
_MEASURING = "A row appears here as soon as a task is measured."


@dataclass(frozen=True)
class Measured:
    """What was measured of a model with a pooling, the model's own where empty; and the settings, if it is a run."""

    model: str = ""
    pooling: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict)
    config: Config | None = None


class SuiteBox(Checkbox):
    """A checkbox whose state is seen without colour too; arrow keys go from one to the next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("down", "step(1)", "next suite", "to the next suite"),
        hidden_key("up", "step(-1)", "previous suite", "to the previous suite"),
    ]

    @property
    def BUTTON_INNER(self) -> str:  # type: ignore[override]
        return "X" if self.value else " "

    def action_step(self, by: int) -> None:
        (self.screen.focus_next if by > 0 else self.screen.focus_previous)(SuiteBox)


class OwnData(Vertical):
    """The file that the suite own measures, and what its columns hold."""

    def __init__(self, directory: Path, project: Project) -> None:
        what, blank = "A file of pairs, scored or not, or of triplets", "none chosen"
        file = ChoiceField(what, data_files, project.own_data, blank=blank, complete=complete_data, id="own_data")
        self.columns = ColumnsField(directory, project, lambda: project.own_data)
        super().__init__(FormRow("Own data", file), FormRow("Columns", self.columns))
        self.display = OWN.name in project.suites


class EvaluateScreen(ModeScreen):
    """Which suites to run on which model, their progress, and the results."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - so that no column of a table is cut
    mode = "evaluate"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "start", "start", tooltip="evaluate the ticked suites"),
        Binding("x", "stop", "stop", tooltip="stop the evaluation; what is measured is kept"),
        Binding("m", "open_list('model')", "model", tooltip="choose the model"),
        Binding("t", "edit('sts')", "suites", tooltip="go to the suites; Space ticks"),
        Binding("d", "open_list('data_dir')", "data", tooltip="choose the folder of the data"),
        hidden_key("f", "open_list('own_data')", "own data", "choose a file of your own, for the suite own"),
        Binding("p", "open_list('pooling')", "pooling", tooltip="choose another pooling than the model's own"),
        hidden_key("o", "open", "open pictures", "open the pictures in print quality with the system's viewer"),
        hidden_key("pagedown", "scroll(1)", "results down", "down in the results"),
        hidden_key("pageup", "scroll(-1)", "results up", "up in the results"),
        hidden_key("down", "scroll(0.1)", "a line down", "a little down in the results"),
        hidden_key("up", "scroll(-0.1)", "a line up", "a little up in the results"),
        hidden_key("end", "scroll(1000)", "end of the results", "to the end of the results"),
        hidden_key("home", "scroll(-1000)", "start of the results", "to the start of the results"),
        hidden_key("right", "scroll_tables(8)", "tables right", "right in tables that are wider than the screen"),
        hidden_key("left", "scroll_tables(-8)", "tables left", "left in the tables"),
    ]

    measuring: reactive[tuple[str, str] | None] = reactive(None, init=False, repaint=False, bindings=True)
    """The model and the pooling that are being measured."""
    _measured = Measured()

    def body(self) -> ComposeResult:
        last = self.contrast.project
        self._status, self._nothing = PlainText(id="status"), PlainText(id="nothing")
        last.suites = tuple(name for name in last.suites if name in all_suites())
        self._model = ModelField(self.contrast.directory, "", id="model")
        self._pooling = ChoiceField(
            "Pooling: how a text becomes one vector",
            lambda: [("", ""), *((pooling, "") for pooling in get_args(Pooling))],
            blank="the model's own",
            steps=True,
            id="pooling",
        )
        self._own = OwnData(self.contrast.directory, last)
        data = ChoiceField(
            "The folder of the data: SentEval's, or one with folders such as STS",
            lambda: [("", "")],
            last.data_dir,
            blank=os.environ.get("CONTRAST_SENTEVAL") or "the hub",
            complete=complete_path,
            id="data_dir",
        )
        with VerticalScroll(id="evaluate", can_focus=False):
            with Vertical(id="choices") as form:
                form.border_title = "Suites"
                yield FormRow("Model", self._model)
                with FormRow("Suites"), Container(id="suites"):
                    for name, suite in all_suites().items():
                        yield SuiteBox(f"{name:<10}  {suite.about}", name in last.suites, id=name, compact=True)
                yield FormRow("Data", data)
                yield self._own
                yield FormRow("Pooling", self._pooling)
                yield self._status
            with VerticalScroll(id="results") as results:
                results.border_title, results.border_subtitle = "Results", "PgDn PgUp ← → scroll"
                yield self._nothing
                yield Vertical(id="tables")
                with Container(id="pictures"):
                    yield ChartView("measured by the suite geometry", "Angles, % of pairs", id="angles")
                    yield ChartView("measured by the suite geometry", "Sentences in a plane", id="plane")

    def on_mount(self) -> None:
        self._is_due = asyncio.Event()  # to look for scores
        self.set_interval(_POLL_SECONDS, self._is_due.set)
        self._follow_scores()

    def choose(self, run: Run) -> None:
        self._model.choose_run(run)

    @on(ChoiceField.Changed)
    def _follow_choice(self) -> None:
        if not self.measuring:
            self._status.update("")
        self._is_due.set()

    @work(group="scores")
    async def _follow_scores(self) -> None:
        """Show scores that are new, also those that another process has measured."""
        shown: Measured | None = None
        while True:
            if self.is_current and self._model.ready:
                words = self._model.model, self._pooling.value
                measured = await asyncio.to_thread(read_measured, self.contrast.directory, *words)
                if measured != shown:
                    await self._show(shown := measured)
            await self._is_due.wait()
            self._is_due.clear()

    async def _show(self, measured: Measured) -> None:
        self._measured, scores = measured, measured.scores
        shown = suite_tables(scores, measured.config)
        self._explain_nothing()
        self._nothing.display = not shown
        title = f"Results of {_named(measured.model, measured.pooling)}" if shown else "Results"
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
        self.query_one("#pictures").display = bool(drawn) or "geometry" in self.contrast.project.suites
        for view, picture in zip_longest(self.query(ChartView), drawn):
            view.show(picture or _NO_PICTURE)

    @on(Checkbox.Changed)
    def _remember_suites(self) -> None:
        self.contrast.project.suites = tuple(box.id for box in self.query(SuiteBox) if box.value and box.id)
        self._own.display = OWN.name in self.contrast.project.suites

    @on(ChoiceField.Changed, "#data_dir, #own_data")
    def _remember_data(self, event: ChoiceField.Changed) -> None:
        setattr(self.contrast.project, str(event.field.id), event.value)
        if event.field.id == "own_data":
            self._own.columns.recall()
            self.query_one(f"#{OWN.name}", SuiteBox).value = bool(event.value)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("start", "stop"):
            return (self.measuring is None) == (action == "start")
        if action == "open":
            return any(not view.picture.empty for view in self.query(ChartView))
        return super().check_action(action, parameters)

    def action_start(self) -> None:
        if not self._model.model:
            self._status.update(NO_MODEL)
        elif not self.contrast.project.suites:
            self._status.update("Tick a suite first: t goes to the suites, Space ticks.")
        elif OWN.name in self.contrast.project.suites and not self.contrast.project.own_data:
            self._status.update("Choose your own data first: f, or untick own.")
        else:
            self.measuring = self._model.model, self._pooling.value
            self._measure(*self.measuring)

    def action_stop(self) -> None:
        self.workers.cancel_group(self, "evaluation")

    @work(group="evaluation")
    async def _measure(self, model: str, pooling: str) -> None:
        def tell(text: str) -> None:
            self._status.update(f"{_named(model, pooling)}: {text}")

        tell("loading the model…")
        last = self.contrast.project
        folder, file = map(os.path.expanduser, (last.data_dir, last.own_data))
        words = {"--suite": ",".join(last.suites), "--data-dir": folder, "--pooling": pooling}
        if OWN.name in last.suites:
            words |= {"--data": file, "--columns": self._own.columns.value}
        args = ("eval", model, *chain.from_iterable(word for word in words.items() if word[1]), "--json")
        try:
            done = await processes.run_command(self.contrast.directory, *args, on_progress=tell)
            tell(done.error or "Done.")
            if (self._model.model, self._pooling.value) == (model, pooling):  # still
                self.query_one("#results").scroll_visible(animate=False, top=True)
        except asyncio.CancelledError:
            tell("Stopped. What was measured is kept, and s continues.")
            raise
        finally:
            self.measuring = None

    @work(group="open", exclusive=True)
    async def action_open(self) -> None:
        shown = [view.picture for view in self.query(ChartView) if not view.picture.empty]
        self.notify(await asyncio.to_thread(viewer.open_pictures, shown, self._measured.model), markup=False)

    def action_scroll(self, pages: float) -> None:
        """Scroll the results: in their own panel, and where it is narrow the whole screen."""
        for place in (self.query_one("#results"), self.query_one("#evaluate")):
            place.scroll_relative(y=round(pages * place.size.height), animate=False)

    def action_scroll_tables(self, columns: int) -> None:
        self.query_one("#tables").scroll_relative(x=columns, animate=False)

    def watch_measuring(self) -> None:
        self._explain_nothing()
        self._is_due.set()

    def _explain_nothing(self) -> None:
        is_measuring = self.measuring == (self._measured.model, self._measured.pooling)
        text = _MEASURING if is_measuring else _NOTHING
        self._nothing.update(text if self._model.model else NO_MODEL)

    def clipboard_text(self) -> str:
        shown = suite_tables(self._measured.scores, self._measured.config)
        return "\n\n".join("\n".join([table.suite, table.text, *table.notes, *table.missing]) for table in shown)


def _named(model: str, pooling: str) -> str:
    return f"{model}, pooling {pooling}" if pooling else model


def read_measured(directory: Path, model: str, pooling: str) -> Measured:
    """What was measured of a model by now."""
    try:
        ref = resolve(model, directory)
        return Measured(model, pooling, read_scores(ref.scores_path(pooling)), ref.run.config() if ref.run else None)
    except (ContrastError, OSError):  # ambiguous, or not to be read
        return Measured(model, pooling)
