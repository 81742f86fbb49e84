"""Query: how alike two sentences are to one model or two, as one types, and what is nearest in a corpus."""

import asyncio
from contextlib import suppress
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.widgets import Input

from contrastcli.errors import ContrastError
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import MOST_PROBES
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.query.corpus_panel import CorpusPanel
from contrastcli.tui.query.query_panel import query_line
from contrastcli.tui.query.similarity_panel import SimilarityPanel
from contrastcli.tui.screen import ModeScreen
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.widgets import FormRow, LineInput, hidden_key

PAUSE_SECONDS = 0.2  # without a key


class QueryScreen(ModeScreen):
    """Two sentences, one model or two, and a corpus."""

    mode = "query"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "edit('first')", "sentences", tooltip="type the two sentences; Tab goes to the next field"),
        Binding("m", "open_list('one-model')", "model", tooltip="choose the model"),
        Binding("b", "second_model", "second model", tooltip="show or hide a second model"),
        Binding("c", "open_list('file')", "corpus", tooltip="choose the file that is searched"),
        Binding("n", "edit('question')", "question", tooltip="type a question to the corpus; Enter searches"),
        Binding("x", "stop", "stop", tooltip="stop the search of the corpus"),
        hidden_key("P", "probe", "probe", "have the next training measure the two sentences at each evaluation"),
    ]

    def body(self) -> ComposeResult:
        last, directory = self.contrast.project, self.contrast.directory
        self._first = SimilarityPanel(directory, "Cosine and angle", last.model, id="one")
        self._second = SimilarityPanel(directory, "Second model", last.second_model, "other", self._first)
        self._second.display = last.show_second_model
        self._corpus = CorpusPanel(directory, lambda: self._first.field.model, last)
        with VerticalScroll(id="query", can_focus=False):
            with Vertical(id="sentences", classes="query-panel") as sentences:
                sentences.border_title = "Two sentences"
                for name, title, text in zip(("first", "second"), ("A", "B"), last.sentences, strict=True):
                    yield FormRow(title, LineInput(text, placeholder="a sentence", id=name, compact=True))
            with Container(id="answers"):
                yield self._first
                yield self._second
            yield self._corpus

    def on_mount(self) -> None:
        self.watch(self._first, "answer", self._second.watch_answer, init=False)
        self._ask()

    def choose(self, run: Run) -> None:
        self._first.field.choose_run(run)
        self._propose_data(run)

    @work(group="data", exclusive=True)
    async def _propose_data(self, run: Run) -> None:
        with suppress(ContrastError):
            self._corpus.propose((await asyncio.to_thread(run.config)).data)

    @on(Input.Changed, "#first, #second")
    @work(group="ask", exclusive=True)
    async def _ask_after_pause(self) -> None:
        # A field posts this when it is made, too.
        if self._sentences != self.contrast.project.sentences:
            await asyncio.sleep(PAUSE_SECONDS)
            self._ask()

    @on(Input.Submitted, "#first, #second")
    def _ask_again(self, event: Input.Submitted) -> None:
        self._ask(again=True)
        if event.input.id == "first":
            self.query_one("#second").focus()

    def _ask(self, again: bool = False) -> None:
        self.contrast.project.sentences = self._sentences
        for panel in (self._first, self._second):
            panel.ask(query_line(*self._sentences), again)

    @property
    def _sentences(self) -> tuple[str, str]:
        return self.query_one("#first", Input).value, self.query_one("#second", Input).value

    @on(ChoiceField.Changed)
    def _remember_models(self, event: ChoiceField.Changed) -> None:
        if event.field is self._first.field:
            self._corpus.close_process()
        self.contrast.project.model = self._first.field.value
        self.contrast.project.second_model = self._second.field.value

    def action_second_model(self) -> None:
        self._second.display = self.contrast.project.show_second_model = not self._second.display
        if self._second.display:
            self.call_after_refresh(self._second.scroll_visible, animate=False)
            self._ask()
        else:
            self._second.close_process()

    @work
    async def action_probe(self) -> None:
        """Add the two sentences to the probes of what Setup trains next."""
        new = self._sentences
        draft = await asyncio.to_thread(Draft, *self.contrast.project.draft)
        pairs = [pair for pair in draft.config.dev.probe_pairs if pair != new] + [new]
        draft.type("dev.probes", "; ".join(map(" | ".join, pairs[-MOST_PROBES:])))
        if wrong := draft.fields["dev.probes"].wrong or "a ; begins the next pair" * (";" in "".join(new)):
            self.contrast.fail(f"these are no probe: {wrong}")
            return
        self.contrast.project.draft = draft.preset, draft.typed
        dropped = "".join(f"\nno longer: {' | '.join(pair)}" for pair in pairs[:-MOST_PROBES])
        added = f"probe {min(len(pairs), MOST_PROBES)} of the next training, which 1 sets up: {' | '.join(new)}"
        self.app.notify(f"{added}{dropped}", markup=False)

    def action_stop(self) -> None:
        self._corpus.close_process()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._corpus.waiting if action == "stop" else super().check_action(action, parameters)

    def clipboard_text(self) -> str:
        answers = [panel.clipboard_text() for panel in (self._first, self._second) if panel.display]
        return "\n".join(text for text in (*self._sentences, *answers, self._corpus.clipboard_text()) if text)
