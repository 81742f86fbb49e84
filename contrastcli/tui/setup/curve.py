"""The curves of the chosen similarity, which Setup shows next to its form."""

import math

from textual.containers import Vertical

from contrastcli.settings.setting import spell
from contrastcli.settings.similarity import SIMILARITIES
from contrastcli.show.curve import ANGLES, curve
from contrastcli.show.pictures import Picture, Series
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.widgets import PlainText, after

VIEWS = {
    "value": ("similarity of positives ÷ τ", "g gradient"),
    "gradient": ("its gradient ÷ τ, |∂s/∂z|", "g slope"),
    "by_cosine": ("its slope ÷ τ, |ds/dcos|", "g back"),
}
"""The title of a chart, and what the key g shows next."""

_STEEPEST = 4
"""In slopes of the cosine: the angle's slope, infinite at both ends, is not shown beyond that."""

_LEAST_TAU = 1e-300
"""Divided by less, a similarity, its slope or a scale of them is beyond all floats."""


class SimilarityCurves(Vertical):
    """The curve and its gradient, or why there are none. Where there is room for one alone, `view` says which."""

    def __init__(self) -> None:
        self._why_none = PlainText(id="no-curve", classes="muted")
        self._charts = [ChartView(title=VIEWS[name][0], id=name) for name in ("value", "gradient")]
        super().__init__(self._why_none, *self._charts, id="curves")
        self.view = "value"

    def show(self, draft: Draft) -> None:
        tau = float(draft.config.flat().get("objective.tau", 1.0))
        off = draft.fields["objective.similarity"].off or ("" if tau >= _LEAST_TAU else "too large at this τ")
        self._why_none.update(f"no curve – similarity: {off}")
        self.set_class(bool(off), "-none").set_class(self.view != "value", "-gradient")
        below = "gradient" if self.view == "value" else self.view
        for chart, view in zip(self._charts, ("value", below), strict=True) if not off else ():
            chart.border_subtitle = VIEWS[view][1]
            chart.show(similarity_picture(draft, view))

    def show_next(self, draft: Draft, with_value: bool) -> None:
        views = [view for view in VIEWS if with_value or view != "value"]
        self.view = after(self.view if self.view in views else "gradient", views)
        self.show(draft)


def similarity_picture(draft: Draft, view: str) -> Picture:
    """The chosen similarity and the plain cosine with the same temperature."""
    flat, margin_field = draft.config.flat(), draft.fields["objective.margin"]
    title = VIEWS[view][0] if "objective.tau" in flat else VIEWS[view][0].replace(" ÷ τ", "")
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
