"""What every objective must survive: degenerate batches, float32, any order of rows, any size of batch."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from contrastcli.objectives import functional
from contrastcli.objectives.rows import Rows
from support.batches import Objective

WIDTH = 6
OBJECTIVES = {
    "simcse": Objective("simcse"),
    "simace": Objective("simace"),
    "arccon": Objective("arccon"),
    "rbf": Objective("simcse", similarity="rbf"),
    "gte": Objective("simcse", symmetric=True, same_side=True, orthogonal=0.5),
    "pairsupcon": Objective("pairsupcon"),
    "exponent": Objective("pairsupcon", hard_negatives="exponent"),
    "instancedisc": Objective("pairsupcon", hard_negatives="uniform", classification=False),
    "supcon": Objective("supcon"),
    "supcon-angle": Objective("supcon", normalize=True, similarity="angle", margin=10.0),
    "dcl": Objective("dcl"),
    "dcl-angle": Objective("dcl", similarity="angle", margin=10.0, tau=0.06),
    "mpt": Objective("mpt"),
    "met": Objective("met"),
    "mat": Objective("mat"),
    "augment": Objective("augment"),
    "softmax": Objective("softmax"),
    "pcl": Objective("pcl", similarity="angle", margin=10.0),
    "rankcse-listnet": Objective("rankcse", similarity="angle", margin=10.0, distillation="listnet"),
    "rankcse-listmle": Objective("rankcse", similarity="angle", margin=10.0, distillation="listmle"),
    "cosent": Objective("cosent", similarity="angle"),
    "aoe": Objective("aoe", positive_from=0.5),
    "pearson": Objective("pearson"),
    "mse": Objective("mse", lowest=-1.0),
    "margin-mse": Objective("margin-mse", similarity="angle"),
    "kl": Objective("kl"),
}
every_objective = pytest.mark.parametrize("name", OBJECTIVES)


def random_rows(size: int, seed: int = 0) -> tuple[dict[str, Tensor], Rows]:
    """Embeddings that the (N, WIDTH) views of real rows could be, labels 0 and 2, scores, and some repeated texts."""
    generator = torch.Generator().manual_seed(seed)
    views = {name: torch.randn(size, WIDTH, generator=generator) for name in ("anchor", "positive")}
    ids = {
        "anchor": torch.randint(0, size, (size,), generator=generator),
        "positive": torch.randint(size // 2, 2 * size, (size,), generator=generator),
    }
    labels, scores = 2 * torch.randint(0, 2, (size,), generator=generator), torch.rand(size, generator=generator)
    taught = torch.rand(size, 2, generator=generator)
    return views, Rows(ids, labels, mask_duplicates=True, score=scores, candidate_score=taught)


def all_views(name: str, views: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The views and, of the same embeddings with other features, PCL's peer, RankCSE's teacher and hard negatives."""
    if name in ("margin-mse", "kl"):
        return {**views, "negative": views["anchor"].roll(1, dims=1)}
    if name == "pcl":
        net = {**views, "shuffle_1": views["anchor"].roll(1, dims=1)}
        return net | {f"peer_{view}": x.roll(2, dims=1) for view, x in net.items()}
    teacher = {f"teacher_{view}": x.detach()[:, 1:] for view, x in views.items() if name.startswith("rankcse")}
    return {**views, **teacher}


def measure(
    name: str, views: Mapping[str, Tensor], rows: Rows, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, list[Tensor]]:
    """The loss, and its gradients in the views and then in the heads, the heads always the same."""
    torch.manual_seed(0)
    heads = OBJECTIVES[name].heads(WIDTH).to(torch.float64 if dtype == torch.float64 else torch.float32)
    leaves = {view: x.detach().to(dtype).requires_grad_() for view, x in views.items()}
    loss, _ = OBJECTIVES[name](all_views(name, leaves), rows, heads)
    torch.autograd.backward(loss)
    return loss.detach(), [x.grad for x in (*leaves.values(), *heads.parameters()) if x.grad is not None]


