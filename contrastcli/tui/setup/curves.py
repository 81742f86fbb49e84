"""The charts of Setup: what the similarity makes of an angle and how hard it pulls there, against the plain cosine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from contrastcli.settings.setting import spell
from contrastcli.show.chart import Chart, Line
from contrastcli.show.curve import ANGLES, Curve, curve
from contrastcli.tui.setup.draft import Draft

View = Literal["value", "pull", "by_cosine"]

TITLES: dict[View, str] = {
    "value": "a positive's similarity ÷ τ, by angle",
    "pull": "its pull on the embedding ÷ τ, |∂s/∂z|",
    "by_cosine": "its slope by the cosine ÷ τ, |ds/dcos|",
}

NEXT: dict[View, str] = {"value": "g its pull", "pull": "g its slope", "by_cosine": "g back"}
"""What the key for the gradient shows next."""

_STEEPEST = 4
"""Times the cosine's slope, beyond which the angle's, infinite at both ends, is not shown."""


@dataclass(frozen=True)
class Compared:
    """A similarity with its margin and temperature."""

    kind: str
    margin: float
    unit: str
    tau: float

    def chart(self, view: View) -> Chart:
        """It and the plain cosine with the same temperature, over the angles in degrees."""
        own, plain = (getattr(found, view) for found in (self._curve(), curve("cosine", 0.0, self.tau)))
        lines = [Line(self._name, ANGLES, own, ink=1)]
        if own != plain:
            lines.append(Line("plain cosine", ANGLES, plain, ink=5))
        return Chart(tuple(lines), x_label="degrees", x_range=(0, 180), y_range=_range(view, [*own, *plain], self.tau))

    def _curve(self) -> Curve:
        return curve(self.kind, self.margin, self.tau)

    @property
    def _name(self) -> str:
        if not self.margin:
            return self.kind
        return f"{self.kind}, margin {spell(self.margin)}{'°' if self.unit == 'degrees' else ''}"


def _range(view: View, values: Sequence[float], tau: float) -> tuple[float, float] | None:
    if view == "value":
        return None
    top = max(value for value in values if math.isfinite(value))
    return 0.0, 1.08 * (min(top, _STEEPEST / tau) if view == "by_cosine" else top)


def compared(draft: Draft) -> Compared | None:
    """What the draft compares sentences by; None where there is no such choice."""
    similarity = draft.fields["objective.similarity"]
    if similarity.off:
        return None
    margin, flat = draft.fields["objective.margin"], draft.config.flat()
    return Compared(
        kind=str(flat["objective.similarity"]),
        margin=0.0 if margin.off else float(flat["objective.margin"]),
        unit=margin.unit,
        tau=float(flat.get("objective.tau", 1.0)),
    )
