"""Alignment and uniformity of unit vectors (Wang and Isola 2020; SimACE Eq. 11)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_ROWS = 1024  # rows of the distance matrix at once


def alignment(first: Tensor, second: Tensor, alpha: float = 2.0) -> float:
    """E‖f(x) − f(x⁺)‖^α over positive pairs, rows of two (N, d) tensors. NaN where there are none.

    SimACE's Eq. 11 prints a log in front; its figures fit this form, without.
    """
    distance = (_unit(first) - _unit(second)).norm(dim=1)  # (N,)
    return float(distance.pow(alpha).mean()) if len(distance) else math.nan


def uniformity(vectors: Tensor, t: float = 2.0) -> float:
    """log E e^(−t‖f(x) − f(y)‖²) over all pairs of distinct rows of (N, d). NaN for fewer than two."""
    unit = _unit(vectors)
    count = len(unit)
    if count < 2:
        return math.nan
    total = 0.0
    for start in range(0, count, _ROWS):
        cosine = unit[start : start + _ROWS] @ unit.T  # (rows, N)
        total += float(torch.exp(2 * t * (cosine - 1)).double().sum())  # ‖a − b‖² = 2 − 2 cos
    return math.log((total - count) / (count * (count - 1)))  # without each row beside itself


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=1)
