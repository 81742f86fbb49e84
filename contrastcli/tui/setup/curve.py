"""The curves of the chosen similarity, which Setup shows next to its form."""

import math

from contrastcli.settings.setting import spell
from contrastcli.settings.similarity import SIMILARITIES
from contrastcli.show.curve import ANGLES, curve
from contrastcli.show.pictures import Picture, Series
from contrastcli.tui.setup.draft import Draft

VIEWS = {
    "value": ("similarity of a positive ÷ τ, by angle", "g gradient"),
    "gradient": ("its gradient on the embedding ÷ τ, |∂s/∂z|", "g slope"),
    "by_cosine": ("its slope over the cosine ÷ τ, |ds/dcos|", "g back"),
}
"""The title of a chart, and what the key g shows next."""

_STEEPEST = 4
"""In slopes of the cosine: the angle's slope, infinite at both ends, is not shown beyond that."""


def similarity_picture(draft: Draft, view: str) -> Picture:
    """The chosen similarity and the plain cosine with the same temperature; no curve where there is no such choice."""
    title, _ = VIEWS[view]
    if draft.fields["objective.similarity"].off:
        return Picture("similarity", title, "lines", "", "", ())
    flat, margin_field = draft.config.flat(), draft.fields["objective.margin"]
    similarity, tau = draft.config.objective.arguments()["similarity"], float(flat.get("objective.tau", 1.0))
    margin = 0.0 if margin_field.off else float(flat["objective.margin"])
    curves = curve(similarity, margin, tau), curve(SIMILARITIES["cosine"], 0.0, tau)
    own, plain = (getattr(one, view) for one in curves)
    unit = "°" if margin_field.unit == "degrees" else ""
    name = similarity.name
    series = [Series(f"{name}, margin {spell(margin)}{unit}" if margin else name, ANGLES, own, ink=1)]
    if own != plain:
        series.append(Series("plain cosine", ANGLES, plain, ink=5))
    y_range = None
    if view != "value":
        top = max(value for value in (*own, *plain) if math.isfinite(value))
        y_range = 0.0, 1.08 * (min(top, _STEEPEST / tau) if view == "by_cosine" else top)
    return Picture("similarity", title, "lines", "degrees", "", tuple(series), x_range=(0, 180), y_range=y_range)
