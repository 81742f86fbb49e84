"""InfoNCE and DCL with all settings of a contrast of a batch, in value and gradient, against plain loops over lists."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from contrastcli.objectives import functional
from contrastcli.objectives.infonce import contrast, spread
from contrastcli.objectives.rows import Rows
from contrastcli.settings.losses import InBatch
from support.batches import MARGINS, Objective, batch, check, distinct, numbers, on_the_circle, vectors
from support.by_loops import contrast_by_loops, similarity_of
from support.rounding import assert_near

TAU = 0.3
infonce, dcl = Objective("simcse", tau=TAU), Objective("dcl", tau=TAU)
HOW = ("angle", 10.0, TAU)

# Row 1's positive is row 0's anchor; row 3 is row 2 again; row 0's hard negative is its own positive.
REPEATED = {
    "anchor": torch.tensor([0, 1, 2, 2, 1, 3]),
    "positive": torch.tensor([4, 0, 6, 6, 7, 4]),
    "negative": torch.tensor([4, 9, 10, 2, 11, 12]),
}
DISTINCT = {name: torch.arange(6) + 10 * n for n, name in enumerate(REPEATED)}
PAIRS = {name: DISTINCT[name] for name in ("anchor", "positive")}


def batch_of_five() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Five rows with two hard negatives each, of which one is missing."""
    views = batch("anchor", "positive", "negative", "negative_2", rows=5)
    ids = distinct(views)
    ids["negative_2"][3] = -1
    return views, ids


def both_ways(views: dict[str, Tensor], ids: dict[str, Tensor], **how: Any) -> float:
    """The mean of the contrasts of anchors and of positives."""
    now, texts = vectors(views), numbers(ids)
    return sum(contrast_by_loops(now, texts, *HOW, of=of, **how) for of in ("anchor", "positive")) / 2


@pytest.mark.parametrize("objective", [infonce, dcl])
@pytest.mark.parametrize(
    ("ids", "kind", "margin", "mask"),
    [(ids, *how, False) for ids in (PAIRS, DISTINCT) for how in MARGINS]
    + [(REPEATED, kind, 0.0, mask) for kind in ("cosine", "angle") for mask in (False, True)],
)
def test_a_contrast_is_its_formula_in_value_and_gradient(
    objective: Objective, ids: dict[str, Tensor], kind: str, margin: float, mask: bool
) -> None:
    """Duplicates are left out of the negatives only when asked."""
    views = batch(*ids, rows=6)
    loss, parts = objective(views, Rows(ids, mask_duplicates=mask), similarity=kind, margin=margin)
    by_loops = partial(contrast_by_loops, decoupled=objective is dcl, mask=mask)
    check(loss, lambda: by_loops(vectors(views), numbers(ids), kind, margin, TAU), views)
    assert parts.keys() == {"contrast"} and parts["contrast"] == loss


@pytest.mark.parametrize("setting", ["hard_negative_weight", "hardness"])
def test_a_rows_own_hard_negatives_or_similar_ones_weigh_more(setting: str) -> None:
    """The weight by the similarity is a constant, through which no gradient goes."""
    views, ids = batch_of_five()
    chosen: dict[str, Any] = {setting: 2.0}
    loss, _ = infonce(views, Rows(ids), similarity="angle", margin=10.0, **chosen)
    before = vectors(views)

    def weigh(i: int, name: str, j: int) -> float:
        if setting == "hardness":
            return math.exp(2.0 * similarity_of(before["anchor"][i], before[name][j], "angle"))
        return math.exp(2.0) if name != "positive" and i == j else 1.0

    check(loss, lambda: contrast_by_loops(vectors(views), numbers(ids), *HOW, weigh=weigh), views)


def test_pairs_that_share_a_text_do_not_push_each_other_apart_in_any_direction() -> None:
    views = batch("anchor", "positive", rows=4)
    ids = {"anchor": torch.tensor([0, 0, 2, 3]), "positive": torch.tensor([4, 5, 6, 6])}
    rows = Rows(ids, mask_duplicates=True)
    loss, _ = infonce(views, rows, similarity="angle", margin=10.0, symmetric=True, same_side=True)
    check(loss, lambda: both_ways(views, ids, mask=True, same_side=True), views)


