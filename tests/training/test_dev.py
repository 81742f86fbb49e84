"""A run whose dev data are pairs without scores: what its best model does is what was logged, under its own name."""

import json
import math
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from contrastcli import load
from contrastcli.data.examples import ScoredPairs
from contrastcli.data.relevance import Retrieval
from contrastcli.evaluation import ranking
from contrastcli.model.folder import load_encoder
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Note
from contrastcli.runs.measured import Evaluated
from contrastcli.training.dev import DevSet
from contrastcli.training.plan import make_plan
from support.command import Contrast
from support.tiny import Tiny, known, told


@pytest.fixture(scope="module")
def held_out(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run; no test may change it."""
    changes = {"dev__data": "split:20%", "dev__metric": "recall@10", "dev__every": 4}
    return tiny.trained(tmp_path_factory.mktemp("held-out") / "one", "simcse", "pairs", **changes)


def test_the_logged_recall_is_the_share_of_held_out_anchors_whose_positive_is_among_the_ten_nearest(
    tiny: Tiny, held_out: Run, contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = held_out
    events, status = told(run, Evaluated), run.status()
    assert {event.metric for event in events} == {"recall@10"} and events[-1].pairs == 32
    assert status.best == max(known(event.score for event in events if event.step))
    notes = [note.text for note in told(run, Note)]
    assert "the dev metric is recall@10 of 32 anchors among 160 texts, 128 out of 128 others" in notes

    dev, rows = make_plan(run.config()).dev, list(map(json.loads, tiny.data["pairs"].read_text().splitlines()))
    assert dev is not None
    model = load(str(run.path))
    anchors, positives = (model.encode([row[name] for row in rows]) for name in ("anchor", "positive"))
    a, p = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (anchors, positives))
    cosines = a @ p.T
    ranks = (cosines >= cosines.diagonal()[:, None]).sum(1)
    is_right = dict(zip((row["anchor"] for row in rows), ranks <= 10, strict=True))
    share = np.mean([is_right[query] for query in dev.columns[0]])
    assert status.best and status.best == pytest.approx(share, abs=1e-6)

    monkeypatch.setenv("CONTRAST_RUNS", str(run.path.parent))
    shown = f"{100 * status.best:.2f}"
    title = f"recall@10 · 20% of {tiny.data['pairs'].name}"
    best = f"{title} {shown} at step {status.best_step}\n"
    assert best in contrast("runs", "show", run.path).out
    assert f" {shown} recall@10 " in contrast("runs").out
    assert all(f"  {title} " in event.line() for event in events), "and names the set"


def test_the_worst_pairs_are_the_relevant_texts_that_are_ranked_last(tiny: Tiny, held_out: Run) -> None:
    worst = told(held_out, Evaluated)[-1].worst
    pairs = {(row["anchor"], row["positive"]) for row in map(json.loads, tiny.data["pairs"].read_text().splitlines())}
    assert len(worst) == 5 and {(pair.first, pair.second) for pair in worst} < pairs
    assert [pair.cosine_rank for pair in worst] == sorted((pair.cosine_rank for pair in worst), reverse=True)
    assert all(1 < pair.cosine_rank <= 160 and pair.score_rank == 1 for pair in worst)


def test_the_dimensions_that_are_used_are_those_of_the_dev_texts(tiny: Tiny, trained: Run) -> None:
    texts = {text for row in map(json.loads, tiny.dev.read_text().splitlines()) for text in list(row.values())[:2]}
    vectors = load(str(trained.checkpoint("last"))).encode(sorted(texts))
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    values = np.linalg.svd(vectors, compute_uv=False)
    shares = values / values.sum()
    event = told(trained, Evaluated)[-1]
    assert event.rank == pytest.approx(math.exp(-(shares * np.log(shares)).sum()), rel=1e-3) and event.width == 32
    assert event.mean_norm == pytest.approx(np.linalg.norm(vectors.mean(axis=0)), rel=1e-3)
    assert event.singular == pytest.approx(shares[:5], abs=1e-4)


def test_a_judgement_of_a_document_that_is_not_there_counts_in_the_score_alone(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = np.array([(0, 0, 1), (1, 1, 1), (1, -1, 1)])
    data = Retrieval(["ba", "fir"], ["ba den", "fir go", "lum"], judged, np.empty((0, 3), np.int64), "set", "map")
    encoder = load_encoder(tiny.backbone).eval()
    rank = Mock(wraps=ranking.ranks)
    monkeypatch.setattr(ranking, "ranks", rank)
    whole, found = (DevSet.of(one, encoder).evaluate(encoder, 0) for one in (data, replace(data, judged=judged[:2])))
    assert rank.call_count == 2, "each set is ranked once"
    assert (whole.alignment, whole.uniformity, whole.worst) == (found.alignment, found.uniformity, found.worst)
    assert whole.score and found.score and whole.score < found.score
    assert [*data.texts] == [*data.queries, "ba den", "fir go"]


@pytest.mark.parametrize("highest", [1.0, 4.0, 5.0, 100.0])
def test_the_alignment_is_that_of_pairs_in_the_upper_fifth_of_the_scores(tiny: Tiny, highest: float) -> None:
    first, second = ["ba den", "fir go", "lum", "ka ten"], ["sir", "do bum", "fa gen", "ba"]
    data = ScoredPairs(first, second, [0.0, 0.6 * highest, 0.9 * highest, highest], "set")
    encoder = load_encoder(tiny.backbone).eval()
    left, right = (
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in map(encoder.encode, (first, second))
    )
    expected = np.square(left - right).sum(axis=1)[2:].mean()
    assert DevSet.of(data, encoder).evaluate(encoder, 0).alignment == pytest.approx(expected, abs=1e-5)
