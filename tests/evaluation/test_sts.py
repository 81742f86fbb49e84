"""SentEval's STS files, what is read from them and where they come from, and every number recomputed by scipy."""

import io
import json
import math
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from contrastcli.evaluation.senteval import read_sts
from contrastcli.evaluation.suites import STS
from contrastcli.files import cache_dir
from contrastcli.model.metrics import cosine, pearson, spearman
from support.hub import Hub, Repo
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
    write_subset,
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


def test_a_single_pair_has_no_correlation() -> None:
    assert math.isnan(spearman(np.array([1.0]), np.array([2.0])))
    assert math.isnan(pearson(np.array([1.0]), np.array([2.0])))


def test_pairs_without_gold_are_dropped_and_the_others_keep_their_own(tmp_path: Path) -> None:
    write_year(tmp_path, "STS15")
    rows = [
        ("one", "two", "1.5"),
        ("three", "four", ""),
        ("five", "six", "4"),
        ("six", "eight", " "),
        ("x", "y", "0"),
    ]
    write_subset(tmp_path, "STS15", "belief", rows)
    pairs = read_sts(tmp_path, "STS15")["belief"]
    scored = [("one", "two", 1.5), ("five", "six", 4.0), ("x", "y", 0.0)]
    assert list(zip(pairs.first, pairs.second, pairs.scores, strict=True)) == scored


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('He said "no" .', 'He said "no" .'),
        ('"unclosed', '"unclosed'),
        ("two  spaces and no-break\u00a0space ", "two spaces and no-break space"),
        ("a line\u2028separator, no end", "a line separator, no end"),
        ("é ü 漢", "é ü 漢"),
    ],
)
def test_sentences_are_read_literally_but_for_white_space(tmp_path: Path, written: str, read: str) -> None:
    write_year(tmp_path, "STS13")
    write_subset(tmp_path, "STS13", "FNWN", [(written, "other", "1"), *some_rows("more")])
    write_stsb(tmp_path, [(written, "other", "1"), *some_rows("more")])
    write_sick(tmp_path, [(written, "other", "1"), *some_rows("more")])
    subsets = {"STS13": "FNWN", "STS-B": "test", "SICK-R": "test"}
    for task, subset in subsets.items():
        pairs = read_sts(tmp_path, task)[subset]
        assert (pairs.first[0], pairs.second[0], len(pairs)) == (read, "other", 7)


def test_line_ends_of_windows_and_files_of_all_pairs_or_of_smt_leave_the_numbers_as_they_are(tmp_path: Path) -> None:
    rows = write_year(tmp_path, "STS13")
    before = measured(FakeEncoder(), tmp_path, "STS13").tasks
    for subset in rows:
        write_subset(tmp_path, "STS13", subset, rows[subset], end="\r\n")
    for subset in ("ALL", "SMT"):
        write_subset(tmp_path, "STS13", subset, some_rows(subset))
    assert measured(FakeEncoder(), tmp_path, "STS13").tasks == before


def test_columns_behind_the_sentences_are_not_text(tmp_path: Path) -> None:
    write_year(tmp_path, "STS16")
    rows = [(a, f"{b}\tsource\thttp://x", gold) for a, b, gold in some_rows("p")]
    write_subset(tmp_path, "STS16", "plagiarism", rows)
    write_stsb(tmp_path, [(a, f"{b}\tlicence\tsource", gold) for a, b, gold in some_rows("b")])
    assert read_sts(tmp_path, "STS16")["plagiarism"].second == [b for _, b, _ in some_rows("p")]
    assert read_sts(tmp_path, "STS-B")["test"].second == [b for _, b, _ in some_rows("b")]


GS, INPUT = (f"STS/STS13-en-test/STS.{kind}.OnWN.txt" for kind in ("gs", "input"))
STSB, SICK = "STS/STSBenchmark/sts-test.csv", "SICK/SICK_test_annotated.txt"
COLUMNS = b"sentence_A\tsentence_B\trelatedness_score\n"


