"""The curves of the app against the similarities that train, and against their gradients by autograd."""

import math

import pytest
import torch

from contrastcli.objectives.similarity import from_cosine, paired
from contrastcli.settings.similarity import SIMILARITIES
from contrastcli.show import curve

DEGREES = [0.5, *range(1, 180, 7), 179.5]
MARGINS = {"cosine": (0.0, 0.2), "angle": (0.0, 10.0, -10.0), "arc": (0.0, 10.0, -25.0), "rbf": (0.0,)}
CASES = [(kind, margin) for kind, margins in MARGINS.items() for margin in margins]


def gradients(kind: str, margin: float, degrees: float) -> tuple[float, float, float]:
    """Value, length of the gradient at a unit embedding, and slope by the cosine, as training computes them."""
    theta = math.radians(degrees)
    a = torch.tensor([[1.0, 0.0]], dtype=torch.float64, requires_grad=True)  # (1, 2)
    b = torch.tensor([[math.cos(theta), math.sin(theta)]], dtype=torch.float64)  # (1, 2)
    value = paired(a, b, SIMILARITIES[kind], margin)  # (1,)
    (pull,) = torch.autograd.grad(value.sum(), a)
    cosine = torch.tensor([math.cos(theta)], dtype=torch.float64, requires_grad=True)  # (1,)
    (slope,) = torch.autograd.grad(from_cosine(cosine, SIMILARITIES[kind], margin).sum(), cosine)
    return value.item(), pull.norm().item(), abs(slope.item())


@pytest.mark.parametrize(("kind", "margin"), CASES)
def test_each_point_is_what_training_computes_over_the_temperature(kind: str, margin: float) -> None:
    shown = curve.curve(SIMILARITIES[kind], margin, 0.05, DEGREES)
    for degrees, *point in zip(DEGREES, shown.value, shown.gradient, shown.by_cosine, strict=True):
        computed = [20 * value for value in gradients(kind, margin, degrees)]
        assert point == pytest.approx(computed, rel=1e-6, abs=1e-9), degrees
