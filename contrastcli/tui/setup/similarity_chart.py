"""The charts of Setup: the similarity of a positive by its angle, and its gradients, against the plain cosine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from contrastcli.settings.setting import spell
from contrastcli.show.curve import ANGLES, curve
from contrastcli.show.pictures import Picture, Series
from contrastcli.tui.setup.draft import Draft

View = Literal["value", "pull", "by_cosine"]

TITLES: dict[View, str] = {
    "value": "similarity of a positive ÷ τ, by angle",
    "pull": "its gradient on the embedding ÷ τ, |∂s/∂z|",
    "by_cosine": "its slope over the cosine ÷ τ, |ds/dcos|",
}

NEXT: dict[View, str] = {"value": "g gradient", "pull": "g slope", "by_cosine": "g back"}
"""What the key g shows next."""

_STEEPEST = 4
"""Times the cosine's slope, beyond which the angle's, infinite at both ends, is not shown."""


def similarity_picture(draft: Draft, view: View) -> Picture:
    """The chosen similarity and the plain cosine with the same temperature; no curve where there is no such choice."""
    if draft.fields["objective.similarity"].off:
        return Picture("similarity", TITLES[view], "lines", "", "", ())
    flat, margin_field = draft.config.flat(), draft.fields["objective.margin"]
    kind, tau = str(flat["objective.similarity"]), float(flat.get("objective.tau", 1.0))
    margin = 0.0 if margin_field.off else float(flat["objective.margin"])
    own, plain = (getattr(one, view) for one in (curve(kind, margin, tau), curve("cosine", 0.0, tau)))
    unit = "°" if margin_field.unit == "degrees" else ""
    series = [Series(f"{kind}, margin {spell(margin)}{unit}" if margin else kind, ANGLES, own, ink=1)]
    if own != plain:
        series.append(Series("plain cosine", ANGLES, plain, ink=5))
    y_range = _y_range(view, [*own, *plain], tau)
    return Picture("similarity", TITLES[view], "lines", "degrees", "", tuple(series), x_range=(0, 180), y_range=y_range)


def _y_range(view: View, values: Sequence[float], tau: float) -> tuple[float, float] | None:
    if view == "value":
        return None
    top = max(value for value in values if math.isfinite(value))
    return 0.0, 1.08 * (min(top, _STEEPEST / tau) if view == "by_cosine" else top)
