"""Each loss against the plain loops of `by_loops`, in value and gradient, and the identities that it must keep.

Gradients are compared with central differences of those loops, and by gradcheck.
"""

import math

import pytest
import torch
from torch import Tensor

from contrastcli.objectives import pairsupcon as pairs
from contrastcli.objectives import softmax as sbert
from contrastcli.objectives import supcon as sup
from contrastcli.objectives.infonce import infonce
from contrastcli.objectives.pairsupcon import pairsupcon
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.softmax import softmax
from contrastcli.objectives.supcon import supcon
from support.batches import MARGINS, NO_HEADS, batch, check, distinct, heavy, lists
from support.by_loops import (
    cross_entropy_by_loops,
    discrimination_by_loops,
    infonce_by_loops,
    supervised_contrast_by_loops,
    weighed_by_loops,
)

# ---- InfoNCE --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "margin"), MARGINS)
@pytest.mark.parametrize("names", [("anchor", "positive"), ("anchor", "positive", "negative")])
def test_infonce_is_its_formula_in_value_and_gradient(kind: str, margin: float, names: tuple[str, ...]) -> None:
    views = batch(*names, rows=5)
    ids = distinct(views)
    loss, parts = infonce(views, Rows(ids), NO_HEADS, similarity=kind, margin=margin, tau=0.3)
    check(loss, lambda: infonce_by_loops(lists(views), lists(ids), kind, margin, 0.3), list(views.values()))
    assert parts.keys() == {"contrast"} and parts["contrast"] == loss and not parts["contrast"].requires_grad


def test_infonce_weighs_each_rows_own_hard_negative() -> None:
    views = batch("anchor", "positive", "negative", rows=4)
    ids = distinct(views)
    settings = {"similarity": "angle", "margin": 10.0, "tau": 0.2}
    loss, _ = infonce(views, Rows(ids), NO_HEADS, **settings, hard_negative_weight=1.5)
    check(
        loss, lambda: infonce_by_loops(lists(views), lists(ids), "angle", 10.0, 0.2, weight=1.5), list(views.values())
    )


@pytest.mark.parametrize("mask", [True, False])
def test_infonce_leaves_duplicates_out_of_the_negatives_only_when_asked(mask) -> None:
    views = batch("anchor", "positive", "negative", rows=4)
    ids = {  # row 1's positive is row 0's anchor; row 3 is row 2 again; row 0's hard negative is its own positive
        "anchor": torch.tensor([0, 1, 2, 2]),
        "positive": torch.tensor([4, 0, 6, 6]),
        "negative": torch.tensor([4, 9, 10, 2]),
    }
    loss, _ = infonce(views, Rows(ids, mask_duplicates=mask), NO_HEADS, similarity="cosine", margin=0.0, tau=0.2)
    check(loss, lambda: infonce_by_loops(lists(views), lists(ids), "cosine", 0.0, 0.2, mask=mask), list(views.values()))


def test_infonce_looks_from_anchors_to_columns_only() -> None:
    views = batch("anchor", "positive", rows=4)
    swapped = {"anchor": views["positive"], "positive": views["anchor"]}
    settings = {"similarity": "cosine", "margin": 0.0, "tau": 0.1}
    there, _ = infonce(views, Rows(distinct(views)), NO_HEADS, **settings)
    back, _ = infonce(swapped, Rows(distinct(swapped)), NO_HEADS, **settings)
    assert abs(there.item() - back.item()) > 1e-3


def test_a_margin_above_zero_makes_the_positive_harder() -> None:
    views = batch("anchor", "positive", rows=4)
    losses = [
        infonce(views, Rows(distinct(views)), NO_HEADS, similarity="angle", margin=m, tau=0.1)[0].item()
        for m in (-10.0, 0.0, 10.0)
    ]
    assert losses == sorted(losses) and losses[0] < losses[2]


