"""What the suite geometry has measured, as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contrastcli.show.chart import Chart, Line, staircase
from contrastcli.tui.widgets import NEGATIVE, POSITIVE


@dataclass(frozen=True)
class Geometry:
    """How sentences lie: shares of pairs, in per cent, in 5° bins; and their places in a plane."""

    source: str
    positive: Sequence[float]
    negative: Sequence[float]
    points: Sequence[Sequence[float]]
    explained: float

    @property
    def angles(self) -> Chart:
        """The histograms of the angles."""
        edges = [180 / len(self.positive) * n for n in range(len(self.positive) + 1)]
        positive = Line("positive pairs", *staircase(edges, self.positive), POSITIVE)
        negative = Line("random pairs", *staircase(edges, self.negative), NEGATIVE)
        return Chart((positive, negative), x_label="degrees", x_range=(0.0, 180.0))

    @property
    def plane(self) -> Chart:
        """The sentences as points."""
        x, y = [point[0] for point in self.points], [point[1] for point in self.points]
        return Chart((Line("", x, y, joined=False),))


def geometry(scores: Mapping[str, Any]) -> Geometry | None:
    """What the suite geometry has measured, if it has."""
    for name, entry in scores.get("suites", {}).get("geometry", {}).items():
        if isinstance(entry, Mapping) and entry.get("positive_histogram"):
            counts = (entry["positive_histogram"], entry["negative_histogram"])
            positive, negative = ([100 * n / max(1, sum(found)) for n in found] for found in counts)
            return Geometry(name, positive, negative, entry["pca"], 100 * sum(entry["explained"]))
    return None
