"""Augment against plain loops: which rows it adds, how they are labelled, and how they are drawn."""

from collections.abc import Sequence
from itertools import combinations, product

import pytest
import torch

from contrastcli.objectives import functional, supcon
from contrastcli.objectives.functional import pair_features
from contrastcli.objectives.rows import Rows
from support.batches import Objective, batch, check, heavy, numbers, vectors
from support.by_loops import Labelled, augmented_by_loops, augmented_rows, cross_entropy_by_loops

PREMISES = (0, 0, 0, 1, 1, 2)  # premise 0 entails two hypotheses, premise 1 one, premise 2 none
CLASSES = (0, 0, 2, 0, 1, 1)
Draw = tuple[Sequence[Labelled], Sequence[Labelled]]
augment = Objective("augment")


def rows_of(
    hypotheses: tuple[int, ...] = (10, 11, 12, 13, 14, 15), classes: tuple[int, ...] = CLASSES, mask: bool = False
) -> Rows:
    ids = {"anchor": torch.tensor(PREMISES), "positive": torch.tensor(hypotheses)}
    return Rows(ids, torch.tensor(classes), mask_duplicates=mask)


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("hypotheses", [(10, 11, 12, 13, 14, 15), (10, 11, 11, 0, 10, 15)])
def test_augment_is_its_formula_in_value_and_gradient(mask: bool, hypotheses: tuple[int, ...]) -> None:
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(supcon.heads(4))
    rows = rows_of(hypotheses, mask=mask)
    loss, parts = augment(views, rows, heads)

    def by_loops() -> float:
        return augmented_by_loops(vectors(views), numbers(rows.ids), CLASSES, heads["classifier"], mask)

    check(loss, by_loops, views, heads)
    assert parts.keys() == {"classification"} and parts["classification"] == loss


def test_hypotheses_of_the_premise_keep_their_label_and_foreign_ones_contradict() -> None:
    """With equal premises a pair's logits are its hypothesis's, so that the rows can be written out by hand."""
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(supcon.heads(4))
    views["anchor"] = torch.zeros(6, 4, dtype=torch.float64)
    own = [(0, 0), (1, 0), (2, 2), (3, 0), (4, 1), (5, 1)]
    of_premise_0 = [(0, 0), (1, 0), (2, 2), (3, 2), (4, 2), (5, 2)]  # added twice: it entails two hypotheses
    of_premise_1 = [(3, 0), (4, 1), (0, 2), (1, 2), (2, 2), (5, 2)]
    logits = heads["classifier"](pair_features(views["anchor"], views["positive"])).log_softmax(dim=1)  # (6, 3)
    costs = [-logits[j, y].item() for j, y in own + 2 * of_premise_0 + of_premise_1]
    loss, _ = augment(views, rows_of(), heads)
    assert loss.item() == pytest.approx(sum(costs) / len(costs))


@pytest.mark.parametrize("classes", [(1, 2, 2, 1, 2, 1), (2, 2, 2, 2, 2, 2)])
def test_without_an_entailment_it_is_plain_classification(classes: tuple[int, ...]) -> None:
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(supcon.heads(4))
    loss, _ = augment(views, rows_of(classes=classes), heads)
    assert loss.item() == pytest.approx(cross_entropy_by_loops(vectors(views), heads["classifier"], classes))


def test_caps_draw_that_many_of_each_anchor_without_replacement() -> None:
    """Two anchors with one positive of two and two negatives of four each, one with its positive and two of five."""
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(supcon.heads(4))
    ids = numbers(rows_of().ids)

    def drawn_by_loops(draws: Sequence[Draw]) -> float:
        left = iter(draws)
        return augmented_by_loops(
            vectors(views), ids, CLASSES, heads["classifier"], choose=lambda positives, negatives: next(left)
        )

    choices = [product(combinations(p, 1), combinations(n, 2)) for _, p, n in augmented_rows(ids, CLASSES)]
    possible = {round(drawn_by_loops(draws), 8) for draws in product(*choices)}
    seen = set()
    for seed in range(25):
        torch.manual_seed(seed)
        seen.add(round(augment(views, rows_of(), heads, positives=1, negatives=2)[0].item(), 8))
    assert seen <= possible and len(seen) > 15


def test_its_heads_learn_whatever_the_number_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(supcon.heads(4))
    gradients = []
    for block in (256, 1):
        monkeypatch.setattr(functional, "BLOCK", block)
        loss, _ = augment(views, rows_of(), heads)
        gradients.append(torch.autograd.grad(loss, list(heads.parameters())))
    assert len(gradients[0]) == 4 and all(g.norm() > 1e-3 for g in gradients[0])
    torch.testing.assert_close(gradients[0], gradients[1])
