"""Similarities between embeddings, the margin that a positive must clear, and angles to show to people.

| kind   | s(a, b)             | as a positive, with margin m      | unit of m | source                      |
|--------|---------------------|-----------------------------------|-----------|-----------------------------|
| cosine | cos                 | cos − m                           | cosine    | SimCSE (no margin there)    |
| angle  | π/2 − arccos(cos)   | s − m                             | degrees   | SimACE, Eq. 7-9             |
| arc    | cos                 | cos(clip(θ + m, 0, π))            | degrees   | ArcCon of ArcCSE            |
| rbf    | exp(−‖a−b‖² / 2σ²)  | s, there is no margin             |           | SimACE, Eq. 15; σ = 1       |

All of them normalise: cos is that of the vectors' directions and rbf is taken between unit vectors. A zero vector
has no direction: its cosine with everything is 0, and no gradient reaches it.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from contrastcli.objectives.functional import promoted

Similarity = Literal["cosine", "angle", "arc", "rbf"]

COSINE_LIMIT = 1 - 1e-6
"""|cos| inside arccos stays below this, which bounds arccos's slope, infinite at ±1, at about 707."""

SHORTEST = 1e-12
"""Vectors no longer than this count as zero."""


def unit(x: Tensor) -> Tensor:
    """Each vector scaled to length 1, a zero vector left at zero with a zero gradient: (..., d) → (..., d)."""
    x = promoted(x)
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp_min(SHORTEST) * (length > SHORTEST)


def pairwise(a: Tensor, b: Tensor, kind: Similarity) -> Tensor:
    """The similarity of every row of a with every row of b: (N, d), (M, d) → (N, M)."""
    return from_cosine(cosines(a, b), kind)


def paired(a: Tensor, b: Tensor, kind: Similarity, margin: float = 0.0) -> Tensor:
    """The similarity of each row of a with its positive, the same row of b: two (N, d) → (N,).

    `margin` is in degrees for angle and arc, in cosine units for cosine, and without effect for rbf. A margin
    above 0 makes the positive harder.
    """
    return from_cosine((unit(a) * unit(b)).sum(dim=-1), kind, margin)


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of every row of a with every row of b: (N, d), (M, d) → (N, M)."""
    return unit(a) @ unit(b).T


def from_cosine(cosine: Tensor, kind: Similarity, margin: float = 0.0) -> Tensor:
    """The similarity, of any shape, whose cosine is given; as a positive where there is a margin (see `paired`).

    Raises ValueError for a kind that does not exist.
    """
    if kind == "cosine":
        return cosine - margin
    if kind == "angle":
        return math.pi / 2 - _arccos(cosine) - math.radians(margin)
    if kind == "arc":
        return _arc(cosine, math.radians(margin)) if margin else cosine
    if kind == "rbf":
        return torch.exp(cosine - 1)  # ‖a − b‖² of unit vectors is 2 − 2 cos
    raise ValueError(f"no similarity is called {kind!r}: there are cosine, angle, arc and rbf")


@torch.no_grad()
def degrees(a: Tensor, b: Tensor) -> Tensor:
    """The angle between each row of a and the same row of b, to show: two (N, d) → (N,), 0 to 180.

    From half chords, 2 atan2(‖a−b‖, ‖a+b‖): unclamped, exactly 0 between equal vectors, and with all its digits at
    small angles, where arccos has lost them.
    """
    a, b = unit(a), unit(b)
    return torch.rad2deg(2 * torch.atan2((a - b).norm(dim=-1), (a + b).norm(dim=-1)))


def _arccos(cosine: Tensor) -> Tensor:
    return torch.arccos(cosine.clamp(-COSINE_LIMIT, COSINE_LIMIT))


def _arc(cosine: Tensor, margin: float) -> Tensor:
    return torch.cos((_arccos(cosine) + margin).clamp(0, math.pi))
