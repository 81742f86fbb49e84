"""PairSupCon against plain loops, in value and gradient, and the identities that it must keep."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from contrastcli.objectives.pairsupcon import heads
from contrastcli.objectives.rows import Rows
from contrastcli.settings.losses import HardNegatives
from support.batches import Objective, batch, check, distinct, heavy, numbers, vectors
from support.by_loops import cross_entropy_by_loops, discrimination_by_loops

WHOLE = Objective("pairsupcon", tau=0.2)
CONTRAST = Objective("pairsupcon", tau=0.2, classification=False)
LABEL = torch.tensor([0, 2, 0, 0, 2])
every_weighing = pytest.mark.parametrize("hard_negatives", ["importance", "exponent", "uniform"])


def contrast_by_loops(
    views: Mapping[str, Tensor],
    rows: Rows,
    heads: nn.ModuleDict,
    hard_negatives: HardNegatives = "importance",
    kind: str = "cosine",
    margin: float = 0.0,
) -> Callable[[], float]:
    """Instance discrimination at τ = 0.2."""
    ids, label = numbers(rows.ids), rows.labels().tolist()
    excluded = [(first, second) for first, second in rows.excluded.tolist()]
    how = kind, margin, 0.2, hard_negatives, rows.mask_duplicates, excluded
    return lambda: discrimination_by_loops(vectors(views), ids, label, heads["projection"], *how)


@pytest.mark.parametrize(
    ("kind", "margin", "hard_negatives"),
    [("cosine", 0.1, "importance"), ("angle", 10.0, "exponent"), ("arc", 10.0, "uniform"), ("rbf", 0.0, "importance")],
)
def test_instance_discrimination_is_its_formula_in_value_and_gradient(
    kind: str, margin: float, hard_negatives: HardNegatives
) -> None:
    views, layers = batch("anchor", "positive", rows=5, width=6), heavy(heads(6))
    rows = Rows(distinct(views), LABEL)
    loss, parts = CONTRAST(views, rows, layers, similarity=kind, margin=margin, hard_negatives=hard_negatives)
    by_loops = contrast_by_loops(views, rows, layers, hard_negatives, kind, margin)
    check(loss, by_loops, views, layers["projection"])
    assert parts.keys() == {"contrast"}


@every_weighing
def test_masked_duplicates_leave_the_negatives_and_their_count(hard_negatives: HardNegatives) -> None:
    views, layers = batch("anchor", "positive", rows=5, width=6), heavy(heads(6))
    ids = {"anchor": torch.tensor([0, 0, 2, 3, 9]), "positive": torch.tensor([5, 6, 5, 8, 3])}
    rows = Rows(ids, LABEL, mask_duplicates=True)
    loss, _ = CONTRAST(views, rows, layers, hard_negatives=hard_negatives)
    check(loss, contrast_by_loops(views, rows, layers, hard_negatives), views)


@every_weighing
def test_an_anchor_without_negatives_counts_as_zero_and_leaves_the_others_alone(hard_negatives: HardNegatives) -> None:
    views, layers = batch("anchor", "positive", rows=2, width=6), heavy(heads(6))
    ids = {"anchor": torch.tensor([1, 3]), "positive": torch.tensor([2, 4])}
    # Row 1 has no text that is a negative of row 0, and not the other way round.
    rows = Rows(ids, torch.tensor([0, 0]), mask_duplicates=True, excluded=torch.tensor([[1, 3], [2, 4]]))
    loss, _ = CONTRAST(views, rows, layers, hard_negatives=hard_negatives)
    assert loss > 0
    check(loss, contrast_by_loops(views, rows, layers, hard_negatives), views)


def test_pairsupcon_adds_beta_times_contrast_to_the_classification() -> None:
    views, layers = batch("anchor", "positive", rows=5, width=6), heavy(heads(6))
    rows = Rows(distinct(views), LABEL)
    loss, parts = WHOLE(views, rows, layers, beta=0.7)
    contrast = contrast_by_loops(views, rows, layers)

    def classification() -> float:
        return cross_entropy_by_loops(vectors(views), layers["classifier"], [1, 0, 1, 1, 0])

    check(loss, lambda: classification() + 0.7 * contrast(), views, layers["classifier"])
    assert parts["classification"].item() == pytest.approx(classification())
    assert parts["contrast"].item() == pytest.approx(contrast())
