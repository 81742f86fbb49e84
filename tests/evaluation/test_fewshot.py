"""Few-shot transfer: the rows drawn, the rows tested on, and the reported numbers."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from contrastcli.evaluation import transfer
from contrastcli.evaluation.suites import FEWSHOT
from contrastcli.model.metrics import Floats
from support.tables import cells
from support.transfer_files import HalfKnowing, as_small, measured, write_polarity, write_transfer, write_trec


class Recorder:
    """Stands in for the classifier: what it was trained and tested on."""

    def __init__(self) -> None:
        self.trained: list[Counter[int]] = []
        self.tested: list[int] = []
        self.rows: list[bytes] = []

    def fit(self, x: Floats, y: list[int], c: float) -> Recorder:
        assert len(x) == len(y) and c == 1
        self.trained.append(Counter(y))
        self.rows.append(x.tobytes())
        return self

    def score(self, x: Floats, y: list[int]) -> float:
        self.tested.append(len(y))
        return (0.5, 0.6, 0.7, 0.8, 0.95)[len(self.tested) - 1]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(transfer, "fit", recorder.fit)
    return recorder


def test_five_different_sets_of_sixteen_rows_a_class_are_tested_on_the_rest(tmp_path: Path, recorder: Recorder) -> None:
    write_polarity(tmp_path, "MR", 40)
    measured(FEWSHOT, HalfKnowing(), tmp_path, "MR")
    assert recorder.trained == [Counter({0: 16, 1: 16})] * 5
    assert recorder.tested == [80 - 32] * 5
    assert len(set(recorder.rows)) == 5


def test_a_test_set_is_what_is_tested_on(tmp_path: Path, recorder: Recorder) -> None:
    write_trec(tmp_path, (40, 7))
    encode = HalfKnowing()
    measured(FEWSHOT, encode, tmp_path, "TREC")
    assert recorder.trained == [Counter(dict.fromkeys(range(6), 16))] * 5
    assert recorder.tested == [42] * 5
    seen = [text for call in encode.calls for text in call]
    assert len(seen) == len(set(seen)) < 6 * (40 + 7)  # rows that are never drawn are not encoded


def test_mean_and_standard_deviation_are_of_the_five_accuracies(tmp_path: Path, recorder: Recorder) -> None:
    write_polarity(tmp_path, "SUBJ", 20)
    result = measured(FEWSHOT, HalfKnowing(), tmp_path, "SUBJ")
    score, five = result.tasks["SUBJ"], [50.0, 60.0, 70.0, 80.0, 95.0]
    assert score["accuracies"] == pytest.approx(five)
    assert (score["mean"], score["sd"]) == pytest.approx((statistics.mean(five), statistics.stdev(five)))
    row = {"Task": "SUBJ", "Accuracy": "71.00", "SD": "17.46", "Rows": "40", "": "partial, of 10,000"}
    assert cells(result)["SUBJ"] == row


def test_the_classifier_is_a_plain_logistic_regression(tmp_path: Path) -> None:
    write_polarity(tmp_path, "CR", 30)
    encode = HalfKnowing()
    scores = measured(FEWSHOT, encode, tmp_path, "CR").tasks["CR"]
    x = np.stack([encode.vector(f"CR {i} #{label}") for label in (0, 1) for i in range(30)])
    y = np.repeat([0, 1], 30)
    accuracies = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        drawn = np.concatenate([generator.choice(30, 16, replace=False) + 30 * label for label in (0, 1)])
        rest = [row for row in range(60) if row not in drawn]
        model = LogisticRegression(solver="newton-cholesky", tol=1e-9).fit(x[drawn].astype(float), y[drawn])
        accuracies.append(100 * model.score(x[rest], y[rest]))
    assert scores["accuracies"] == pytest.approx(accuracies)


def test_the_average_is_of_the_papers_seven_tasks(tmp_path: Path) -> None:
    write_transfer(tmp_path)
    result = measured(as_small(FEWSHOT), HalfKnowing(), tmp_path)
    assert list(cells(result)) == ["MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "Avg."]
    assert result.averages["average"] == pytest.approx(sum(s["mean"] for s in result.tasks.values()) / 7)
    assert not result.partial and "16 labelled rows a class, 5 training sets" in result.protocol
