"""SentEval's transfer tasks, also of few rows: what is read from their files, and every number by another road."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from contrastcli.errors import DataError
from contrastcli.evaluation import transfer
from contrastcli.evaluation.procedure import Vectors
from contrastcli.evaluation.senteval import read_transfer
from contrastcli.evaluation.suites import FEWSHOT, TRANSFER
from support.sts_files import problem, write_lines
from support.tables import cells
from support.transfer_files import (
    HEADER,
    HalfKnowing,
    as_small,
    measured,
    texts,
    write_mrpc,
    write_polarity,
    write_sst2,
    write_sst5,
    write_transfer,
    write_trec,
)

Floats = NDArray[np.floating]


def vectors_of(encode: HalfKnowing, name: str, classes: int, count: int) -> tuple[Floats, Floats]:
    """The vectors (N, d) of so many texts of each class of a file, and their classes (N,)."""
    rows = [encode.vector(text) for label in range(classes) for text in texts(name, label, count)]
    return np.stack(rows), np.repeat(range(classes), count)


def exact(x: Floats, y: Floats, c: float) -> LogisticRegression:
    """A second-order solver in double precision, without a start of its own."""
    return LogisticRegression(C=c, solver="newton-cholesky", tol=1e-9).fit(x.astype(np.float64), y)


@pytest.fixture
def few_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three in place of ten, which take long."""
    assert transfer.FOLDS == 10
    monkeypatch.setattr(transfer, "FOLDS", 3)


@pytest.fixture
def few_fits(monkeypatch: pytest.MonkeyPatch, few_folds: None) -> None:
    """And one C in place of a choice, where the numbers do not matter."""
    assert transfer.GRID == (0.25, 0.5, 1, 2, 4, 8) and transfer.TEST_GRID == (0.5, 1, 2, 4, 8, 16, 32)
    monkeypatch.setattr(transfer, "GRID", (1.0,))
    monkeypatch.setattr(transfer, "TEST_GRID", (1.0,))


def folds(y: Floats) -> list[tuple[Floats, Floats]]:
    return list(StratifiedKFold(3, shuffle=True, random_state=1111).split(y, y))


def best_c(x: Floats, y: Floats, powers: Sequence[int]) -> float:
    means = []
    for power in powers:
        scores = [exact(x[train], y[train], 2.0**power).score(x[test], y[test]) for train, test in folds(y)]
        means.append(round(sum(scores) / 3, 4))
    return float(2.0 ** powers[means.index(max(means))])


@pytest.mark.usefixtures("few_folds")
def test_a_task_without_splits_has_folds_whose_c_is_chosen_by_folds_within(tmp_path: Path) -> None:
    write_polarity(tmp_path, "CR", 30)
    encode = HalfKnowing()
    result = measured(TRANSFER, encode, tmp_path, "CR").tasks["CR"]
    x, y = vectors_of(encode, "CR", 2, 30)
    scores = []
    for train, test in folds(y):
        c = best_c(x[train], y[train], range(-2, 4))
        scores.append(100 * exact(x[train], y[train], c).score(x[test], y[test]))
    assert result["accuracy"] == pytest.approx(sum(scores) / 3, abs=1e-6)
    assert 55 < result["accuracy"] < 95


@pytest.mark.usefixtures("few_folds")
def test_a_task_with_a_test_set_has_its_c_chosen_by_folds_of_the_training_set(tmp_path: Path) -> None:
    write_trec(tmp_path, (25, 20))
    encode = HalfKnowing()
    result = measured(TRANSFER, encode, tmp_path, "TREC").tasks["TREC"]
    x, y = vectors_of(encode, "train_5500.label", 6, 25)
    several = [LogisticRegression(C=2.0**power, max_iter=5000, tol=1e-7) for power in range(-1, 6)]
    means = [round(np.mean([m.fit(x[a], y[a]).score(x[b], y[b]) for a, b in folds(y)]), 4) for m in several]
    best = several[means.index(max(means))].fit(x, y)
    tested = vectors_of(encode, "TREC_10.label", 6, 20)
    assert result["accuracy"] == pytest.approx(100 * best.score(*tested), abs=1e-6)


def test_sst_has_its_c_chosen_by_the_dev_set(tmp_path: Path) -> None:
    write_sst2(tmp_path, (30, 40, 50))
    encode = HalfKnowing(0.6)
    result = measured(TRANSFER, encode, tmp_path, "SST2").tasks["SST2"]
    counts = {"train": 30, "dev": 40, "test": 50}
    train, dev, test = (vectors_of(encode, f"sst {split}", 2, count) for split, count in counts.items())
    models = [exact(*train, 2.0**power) for power in range(-2, 4)]
    scores = [model.score(*dev) for model in models]
    best = models[scores.index(max(scores))]
    assert result["accuracy"] == pytest.approx(100 * best.score(*test), abs=1e-6)
    assert (result["rows"], result["expected"], result["partial"]) == (240, 70042, True)


