"""Measures of sentence vectors: cosine and angle, correlation, alignment and uniformity."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastcli.errors import DataError
from contrastcli.objectives.similarity import unit
from contrastcli.runs.measured import HISTOGRAM_BINS
from contrastcli.runs.text import excerpt

Floats = NDArray[np.floating]

_ROWS_AT_ONCE = 1024
_MOST_SPREAD = 2_000
"""Vectors whose singular values are computed, evenly taken from all."""


def require_finite(vectors: Floats, texts: Sequence[str], model: str) -> None:
    """Raises DataError where a number in the vectors (N, d) of N texts is NaN or infinite; it names the first text."""
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        text = excerpt(texts[int(finite.argmin())], 60)
        what = f"the vectors of {model} are not finite numbers, the first of them that of '{text}'"
        raise DataError(what, "use another model: a training that diverged leaves such weights")


def unit_rows(vectors: Floats) -> NDArray[np.float64]:
    """Each vector scaled to length 1, zero vectors unchanged, in float64: (..., d) → (..., d)."""
    rows: NDArray[np.float64] = unit(torch.from_numpy(vectors.astype(np.float64))).numpy()
    return rows


def cosine(first: Floats, second: Floats) -> NDArray[np.float64]:
    """The cosine of each vector with its counterpart, in float64, 0 for zero vectors: two (..., d) → (...)."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosines: NDArray[np.float64] = np.zeros(np.shape(lengths))
    np.divide((a * b).sum(axis=-1), lengths, out=cosines, where=lengths != 0)
    return cosines


@torch.no_grad()
def degrees(first: Tensor, second: Tensor) -> Tensor:
    """The angle of each vector with its counterpart: two (..., d) → (...), 0 to 180.

    As 2 atan2(‖a−b‖, ‖a+b‖), which is exactly 0 for equal vectors and precise at small angles, unlike arccos.
    """
    a, b = unit(first), unit(second)
    return torch.rad2deg(2 * torch.atan2((a - b).norm(dim=-1), (a + b).norm(dim=-1)))


def histogram(angles: Tensor) -> Tensor:
    """The number of angles in degrees in each bin of 5°: (36,)."""
    return torch.histc(angles.float(), HISTOGRAM_BINS, 0, 180)


def ranks(values: Floats) -> NDArray[np.float64]:
    """Ranks from the smallest, which has 1: (P,) → (P,). Equal values share their mean rank; NaN for all if one is."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return np.full(len(values), math.nan) if np.isnan(values).any() else shared[places]


def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation of two (P,) arrays, in −1..1; NaN if either is constant or there is only one pair."""
    return pearson(ranks(first), ranks(second))


def pearson(first: Floats, second: Floats) -> float:
    """Linear correlation of two (P,) arrays, in −1..1; NaN if either is constant or there is only one pair."""
    if len(first) < 2 or 0 in (np.ptp(first), np.ptp(second)):
        return math.nan
    # As scipy.stats, which takes longer to load than a small training.
    with np.errstate(all="ignore"):
        return float(np.corrcoef(first, second)[0, 1])


def alignment(first: Tensor, second: Tensor) -> float:
    """Alignment, E‖f(x) − f(x⁺)‖² over positive pairs, rows of two (N, d) tensors (Wang and Isola 2020). NaN for none.

    SimACE's Eq. 11 prints a log in front; its figures fit this form, without.
    """
    distance = (unit(first) - unit(second)).norm(dim=1)  # (N,)
    return float(distance.square().mean()) if len(distance) else math.nan


def uniformity(vectors: Tensor) -> float:
    """Uniformity, log E e^(−2‖f(x) − f(y)‖²) over pairs of distinct rows of (N, d) (ibid.). NaN for fewer than two."""
    rows = unit(vectors)
    count = len(rows)
    if count < 2:
        return math.nan
    total, squares = 0.0, rows.square().sum(dim=1)  # (N,), 0 for zero vectors
    for start in range(0, count, _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        # −2‖a−b‖² = 4ab − 2‖b‖² − 2‖a‖²
        exponents = torch.addmm(-2 * squares, rows[some], rows.T, alpha=4).sub_(2 * squares[some, None])  # (rows, N)
        total += float(exponents.exp_().sum(dtype=torch.float64))
    # Without each row with itself.
    return math.log((total - count) / (count * (count - 1)))


def spread(vectors: Tensor) -> tuple[float, float, list[float]]:
    """How many dimensions unit vectors use: (N, d) → their effective rank, the norm of their mean, singular values.

    The effective rank is e to the entropy of the singular values over their sum (Roy and Vetterli 2007, "The effective
    rank"); these shares are returned from the largest. NaN where the rows are not finite, or all zero.
    """
    rows = unit(vectors[:: -(-len(vectors) // _MOST_SPREAD) or 1]).double()
    if not rows.isfinite().all() or not rows.any():
        return math.nan, math.nan, []
    # Far quicker than those of the rows themselves.
    values = torch.linalg.eigvalsh(rows.T @ rows).clamp(min=0).sqrt().flip(0)
    shares = values / values.sum()
    return float(torch.special.entr(shares).sum().exp()), float(rows.mean(0).norm()), shares.tolist()
