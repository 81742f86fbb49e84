"""Similarities against trigonometry: vectors on the unit circle, whose angles are known."""

import math

import pytest
import torch
from torch import Tensor

from contrastcli.model.metrics import degrees
from contrastcli.objectives.similarity import from_cosine, paired, pairwise
from contrastcli.settings.losses import SimCSE
from contrastcli.settings.similarity import COSINE_LIMIT, SIMILARITIES
from contrastcli.show.curve import curve
from support.batches import KINDS
from support.rounding import assert_near

COSINE, ANGLE = SIMILARITIES["cosine"], SIMILARITIES["angle"]
ANGLES = [1.0, 30.0, 45.0, 90.0, 120.0, 179.0]


def at(angle: float, length: float = 1.0) -> Tensor:
    """(1, 2): a vector at `angle` degrees from the first axis."""
    radians = math.radians(angle)
    return torch.tensor([[length * math.cos(radians), length * math.sin(radians)]], dtype=torch.float64)


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize("margin", [0.0, -10.0, 10.0])
def test_each_similarity_is_the_formula_of_angle_and_margin_whatever_the_lengths(angle: float, margin: float) -> None:
    theta, m = math.radians(angle), math.radians(margin)
    expected = {
        "cosine": math.cos(theta) - margin,
        "angle": math.pi / 2 - theta - m,
        "arc": math.cos(min(max(theta + m, 0.0), math.pi)),
        "rbf": math.exp(-((2 * math.sin(theta / 2)) ** 2) / 2),  # the chord of two unit vectors
    }
    for kind, value in expected.items():
        found = paired(at(20, 3.0), at(20 + angle, 0.2), SIMILARITIES[kind], margin).item()
        assert found == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("sigma", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("angle", ANGLES)
def test_rbf_has_the_width_that_is_set(angle: float, sigma: float) -> None:
    named = SimCSE(similarity="rbf", sigma=sigma).chosen_similarity
    chord = 2 * math.sin(math.radians(angle) / 2)  # of two unit vectors
    expected = math.exp(-(chord**2) / (2 * sigma**2))
    assert paired(at(0, 2.0), at(angle), named).item() == pytest.approx(expected, rel=1e-9)
    drawn, a = curve(named, 0.0, 1.0, [angle]), at(0).requires_grad_()
    (gradient,) = torch.autograd.grad(paired(a, at(angle), named).sum(), a)
    assert (*drawn.value, *drawn.gradient) == pytest.approx((expected, float(gradient.norm())))


def test_no_other_similarity_has_a_width() -> None:
    cosine = SimCSE(sigma=0.5)
    assert cosine.chosen_similarity is COSINE
    assert cosine.inactive()["sigma"] == "no effect while similarity is cosine"


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("kind", ["angle", "arc"])
def test_the_slope_of_arccos_is_bounded_near_707_in_float32(kind: str, sign: float) -> None:
    """The steepest place before the clamp: float32 still tells 1 − 1e-6 from 1."""
    edge = torch.tensor(sign * COSINE_LIMIT, dtype=torch.float32, requires_grad=True)
    (slope,) = torch.autograd.grad(from_cosine(edge, ANGLE), edge)
    assert 690 < slope.item() < 715

    at_one = torch.tensor(sign, dtype=torch.float32, requires_grad=True)
    value = from_cosine(at_one, SIMILARITIES[kind], 10.0)
    (slope,) = torch.autograd.grad(value, at_one)
    assert value.isfinite() and abs(slope.item()) < 715


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_zero_vector_has_no_direction_and_gets_no_gradient(kind: str, dtype: torch.dtype) -> None:
    a = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=dtype, requires_grad=True)
    b = torch.tensor([[1.0, 1.0], [2.0, 1.0]], dtype=dtype)
    matrix = pairwise(a, b, SIMILARITIES[kind])
    (gradient,) = torch.autograd.grad(matrix.sum(), a)
    assert matrix.isfinite().all() and gradient.isfinite().all()
    assert matrix[0, 0] == matrix[0, 1]
    assert gradient[0].tolist() == [0.0, 0.0] and gradient[1].norm() > 0


def test_a_nan_or_an_infinity_is_not_hidden() -> None:
    for bad in (math.nan, math.inf):
        assert paired(torch.tensor([[bad, 1.0]]), torch.ones(1, 2), ANGLE).isnan().all()


@pytest.mark.parametrize("length", [1e-11, 1e19, 1e25, 3e38])
def test_the_length_of_a_vector_does_not_matter(length: float) -> None:
    a, b = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    long = (a / 5 * length).requires_grad_()
    cosine = paired(long, b, COSINE)
    (gradient,) = torch.autograd.grad(cosine.sum(), long)
    assert_near(cosine, [0.96])
    slope = (b / 5 - 0.96 * a / 5) / length
    assert gradient.flatten().tolist() == pytest.approx(slope.flatten().tolist(), rel=1e-4, abs=0)


@pytest.mark.parametrize("length", [1.0, 1e-3, 37.0])
def test_shown_angles_of_equal_vectors_are_exactly_zero_and_of_opposite_ones_180(length: float) -> None:
    x = length * torch.randn(40, 384, generator=torch.Generator().manual_seed(1))
    assert degrees(x, x).tolist() == [0.0] * 40
    assert degrees(x, -x).tolist() == pytest.approx([180.0] * 40)


@pytest.mark.parametrize("angle", [0.001, 0.5, 10.0, 90.0, 179.5])
def test_shown_angles_keep_their_digits_in_float32(angle: float) -> None:
    a, b = at(0, 2.0).float(), at(angle, 5.0).float()
    assert degrees(a, b).item() == pytest.approx(angle, rel=1e-5)
