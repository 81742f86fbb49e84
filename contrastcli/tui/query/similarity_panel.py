"""What one model says of two sentences."""

from __future__ import annotations

from pathlib import Path

import msgspec
from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Label, Static

from contrastcli.tui.children import Conversation
from contrastcli.tui.model_field import NO_MODEL, ModelField
from contrastcli.tui.query.angle_dial import Dial
from contrastcli.tui.query.query_process import Asker, Pair

BLANK = "Type two sentences above: press s."
LOADING = "loading the model…"


class Answer(Vertical):
    """A model to choose, and its cosine and angle for the sentences that were asked last."""

    def __init__(self, directory: Path, title: str, model: str, id: str) -> None:
        super().__init__(id=id, classes="answer-panel")
        self.border_title = title
        self._directory, self._model = directory, model
        self._question = ""
        self._asker: Asker | None = None
        self._failed = False
        self._said: Pair | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="row"):
            yield Label("Model", classes="name")
            yield ModelField(self._directory, self._model, id=f"{self.id}-model")
        with Horizontal(classes="answered"):
            yield Static(LOADING, classes="words", markup=False)
            yield Dial()

    @property
    def field(self) -> ModelField:
        """The field of its model."""
        return self.query_one(ModelField)

    def ask(self, question: str, again: bool = False) -> None:
        """Answer this line, once the model is there; `again`: also where the model has failed before."""
        self._question = question
        if not self.field.ready:
            return  # it will say which model is meant
        if not self.field.model:
            self._show(NO_MODEL)
        elif not question:
            self._show(BLANK)
        elif self._asker:
            self._asker.ask(question)
        elif again or not self._failed:
            self._converse()

    def rest(self) -> None:
        """Let the model go."""
        self.workers.cancel_node(self)
        self._asker = self._said = None
        self._failed = False

    def on_model_field_chosen(self) -> None:
        self.rest()
        self.ask(self._question)

    @work(exclusive=True)
    async def _converse(self) -> None:
        """Keep a conversation with the model, until it ends or another is meant."""
        conversation = Conversation(self._directory, "query", "-", "--json", "--model", self.field.model)
        self._asker = asker = Asker(conversation, self._hear)
        self._show(LOADING)
        asker.ask(self._question)
        words = await asker.run()
        self._asker, self._failed = None, True
        self._show(f"{words}\nEnter asks again.")

    def _hear(self, line: str) -> None:
        try:
            self._said = msgspec.json.decode(line, type=Pair)
        except msgspec.DecodeError:
            self._show("This model gives no numbers: its training may have diverged.")
        else:
            self._show("" if self._question else BLANK)

    def _show(self, words: str) -> None:
        """Words, or the answer where there are none."""
        said = None if words else self._said
        numbers = f"cosine {said.cosine:9.4f}\nangle {said.angle_deg:8.1f}°" if said else ""
        self.query_one(".words", Static).update(words or numbers)
        self.query_one(Dial).show(said.angle_deg if said else None)

    def copied(self) -> str:
        """The answer as text."""
        said = self._said
        return f"{said.cosine:.4f}  {said.angle_deg:.1f}°  {self.field.model}" if said else ""
