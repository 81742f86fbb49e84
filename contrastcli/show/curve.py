"""The curve of a similarity over angles: its value, its gradient at the embedding and its slope (SimACE, Figure 1b).

The cosine's gradient has the factor sin θ, which vanishes as two sentences become alike; the angle's does not.
Training clamps cosines to ±(1 − 1e-6) inside arccos, a tenth of a degree from either end; these curves are not clamped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from contrastcli.settings.similarity import Similarity

ANGLES = tuple(float(angle) for angle in range(181))
"""Where a curve is taken, in degrees."""


@dataclass(frozen=True)
class Curve:
    """A similarity over angles, all of it divided by the temperature."""

    value: tuple[float, ...]
    gradient: tuple[float, ...]
    """The length of the gradient at the embedding, which has length 1."""
    by_cosine: tuple[float, ...]
    """The slope |ds/dcos|; not a number at 0 and 180°, where the angle's has no limit."""


def curve(similarity: Similarity, margin: float, tau: float, angles: Sequence[float] = ANGLES) -> Curve:
    """The curve of a positive's similarity over angles in degrees; the margin is in the similarity's own unit."""
    thetas = [math.radians(angle) for angle in angles]
    value = tuple(similarity.value(theta, margin) / tau for theta in thetas)
    gradient = tuple(similarity.slope(theta, margin) / tau for theta in thetas)
    sines = [math.sin(theta) if 0 < theta < math.pi else math.nan for theta in thetas]
    return Curve(value, gradient, tuple(slope / sine for slope, sine in zip(gradient, sines, strict=True)))
