"""Equality up to the rounding of float32 on any CPU: its instruction set decides in which order a sum is taken."""

import math
from typing import Any

import numpy as np
import torch

EPSILON = float(np.finfo(np.float32).eps)
TERMS = 512
"""Summed on the way to one number of the tiny encoder: four products of 32 to 64 terms in each of two layers, attention
over a dozen tokens and three LayerNorms of 32."""


def assert_near(actual: Any, expected: Any, *, scale: float | None = None) -> None:
    """Assert that float32 results of the same formula are equal up to rounding.

    Each addition rounds by up to half an epsilon of the numbers at hand, which reach `scale`: the largest of the
    expected results, unless larger ones cancel. Errors of either sign add up as a random walk, to √TERMS of them; four
    such deviations leave room for exp, tanh and erf, whose approximations differ by a few units in the last place
    between kernels, and for divisions by a length. That is 1.1e-5 of the scale: a formula that is wrong by a
    thousandth is seen.
    """
    one, other = (x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in (actual, expected))
    largest = float(np.abs(other).max()) if scale is None else scale
    np.testing.assert_allclose(one, other, rtol=0, atol=4 * EPSILON * math.sqrt(TERMS) * largest)