def test_a_pair_is_the_absolute_difference_and_the_product_of_its_vectors(tmp_path: Path) -> None:
    write_mrpc(tmp_path, (20, 8))
    encode = HalfKnowing()
    rows = read_transfer(tmp_path, "MRPC")["train"]
    result = transfer.features(rows, Vectors(encode))
    for row, first, second in zip(result, rows.first, rows.second, strict=True):
        pairs = list(zip(encode.vector(first), encode.vector(second), strict=True))
        assert row == pytest.approx([*(abs(a - b) for a, b in pairs), *(a * b for a, b in pairs)])


@pytest.mark.usefixtures("few_fits")
def test_paraphrases_have_accuracy_and_f1_of_the_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mrpc(tmp_path, (20, 8))
    # It says paraphrase of the first ten test rows: 8 are none, 8 are some.
    guess = Mock(predict=lambda x: np.array([1] * 10 + [0] * 6), score=lambda x, y: 0.5)
    monkeypatch.setattr(transfer, "fit", lambda x, y, c, start=None: guess)
    result = measured(TRANSFER, HalfKnowing(), tmp_path, "MRPC").tasks["MRPC"]
    assert result["accuracy"] == pytest.approx(100 * 2 / 16)
    assert result["f1"] == pytest.approx(100 * 2 * 2 / (2 * 2 + 8 + 6))  # 2 hits, 8 false alarms, 6 misses


@pytest.mark.usefixtures("few_fits")
def test_two_averages_are_of_seven_and_of_eight_complete_tasks(tmp_path: Path) -> None:
    write_transfer(tmp_path)
    encode = HalfKnowing()
    result = measured(as_small(TRANSFER), encode, tmp_path)
    seen = [text for call in encode.calls for text in call]
    assert len(seen) == len(set(seen)), "each sentence is encoded once"
    scores = {task: score["accuracy"] for task, score in result.tasks.items()}
    assert not result.partial and len(scores) == 8
    assert result.averages["average8"] == pytest.approx(sum(scores.values()) / 8)
    assert result.averages["average"] == pytest.approx((sum(scores.values()) - scores["SST5"]) / 7)
    rows = cells(result)
    assert list(rows) == ["MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC", "Avg.", "Avg. of 8"]
    accuracy, f1 = f"{scores['MRPC']:.2f}", f"{result.tasks['MRPC']['f1']:.2f}"
    assert rows["MRPC"] == {"Task": "MRPC", "Accuracy": accuracy, "F1": f1, "Rows": "64"}
    document = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert document["average"] == result.averages["average"] and document["MR"]["accuracy"] == scores["MR"]


@pytest.mark.usefixtures("few_fits")
def test_what_is_missing_or_malformed_is_named_and_the_others_are_scored(tmp_path: Path) -> None:
    write_transfer(tmp_path)
    (tmp_path / "SST" / "fine" / "sentiment-dev").unlink()
    write_lines(tmp_path / "TREC" / "TREC_10.label", ["NUM:dist How far ?", "no label here"])
    result = measured(TRANSFER, HalfKnowing(), tmp_path)
    assert list(result.missing) == ["SST5", "TREC"]
    assert "sentiment-dev" in problem(result, "SST5")[0] and "senteval.tar" in problem(result, "SST5")[1]
    assert "TREC_10.label, line 2: not a row of this set: 'no label here'" in problem(result, "TREC")[0]
    assert set(result.tasks) == set(TRANSFER.tasks) - {"SST5", "TREC"}
    assert result.partial and result.averages == {"average": None, "average8": None}
    assert [cells(result)[task][""] for task in ("MR", "SST5")] == ["partial, of 10,662", "missing"]


def test_too_few_rows_of_a_class_are_no_training_set(tmp_path: Path) -> None:
    write_polarity(tmp_path, "MPQA", 19)
    with pytest.raises(DataError, match=r"MPQA in .* fewer than 20 rows"):
        read_transfer(tmp_path, "MPQA")


def test_the_opinion_tasks_have_sent_evals_names_and_blank_lines_are_no_rows(
    tmp_path: Path,
) -> None:
    files = {"MR": "rt-polarity.pos", "CR": "custrev.pos", "SUBJ": "subj.objective", "MPQA": "mpqa.pos"}
    for task, name in files.items():
        write_polarity(tmp_path, task, 20)
        write_lines(tmp_path / task / name, ["", *(f"  kept {i}  in one  piece \t" for i in range(21)), " "])
        rows = read_transfer(tmp_path, task)["train"]
        assert rows.labels == [0] * 20 + [1] * 21
        assert (rows.first[0], rows.first[-1]) == (f"{task} 0 #0", "kept 20 in one piece")


