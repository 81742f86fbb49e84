"""DCL against plain loops, and what sets it apart from InfoNCE."""

import math

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rows import Rows
from support.batches import KINDS, MARGINS, Objective, batch, check, distinct, numbers, on_the_circle, vectors
from support.by_loops import decoupled_by_loops
from support.rounding import assert_near

infonce, dcl = Objective("simcse"), Objective("dcl")


@pytest.mark.parametrize(("kind", "margin"), MARGINS)
@pytest.mark.parametrize("names", [("anchor", "positive"), ("anchor", "positive", "negative")])
def test_dcl_is_its_formula_in_value_and_gradient(kind: str, margin: float, names: tuple[str, ...]) -> None:
    views = batch(*names, rows=5)
    ids = distinct(views)
    loss, parts = dcl(views, Rows(ids), similarity=kind, margin=margin, tau=0.3)
    check(loss, lambda: decoupled_by_loops(vectors(views), numbers(ids), kind, margin, 0.3), list(views.values()))
    assert parts.keys() == {"contrast"} and parts["contrast"] == loss and not parts["contrast"].requires_grad


@pytest.mark.parametrize("mask", [True, False])
def test_dcl_leaves_duplicates_out_of_the_negatives_only_when_asked(mask: bool) -> None:
    views = batch("anchor", "positive", "negative", rows=4)
    ids = {  # row 1's positive is row 0's anchor; row 3 is row 2 again; row 0's hard negative is its own positive
        "anchor": torch.tensor([0, 1, 2, 2]),
        "positive": torch.tensor([4, 0, 6, 6]),
        "negative": torch.tensor([4, 9, 10, 2]),
    }
    loss, _ = dcl(views, Rows(ids, mask_duplicates=mask), similarity="angle", margin=0.0, tau=0.2)
    check(loss, lambda: decoupled_by_loops(vectors(views), numbers(ids), "angle", 0.0, 0.2, mask), list(views.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_dcl_passes_gradcheck(kind: str) -> None:
    views = batch("anchor", "positive", "negative", rows=5, width=4)

    def loss(*tensors: Tensor) -> Tensor:
        now = dict(zip(views, tensors, strict=True))
        return dcl(now, Rows(distinct(views)), similarity=kind, margin=0.0, tau=0.2)[0]

    assert torch.autograd.gradcheck(loss, tuple(views.values()))


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
