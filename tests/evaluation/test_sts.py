"""The seven STS sets scored: every number recomputed by scipy."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from contrastcli.evaluation.suites import STS
from contrastcli.model.metrics import cosine, pearson, spearman
from support.sts_files import (
    FakeEncoder,
    Row,
    cosine_of,
    few_sentences,
    measured,
    problem,
    some_rows,
    subject,
    write_all,
    write_published_counts,
    write_sick,
    write_stsb,
    write_year,
)
from support.tables import cells, shown


def correlations_by_scipy(rows: Sequence[Row]) -> tuple[float, float]:
    """Spearman and Pearson × 100."""
    cosines, golds = [cosine_of(a, b) for a, b, _ in rows], [float(gold) for _, _, gold in rows]
    return 100 * stats.spearmanr(cosines, golds).statistic, 100 * stats.pearsonr(cosines, golds).statistic


def close(scores: Mapping[str, float], spearman: float, pearson: float) -> bool:
    return (scores["spearman"], scores["pearson"]) == pytest.approx((spearman, pearson), abs=1e-4)


def test_a_year_has_one_correlation_of_all_its_pairs_and_two_means_over_its_subsets(tmp_path: Path) -> None:
    rows = write_year(tmp_path, "STS14")
    score = measured(FakeEncoder(), tmp_path, "STS14").tasks["STS14"]
    parts = {subset: correlations_by_scipy(rows[subset]) for subset in rows}
    counts = {subset: len(rows[subset]) for subset in rows}
    total = sum(counts.values())
    assert score["pairs"] == total
    assert close(score["all"], *correlations_by_scipy([row for subset in rows for row in rows[subset]]))
    assert close(score["mean"], *(sum(part[i] for part in parts.values()) / len(parts) for i in (0, 1)))
    assert close(score["wmean"], *(sum(parts[s][i] * counts[s] for s in parts) / total for i in (0, 1)))
    whole, mean, weighted = (score[by]["spearman"] for by in ("all", "mean", "wmean"))
    assert abs(whole - mean) > 0.1 < abs(mean - weighted)


def test_a_set_without_subsets_has_one_number_three_times(tmp_path: Path) -> None:
    rows = some_rows("sick", 9)
    write_sick(tmp_path, rows)
    score = measured(FakeEncoder(), tmp_path, "SICK-R").tasks["SICK-R"]
    assert close(score["all"], *correlations_by_scipy(rows))
    assert score["all"] == score["mean"] == score["wmean"]


def test_each_distinct_sentence_of_a_set_is_encoded_once_in_one_call_whatever_is_cached(tmp_path: Path) -> None:
    write_all(tmp_path)
    write_stsb(tmp_path, [("sick a 1", "sick b 2", "1"), ("twice", "twice", "5"), ("STS12 MSRpar a 0", "new", "2")])
    whole, rest = FakeEncoder(), FakeEncoder()
    measured(whole, tmp_path)
    model = subject(rest)
    measured(model, tmp_path, "STS13", "STS14")
    rest.calls.clear()
    measured(model, tmp_path)
    assert [len(texts) - len(set(texts)) for texts in whole.calls] == [0] * 7
    assert {"twice", "new", "sick a 1"} <= set(whole.calls[5])
    assert rest.calls == [texts for number, texts in enumerate(whole.calls) if number not in (1, 2)]


def test_a_set_with_pairs_too_few_or_too_many_is_marked_partial(tmp_path: Path) -> None:
    write_published_counts(tmp_path)
    write_sick(tmp_path, few_sentences(9927))  # all splits at once, as some hubs serve it
    write_stsb(tmp_path, few_sentences(1378))
    result = measured(FakeEncoder(), tmp_path)
    assert [task for task in STS.tasks if result.tasks[task]["partial"]] == ["STS-B", "SICK-R"]
    assert result.averages["average"] is None
    rows = cells(result)
    assert (rows["SICK-R"]["Pairs"], rows["SICK-R"][""]) == ("9,927", "partial, of 4,927")
    assert (rows["STS12"]["Pairs"], rows["STS12"][""]) == ("3,108", "")
    assert rows["Avg."][""] == "5 of 7"


def test_the_table_is_in_the_order_of_the_papers_and_keeps_a_row_for_what_is_missing(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "SICK" / "SICK_test_annotated.txt").unlink()
    result = measured(FakeEncoder(), tmp_path, *reversed(list(STS.tasks)))
    assert set(result.tasks) == set(STS.tasks) - {"SICK-R"} and result.missing.keys() == {"SICK-R"}
    what, hint = problem(result, "SICK-R")
    assert "SICK_test_annotated.txt" in what and "senteval.tar" in hint
    rows = shown(result).rows
    assert [row[0] for row in rows] == ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg."]
    assert rows[6][1:] == (*"–––––", "missing")
    score = result.tasks["STS12"]
    paths = (("all", "spearman"), ("all", "pearson"), ("mean", "spearman"), ("wmean", "spearman"))
    expected = [score[kind][measure] for kind, measure in paths]
    assert rows[0][1:5] == tuple(f"{value:.2f}" for value in expected)


def test_an_encoder_of_equal_vectors_has_no_correlation(tmp_path: Path) -> None:
    write_published_counts(tmp_path)
    result = measured(lambda texts, kind: np.ones((len(texts), 4)), tmp_path)
    document = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert document["STS12"]["all"] == {"spearman": None, "pearson": None}
    assert document["average"] is None
    assert shown(result).rows[0][1] == "–"


def test_a_zero_vector_has_cosine_zero_with_anything() -> None:
    first = np.array([[0, 0], [1, 2], [3, 4]], dtype=np.float32)
    second = np.array([[1, 1], [0, 0], [4, 3]], dtype=np.float32)
    assert cosine(first, second) == pytest.approx([0, 0, 24 / 25])


def test_correlations_over_tied_ranks_are_those_of_scipy() -> None:
    x, y = [0.3, 0.1, 0.3, 0.9, 0.2], [1.0, 1.0, 2.5, 4.0, 2.5]
    assert spearman(np.array(x), np.array(y)) == pytest.approx(stats.spearmanr(x, y).statistic)
    assert pearson(np.array(x), np.array(y)) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert math.isnan(spearman(np.array([1.0]), np.array([2.0])))
    assert math.isnan(pearson(np.array([1.0]), np.array([2.0])))
