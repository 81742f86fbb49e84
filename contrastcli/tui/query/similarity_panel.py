"""How similar two sentences are to one model: their cosine, and their angle as a picture."""

import math
from pathlib import Path

import msgspec
from textual import on
from textual.containers import Horizontal
from textual.content import Content
from textual.reactive import reactive

from contrastcli.runs.results import Similarity
from contrastcli.show.canvas import Canvas
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.fields.model_field import NO_MODEL, ModelField
from contrastcli.tui.query.query_panel import QueryPanel
from contrastcli.tui.widgets import FormRow, PlainText, styled

_ARC_RADIUS = 0.35
_MUTED = "$foreground-muted"


def draw_dial(angle_deg: float) -> str:
    """Two vectors from one point, over half a circle: 0° lies to the right, 180° to the left."""
    width, height = 28, 7  # characters are twice as high
    canvas = Canvas(width, height, (-1.0, 1.0), (0.0, 1.0))
    canvas.line(*_arc(1.0, 180.0), 1, "100")
    canvas.line(*_arc(_ARC_RADIUS, angle_deg), 1)
    for angle in (0.0, math.radians(angle_deg)):
        canvas.line((0.0, math.cos(angle)), (0.0, math.sin(angle)), 1)
    rows = ["".join(glyph.text for glyph in row).ljust(width) for row in canvas.rows()]
    scale = "180°" + f"{angle_deg:.1f}°".center(width - 6) + "0°"
    return "\n".join([*rows, scale])


def _arc(radius: float, angle_deg: float) -> tuple[list[float], list[float]]:
    angles = [math.radians(angle_deg) * n / 60 for n in range(61)]
    return [radius * math.cos(angle) for angle in angles], [radius * math.sin(angle) for angle in angles]


class SimilarityPanel(QueryPanel):
    """A model to choose, and its cosine and angle for the sentences asked last; with a `base`, less those of it too."""

    answer: reactive[Similarity | None] = reactive(None, init=False, repaint=False)

    def __init__(self, directory: Path, title: str, model: str, id: str, base: "SimilarityPanel | None" = None) -> None:
        self.field = ModelField(directory, model, id=f"{id}-model")
        numbers = Horizontal(PlainText(classes="message"), PlainText(classes="dial"), classes="similarity")
        super().__init__(directory, title, id, FormRow("Model", self.field), numbers)
        self._line = ""
        self._failed = self._model_known = False
        self._base = base

    def ask(self, line: str, again: bool = False) -> None:
        """Answer this line where it is seen, once the model is known; with `again`, load a model that failed before."""
        self._line = line
        # Before the message that tells the model has come, it would be loaded twice.
        if not (self.display and self._model_known):
            return
        if not self.field.model:
            self.show_message(NO_MODEL)
        elif not line:
            self.show_message("Press s and type two sentences.")
        elif self.asked or again or not self._failed:
            self.ask_process(line, "--model", self.field.model)

    def close_process(self) -> None:
        super().close_process()
        self.answer, self._failed = None, False

    @on(ChoiceField.Changed)
    def _ask_other_model(self) -> None:
        self._model_known = True
        self.close_process()
        self.ask(self._line)

    def process_failed(self, reason: str) -> None:
        self._failed = True
        self.show_message(f"{reason}\nEnter tries again.")

    def show_answer(self, line: str) -> None:
        answer = msgspec.json.decode(line, type=Similarity)
        self.answer = answer if self._line else None

    def watch_answer(self) -> None:
        here, there = self.answer, self._base and self._base.answer
        self.query_one(".dial", PlainText).update(draw_dial(here.angle_deg) if here else "")
        self.border_subtitle = " · ".join(here.cuts) if here else ""
        if here:
            lines = _numbers(here.cosine, here.angle_deg)
            if there and (there.a, there.b) == (here.a, here.b):
                difference = _numbers(here.cosine - there.cosine, here.angle_deg - there.angle_deg, "+")
                lines += ["", styled(("second − first", _MUTED)), *difference]
            self.query_one(".message", PlainText).update(Content("\n").join(lines))

    def show_message(self, text: str) -> None:
        self.answer = None
        super().show_message(text)

    def clipboard_text(self) -> str:
        answer = self.answer
        return f"{answer.cosine:.4f}  {answer.angle_deg:.1f}°  {answer.model}" if answer else ""


def _numbers(cosine: float, angle_deg: float, sign: str = "") -> list[Content | str]:
    angle = styled(("angle ", _MUTED), f"{angle_deg:{sign}10.1f}", ("°", _MUTED))
    return [styled(("cosine", _MUTED), f"{cosine:{sign}10.4f}"), angle]
