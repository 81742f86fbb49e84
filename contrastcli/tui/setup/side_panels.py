"""What Setup shows next to its form: the curve of the similarity, and the summary of a dry run. No widget is here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from rich.table import Table
from rich.text import Text

from contrastcli.boundary import printable
from contrastcli.runs.results import Preview
from contrastcli.runs.text import duration
from contrastcli.settings.setting import spell
from contrastcli.show.curve import ANGLES, curve
from contrastcli.show.format import size
from contrastcli.show.pictures import Picture, Series
from contrastcli.tui.setup.draft import Draft

CurveView = Literal["value", "gradient", "by_cosine"]

VIEWS: dict[CurveView, tuple[str, str]] = {
    "value": ("similarity of a positive ÷ τ, by angle", "g gradient"),
    "gradient": ("its gradient on the embedding ÷ τ, |∂s/∂z|", "g slope"),
    "by_cosine": ("its slope over the cosine ÷ τ, |ds/dcos|", "g back"),
}
"""The title of a chart, and what the key g shows next."""

_STEEPEST = 4  # times the cosine's slope; the angle's slope, infinite at both ends, is not shown beyond that


def similarity_picture(draft: Draft, view: CurveView) -> Picture:
    """The chosen similarity and the plain cosine with the same temperature; no curve where there is no such choice."""
    title, _ = VIEWS[view]
    if draft.fields["objective.similarity"].off:
        return Picture("similarity", title, "lines", "", "", ())
    flat, margin_field = draft.config.flat(), draft.fields["objective.margin"]
    kind, tau = draft.config.objective.arguments()["similarity"], float(flat.get("objective.tau", 1.0))
    margin = 0.0 if margin_field.off else float(flat["objective.margin"])
    own, plain = (getattr(one, view) for one in (curve(kind, margin, tau), curve("cosine", 0.0, tau)))
    unit = "°" if margin_field.unit == "degrees" else ""
    series = [Series(f"{kind}, margin {spell(margin)}{unit}" if margin else kind, ANGLES, own, ink=1)]
    if own != plain:
        series.append(Series("plain cosine", ANGLES, plain, ink=5))
    y_range = None
    if view != "value":
        top = max(value for value in (*own, *plain) if math.isfinite(value))
        y_range = 0.0, 1.08 * (min(top, _STEEPEST / tau) if view == "by_cosine" else top)
    return Picture("similarity", title, "lines", "degrees", "", tuple(series), x_range=(0, 180), y_range=y_range)


def summary(preview: Preview, dev: str) -> Table:
    """What a run would do that is scored on this dev set."""
    time = "time unknown" if preview.seconds is None else f"about {duration(preview.seconds)}"
    negatives = f"{preview.negatives_per_anchor:,} negatives per anchor"
    pairs, disk = f"{preview.dev} of {dev}", f"about {size(preview.disk or 0)} of checkpoints"
    return _table(
        [
            ("steps", f"{preview.steps:,}, {preview.steps_per_epoch:,} per epoch; {time}"),
            ("step", f"{preview.sentences_per_step:,} sentences, {negatives}"),
            ("rows", f"{preview.count:,}"),
            ("dev", pairs if preview.dev_pairs else "none: the last checkpoint counts as the best"),
            ("disk", "known once the backbone is downloaded" if preview.disk is None else disk),
            *([("GPU", f"about {preview.memory} GB of memory")] if preview.memory else []),
            *(("note", note) for note in preview.notes),
        ]
    )


def first_rows(preview: Preview) -> Table:
    """The first rows of the data, a line for each role."""
    return _table([(role, " ".join(text.split())) for row in preview.rows for role, text in row.items()])


def _table(pairs: Sequence[tuple[str, str]]) -> Table:
    """Names, and next to each its text, which wraps in its own column."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in pairs:
        table.add_row(Text(name), Text(printable(text)))
    return table
