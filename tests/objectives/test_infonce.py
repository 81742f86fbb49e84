"""InfoNCE and DCL against plain loops, in value and gradient, and the identities that InfoNCE must keep."""

from collections.abc import Callable

import pytest
import torch

from contrastcli.objectives.rows import Rows
from support.batches import MARGINS, Objective, batch, check, distinct, numbers, vectors
from support.by_loops import decoupled_by_loops, infonce_by_loops

infonce = Objective("simcse")
both = pytest.mark.parametrize(
    ("name", "formula"), [("simcse", infonce_by_loops), ("dcl", decoupled_by_loops)], ids=["infonce", "dcl"]
)


@both
@pytest.mark.parametrize(("kind", "margin"), MARGINS)
@pytest.mark.parametrize("names", [("anchor", "positive"), ("anchor", "positive", "negative")])
def test_a_contrast_is_its_formula_in_value_and_gradient(
    name: str, formula: Callable[..., float], kind: str, margin: float, names: tuple[str, ...]
) -> None:
    views = batch(*names, rows=5)
    ids = distinct(views)
    loss, parts = Objective(name, similarity=kind, margin=margin, tau=0.3)(views, Rows(ids))
    check(loss, lambda: formula(vectors(views), numbers(ids), kind, margin, 0.3), views)
    assert parts.keys() == {"contrast"} and parts["contrast"] == loss and not parts["contrast"].requires_grad


def test_infonce_weighs_each_rows_own_hard_negative() -> None:
    views = batch("anchor", "positive", "negative", rows=4)
    ids = distinct(views)
    loss, _ = infonce(views, Rows(ids), similarity="angle", margin=10.0, tau=0.2, hard_negative_weight=1.5)
    check(loss, lambda: infonce_by_loops(vectors(views), numbers(ids), "angle", 10.0, 0.2, weight=1.5), views)


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
    check(loss, lambda: infonce_by_loops(vectors(views), numbers(ids), "cosine", 0.0, 0.3, weight=0.5), views)


@both
@pytest.mark.parametrize("kind", ["cosine", "angle"])
@pytest.mark.parametrize("mask", [True, False])
def test_duplicates_are_left_out_of_the_negatives_only_when_asked(
    name: str, formula: Callable[..., float], kind: str, mask: bool
) -> None:
    views = batch("anchor", "positive", "negative", rows=6)
    # Row 1's positive is row 0's anchor; row 3 is row 2 again; row 4 has the anchor of row 1, row 5 the positive of row
    # 0; row 0's hard negative is its own positive.
    ids = {
        "anchor": torch.tensor([0, 1, 2, 2, 1, 3]),
        "positive": torch.tensor([4, 0, 6, 6, 7, 4]),
        "negative": torch.tensor([4, 9, 10, 2, 11, 12]),
    }
    loss, _ = Objective(name, similarity=kind, tau=0.2)(views, Rows(ids, mask_duplicates=mask))
    check(loss, lambda: formula(vectors(views), numbers(ids), kind, 0.0, 0.2, mask=mask), views)


def test_pairs_that_share_a_text_do_not_push_each_other_apart_in_any_direction() -> None:
    views = batch("anchor", "positive", rows=4)
    ids = {"anchor": torch.tensor([0, 0, 2, 3]), "positive": torch.tensor([4, 5, 6, 6])}
    rows = Rows(ids, mask_duplicates=True)
    loss, _ = infonce(views, rows, similarity="cosine", tau=0.2, symmetric=True, same_side=True)
    # Rows 0 and 1 have both rows 2 and 3 as negatives, and those both of these.
    cosine = torch.cosine_similarity
    total = 0.0
    for own, other in (("anchor", "positive"), ("positive", "anchor")):
        for i in range(4):
            here, apart = views[own][i], [2, 3] if i < 2 else [0, 1]
            against = [cosine(here, views[side][j], dim=0) / 0.2 for j in apart for side in (own, other)]
            positive = cosine(here, views[other][i], dim=0) / 0.2
            total += (torch.logsumexp(torch.stack([positive, *against]), dim=0) - positive).item()
    assert loss.item() == pytest.approx(total / 8, rel=1e-6)


def test_infonce_looks_from_anchors_to_columns_only() -> None:
    views = batch("anchor", "positive", rows=4)
    swapped = {"anchor": views["positive"], "positive": views["anchor"]}
    there, back = (
        infonce(now, Rows(distinct(now)), similarity="cosine", margin=0.0, tau=0.1)[0].item()
        for now in (views, swapped)
    )
    assert abs(there - back) > 1e-3


def test_a_margin_above_zero_makes_the_positive_harder() -> None:
    views = batch("anchor", "positive", rows=4)
    losses = [
        infonce(views, Rows(distinct(views)), similarity="angle", margin=m, tau=0.1)[0].item()
        for m in (-10.0, 0.0, 10.0)
    ]
    assert losses == sorted(losses) and losses[0] < losses[2]


def test_simace_without_margin_approaches_simcse_as_all_cosines_go_to_zero() -> None:
    """π/2 − arccos(c) is c + c³/6: at cosines around 1e-3 the losses and gradients agree to about 1e-9 / τ."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(16, 16, generator=generator, dtype=torch.float64))[0]
    tilt = 1e-3 * torch.randn(8, 16, generator=generator, dtype=torch.float64)
    losses, gradients = [], []
    for kind in ("cosine", "angle"):
        views = {"anchor": basis[:8].clone().requires_grad_(), "positive": (basis[8:] + tilt).requires_grad_()}
        loss, _ = infonce(views, Rows(distinct(views)), similarity=kind, margin=0.0, tau=0.05)
        gradients.append(torch.autograd.grad(loss, views["anchor"])[0])
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)