def test_simace_without_margin_approaches_simcse_as_all_cosines_go_to_zero() -> None:
    """π/2 − arccos(c) is c + c³/6: at cosines around 1e-3 the losses and gradients agree to about 1e-9 / τ."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(16, 16, generator=generator, dtype=torch.float64))[0]
    tilt = 1e-3 * torch.randn(8, 16, generator=generator, dtype=torch.float64)
    gradients, losses = {}, {}
    for kind in ("cosine", "angle"):
        views = {"anchor": basis[:8].clone().requires_grad_(), "positive": (basis[8:] + tilt).requires_grad_()}
        loss, _ = infonce(views, Rows(distinct(views)), NO_HEADS, similarity=kind, margin=0.0, tau=0.05)
        loss.backward()
        losses[kind], gradients[kind] = loss.item(), views["anchor"].grad
    assert losses["angle"] == pytest.approx(losses["cosine"], abs=1e-6)
    torch.testing.assert_close(gradients["angle"], gradients["cosine"], rtol=1e-4, atol=1e-4)


# ---- PairSupCon -----------------------------------------------------------------------------------------------------

PAIRS = {"similarity": "cosine", "margin": 0.0, "tau": 0.2, "beta": 1.0}
LABEL = torch.tensor([0, 2, 0, 0, 2])


@pytest.mark.parametrize("hard_negatives", ["importance", "exponent", "uniform"])
@pytest.mark.parametrize(("kind", "margin"), MARGINS)
def test_instance_discrimination_is_its_formula_in_value_and_gradient(kind: str, margin: float, hard_negatives) -> None:
    views, heads = batch("anchor", "positive", rows=5, width=6), heavy(pairs.heads(6))
    ids = distinct(views)
    settings = {**PAIRS, "similarity": kind, "margin": margin, "hard_negatives": hard_negatives}
    loss, parts = pairsupcon(views, Rows(ids, LABEL), heads, **settings, classification=False)

    def by_loops() -> float:
        return discrimination_by_loops(
            lists(views), lists(ids), LABEL.tolist(), heads, kind, margin, 0.2, hard_negatives, mask=False
        )

    check(loss, by_loops, [*views.values(), *heads["projection"].parameters()])
    assert parts.keys() == {"contrast"}


@pytest.mark.parametrize("hard_negatives", ["importance", "exponent", "uniform"])
def test_masked_duplicates_leave_the_negatives_and_their_count(hard_negatives) -> None:
    views, heads = batch("anchor", "positive", rows=5, width=6), heavy(pairs.heads(6))
    ids = {"anchor": torch.tensor([0, 0, 2, 3, 9]), "positive": torch.tensor([5, 6, 5, 8, 3])}
    loss, _ = pairsupcon(
        views,
        Rows(ids, LABEL, mask_duplicates=True),
        heads,
        **PAIRS,
        hard_negatives=hard_negatives,
        classification=False,
    )

    def by_loops() -> float:
        return discrimination_by_loops(
            lists(views), lists(ids), LABEL.tolist(), heads, "cosine", 0.0, 0.2, hard_negatives, mask=True
        )

    check(loss, by_loops, list(views.values()))


@pytest.mark.parametrize("hard_negatives", ["importance", "exponent", "uniform"])
def test_an_anchor_without_negatives_counts_as_zero_and_leaves_the_others_alone(hard_negatives) -> None:
    views, heads = batch("anchor", "positive", rows=2, width=6), heavy(pairs.heads(6))
    ids = {"anchor": torch.tensor([1, 1]), "positive": torch.tensor([2, 1])}  # row 1 only repeats row 0's anchor
    rows = Rows(ids, torch.tensor([0, 0]), mask_duplicates=True)
    loss, _ = pairsupcon(views, rows, heads, **PAIRS, hard_negatives=hard_negatives, classification=False)

    def by_loops() -> float:
        return discrimination_by_loops(
            lists(views), lists(ids), [0, 0], heads, "cosine", 0.0, 0.2, hard_negatives, mask=True
        )

    assert loss > 0
    check(loss, by_loops, list(views.values()))


def test_pairsupcon_adds_beta_times_contrast_to_the_classification() -> None:
    views, heads = batch("anchor", "positive", rows=5, width=6), heavy(pairs.heads(6))
    ids = distinct(views)
    settings = {**PAIRS, "beta": 0.7, "hard_negatives": "importance", "classification": True}
    loss, parts = pairsupcon(views, Rows(ids, LABEL), heads, **settings)

    def classified() -> float:
        return cross_entropy_by_loops(lists(views), [heads["classifier"]], [1, 0, 1, 1, 0])

    def contrasted() -> float:
        return discrimination_by_loops(
            lists(views), lists(ids), LABEL.tolist(), heads, "cosine", 0.0, 0.2, "importance", mask=False
        )

    check(loss, lambda: classified() + 0.7 * contrasted(), [*views.values(), heads["classifier"].weight])
    assert parts["classification"].item() == pytest.approx(classified())
    assert parts["contrast"].item() == pytest.approx(contrasted())


def test_beta_zero_is_classification_alone_and_no_entailment_leaves_it_alone() -> None:
    views, heads = batch("anchor", "positive", rows=5, width=6), heavy(pairs.heads(6))
    settings = {**PAIRS, "hard_negatives": "importance", "classification": True}
    none = Rows(distinct(views), torch.full((5,), 2))
    without_beta, _ = pairsupcon(views, Rows(distinct(views), LABEL), heads, **{**settings, "beta": 0.0})
    without_entailment, parts = pairsupcon(views, none, heads, **settings)
    layers = [heads["classifier"]]
    assert without_beta.item() == pytest.approx(cross_entropy_by_loops(lists(views), layers, [1, 0, 1, 1, 0]))
    assert without_entailment.item() == pytest.approx(cross_entropy_by_loops(lists(views), layers, [0] * 5))
    assert parts["contrast"].item() == 0.0


def test_importance_in_logs_equals_the_plain_sum() -> None:
    """At a temperature where the plain sum of exponentials still fits into float64."""
    generator = torch.Generator().manual_seed(2)
    cosine = torch.rand(3, 40, generator=generator, dtype=torch.float64) * 2 - 1
    everyone = torch.ones_like(cosine, dtype=torch.bool)
    in_logs = pairs.negative_mass(cosine / 0.05, everyone, "importance")
    for row, found in zip(cosine.tolist(), in_logs.tolist(), strict=True):
        assert found == pytest.approx(math.log(weighed_by_loops(row, 0.05, "importance")), rel=1e-12)


def test_an_unknown_weighing_is_named() -> None:
    with pytest.raises(ValueError, match=r"'hardest'.*importance, exponent and uniform"):
        pairs.negative_mass(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool), "hardest")


# ---- SupCon ---------------------------------------------------------------------------------------------------------

PREMISES = torch.tensor([0, 0, 0, 1, 1, 2])  # premise 0 entails two hypotheses, premise 2 none
CLASSES = torch.tensor([0, 0, 2, 0, 1, 1])
SUP = {"lambda_": 0.3, "tau": 0.7, "normalize": False, "similarity": "cosine", "margin": 0.0}
ALL = {"positives": 0, "negatives": 0}


def sup_rows(mask: bool = False, hypotheses: tuple[int, ...] = (10, 11, 12, 13, 14, 15)) -> Rows:
    return Rows({"anchor": PREMISES, "positive": torch.tensor(hypotheses)}, CLASSES, mask_duplicates=mask)


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize(("kind", "margin"), [(None, 0.0), *MARGINS])
def test_supcon_is_its_formula_in_value_and_gradient(kind: str, margin: float, mask) -> None:
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(sup.heads(4))
    rows = sup_rows(mask, hypotheses=(10, 11, 11, 0, 10, 15))
    settings = {**SUP, "normalize": kind is not None, "similarity": kind or "cosine", "margin": margin}
    loss, parts = supcon(views, rows, heads, **settings, **ALL)

    def classified() -> float:
        return cross_entropy_by_loops(lists(views), list(heads["classifier"]), CLASSES.tolist())

    def contrasted() -> float:
        return supervised_contrast_by_loops(lists(views), lists(rows.ids), CLASSES.tolist(), 0.7, kind, margin, mask)

    check(loss, lambda: 0.7 * classified() + 0.3 * contrasted(), [*views.values(), *heads.parameters()])
    assert parts["classification"].item() == pytest.approx(classified())
    assert parts["contrast"].item() == pytest.approx(contrasted())


def test_lambda_zero_is_the_classification_baseline_and_one_the_contrast_alone() -> None:
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(sup.heads(4))
    baseline, parts = supcon(views, sup_rows(), heads, **{**SUP, "lambda_": 0.0}, **ALL)
    contrast, _ = supcon(views, sup_rows(), heads, **{**SUP, "lambda_": 1.0}, **ALL)
    assert baseline == parts["classification"] and contrast == parts["contrast"]


def test_capped_positives_and_negatives_are_drawn_anew_without_replacement() -> None:
    """One anchor premise, three positives and three negatives: a draw of 2 and 1 is one of nine, each anchor's own."""
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(sup.heads(4))
    views["anchor"].data[:3] = views["anchor"].data[0].clone()
    label = torch.tensor([0, 0, 0, 2, 1, 2])
    ids = {"anchor": torch.tensor([0, 0, 0, 1, 1, 1]), "positive": torch.arange(10, 16)}
    possible = {}
    for left_out in range(3):
        for k in range(3):
            possible[left_out, k] = supervised_contrast_by_loops(
                lists(views), lists(ids), label.tolist(), 0.7, None, 0.0, False,
                choose=lambda ours, others, gone=left_out, k=k: ([j for j in ours if j != gone], [others[k]]),
            )  # fmt: skip
    means = {round((a + b + c) / 3, 9) for a in possible.values() for b in possible.values() for c in possible.values()}
    seen = set()
    for seed in range(30):
        torch.manual_seed(seed)
        _, parts = supcon(views, Rows(ids, label), heads, **SUP, positives=2, negatives=1)
        seen.add(round(parts["contrast"].item(), 9))
    assert seen <= means and len(seen) > 15