def test_questions_are_latin_1_with_a_class_before_the_colon(tmp_path: Path) -> None:
    write_trec(tmp_path, (20, 2))
    path = tmp_path / "TREC" / "train_5500.label"
    path.write_bytes(path.read_bytes() + b"DESC:def What is the origin of the name : \xf0 ?\n")
    splits = read_transfer(tmp_path, "TREC")
    assert [*splits] == ["train", "test"]
    assert (splits["train"].first[-1], splits["train"].labels[-1]) == ("What is the origin of the name : ð ?", 1)
    assert (splits["test"].first[-1], splits["test"].labels[-1]) == ("TREC_10.label 1 #5", 5)


def test_paraphrases_have_a_mark_a_header_and_literal_quotes(tmp_path: Path) -> None:
    write_mrpc(tmp_path, (20, 1))
    rows = ['1\t702876\t702977\tcalled " the witness\t" quoted "', "0\t1\t2\tone  b\ttwo\textra\tcolumns"]
    write_lines(tmp_path / "MRPC" / "msr_paraphrase_test.txt", [HEADER, *rows], end="\r\n")
    test = read_transfer(tmp_path, "MRPC")["test"]
    assert (test.labels, test.first) == ([1, 0], ['called " the witness', "one b"])
    assert test.second == ['" quoted "', "two"]


def test_sentiment_has_its_class_behind_a_tab_or_before_a_space(tmp_path: Path) -> None:
    write_sst2(tmp_path, (20, 1, 1))
    write_sst5(tmp_path, (20, 1, 1))
    write_lines(tmp_path / "SST" / "binary" / "sentiment-dev", ['contains "no wit , 2 \t0', "good \t1"])
    write_lines(tmp_path / "SST" / "fine" / "sentiment-dev", ['4 a stirring , "funny', "0 1 bad film"])
    binary, fine = (read_transfer(tmp_path, task)["valid"] for task in ("SST2", "SST5"))
    assert (binary.first, binary.labels) == (['contains "no wit , 2', "good"], [0, 1])
    assert (fine.first, fine.labels) == (['a stirring , "funny', "1 bad film"], [4, 0])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"fine \t1\nno class\n", "line 2: not a row"),
        (b"fine \t7\n", "line 1: not a row"),
        (b"caf\xe9 \t1\n", "line 1: not UTF-8"),
        (b"a\0b \t1\n", "line 1: holds a NUL"),
    ],
)
def test_a_bad_row_is_named_by_file_and_number(tmp_path: Path, content: bytes, named: str) -> None:
    write_sst2(tmp_path, (20, 1, 1))
    (tmp_path / "SST" / "binary" / "sentiment-test").write_bytes(content)
    with pytest.raises(DataError) as raised:
        read_transfer(tmp_path, "SST2")
    assert f"sentiment-test, {named}" in raised.value.what and raised.value.hint


@pytest.mark.parametrize("task", ["CR", "TREC"])
def test_five_sets_of_sixteen_rows_a_class_are_tested_on_the_rest_or_on_the_test_set(tmp_path: Path, task: str) -> None:
    write_polarity(tmp_path, "CR", 40)
    write_trec(tmp_path, (40, 7))
    encode = HalfKnowing()
    result = measured(FEWSHOT, encode, tmp_path, task)
    x, y = vectors_of(encode, "CR", 2, 40) if task == "CR" else vectors_of(encode, "train_5500.label", 6, 40)
    accuracies = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        drawn = np.concatenate([generator.choice(40, 16, replace=False) + 40 * label for label in np.unique(y)])
        rest = np.setdiff1d(np.arange(len(y)), drawn)
        tested = (x[rest], y[rest]) if task == "CR" else vectors_of(encode, "TREC_10.label", 6, 7)
        model = LogisticRegression(max_iter=5000, tol=1e-7).fit(x[drawn], y[drawn])
        accuracies.append(100 * model.score(*tested))
    scores, mean, sd = result.tasks[task], statistics.mean(accuracies), statistics.stdev(accuracies)
    assert scores["accuracies"] == pytest.approx(accuracies)
    assert (scores["mean"], scores["sd"]) == pytest.approx((mean, sd))
    row = cells(result)[task]
    assert (row["Accuracy"], row["SD"]) == (f"{mean:.2f}", f"{sd:.2f}")
    seen = [text for call in encode.calls for text in call]
    assert len(seen) == len(set(seen)) and (len(seen) < 6 * (40 + 7) or task == "CR"), "only what is used is encoded"
