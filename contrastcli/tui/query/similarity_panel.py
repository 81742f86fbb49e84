"""What one model says of two sentences."""

from __future__ import annotations

from pathlib import Path

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from contrastcli.runs.results import Similarity
from contrastcli.tui.choice_field import ChoiceField
from contrastcli.tui.model_field import NO_MODEL, ModelField
from contrastcli.tui.query.angle_dial import AngleDial
from contrastcli.tui.query.query_panel import QueryPanel
from contrastcli.tui.widgets import FormRow, PlainText

BLANK = "Press s and type two sentences."


class SimilarityPanel(QueryPanel):
    """A model to choose, and its cosine and angle for the sentences that were asked last."""

    def __init__(self, directory: Path, title: str, model: str, id: str) -> None:
        super().__init__(directory, title, id)
        self.field = ModelField(directory, model, id=f"{id}-model")
        self._line = ""
        self._failed = False
        self._answer: Similarity | None = None

    def compose(self) -> ComposeResult:
        yield FormRow("Model", self.field)
        with Horizontal(classes="similarity"):
            yield PlainText(classes="message")
            yield AngleDial()

    def ask(self, line: str, again: bool = False) -> None:
        """Answer this line once the model is there; with `again`, load a model that failed before."""
        self._line = line
        if not self.field.ready:
            return  # `Changed` follows
        if not self.field.model:
            self.show_message(NO_MODEL)
        elif not line:
            self.show_message(BLANK)
        elif self._process or again or not self._failed:
            self.ask_process(line, "--model", self.field.model)

    def close_process(self) -> None:
        super().close_process()
        self._answer, self._failed = None, False

    @on(ChoiceField.Changed)
    def _ask_other_model(self) -> None:
        self.close_process()
        self.ask(self._line)

    def process_failed(self, reason: str) -> None:
        self._failed = True
        self.show_message(f"{reason}\nEnter tries again.")

    def take_answer(self, line: str) -> None:
        self._answer = answer = msgspec.json.decode(line, type=Similarity)
        if self._line:  # else the sentences were erased in the meantime
            self.show_message(f"cosine {answer.cosine:9.4f}\nangle {answer.angle_deg:8.1f}°", answer.angle_deg)

    def show_message(self, text: str, angle_deg: float | None = None) -> None:
        super().show_message(text)
        self.query_one(AngleDial).show(angle_deg)

    def clipboard_text(self) -> str:
        """The answer as text."""
        answer = self._answer
        return f"{answer.cosine:.4f}  {answer.angle_deg:.1f}°  {answer.model}" if answer else ""
