"""SupCon, Augment and SBERT's softmax against plain loops, in value and gradient, and what their draws must keep."""

import math
from dataclasses import replace

import pytest
import torch

from contrastcli.objectives import softmax as sbert
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.supcon import heads, neighbours
from contrastcli.settings.losses import SupCon
from support.batches import MARGINS, Objective, batch, check, heavy, numbers, vectors
from support.by_loops import augmented_by_loops, cross_entropy_by_loops, supervised_contrast_by_loops

PREMISES = torch.tensor([0, 0, 0, 1, 1, 2])  # premise 0 entails two hypotheses, premise 2 none
CLASSES = (0, 0, 2, 0, 1, 1)
supcon, augment, softmax = Objective("supcon", tau=0.7), Objective("augment"), Objective("softmax")


DISTINCT, REPEATED = (10, 11, 12, 13, 14, 15), (10, 11, 11, 0, 10, 15)


def rows_of(mask: bool = False, hypotheses: tuple[int, ...] = DISTINCT, classes: tuple[int, ...] = CLASSES) -> Rows:
    ids = {"anchor": PREMISES, "positive": torch.tensor(hypotheses)}
    return Rows(ids, torch.tensor(classes), mask_duplicates=mask)


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize(("kind", "margin"), [(None, 0.0), *MARGINS])
def test_supcon_is_its_formula_in_value_and_gradient(kind: str | None, margin: float, mask: bool) -> None:
    views, layers = batch("anchor", "positive", rows=6, width=4), heavy(heads(4))
    rows = rows_of(mask, REPEATED)
    loss, parts = supcon(views, rows, layers, normalize=kind is not None, similarity=kind or "cosine", margin=margin)

    def classification() -> float:
        return cross_entropy_by_loops(vectors(views), layers["classifier"], CLASSES)

    def contrast() -> float:
        ids = numbers(rows.ids)
        return supervised_contrast_by_loops(vectors(views), ids, CLASSES, 0.7, kind, margin, mask)

    check(loss, lambda: 0.7 * classification() + 0.3 * contrast(), views, layers)
    assert parts["classification"].item() == pytest.approx(classification())
    assert parts["contrast"].item() == pytest.approx(contrast())


@pytest.mark.parametrize("classes", [CLASSES, (1, 2, 2, 1, 2, 1)], ids=["some", "none"])  # are entailed
@pytest.mark.parametrize(("hypotheses", "mask"), [(DISTINCT, False), (REPEATED, False), (REPEATED, True)])
def test_augment_is_its_formula_in_value_and_gradient(
    hypotheses: tuple[int, ...], mask: bool, classes: tuple[int, ...]
) -> None:
    views, layers = batch("anchor", "positive", rows=6, width=4), heavy(heads(4))
    rows = rows_of(mask, hypotheses, classes)
    loss, parts = augment(views, rows, layers)

    def by_loops() -> float:
        return augmented_by_loops(vectors(views), numbers(rows.ids), classes, layers["classifier"], mask)

    check(loss, by_loops, views, layers)
    assert parts.keys() == {"classification"} and parts["classification"] == loss


@pytest.mark.parametrize("gap", [5.0, 40.0])
def test_a_small_contrast_keeps_its_digits_in_float32(gap: float) -> None:
    """One premise and its hypothesis, at a logit above that of the only other one: −log σ(gap) = log(1 + e^−gap)."""
    premises = torch.tensor([[1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    hypotheses = torch.tensor([[60.0, 0.0], [60.0 - gap, 0.0]])
    rows = Rows({"anchor": torch.tensor([0, 1]), "positive": torch.tensor([2, 3])}, torch.tensor([0, 2]))
    loss, _ = supcon({"anchor": premises, "positive": hypotheses}, rows, heads(2), lambda_=1.0, tau=1.0)
    assert loss.item() == pytest.approx(math.log1p(math.exp(-gap)), rel=1e-5, abs=0)
    (gradient,) = torch.autograd.grad(loss, premises)
    assert gradient[0, 0].item() == pytest.approx(-gap / (1 + math.exp(gap)), rel=1e-4, abs=0)


def test_capped_positives_and_negatives_are_drawn_again_each_time_without_replacement() -> None:
    """Of premise 0, which has three positives and three negatives, each entailed row draws its own."""
    ids = {"anchor": torch.tensor([0, 0, 0, 1, 1, 1]), "positive": torch.arange(10, 16)}
    rows = Rows(ids, torch.tensor([0, 0, 0, 2, 1, 2]))
    draws = []
    for seed in range(30):
        torch.manual_seed(seed)
        positive, negative = neighbours(rows, torch.arange(3), SupCon(positives=2, negatives=1))
        assert positive.sum(dim=1).tolist() == [2] * 3 and negative.sum(dim=1).tolist() == [1] * 3
        assert not positive[:, 3:].any() and not negative[:, :3].any()
        draws.append(tuple((positive | negative).flatten().tolist()))
    assert len({*draws}) > 15 and any(draw[:6] != draw[6:12] for draw in draws)


@pytest.mark.parametrize("loss", [supcon, augment], ids=["supcon", "augment"])
def test_draws_repeat_with_the_seed_and_a_cap_above_the_number_takes_all(loss: Objective) -> None:
    views, layers = batch("anchor", "positive", rows=6, width=4), heavy(heads(4))
    losses = []
    for _ in range(2):
        torch.manual_seed(5)
        losses.append(loss(views, rows_of(), layers, positives=1, negatives=2)[0].item())
    everyone, _ = loss(views, rows_of(), layers)
    capped, _ = loss(views, rows_of(), layers, positives=50, negatives=50)
    assert losses[0] == losses[1] != everyone.item() and capped == everyone


def test_softmax_is_its_formula_in_value_and_gradient() -> None:
    views, layers = batch("anchor", "positive", rows=6, width=4), heavy(sbert.heads(4))
    loss, parts = softmax(views, rows_of(), layers)
    check(loss, lambda: cross_entropy_by_loops(vectors(views), layers["classifier"], CLASSES), views, layers)
    assert parts["classification"] == loss


@pytest.mark.parametrize("name", ["supcon", "augment"])
def test_the_padded_length_shortens_each_text_to_its_share_of_the_longest_of_its_view(name: str) -> None:
    """Means over padded token vectors, whose first is CLS, as the released code takes them."""
    generator = torch.Generator().manual_seed(0)
    lengths = {"anchor": torch.tensor([3, 5, 4, 9, 3, 3]), "positive": torch.tensor([4, 4, 6, 3, 5, 4])}
    means, padded = {}, {}
    for view, tokens in lengths.items():
        longest = int(tokens.max())
        states = torch.randn(6, longest, 4, generator=generator, dtype=torch.float64)
        states[torch.arange(longest) >= tokens[:, None]] = 0
        padded[view] = states[:, 1:].mean(dim=1)
        means[view] = (states[:, 1:].sum(dim=1) / (tokens - 1)[:, None]).requires_grad_()
    rows, layers = replace(rows_of(), lengths=lengths), heavy(heads(4))
    loss_of = augment if name == "augment" else supcon
    loss, _ = loss_of(means, rows, layers, padded_length=True)
    torch.testing.assert_close(loss, loss_of(padded, rows, layers)[0])
    assert loss.item() != pytest.approx(loss_of(means, rows, layers)[0].item())