def degenerate() -> dict[str, tuple[dict[str, Tensor], Rows]]:
    """The batches on which a careless loss divides by zero."""
    x, y = (torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    same = x[:1].expand(4, WIDTH)
    ids = {"anchor": torch.arange(4), "positive": torch.arange(4, 8)}
    one = {view: texts[:1] for view, texts in ids.items()}
    equal = {view: torch.zeros(4, dtype=torch.long) for view in ids}
    label, score = torch.tensor([0, 2, 0, 2]), torch.tensor([0.8, 0.2, 1.0, 0.0])
    batches = {
        "one row": ({"anchor": x[:1], "positive": y[:1]}, Rows(one, label[:1])),
        "one row without a positive": ({"anchor": x[:1], "positive": y[:1]}, Rows(one, label[1:2])),
        "identical sentences": ({"anchor": same, "positive": same}, Rows(ids, label)),
        "opposite sentences": ({"anchor": x, "positive": -x}, Rows(ids, label)),
        "no positive": ({"anchor": x, "positive": y}, Rows(ids, torch.full((4,), 2))),
        "no negative": ({"anchor": x, "positive": y}, Rows(equal, torch.zeros(4, dtype=torch.long), True)),
        "zero vectors": ({"anchor": x * 0, "positive": y * 0}, Rows(ids, label)),
        "vast vectors": ({"anchor": x * 1e6, "positive": y * 1e6}, Rows(ids, label)),
        "equal scores": ({"anchor": x, "positive": y}, Rows(ids, label, score=torch.full((4,), 0.4))),
    }
    taught = torch.tensor([[0.9, 0.1], [0.5, 0.7], [-20.0, 20.0], [1.0, 1.0]])
    made = {}
    for which, (views, rows) in batches.items():
        size = len(views["anchor"])
        scores = score[:size] if rows.score is None else rows.score
        made[which] = views, replace(rows, score=scores, candidate_score=taught[:size])
    return made


@every_objective
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_degenerate_batch_has_a_finite_loss_and_finite_gradients(name: str, dtype: torch.dtype) -> None:
    for which, batch in degenerate().items():
        loss, gradients = measure(name, *batch, dtype)
        assert loss.isfinite() and (loss >= 0 or name.startswith("dcl")), which  # which has no lower bound
        assert len(gradients) >= 2 and all(gradient.isfinite().all() for gradient in gradients), which


CONTRASTS = ("simcse", "simace", "arccon", "rbf", "gte", "instancedisc", "dcl", "dcl-angle", "mpt", "met", "mat")
NOTHING = [
    *product(CONTRASTS, ("one row", "no negative")),
    *product(["instancedisc"], ("one row without a positive", "no positive")),
    *product(["cosent", "pearson"], ("one row", "equal scores")),
]


@pytest.mark.parametrize(("name", "which"), NOTHING)
def test_with_nothing_to_compare_a_loss_is_a_zero_that_keeps_the_graph(name: str, which: str) -> None:
    loss, gradients = measure(name, *degenerate()[which])
    assert loss == 0 and len(gradients) >= 2 and all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize(
    ("name", "lacking", "needed"),
    [
        ("softmax", "label", "labelled pairs"),
        ("mse", "score", "scored pairs"),
        ("margin-mse", "candidate_score", "scored triplets"),
    ],
)
def test_rows_without_what_an_objective_needs_say_so(name: str, lacking: str, needed: str) -> None:
    views, rows = random_rows(4)
    changes: dict[str, Any] = {lacking: None}
    with pytest.raises(ValueError, match=f"this objective needs {needed}"):
        measure(name, views, replace(rows, **changes))


@every_objective
def test_the_order_of_the_rows_changes_nothing(name: str) -> None:
    views, rows = random_rows(9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    ids = {view: x[order] for view, x in rows.ids.items()}
    taught = rows.candidate_scores()[order]
    shuffled = replace(rows, ids=ids, label=rows.labels()[order], score=rows.scores()[order], candidate_score=taught)
    loss, gradients = measure(name, views, rows, torch.float64)
    again, permuted = measure(name, {view: x[order] for view, x in views.items()}, shuffled, torch.float64)
    torch.testing.assert_close(again, loss)
    torch.testing.assert_close(permuted[:2], [gradient[order] for gradient in gradients[:2]])


NO_NEGATIVES = ("softmax", "cosent", "pearson", "mse", "margin-mse", "kl")


@every_objective
@pytest.mark.parametrize("view", ["positive", "anchor"])
def test_an_excluded_pair_counts_as_one_text_does_in_loss_and_gradient(name: str, view: str) -> None:
    """The positive of row 2 is close to that of row 0, or to its anchor, and no negative where the other one counts.

    Two pairs with the same positive have no negatives of each other.
    """
    views, rows = random_rows(9)
    views["positive"][2] = views[view][0] + 0.1
    anchors, positives = torch.arange(9), torch.arange(9, 18)
    pair = int({"anchor": anchors, "positive": positives}[view][0]), int(positives[2])
    plain = replace(rows, ids={"anchor": anchors, "positive": positives}, label=anchors % 2 * 2)
    pairs = [pair, *([(0, 2), (0, 11), (2, 9)] if view == "positive" else [])]
    excluded = replace(plain, excluded=torch.tensor([*pairs, *(one[::-1] for one in pairs)]))
    as_one = replace(plain, ids={"anchor": anchors, "positive": torch.where(anchors == 2, pair[0], positives)})
    loss, gradients = measure(name, views, excluded, torch.float64)
    expected, their_gradients = measure(name, views, as_one, torch.float64)
    torch.testing.assert_close((loss, gradients), (expected, their_gradients), rtol=1e-12, atol=1e-12)
    without = measure(name, views, replace(excluded, mask_duplicates=False), torch.float64)[0]
    assert torch.equal(without, loss), "whatever becomes of equal texts"
    # A positive's negatives are anchors there.
    has_no_effect = name in NO_NEGATIVES or (view == "positive" and name in ("mpt", "met", "mat"))
    assert torch.equal(measure(name, views, plain, torch.float64)[0], loss) == has_no_effect


@every_objective
def test_float32_gives_the_loss_and_gradient_of_float64(name: str) -> None:
    views, rows = random_rows(12)
    exact, exact_gradients = measure(name, views, rows, torch.float64)
    loss, gradients = measure(name, views, rows)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    for gradient, expected in zip(gradients, exact_gradients, strict=True):
        torch.testing.assert_close(gradient.double(), expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))


@every_objective
def test_blocks_of_anchors_give_what_the_whole_batch_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    views, rows = random_rows(11)
    loss, gradients = measure(name, views, rows, torch.float64)
    monkeypatch.setattr(functional, "BLOCK", 2)
    blocked, their_gradients = measure(name, views, rows, torch.float64)
    torch.testing.assert_close(blocked, loss)
    torch.testing.assert_close(their_gradients, gradients)


@pytest.mark.parametrize("name", ["pairsupcon", "supcon", "softmax"])
def test_fresh_heads_are_normal_with_deviation_002_and_zero_biases(name: str) -> None:
    torch.manual_seed(0)
    for parameter in OBJECTIVES[name].heads(256).parameters():
        deviation = 0.0 if parameter.dim() == 1 else 0.02
        assert parameter.std().item() == pytest.approx(deviation, rel=0.1)
        assert parameter.mean().item() == pytest.approx(0, abs=deviation / 10)