def test_draws_repeat_with_the_seed_and_a_cap_above_the_number_takes_all() -> None:
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(sup.heads(4))
    runs = []
    for _ in range(2):
        torch.manual_seed(5)
        runs.append(supcon(views, sup_rows(), heads, **SUP, positives=1, negatives=2)[0].item())
    everyone, _ = supcon(views, sup_rows(), heads, **SUP, **ALL)
    capped, _ = supcon(views, sup_rows(), heads, **SUP, positives=50, negatives=50)
    assert runs[0] == runs[1] and capped == everyone


# ---- SBERT softmax, and gradcheck for all ---------------------------------------------------------------------------


def test_softmax_is_its_formula_in_value_and_gradient() -> None:
    views, heads = batch("anchor", "positive", rows=6, width=4), heavy(sbert.heads(4))
    loss, parts = softmax(views, sup_rows(), heads)
    layers = [heads["classifier"]]
    check(
        loss,
        lambda: cross_entropy_by_loops(lists(views), layers, CLASSES.tolist()),
        [*views.values(), *heads.parameters()],
    )
    assert parts["classification"] == loss


@pytest.mark.parametrize("kind", ["cosine", "angle", "arc", "rbf"])
def test_gradients_pass_gradcheck(kind: str) -> None:
    views = batch("anchor", "positive", rows=6, width=4)
    pair_heads, sup_heads = heavy(pairs.heads(4)), heavy(sup.heads(4))
    margin = {"cosine": 0.1, "rbf": 0.0}.get(kind, 10.0)
    compared = {"similarity": kind, "margin": margin, "tau": 0.3}

    def losses(anchor: Tensor, positive: Tensor) -> tuple[Tensor, ...]:
        now, rows = {"anchor": anchor, "positive": positive}, sup_rows()
        weighed = {"hard_negatives": "exponent", "classification": True, "beta": 2.0}
        return (
            infonce(now, rows, NO_HEADS, **compared)[0],
            pairsupcon(now, rows, pair_heads, **compared, **weighed)[0],
            supcon(now, rows, sup_heads, **compared, normalize=True, lambda_=0.5, **ALL)[0],
        )

    assert torch.autograd.gradcheck(losses, tuple(views.values()))


@pytest.mark.parametrize("loss", [pairsupcon, supcon])
def test_fresh_heads_are_normal_with_deviation_002_and_zero_biases(loss) -> None:
    torch.manual_seed(0)
    for name, parameter in {pairsupcon: pairs, supcon: sup}[loss].heads(256).named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.1)


def test_a_loss_on_labels_says_so_where_there_are_none() -> None:
    views = batch("anchor", "positive", rows=2)
    with pytest.raises(ValueError, match="labelled pairs"):
        softmax(views, Rows(distinct(views)), sbert.heads(2).double())
