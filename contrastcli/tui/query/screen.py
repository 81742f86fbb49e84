"""Query: how alike two sentences are to a model or two, as one types, and what is nearest in a corpus."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.timer import Timer
from textual.widgets import Input, Label

from contrastcli.tui.model_field import ModelField
from contrastcli.tui.query import query_process as asking
from contrastcli.tui.query.corpus_panel import CorpusPanel
from contrastcli.tui.query.similarity_panel import Answer
from contrastcli.tui.screen import ModeScreen

_PAUSE = 0.2  # seconds without a key before the model is asked


class QueryScreen(ModeScreen):
    """Two sentences, one model or two, and a corpus."""

    mode = "query"
    help_text = (
        "How alike are two sentences? Type them, and the cosine and the angle between them follow as you type: 0° is "
        "the same, 90° unrelated. A second model beside the first shows what training has changed. Below, the "
        "sentences of a file that are nearest to a question.\n\nA model is a run, a folder, or a name on the hub; "
        "where none is named it is CONTRAST_MODEL, else the newest run that has ended."
    )
    CSS_PATH = ["../model_field.tcss", "screen.tcss"]  # noqa: RUF012 - declared so by its base
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "edit('first')", "sentences", tooltip="type the two sentences; Tab goes to the next field"),
        Binding("m", "edit_model", "model", tooltip="choose the model"),
        Binding("b", "second", "beside", tooltip="a second model beside the first, or not"),
        Binding("c", "edit('file')", "corpus", tooltip="choose the file that is searched"),
        Binding("n", "search", "nearest", tooltip="search the corpus"),
    ]

    _pause: Timer | None = None

    def body(self) -> ComposeResult:
        last = self.contrast.remembered
        directory = self.contrast.directory
        with VerticalScroll(id="query", can_focus=False):
            with Vertical(id="sentences"):
                for name, title, text in zip(("first", "second"), ("A", "B"), last.sentences, strict=True):
                    with Horizontal(classes="row"):
                        yield Label(title, classes="name letter")
                        yield Input(text, placeholder="a sentence", id=name, compact=True)
            with Container(id="answers"):
                yield Answer(directory, "Cosine and angle", last.model, id="one")
                yield Answer(directory, "Beside it", last.second_model, id="other")
            yield CorpusPanel(directory, lambda: self._first.field.model, last)

    def on_mount(self) -> None:
        self.query_one("#sentences").border_title = "Two sentences"
        self._second.display = self.contrast.remembered.beside
        self._ask()

    def on_screen_resume(self) -> None:
        for field in self.query(ModelField):
            field.look()

    def choose(self, name: str) -> None:
        """Take a run or model."""
        self._first.field.choose(name)

    @property
    def _first(self) -> Answer:
        return self.query_one("#one", Answer)

    @property
    def _second(self) -> Answer:
        return self.query_one("#other", Answer)

    @property
    def _corpus(self) -> CorpusPanel:
        return self.query_one(CorpusPanel)

    @on(Input.Changed, "#first, #second")
    def _typed(self) -> None:
        if self._sentences == self.contrast.remembered.sentences:
            return  # a field says so when it is made, too
        if self._pause:
            self._pause.stop()
        self._pause = self.set_timer(_PAUSE, self._ask)

    @on(Input.Submitted, "#first, #second")
    def _entered(self) -> None:
        self._ask(again=True)

    def _ask(self, again: bool = False) -> None:
        first, second = self.contrast.remembered.sentences = self._sentences
        for answer in (self._first, self._second):
            if answer.display:
                answer.ask(asking.line(first, second), again)

    @property
    def _sentences(self) -> tuple[str, str]:
        return self.query_one("#first", Input).value, self.query_one("#second", Input).value

    def on_model_field_chosen(self, event: ModelField.Chosen) -> None:
        if event.field is self._first.field:
            self._corpus.rest()
        self.contrast.remembered.model = self._first.field.typed
        self.contrast.remembered.second_model = self._second.field.typed

    def action_edit(self, field: str) -> None:
        """Go to a field."""
        self.query_one(f"#{field}", Input).focus()

    def action_edit_model(self) -> None:
        """Go to the model's field."""
        self._first.field.query_one(Input).focus()

    def action_second(self) -> None:
        """Show a second model, or hide it."""
        self._second.display = self.contrast.remembered.beside = not self._second.display
        if self._second.display:
            self._ask()
        else:
            self._second.rest()

    def action_search(self) -> None:
        """Search the corpus."""
        self._corpus.search()

    def copied(self) -> str:
        """The two sentences, what the models say of them, and the neighbours."""
        answers = [answer.copied() for answer in (self._first, self._second) if answer.display]
        return "\n".join(text for text in (*self._sentences, *answers, self._corpus.copied()) if text)
