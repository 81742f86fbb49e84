"""PairSupCon against plain loops, in value and gradient, and the identities that it must keep."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from contrastcli.objectives.pairsupcon import heads
from contrastcli.objectives.rows import Rows
from contrastcli.settings.losses import HardNegatives
from support.batches import MARGINS, Objective, batch, check, distinct, heavy, numbers, vectors
from support.by_loops import cross_entropy_by_loops, discrimination_by_loops

WHOLE = Objective("pairsupcon", tau=0.2)
CONTRAST = Objective("pairsupcon", tau=0.2, classification=False)
LABEL = torch.tensor([0, 2, 0, 0, 2])


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


APART = Rows({"anchor": torch.arange(5), "positive": torch.arange(5, 10)}, LABEL)
REPEATED = {"anchor": torch.tensor([0, 0, 2, 3, 9]), "positive": torch.tensor([5, 6, 5, 8, 3])}
MASKED = Rows(REPEATED, LABEL, mask_duplicates=True)
TWO = {"anchor": torch.tensor([1, 3]), "positive": torch.tensor([2, 4])}
# Row 1 has no text that is a negative of row 0, and not the other way round.
ALONE = Rows(TWO, torch.tensor([0, 0]), mask_duplicates=True, excluded=torch.tensor([[1, 3], [2, 4]]))


@pytest.mark.parametrize(
    ("rows", "kind", "margin"),
    [
        *((APART, *how) for how in MARGINS),
        *((rows, "cosine", 0.0) for rows in (MASKED, ALONE)),
    ],
)
@pytest.mark.parametrize("hard_negatives", ["importance", "exponent", "uniform"])
def test_instance_discrimination_is_its_formula_in_value_and_gradient(
    rows: Rows, kind: str, margin: float, hard_negatives: HardNegatives
) -> None:
    """Also where duplicates leave the negatives and their count, and an anchor is left without any."""
    views, layers = batch("anchor", "positive", rows=len(rows.labels()), width=6), heavy(heads(6))
    loss, parts = CONTRAST(views, rows, layers, similarity=kind, margin=margin, hard_negatives=hard_negatives)
    assert loss > 0 and parts.keys() == {"contrast"}
    check(loss, contrast_by_loops(views, rows, layers, hard_negatives, kind, margin), views, layers["projection"])


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
