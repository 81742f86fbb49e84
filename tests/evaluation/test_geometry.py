"""`contrast eval --suite geometry`: which pairs it measures, the angles between them, and the plane that shows them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contrastcli.evaluation import geometry
from contrastcli.evaluation.geometry import pca
from contrastcli.evaluation.measure import SuiteResult, measure
from contrastcli.evaluation.procedure import Options, Subject
from contrastcli.evaluation.suites import GEOMETRY
from support.sts_files import FakeEncoder, cosine_of, write_stsb
from support.tables import cells
from support.tiny import Tiny

ROWS = [(f"left {n}", f"right {n % 40}", f"{n % 6 * 0.9:.1f}") for n in range(60)]


SUBJECT = Subject("fake", FakeEncoder(), "mean", "fake")


def measured(data_dir: Path | None, *tasks: str) -> SuiteResult:
    return measure(GEOMETRY, SUBJECT, Options(data_dir, tasks))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """STS-B's dev split in SentEval's layout, of 60 pairs and 100 distinct sentences."""
    write_stsb(tmp_path, ROWS, "dev")
    return tmp_path


@pytest.fixture
def scores(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(measured(folder).to_json()))["STS-B"]
    return result


def angle(a: str, b: str) -> float:
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine_of(a, b)))))


def test_positives_are_the_pairs_scored_above_four(scores: dict[str, Any]) -> None:
    angles = [angle(a, b) for a, b, gold in ROWS if float(gold) > 4]
    counts = [0] * 36
    for degrees in angles:
        counts[int(degrees // 5)] += 1
    assert (scores["pairs"], scores["scored"], scores["sentences"], scores["split"]) == (len(angles), 60, 100, "dev")
    assert scores["positive_histogram"] == counts
    assert scores["positive"] == pytest.approx(sum(angles) / len(angles), abs=1e-3)
    chords = [2 * math.sin(math.radians(degrees) / 2) for degrees in angles]
    assert scores["alignment"] == pytest.approx(sum(chord**2 for chord in chords) / len(chords), rel=1e-5)


def test_uniformity_is_over_all_distinct_sentences(scores: dict[str, Any]) -> None:
    texts = sorted({text for a, b, _ in ROWS for text in (a, b)})
    kernel = [math.exp(-2 * (2 * math.sin(math.radians(angle(a, b)) / 2)) ** 2) for a in texts for b in texts if a != b]
    assert scores["uniformity"] == pytest.approx(math.log(sum(kernel) / len(kernel)), rel=1e-4)


def test_negatives_are_pairs_that_are_not_scored(scores: dict[str, Any]) -> None:
    """Their distribution is that of all such pairs, and no pair is a sentence with itself, which would be at 0°."""
    texts = sorted({text for a, b, _ in ROWS for text in (a, b)})
    scored = {frozenset((a, b)) for a, b, _ in ROWS}
    angles = [angle(a, b) for a in texts for b in texts if a != b and frozenset((a, b)) not in scored]
    assert sum(scores["negative_histogram"]) == scores["negatives"] < 10_000
    assert scores["negative"] == pytest.approx(sum(angles) / len(angles), abs=1.5)
    share = sum(degrees < 5 for degrees in angles) / len(angles)
    assert scores["negative_histogram"][0] / scores["negatives"] == pytest.approx(share, abs=0.005)


def test_the_plane_holds_a_point_for_each_sentence(scores: dict[str, Any]) -> None:
    assert np.shape(scores["pca"]) == (100, 2)
    assert 0.5 < sum(scores["explained"]) <= 1  # of three dimensions


def test_the_output_says_what_was_measured(folder: Path) -> None:
    result = measured(folder)
    assert result.partial  # 60 pairs are not the published 1500
    assert "STS-B's dev split: positives are the 10 of 60 pairs scored above 4" in result.protocol
    for formula in ("alignment = E‖f(x) − f(x⁺)‖²", "uniformity = log E e^(−2‖f(x) − f(y)‖²)"):
        assert formula in result.protocol
    row = cells(result)["STS-B"]
    assert (row["Positives"], row["Sentences"], row[""]) == ("10", "100", "partial")


@pytest.mark.parametrize("given", [True, False])
def test_without_stsb_the_starters_pairs_serve_and_the_output_says_so(tmp_path: Path, given: bool) -> None:
    result = measured(tmp_path if given else None)
    assert list(result.tasks) == ["starter"] and result.partial and not result.missing
    assert "the starter's scored pairs, since there is no STS-B" in result.protocol


def test_an_absent_folder_or_a_damaged_file_makes_the_task_missing(folder: Path) -> None:
    path = folder / "STS" / "STSBenchmark" / "sts-dev.csv"
    path.write_text(path.read_text() + "main\tMSRvid\t2012\n")
    for place, what in ((folder / "absent", "there is no folder"), (folder, "line 61")):
        result = measured(place)
        assert not result.tasks and what in result.missing["STS-B"].what


def test_a_clustering_set_is_drawn_where_it_is_asked_for(folder: Path) -> None:
    (folder / "cluster").mkdir()
    rows = [f"{('Sport', 'World', '$1')[n % 3]}\ttext {n}\n" for n in range(30)]
    (folder / "cluster" / "agnews.tsv").write_text("".join(rows))
    assert "AgNews" not in measured(folder).tasks
    result = measured(folder, "AgNews", "Tweet")
    assert list(result.tasks) == ["AgNews"] and list(result.missing) == ["Tweet"]
    assert result.tasks["AgNews"]["labels"] == ["Sport", "World", "$1"] * 10
    assert np.shape(result.tasks["AgNews"]["tsne"]) == (30, 2)
    assert "t-SNE" in result.protocol and "alignment" not in result.protocol


@pytest.mark.parametrize("form", ["sentences", "pairs", "triplets", "labelled", "scored"])
def test_training_sentences_are_those_of_any_form_of_rows(tiny: Tiny, form: str) -> None:
    texts = geometry.training_sentences(tiny.config("pairsupcon", form).data)
    rows = [json.loads(line) for line in tiny.data[form].read_text().splitlines()]
    known = {value for row in rows for key, value in row.items() if key not in ("label", "score")}
    assert len(texts) == len(set(texts)) > 50 and set(texts) <= known


def cloud(count: int, width: int) -> NDArray[np.float32]:
    return np.random.default_rng(3).normal(size=(count, width)).astype(np.float32) * np.arange(1, width + 1)


def test_pca_keeps_the_two_directions_of_most_variance_of_the_unit_vectors() -> None:
    vectors = cloud(50, 6)
    unit = np.array([row / math.sqrt(sum(float(x) ** 2 for x in row)) for row in vectors])
    values, axes = np.linalg.eigh(np.cov(unit.T))
    points, explained = pca(vectors)
    assert explained == pytest.approx((values[-1] / values.sum(), values[-2] / values.sum()))
    for n in (0, 1):
        expected = (unit - unit.mean(axis=0)) @ axes[:, -1 - n]
        np.testing.assert_allclose(abs(points[:, n]), abs(expected), atol=1e-6)


def test_pca_of_mirrored_vectors_is_the_same_picture() -> None:
    vectors = cloud(30, 4)
    mirrored = vectors * np.array([-1, 1, -1, 1], dtype=np.float32)
    np.testing.assert_allclose(pca(mirrored)[0], pca(vectors)[0], atol=1e-9)


@pytest.mark.parametrize(
    "vectors", [np.ones((5, 3), np.float32), np.zeros((4, 2), np.float32), np.ones((1, 1), np.float32)]
)
def test_pca_of_a_collapsed_model_is_one_point(vectors: NDArray[np.float32]) -> None:
    points, explained = pca(vectors)
    assert points.shape == (len(vectors), 2) and not points.any()
    assert explained == pytest.approx((0, 0))
