"""What a similarity makes of an angle, and how hard it pulls there: the curves that one looks at before training.

In plain numbers, so that drawing them loads no torch. With θ the angle between two embeddings and m the margin:

| kind   | s(θ), as a positive    | ‖∂s/∂z‖ at a unit embedding z   | |ds/dcos|             |
|--------|------------------------|---------------------------------|-----------------------|
| cosine | cos θ − m              | sin θ                           | 1                     |
| angle  | π/2 − θ − m            | 1                               | 1 / sin θ             |
| arc    | cos(clip(θ + m, 0, π)) | sin(θ + m), 0 where clipped     | sin(θ + m) / sin θ    |
| rbf    | exp(cos θ − 1)         | sin θ · exp(cos θ − 1)          | exp(cos θ − 1)        |

The embedding feels a cosine through sin θ, which vanishes as two sentences come close: that is why an angle still
tells near-identical sentences apart (SimACE, Figure 1b). Training clamps cosines to ±(1 − 1e-6) inside arccos, below
a tenth of a degree from either end; these are the curves without that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ANGLES = tuple(float(angle) for angle in range(181))
"""Where a curve is taken, in degrees."""


@dataclass(frozen=True)
class Curve:
    """A similarity over `ANGLES`, all of it divided by the temperature."""

    value: tuple[float, ...]
    pull: tuple[float, ...]
    """The length of the gradient at the embedding, which has length 1."""
    by_cosine: tuple[float, ...]
    """The slope by the cosine; not a number at 0 and 180°, where the angle's has no limit."""


def curve(kind: str, margin: float, tau: float) -> Curve:
    """The curve of a positive's similarity; `margin` in degrees for angle and arc, in cosine units for cosine.

    Raises ValueError for a kind that does not exist.
    """
    return Curve(
        value=tuple(value(kind, angle, margin) / tau for angle in ANGLES),
        pull=tuple(pull(kind, angle, margin) / tau for angle in ANGLES),
        by_cosine=tuple(by_cosine(kind, angle, margin) / tau for angle in ANGLES),
    )


def value(kind: str, degrees: float, margin: float = 0.0) -> float:
    """The similarity of a positive at an angle."""
    theta = math.radians(degrees)
    if kind == "cosine":
        return math.cos(theta) - margin
    if kind == "angle":
        return math.pi / 2 - theta - math.radians(margin)
    if kind == "arc":
        return math.cos(min(max(theta + math.radians(margin), 0.0), math.pi))
    if kind == "rbf":
        return math.exp(math.cos(theta) - 1)
    raise ValueError(f"no similarity is called {kind!r}")


def pull(kind: str, degrees: float, margin: float = 0.0) -> float:
    """The length of the gradient at a unit embedding: |ds/dθ|."""
    theta = math.radians(degrees)
    if kind == "angle":
        return 1.0
    if kind == "arc":
        shifted = theta + math.radians(margin)
        return math.sin(shifted) if 0 < shifted < math.pi else 0.0
    return math.sin(theta) * (value("rbf", degrees) if kind == "rbf" else 1.0)


def by_cosine(kind: str, degrees: float, margin: float = 0.0) -> float:
    """The slope |ds/dcos|; not a number at 0 and 180°."""
    sine = math.sin(math.radians(degrees))
    return pull(kind, degrees, margin) / sine if 0 < degrees < 180 else math.nan
