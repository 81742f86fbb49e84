"""What embeddings are compared by: each similarity is one object of `SIMILARITIES`, for training, settings and curves.

Another similarity is another object. Nothing here imports torch: formulas on tensors use the tensors' own methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contrastcli.settings.setting import Bounds

if TYPE_CHECKING:
    from torch import Tensor

COSINE_LIMIT = 1 - 1e-6
"""|cos| inside arccos stays below this, which bounds arccos's slope, infinite at ±1, at about 707."""

NO_MARGIN = Bounds(0, 0)


@dataclass(frozen=True)
class Similarity:
    """A similarity of unit vectors and the margin of its positives. Margins are in the unit of `margin`."""

    name: str
    formula: str
    """The similarity of a positive at the angle θ, with the margin m."""

    source: str
    """The paper and its equation."""

    from_cosine: Callable[[Tensor, float], Tensor]
    """The similarity of cosines of any shape, as a positive with that margin; in training."""

    value: Callable[[float, float], float]
    """The similarity at an angle in radians, as a positive with that margin; for the curve."""

    slope: Callable[[float, float], float]
    """|ds/dθ| there: the length of the gradient at a unit embedding."""

    margin: Bounds = NO_MARGIN
    """The margin's limits and its unit."""

    default_margin: float = 0.0


def _arccos(cosine: Tensor) -> Tensor:
    return cosine.clamp(-COSINE_LIMIT, COSINE_LIMIT).arccos()


def _arc(cosine: Tensor, margin: float) -> Tensor:
    return (_arccos(cosine) + math.radians(margin)).clamp(0, math.pi).cos() if margin else cosine


def _clipped(theta: float, margin: float) -> float:
    """The angle that `arc` takes the cosine of."""
    return min(max(theta + math.radians(margin), 0.0), math.pi)


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
        Similarity(
            name="rbf",
            formula="exp(cos θ − 1)",
            source="SimACE, Eq. 15; σ = 1, between unit vectors, for which ‖a − b‖² is 2 − 2 cos θ",
            from_cosine=lambda cosine, margin: (cosine - 1).exp(),
            value=lambda theta, margin: math.exp(math.cos(theta) - 1),
            slope=lambda theta, margin: math.sin(theta) * math.exp(math.cos(theta) - 1),
        ),
    )
}


def similarity_named(name: str) -> Similarity:
    """The similarity of that name. Raises ValueError where there is none."""
    try:
        return SIMILARITIES[name]
    except KeyError:
        *names, last = SIMILARITIES
        raise ValueError(f"no similarity is called {name!r}: there are {', '.join(names)} and {last}") from None
