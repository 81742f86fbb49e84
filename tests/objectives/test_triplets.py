"""MPT, MET and MAT against plain loops, at known angles, and where a slope is infinite."""

import math

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rows import Rows
from support.batches import Objective, batch, check, distinct, numbers, on_the_circle, vectors
from support.by_loops import triplet_by_loops

LOSSES = {name: Objective(name) for name in ("mpt", "met", "mat")}
every_loss = pytest.mark.parametrize("name", LOSSES)
WIDE = {"mpt": 1.0, "met": 1.0, "mat": 60.0}
"""Margins at which most triplets of random vectors count, and some do not."""


def measured(name: str, anchors: Tensor, positives: Tensor, margin: float) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, and its gradients in anchors and positives."""
    views = {"anchor": anchors.requires_grad_(), "positive": positives.requires_grad_()}
    loss, _ = LOSSES[name](views, Rows(distinct(views)), margin=margin)
    by_anchor, by_positive = torch.autograd.grad(loss, (anchors, positives))
    return loss.detach(), by_anchor, by_positive


REPEATED = {"anchor": torch.tensor([0, 0, 2, 3, 4]), "positive": torch.tensor([5, 6, 3, 8, 0])}


@every_loss
@pytest.mark.parametrize(
    ("width", "share", "ids", "mask"),
    [(2, 0.0, None, False), (6, 0.0, None, False), (2, 1.0, None, False), (6, 1.0, None, False)]
    + [(2, 1.0, REPEATED, mask) for mask in (False, True)],
)
def test_a_triplet_loss_is_its_formula_in_value_and_gradient(
    name: str, width: int, share: float, ids: dict[str, Tensor] | None, mask: bool
) -> None:
    """An equal text is no hardest anchor when duplicates are masked."""
    views = batch("anchor", "positive", rows=5, width=width)
    ids, margin = ids or distinct(views), share * WIDE[name]
    loss, parts = LOSSES[name](views, Rows(ids, mask_duplicates=mask), margin=margin)
    assert loss > 0 and parts.keys() == {"triplet"} and parts["triplet"] == loss
    check(loss, lambda: triplet_by_loops(vectors(views), numbers(ids), name, margin, mask), views)


@every_loss
def test_a_hardest_anchor_beyond_90_degrees_is_the_hardest_still(name: str) -> None:
    """With a constant cosine of 0 in place of a positive's own anchor, nothing farther than 90° would count."""
    margin = {"mpt": 1.2, "met": 1.2, "mat": 100.0}[name]
    x, y = on_the_circle(0, 180), on_the_circle(30, 210)  # 30° from their own anchor, 150° from the other
    loss, _, _ = measured(name, x, y, margin)
    far, near = math.radians(150), math.radians(30)
    expected = {
        "mpt": margin - math.cos(near) + math.cos(far),
        "met": margin + 2 * math.sin(near / 2) - 2 * math.sin(far / 2),
        "mat": math.radians(margin) + near - far,
    }[name]
    assert loss.item() == pytest.approx(max(0.0, expected))


def test_the_distance_between_equal_vectors_pulls_nothing() -> None:
    same = on_the_circle(0, 40)
    _, by_anchor, _ = measured("met", same.clone(), same.clone(), 1.0)
    tangents = on_the_circle(90, -50)  # towards each other: a step against them leads away
    torch.testing.assert_close(by_anchor, tangents * math.cos(math.radians(20)) / 2)
