"""A loss at several sizes: sentence-transformers' MatryoshkaLoss, and what must not be truncated."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from contrastcli.objectives.matryoshka import at_sizes
from contrastcli.objectives.rows import Rows
from support.batches import Objective, batch, distinct, gradient
from support.rounding import assert_near

WIDTH = 12
WEIGHTS = {WIDTH: 1.0, 3: 0.5, 8: 2.0}
PREFIXES = ("", "peer_")


def truncate(vectors: Tensor, size: int) -> Tensor:
    return vectors[:, :size]


def sizes_of(objective: Objective) -> nn.ModuleDict:
    """Heads for each size."""
    torch.manual_seed(0)
    return nn.ModuleDict({str(size): objective.heads(size).double() for size in WEIGHTS})


def clean(views: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same embeddings, without gradients."""
    return {name: view.detach().requires_grad_(view.requires_grad) for name, view in views.items()}


@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 1.0]])
def test_infonce_at_several_sizes_is_the_loss_of_sentence_transformers(weights: list[float] | None) -> None:
    library = pytest.importorskip("sentence_transformers")

    class Embeddings(nn.Module):
        """A model whose features are the embeddings."""

        def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"sentence_embedding": features["embeddings"]}

        def get_embedding_dimension(self) -> int:
            return WIDTH

    views = batch("anchor", "positive", "negative", rows=7, width=WIDTH)
    theirs, losses = clean(views), library.sentence_transformer.losses
    model = Embeddings()
    ranking = losses.MultipleNegativesRankingLoss(model, scale=20.0)
    matryoshka = losses.MatryoshkaLoss(model, ranking, [3, 8, WIDTH], weights)
    expected = matryoshka([{"embeddings": view} for view in theirs.values()], torch.tensor(0))
    torch.autograd.backward(expected)

    by_size = dict(zip([3, 8, WIDTH], weights or [1.0] * 3, strict=True))
    infonce = Objective("simcse", tau=0.05)
    nested = at_sizes(infonce, {WIDTH: by_size[WIDTH]} | by_size, truncate)
    loss, _ = nested(views, Rows(distinct(views)), sizes_of(infonce))
    torch.autograd.backward(loss)
    assert_near(loss.detach(), expected.detach())
    for name, view in views.items():
        assert_near(gradient(view), gradient(theirs[name]))


@pytest.mark.parametrize("name", ["simcse", "pcl", "pairsupcon", "softmax", "rankcse"])
def test_the_loss_is_the_weighted_sum_of_those_of_each_size_with_heads_of_its_own(name: str) -> None:
    names = [prefix + view for prefix in PREFIXES[: 1 + (name == "pcl")] for view in ("anchor", "positive")]
    views = batch(*names, rows=6, width=WIDTH)
    teacher = batch("teacher_anchor", "teacher_positive", rows=6, width=WIDTH, seed=1)  # as wide as the student
    whole = {one: view.detach() for one, view in teacher.items()} if name == "rankcse" else {}
    label = torch.tensor([0, 2, 0, 0, 2, 0])
    rows, objective = Rows(distinct(views), label), Objective(name)
    heads = sizes_of(objective)
    loss, parts = at_sizes(objective, WEIGHTS, truncate)({**views, **whole}, rows, heads)
    torch.autograd.backward(loss)

    total = torch.zeros((), dtype=torch.float64)
    again = clean(views)
    for size, weight in WEIGHTS.items():
        some = {one: view[:, :size] for one, view in again.items()}
        own = heads[str(size)]
        assert isinstance(own, nn.ModuleDict)
        value, its_parts = objective({**some, **whole}, rows, own)
        total = total + weight * value
        if size == WIDTH:
            assert {one: parts[one] for one in its_parts} == its_parts
        else:
            assert_near(parts[f"loss@{size}"], value.detach())
    torch.autograd.backward(total)
    assert_near(loss.detach(), total.detach())
    for one, view in views.items():
        assert_near(gradient(view), gradient(again[one]))
