"""An angle between two sentences as a picture: two vectors from one point, over half a circle."""

from __future__ import annotations

import math

from contrastcli.show.chart import Canvas
from contrastcli.tui.widgets import PlainText

_WIDTH, _HEIGHT = 28, 7  # characters; a character has twice as many dots down as across
_ARC = 0.35  # radius of the arc between the vectors; they are 1 long


def draw_dial(angle_deg: float) -> str:
    """The rows of the picture: 0° lies to the right, 180° to the left."""
    canvas = Canvas(_WIDTH, _HEIGHT, (-1.0, 1.0), (0.0, 1.0))
    canvas.line(*_arc(1.0, 180.0), 1, "100")
    canvas.line(*_arc(_ARC, angle_deg), 1)
    for angle in (0.0, angle_deg):
        canvas.line((0.0, math.cos(math.radians(angle))), (0.0, math.sin(math.radians(angle))), 1)
    rows = ["".join(text for text, _ in cells).ljust(_WIDTH) for cells in canvas.rows()]
    scale = "180°" + f"{angle_deg:.1f}°".center(_WIDTH - 6) + "0°"
    return "\n".join([*rows, scale])


def _arc(radius: float, angle_deg: float) -> tuple[list[float], list[float]]:
    """x and y of the points of an arc from 0° on."""
    angles = [math.radians(angle_deg) * n / 60 for n in range(61)]
    return [radius * math.cos(angle) for angle in angles], [radius * math.sin(angle) for angle in angles]


class AngleDial(PlainText):
    """Shows an angle; empty until there is one."""

    def __init__(self) -> None:
        super().__init__(classes="dial")

    def show(self, angle_deg: float | None) -> None:
        """Draw this angle, or none."""
        self.update("" if angle_deg is None else draw_dial(angle_deg))
