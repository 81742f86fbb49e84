"""InfoNCE and DCL against plain loops, in value and gradient."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rows import Rows
from support.batches import MARGINS, Objective, batch, check, distinct, numbers, on_the_circle, vectors
from support.by_loops import contrast_by_loops
from support.rounding import assert_near

infonce = Objective("simcse")


# Row 1's positive is row 0's anchor; row 3 is row 2 again; row 0's hard negative is its own positive.
REPEATED = {
    "anchor": torch.tensor([0, 1, 2, 2, 1, 3]),
    "positive": torch.tensor([4, 0, 6, 6, 7, 4]),
    "negative": torch.tensor([4, 9, 10, 2, 11, 12]),
}
DISTINCT = {name: torch.arange(6) + 10 * n for n, name in enumerate(REPEATED)}
PAIRS = {name: DISTINCT[name] for name in ("anchor", "positive")}


@pytest.mark.parametrize("name", ["simcse", "dcl"])
@pytest.mark.parametrize(
    ("ids", "kind", "margin", "mask"),
    [(ids, *how, False) for ids in (PAIRS, DISTINCT) for how in MARGINS]
    + [(REPEATED, kind, 0.0, mask) for kind in ("cosine", "angle") for mask in (False, True)],
)
def test_a_contrast_is_its_formula_in_value_and_gradient(
    name: str, ids: dict[str, Tensor], kind: str, margin: float, mask: bool
) -> None:
    """Duplicates are left out of the negatives only when asked."""
    views = batch(*ids, rows=6)
    objective = Objective(name, similarity=kind, margin=margin, tau=0.3)
    loss, parts = objective(views, Rows(ids, mask_duplicates=mask))
    by_loops = partial(contrast_by_loops, decoupled=name == "dcl", mask=mask)
    check(loss, lambda: by_loops(vectors(views), numbers(ids), kind, margin, 0.3), views)
    assert parts.keys() == {"contrast"} and parts["contrast"] == loss


def test_every_hard_negative_of_every_row_counts_and_missing_ones_do_not() -> None:
    views = batch("anchor", "positive", "negative", "negative_2", "negative_3", rows=4)
    ids = distinct(views)
    ids["negative_2"][1] = ids["negative_3"][1] = ids["negative_3"][2] = -1  # row 1 has one negative, row 2 has two
    loss, _ = infonce(views, Rows(ids), similarity="cosine", margin=0.0, tau=0.3, hard_negative_weight=0.5)
    other, _ = infonce(
        {**views, "negative_3": views["negative_3"] + torch.tensor([[0.0], [9.0], [-9.0], [0.0]])},
        Rows(ids), similarity="cosine", margin=0.0, tau=0.3, hard_negative_weight=0.5,
    )  # fmt: skip
    assert other == loss

    def weigh(i: int, name: str, j: int) -> float:
        return math.exp(0.5) if name != "positive" and i == j else 1.0

    check(loss, lambda: contrast_by_loops(vectors(views), numbers(ids), "cosine", 0.0, 0.3, weigh=weigh), views)


def test_pairs_that_share_a_text_do_not_push_each_other_apart_in_any_direction() -> None:
    views = batch("anchor", "positive", rows=4)
    ids = {"anchor": torch.tensor([0, 0, 2, 3]), "positive": torch.tensor([4, 5, 6, 6])}
    rows = Rows(ids, mask_duplicates=True)
    loss, _ = infonce(views, rows, similarity="cosine", tau=0.2, symmetric=True, same_side=True)

    def by_loops() -> float:
        one = partial(contrast_by_loops, vectors(views), numbers(ids), "cosine", 0.0, 0.2, mask=True, same_side=True)
        return (one(of="anchor") + one(of="positive")) / 2

    check(loss, by_loops, views)


def test_negatives_on_the_other_side_keep_their_digits_in_float32() -> None:
    """Σ e^(s/τ) is 2e-9 here: taken as (1 + Σ) − 1, with the positive's place at e^0, it is 0 and its log infinite."""
    views = {"anchor": on_the_circle(0, 180).float(), "positive": on_the_circle(0, 180).float()}
    loss, _ = Objective("dcl")(views, Rows(distinct(views)))
    assert_near(loss, -40)
