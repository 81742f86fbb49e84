"""Ranking metrics, computed again from sorted lists, as trec_eval's documentation defines them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from contrastcli.data.relevance import Retrieval
from contrastcli.evaluation import ranking
from contrastcli.evaluation.ranking import measure, ranks
from contrastcli.model.metrics import Floats

METRICS = ("ndcg@1", "ndcg@10", "mrr@10", "recall@1", "recall@10", "recall@100", "map")


def problem(
    cosines: Sequence[Sequence[float]], judged: Sequence[tuple[int, int, int]]
) -> tuple[Retrieval, Floats, Floats]:
    """Vectors with cosines in the order of those of a (Q, N) table, and these judgements."""
    queries = np.array(cosines, dtype=np.float64)
    documents = np.eye(queries.shape[1])
    texts = [[f"{kind}{n}" for n in range(count)] for kind, count in zip("qd", queries.shape, strict=True)]
    rows = np.array(sorted(judged), dtype=np.int64).reshape(-1, 3)
    return Retrieval(texts[0], texts[1], rows, np.empty((0, 3), np.int64), "made up"), queries, documents


def measured(metric: str, data: Retrieval, queries: Floats, documents: Floats) -> Floats:
    return measure(replace(data, metric=metric), ranks(data.judged, queries, documents), queries, documents)


def by_sorting(metric: str, cosines: Sequence[float], grades: dict[int, int]) -> float:
    """A metric of one query: rank all documents, of equal ones the best last, and walk down the list."""
    name, _, cutoff = metric.partition("@")
    k = int(cutoff) if cutoff else len(cosines)
    ranked = [d for d in range(len(cosines)) if grades.get(d) != 0]
    gains = [grades.get(d, 0) for d in sorted(ranked, key=lambda d: (-cosines[d], grades.get(d, 0)))]
    relevant = [gain for gain in gains if gain]
    if not relevant:
        return 0.0
    if name == "mrr":
        return next((1 / n for n, gain in enumerate(gains[:k], 1) if gain), 0.0)
    if name == "recall":
        return len([gain for gain in gains[:k] if gain]) / len(relevant)
    if name == "map":
        return sum(len([g for g in gains[:n] if g]) / n for n, gain in enumerate(gains, 1) if gain) / len(relevant)
    best = sorted(relevant, reverse=True)
    ideal = sum(gain / math.log2(n + 1) for n, gain in enumerate(best[:k], 1))
    return sum(gain / math.log2(n + 1) for n, gain in enumerate(gains[:k], 1)) / ideal


def random_problem(seed: int) -> tuple[list[list[float]], list[tuple[int, int, int]]]:
    """Few to many documents, with or without ties, graded or not, some queries with nothing relevant."""
    random = np.random.default_rng(seed)
    count, texts = int(random.integers(1, 30)), int(random.choice([1, 2, 5, 40, 150]))
    levels = int(random.choice([1, 2, 4, 10**6]))
    cosines = (random.integers(levels, size=(count, texts)) + 1.0).tolist()
    highest = int(random.choice([1, 3]))
    judged = []
    for query in range(count):
        for document in random.permutation(texts)[: random.integers(0, texts + 1)] if random.random() > 0.1 else ():
            judged.append((query, int(document), int(random.integers(0, highest + 1))))
    return cosines, judged


@pytest.mark.parametrize("seed", range(25))
def test_every_metric_equals_the_one_from_a_sorted_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_BLOCK", 7 * 64)
    cosines, judged = random_problem(seed)
    data, queries, documents = problem(cosines, judged)
    for metric in METRICS:
        grades: list[dict[int, int]] = [{} for _ in cosines]
        for query, document, grade in judged:
            grades[query][document] = grade
        wanted = [by_sorting(metric, row, own) for row, own in zip(cosines, grades, strict=True)]
        assert measured(metric, data, queries, documents) == pytest.approx(wanted, abs=1e-12), metric


@pytest.mark.parametrize("vector", [[0.6, 0.8], [0.0, 0.0], [1e-30, 1e-30]])
@pytest.mark.parametrize("noise", [0.0, 1e-13])
def test_a_collapsed_model_scores_next_to_nothing(vector: list[float], noise: float) -> None:
    judged = [(n, n, 1) for n in range(100)]
    data, _, _ = problem([[1.0] * 100] * 100, judged)
    vectors = np.array(vector) * (1 + noise * np.random.default_rng(0).standard_normal((100, 1)))
    for metric in ("ndcg@10", "mrr@10", "recall@1", "recall@10"):
        assert measured(metric, data, vectors, vectors).max() == 0, metric
    assert measured("map", data, vectors, vectors) == pytest.approx(0.01)


def test_a_triplet_is_right_where_its_positive_is_nearer_and_a_tie_is_wrong() -> None:
    triplets = np.array([(0, 0, 1), (0, 1, 0), (0, 1, 2), (1, 2, 0)])
    data = Retrieval(["p", "q"], ["a", "b", "c"], np.array([(0, 0, 1)]), triplets, "made up", "accuracy")
    queries, documents = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 5.0]])
    assert measure(data, data.judged, queries, documents).tolist() == [1, 0, 0, 1]
