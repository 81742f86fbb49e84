"""The losses on scored pairs against plain loops, in value and gradient, and what a batch may lack."""

import math
import statistics
from typing import Any

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rows import Rows
from contrastcli.objectives.scored import complex_angle
from support.batches import Objective, batch, check, distinct, numbers, vectors
from support.by_loops import Vector, contrast_by_loops, similarity_of, unit

SCORES = [0.0, 1.0, 0.25, 0.25, 0.8, 0.5]
aoe = Objective(
    "aoe", tau=0.3, angle_tau=0.7, order_weight=0.5, contrast_weight=2.0, angle_weight=3.0, positive_from=0.5
)
cosent, pearson, mse = Objective("cosent"), Objective("pearson"), Objective("mse")


def pairs(count: int = 6, width: int = 4) -> tuple[dict[str, Tensor], Rows]:
    views = batch("anchor", "positive", rows=count, width=width)
    return views, Rows(distinct(views), score=torch.tensor(SCORES[:count]))


def similarities(views: dict[str, Tensor], kind: str = "cosine") -> list[float]:
    now = vectors(views)
    return [similarity_of(u, v, kind) for u, v in zip(now["anchor"], now["positive"], strict=True)]


def order_by_loops(s: list[float], tau: float) -> float:
    """CoSENT over all pairs of rows."""
    ranked = [(i, j) for i, one in enumerate(SCORES) for j, other in enumerate(SCORES) if one > other]
    return math.log(1 + sum(math.exp((s[j] - s[i]) / tau) for i, j in ranked))


def quotient(z: Vector, w: Vector) -> float:
    """|Σ Re + Σ Im| of z·w̄ over the lengths, component by component in complex numbers."""
    half = len(z) // 2
    one, other = ([complex(x, y) for x, y in zip(u[:half], u[half:], strict=True)] for u in (unit(z), unit(w)))
    products = [a * b.conjugate() for a, b in zip(one, other, strict=True)]
    return abs(sum(p.real + p.imag for p in products))


def in_batch(views: dict[str, Tensor]) -> float:
    """InfoNCE, in both directions, of the pairs that score at least 0.5 against all other texts, over all pairs."""
    how: dict[str, Any] = {"same_side": True, "rows": [i for i, score in enumerate(SCORES) if score >= 0.5]}
    now, ids = vectors(views), numbers(distinct(views))
    ways = [contrast_by_loops(now, ids, "cosine", 0.0, 0.3, of=of, **how) for of in ("anchor", "positive")]
    return sum(ways) / 2 * len(how["rows"]) / len(SCORES)


@pytest.mark.parametrize("kind", ["cosine", "angle", "rbf"])
def test_cosent_is_its_formula(kind: str) -> None:
    views, rows = pairs()
    loss, parts = cosent(views, rows, similarity=kind, tau=0.2)
    check(loss, lambda: order_by_loops(similarities(views, kind), 0.2), views)
    assert parts == {"order": loss}


def test_aoe_is_its_three_terms() -> None:
    views, rows = pairs()
    loss, parts = aoe(views, rows)

    def by_loops() -> float:
        now = vectors(views)
        angles = [quotient(z, w) for z, w in zip(now["anchor"], now["positive"], strict=True)]
        return 0.5 * order_by_loops(similarities(views), 0.3) + 2 * in_batch(views) + 3 * order_by_loops(angles, 0.7)

    check(loss, by_loops, views)
    assert parts.keys() == {"order", "contrast", "angle"}


def test_the_angle_of_a_text_with_itself_is_one_and_does_not_depend_on_lengths() -> None:
    views, _ = pairs()
    u, v = views.values()
    torch.testing.assert_close(complex_angle(u, u), torch.ones(6, dtype=torch.float64))
    torch.testing.assert_close(complex_angle(3 * u, v / 7), complex_angle(u, v))
    odd = torch.randn(6, 5, dtype=torch.float64)
    assert complex_angle(odd, odd).shape == (6,)


def test_pearson_is_one_less_the_correlation() -> None:
    views, rows = pairs()
    loss, _ = pearson(views, rows)
    scores = [float(score) for score in rows.scores()]
    check(loss, lambda: 1 - statistics.correlation(similarities(views), scores), views)


@pytest.mark.parametrize("lowest", [0.0, -1.0])
def test_mse_is_the_squared_difference_of_cosine_and_scaled_score(lowest: float) -> None:
    views, rows = pairs()
    loss, _ = mse(views, rows, lowest=lowest)
    targets = [lowest + (1 - lowest) * float(score) for score in rows.scores()]

    def by_loops() -> float:
        errors = [(s - t) ** 2 for s, t in zip(similarities(views), targets, strict=True)]
        return sum(errors) / len(errors)

    check(loss, by_loops, views)


def test_a_small_loss_keeps_its_digits() -> None:
    views = {"anchor": torch.tensor([[1.0, 0.0], [1.0, 0.0]]), "positive": torch.tensor([[1.0, 0.0], [0.0, 1.0]])}
    loss, _ = cosent(views, Rows(distinct(views), score=torch.tensor([1.0, 0.0])), tau=0.04)
    assert loss.item() == pytest.approx(math.exp(-25), rel=1e-5)


def test_many_rows_take_no_square_of_memory() -> None:
    scores = torch.rand(100_000, generator=torch.Generator().manual_seed(0))
    views = {"anchor": torch.ones(100_000, 2), "positive": torch.stack([scores, 1 - scores], dim=1)}
    loss, _ = cosent(views, Rows(distinct(views), score=scores))
    assert loss.isfinite()
