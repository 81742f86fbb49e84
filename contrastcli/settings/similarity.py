"""Similarities of embeddings, for training, settings and curves: each is one object in `SIMILARITIES`.

Nothing here imports torch: formulas on tensors use methods of the tensors.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contrastcli.settings.setting import Bounds, spell

if TYPE_CHECKING:
    from torch import Tensor

COSINE_LIMIT = 1 - 1e-6
"""|cos| inside arccos is clamped to this, which bounds the slope, infinite at ±1, by about 707."""

NO_MARGIN = Bounds(0, 0)


@dataclass(frozen=True)
class Similarity:
    """A similarity of unit vectors, with a margin for positives in the unit of `margin`."""

    name: str
    formula: str
    """The similarity of a positive at the angle θ with the margin m."""
    source: str
    """The paper and its equation."""
    from_cosine: "Callable[[Tensor, float], Tensor]"
    """From cosines of any shape and a margin to similarities of positives, in training."""
    value: Callable[[float, float], float]
    """From an angle in radians and a margin to the similarity of a positive, for the curve."""
    slope: Callable[[float, float], float]
    """|ds/dθ| at the same arguments: the length of the gradient at a unit embedding."""
    margin: Bounds = NO_MARGIN
    """Limits and unit of the margin."""

    default_margin: float = 0.0
    of_width: "Callable[[float], Similarity] | None" = None
    """The same similarity with another width σ; None where it has none."""

    def with_width(self, sigma: float) -> "Similarity":
        """The same similarity with that width, where it has one."""
        return self.of_width(sigma) if self.of_width else self


def _arccos(cosine: "Tensor") -> "Tensor":
    return cosine.clamp(-COSINE_LIMIT, COSINE_LIMIT).arccos()


def _arc(cosine: "Tensor", margin: float) -> "Tensor":
    return (_arccos(cosine) + math.radians(margin)).clamp(0, math.pi).cos() if margin else cosine


def _clipped(theta: float, margin: float) -> float:
    """The angle whose cosine `arc` is."""
    return min(max(theta + math.radians(margin), 0.0), math.pi)


def _rbf(sigma: float) -> Similarity:
    square = sigma * sigma
    return Similarity(
        name="rbf" if sigma == 1 else f"rbf:{spell(sigma)}",
        formula="exp((cos θ − 1) / σ²)",
        source="SimACE, Eq. 15, between unit vectors, for which ‖a − b‖² is 2 − 2 cos θ",
        from_cosine=lambda cosine, margin: ((cosine - 1) / square).exp(),
        value=lambda theta, margin: math.exp((math.cos(theta) - 1) / square),
        slope=lambda theta, margin: math.sin(theta) / square * math.exp((math.cos(theta) - 1) / square),
        of_width=_rbf,
    )


SIMILARITIES: dict[str, Similarity] = {
    similarity.name: similarity
    for similarity in (
        Similarity(
            name="angle",
            formula="π/2 − θ − m",
            source="SimACE, Eq. 7-9",
            from_cosine=lambda cosine, margin: math.pi / 2 - _arccos(cosine) - math.radians(margin),
            value=lambda theta, margin: math.pi / 2 - theta - math.radians(margin),
            slope=lambda theta, margin: 1.0,
            margin=Bounds(-180, 180, "degrees"),
            default_margin=10.0,
        ),
        Similarity(
            name="arc",
            formula="cos(θ + m), with θ + m between 0 and π",
            source="ArcCon of ArcCSE",
            from_cosine=_arc,
            value=lambda theta, margin: math.cos(_clipped(theta, margin)),
            slope=lambda theta, margin: math.sin(_clipped(theta, margin)),
            margin=Bounds(-180, 180, "degrees"),
            default_margin=10.0,
        ),
        Similarity(
            name="cosine",
            formula="cos θ − m",
            source="SimCSE, which has no margin",
            from_cosine=lambda cosine, margin: cosine - margin,
            value=lambda theta, margin: math.cos(theta) - margin,
            slope=lambda theta, margin: math.sin(theta),
            margin=Bounds(-2, 2, "cosine"),
        ),
        _rbf(1.0),
    )
}