def test_negatives_on_the_other_side_keep_their_digits_in_float32() -> None:
    """Σ e^(s/τ) is 2e-9 here: taken as (1 + Σ) − 1, with the positive's place at e^0, it is 0 and its log infinite."""
    views = {"anchor": on_the_circle(0, 180).float(), "positive": on_the_circle(0, 180).float()}
    loss, _ = Objective("dcl")(views, Rows(distinct(views)))
    assert_near(loss, -40)


@pytest.mark.parametrize("loss", [infonce, dcl])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("same_side", [False, True])
def test_both_directions_and_the_same_side(loss: Objective, symmetric: bool, same_side: bool) -> None:
    views, ids = batch_of_five()
    value, _ = loss(views, Rows(ids), similarity="angle", margin=10.0, symmetric=symmetric, same_side=same_side)

    how: dict[str, Any] = {"same_side": same_side, "decoupled": loss is dcl}

    def by_loops() -> float:
        one_way = contrast_by_loops(vectors(views), numbers(ids), *HOW, **how)
        return both_ways(views, ids, **how) if symmetric else one_way

    check(value, by_loops, views)


def test_a_guide_drops_what_it_finds_closer_than_the_positive() -> None:
    views, ids = batch_of_five()
    guides = {f"guide_{name}": view.detach() for name, view in batch(*views, rows=5, width=3, seed=9).items()}
    by_name = {name.removeprefix("guide_"): vector for name, vector in vectors(guides).items()}
    loss = Objective("simcse", similarity="angle", margin=10.0, tau=TAU)
    all_views = {**views, **guides}
    value, _ = loss(all_views, Rows(ids), guide="a", symmetric=True, same_side=True)

    check(value, lambda: both_ways(views, ids, same_side=True, guides=by_name), views)
    plain, _ = loss(all_views, Rows(ids))
    kept, _ = loss(views, Rows(ids))
    assert plain == kept and value.item() != pytest.approx(plain.item())


def test_a_guide_that_finds_everything_closer_leaves_nothing_to_learn() -> None:
    views = batch("anchor", "positive", rows=4)
    ones = torch.ones(4, 3, dtype=torch.float64)
    guides = {"guide_anchor": ones, "guide_positive": -ones + 1e-3 * torch.eye(4, 3, dtype=torch.float64)}
    # At 90°, so that row 1 drops no other.
    guides["guide_positive"][1] = torch.tensor([1.0, -1.0, 0.0])
    value, _ = infonce({**views, **guides}, Rows(distinct(views)), similarity="cosine", margin=0.0, guide="a")
    value.backward()  # type: ignore[no-untyped-call]
    assert value.isfinite() and all(view.grad is not None and view.grad.isfinite().all() for view in views.values())


def test_some_rows_may_be_the_anchors() -> None:
    views, ids = batch_of_five()
    settings = InBatch(similarity="angle", margin=10.0, tau=TAU, same_side=True)
    value = contrast(views, Rows(ids), settings, anchors=torch.tensor([3, 1]))
    check(value, lambda: contrast_by_loops(vectors(views), numbers(ids), *HOW, same_side=True, rows=[1, 3]), views)


# With the second moment above 1/d, and mostly below.
@pytest.mark.parametrize("width", [2, 6])
def test_the_orthogonal_regulariser_is_its_formula(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "BLOCK", 2)
    views = batch("anchor", "positive", "negative", rows=5, width=width, seed=1)
    ids = distinct(views)
    ids["negative"][2] = -1
    value, parts = infonce(views, Rows(ids), similarity="cosine", margin=0.0, orthogonal=7.0)
    plain, _ = infonce(views, Rows(ids), similarity="cosine", margin=0.0)
    assert value.item() == pytest.approx(plain.item() + 7 * parts["orthogonality"].item())

    def by_loops() -> float:
        now, texts = vectors(views), numbers(ids)
        cosine = [
            similarity_of(a, other, "cosine")
            for i, a in enumerate(now["anchor"])
            for name in ("positive", "negative")
            for j, other in enumerate(now[name])
            if texts[name][j] != -1 and not (name == "positive" and i == j)
        ]
        first, second = (sum(c**power for c in cosine) / len(cosine) for power in (1, 2))
        return first**2 + max(0.0, second - 1 / width)

    check(spread(views, Rows(ids)), by_loops, views)
