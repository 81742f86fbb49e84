"""What sets DCL apart from InfoNCE."""

import math

import pytest
import torch

from contrastcli.objectives.rows import Rows
from support.batches import Objective, batch, distinct, on_the_circle
from support.rounding import assert_near

infonce, dcl = Objective("simcse"), Objective("dcl")


def test_infonce_is_the_softplus_of_dcl() -> None:
    """Row 1 has no negative, so that either mean is half of row 0's term: log(1 + e^(n − p)) and n − p."""
    views = batch("anchor", "positive", rows=2)
    ids = {"anchor": torch.tensor([1, 2]), "positive": torch.tensor([2, 4])}  # row 0's positive is row 1's anchor
    rows = Rows(ids, mask_duplicates=True)
    contrast, _ = infonce(views, rows, similarity="cosine", margin=0.0, tau=0.4)
    decoupled, _ = dcl(views, rows, tau=0.4)
    assert 2 * contrast.item() == pytest.approx(math.log1p(math.exp(2 * decoupled.item())))


def test_a_positive_that_is_the_nearest_by_far_is_pulled_as_hard_as_any() -> None:
    views = {"anchor": on_the_circle(0, 180).requires_grad_(), "positive": on_the_circle(20, 200).requires_grad_()}
    rows = Rows(distinct(views))
    contrast, _ = infonce(views, rows, similarity="cosine", margin=0.0, tau=0.05)
    decoupled, _ = dcl(views, rows)
    assert decoupled < -30
    assert torch.autograd.grad(contrast, views["anchor"])[0].norm() < 1e-10
    assert torch.autograd.grad(decoupled, views["anchor"])[0].norm() > 1


@pytest.mark.parametrize(
    ("kind", "margin", "felt"), [("cosine", 0.2, False), ("angle", 10.0, False), ("arc", 10, True)]
)
def test_a_margin_only_adds_a_constant_except_under_arc(kind: str, margin: float, felt: bool) -> None:
    views = batch("anchor", "positive", rows=5)
    gradients, losses = [], []
    for m in (0.0, margin):
        loss, _ = dcl(views, Rows(distinct(views)), similarity=kind, margin=m, tau=0.1)
        losses.append(loss.item())
        gradients.append(torch.autograd.grad(loss, views["anchor"])[0])
    assert losses[1] > losses[0] + 0.5
    assert torch.allclose(gradients[0], gradients[1]) is not felt


def test_negatives_on_the_other_side_keep_their_digits_in_float32() -> None:
    """Σ e^(s/τ) is 2e-9 here: taken as (1 + Σ) − 1, with the positive's place at e^0, it is 0 and its log infinite."""
    views = {"anchor": on_the_circle(0, 180).float(), "positive": on_the_circle(0, 180).float()}
    loss, _ = dcl(views, Rows(distinct(views)))
    assert_near(loss, -40)
