"""Margin-MSE, KL and embed against plain loops, in value and gradient, and against sentence-transformers."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import unit
from support.batches import Objective, batch, check, distinct, vectors
from support.by_loops import dot, similarity_of
from support.by_loops import unit as unit_of

SCORES = [[0.9, 0.2, 0.5], [0.7, 0.8, -0.2], [0.3, 0.3, 0.1], [12.0, -9.0, 3.5]]
VIEWS = ("anchor", "positive", "negative", "negative_2")


def candidates(views: dict[str, Tensor], kind: str) -> list[tuple[list[float], list[float]]]:
    """Of each row the similarities of its positive and negatives, and the teacher's scores."""
    now = vectors(views)
    rows = []
    for i, scores in enumerate(torch.tensor(SCORES).tolist()):  # rounded as the data are
        rows.append(([similarity_of(now["anchor"][i], now[name][i], kind) for name in VIEWS[1:]], scores))
    return rows


def margins_by_loops(views: dict[str, Tensor], kind: str, tau: float, teacher_tau: float) -> float:
    errors = []
    for s, t in candidates(views, kind):
        for place in range(1, len(s)):
            errors.append(((s[0] - s[place]) / tau - (t[0] - t[place]) / teacher_tau) ** 2)
    return sum(errors) / len(errors)


def divergence_by_loops(views: dict[str, Tensor], kind: str, tau: float, teacher_tau: float) -> float:
    total = 0.0
    for s, t in candidates(views, kind):
        q, p = ([math.exp(x / by) for x in of] for of, by in ((s, tau), (t, teacher_tau)))
        for one, other in zip(q, p, strict=True):
            total += other / sum(p) * math.log((other / sum(p)) / (one / sum(q)))
    return total / len(SCORES)


@pytest.mark.parametrize("kind", ["cosine", "angle", "rbf"])
@pytest.mark.parametrize(("name", "by_loops"), [("margin-mse", margins_by_loops), ("kl", divergence_by_loops)])
def test_a_loss_on_scores_is_its_formula(name: str, by_loops: Any, kind: str) -> None:
    views = batch(*VIEWS, rows=len(SCORES), width=4)
    rows = Rows(distinct(views), candidate_score=torch.tensor(SCORES))
    loss, _ = Objective(name, similarity=kind, tau=0.3, teacher_tau=0.8)(views, rows)
    check(loss, partial(by_loops, views, kind, 0.3, 0.8), views)


@pytest.mark.parametrize("width", [4, 7])
def test_embed_is_the_squared_distance_of_unit_vectors(width: int) -> None:
    """Of a wider teacher the first numbers count."""
    views = batch("anchor", rows=5, width=4) | {"teacher_anchor": torch.randn(5, width, dtype=torch.float64)}
    loss, parts = Objective("embed")(views, Rows(distinct(views)))

    def by_loops() -> float:
        now = vectors(views)
        cosines = [dot(unit_of(u), unit_of(v[:4])) for u, v in zip(now["anchor"], now["teacher_anchor"], strict=True)]
        return sum(2 - 2 * cosine for cosine in cosines) / len(cosines)

    check(loss, by_loops, views)
    assert parts == {"distance": loss}
    same, _ = Objective("embed")({"anchor": views["anchor"], "teacher_anchor": 3 * views["anchor"]}, Rows({}))
    assert same < 1e-12


def test_the_losses_are_those_of_sentence_transformers() -> None:
    """On unit vectors, whose products they compare."""
    losses = pytest.importorskip("sentence_transformers.losses")
    views = {name: unit(view.detach()) for name, view in batch(*VIEWS, rows=6, width=4).items()}
    scores = torch.randn(6, 3, dtype=torch.float64)
    rows = Rows(distinct(views), candidate_score=scores)

    def model(features: Tensor) -> dict[str, Tensor]:
        return {"sentence_embedding": features}

    given = [views[name] for name in VIEWS]
    margins = losses.MarginMSELoss(model)(given, scores[:, :1] - scores[:, 1:])
    assert Objective("margin-mse", tau=1, teacher_tau=1)(views, rows)[0].item() == pytest.approx(margins.item())
    divergence = losses.DistillKLDivLoss(model, temperature=0.4)(given, scores)
    assert 0.4**2 * Objective("kl", tau=0.4, teacher_tau=0.4)(views, rows)[0].item() == pytest.approx(divergence.item())
    distance = losses.MSELoss(model)([views["anchor"]], views["positive"])
    pair = {"anchor": views["anchor"], "teacher_anchor": views["positive"]}
    assert Objective("embed")(pair, rows)[0].item() == pytest.approx(4 * distance.item())  # a sum, not a mean