@pytest.mark.parametrize(
    ("task", "file", "content", "named", "remedy"),
    [
        ("STS13", GS, b"1\n2\nhigh\n4\n1\n2\n3\n4\n", "STS.gs.OnWN.txt, line 3: the score is 'high'", "fix the line"),
        ("STS13", GS, b"1\nnan\n3\n4\n1\n2\n3\n4\n", "STS.gs.OnWN.txt, line 2: the score is 'nan'", "fix the line"),
        ("STS13", GS, b"1\n2\n3\n", "STS.input.OnWN.txt has 8 lines, its STS.gs.OnWN.txt has 3", "--data-dir"),
        ("STS13", GS, b"\n" * 8, "STS.gs.OnWN.txt has no score", "--data-dir"),
        ("STS13", INPUT, b"a\tb\n" * 7 + b"no second\n", "STS.input.OnWN.txt, line 8: no tab", "--data-dir"),
        ("STS13", INPUT, b"a\tb\n" * 7 + b"caf\xe9\tb\n", "STS.input.OnWN.txt, line 8: not UTF-8", "café"),
        ("STS-B", STSB, b"sentence,label\na,1\n", "sts-test.csv lacks the columns sentence1", "--data-dir"),
        ("STS-B", STSB, b"a\ta\ta\t1\t1\ta caf\xe9\tb\n", "sts-test.csv, line 1: not UTF-8", "iconv -f"),
        ("SICK-R", SICK, COLUMNS + b"a caf\xe9\tb\t1\n", "annotated.txt, line 2: not UTF-8", "iconv -f"),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    tmp_path: Path, task: str, file: str, content: bytes, named: str, remedy: str
) -> None:
    write_all(tmp_path)
    (tmp_path / file).write_bytes(content)
    what, hint = problem(measured(FakeEncoder(), tmp_path, task), task)
    assert named in what and remedy in hint


@pytest.mark.parametrize("above", ["", "downstream", "data/downstream", "sets"])
def test_the_folder_may_be_that_of_the_sets_or_one_above_downstream(tmp_path: Path, above: str) -> None:
    write_stsb(tmp_path / above, some_rows("stsb"))
    assert measured(FakeEncoder(), tmp_path, "STS-B").tasks["STS-B"]["pairs"] == 6


def publish(hub: Hub, folder: Path, *names: str, size: int | None = None) -> None:
    """Put an archive of these folders, or its first bytes, on a hub."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in names:
            tar.add(folder / name, name)
    hub.datasets["princeton-nlp/datasets-for-simcse"] = Repo({"senteval.tar": archive.getvalue()[:size]})


def test_without_a_folder_the_archive_of_the_hub_is_unpacked_once(tmp_path: Path, served_hub: Hub) -> None:
    write_all(tmp_path / "sets")
    publish(served_hub, tmp_path / "sets", "STS", "SICK")
    first = measured(FakeEncoder(), None)
    assert set(first.tasks) == set(STS.tasks)
    assert measured(FakeEncoder(), None).tasks == first.tasks
    assert len(served_hub.downloads()) == 1


def test_without_a_folder_that_of_the_variable_is_read(
    tmp_path: Path, served_hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(tmp_path / "sets")
    monkeypatch.setenv("CONTRAST_SENTEVAL", str(tmp_path / "sets"))
    assert set(measured(FakeEncoder(), None).tasks) == set(STS.tasks)
    monkeypatch.setenv("CONTRAST_SENTEVAL", str(tmp_path / "nothing"))
    assert measured(FakeEncoder(), None).missing["STS12"].what == f"there is no folder {tmp_path / 'nothing'}"
    assert not served_hub.requests


def test_an_archive_that_is_cut_short_leaves_nothing_behind(tmp_path: Path, served_hub: Hub) -> None:
    write_all(tmp_path / "sets")
    publish(served_hub, tmp_path / "sets", "STS", size=5000)
    result = measured(FakeEncoder(), None)
    assert len(result.missing) == 7 and "cannot be unpacked" in result.missing["STS12"].what
    assert list(cache_dir().iterdir()) == []


@pytest.mark.usefixtures("served_hub")
def test_a_hub_that_has_no_archive_makes_every_set_missing_with_the_remedy() -> None:
    result = measured(FakeEncoder(), None)
    assert len(result.missing) == 7
    assert "senteval.tar" in result.missing["STS12"].what and "--data-dir" in result.missing["STS12"].hint
