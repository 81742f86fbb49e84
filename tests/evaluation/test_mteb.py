"""MTEB's own package on tasks of local data: our vectors, its metrics, its files."""
# mypy: disallow-subclassing-any=False

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scipy.stats import spearmanr

from contrastcli.errors import UsageError
from contrastcli.evaluation import mteb as suite
from contrastcli.evaluation.measure import SuiteResult, measure
from contrastcli.evaluation.procedure import Options, Subject
from contrastcli.evaluation.suites import MTEB, check_tasks
from support.sts_files import FakeEncoder, cosine_of
from support.tables import cells

if TYPE_CHECKING:
    from mteb import AbsTask

FIRST = [f"first {n % 9}" for n in range(12)]
SECOND = [f"second {n}" for n in range(12)]
SCORES = [n * 5 % 11 / 2 for n in range(12)]


def subject(encode: FakeEncoder, weights: str = "weights") -> Subject:
    return Subject("runs/my run", encode, "mean", weights)


def task(name: str, *, broken: bool = False) -> "AbsTask":
    """An STS task whose data are the lists above, or that cannot load its data."""
    pytest.importorskip("mteb")
    import datasets
    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    class Local(AbsTaskSTS):
        metadata = TaskMetadata(
            name=name, description="pairs in memory", reference=None, type="STS", category="t2t", modalities=["text"],
            dataset={"path": "local/data", "revision": "1"}, eval_splits=["test"], eval_langs=["eng-Latn"],
            main_score="cosine_spearman", date=("2026-01-01", "2026-01-02"), domains=["Written"], task_subtypes=[],
            license="not specified", annotations_creators="derived", dialect=[], sample_creation="created",
            bibtex_citation="",
        )  # fmt: skip

        def load_data(self, **how: Any) -> None:
            if broken:
                raise OSError("the hub cannot be reached\nsecond line")
            rows = {"sentence1": FIRST, "sentence2": SECOND, "score": SCORES}
            self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict(rows)})
            self.data_loaded = True

    return Local()


Measure = Callable[..., SuiteResult]
"""Measures a subject on tasks of the tests' own."""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measure:
    def measure_on(subject: Subject, *tasks: "AbsTask", fresh: bool = False) -> SuiteResult:
        readers = {one.metadata.name: (lambda task=one: task) for one in tasks}
        monkeypatch.setattr(suite, "PROCEDURE", replace(suite.PROCEDURE, find=lambda names, options: readers))
        return measure(MTEB, subject, Options(tasks=("local",), out=tmp_path, fresh=fresh))

    return measure_on


def test_a_local_task_is_scored_with_our_vectors(measured: Measure, tmp_path: Path) -> None:
    fake = FakeEncoder()
    result = measured(subject(fake), task("LocalSTS"))
    expected = 100 * spearmanr([cosine_of(a, b) for a, b in zip(FIRST, SECOND, strict=True)], SCORES).statistic
    assert result.tasks["LocalSTS"]["score"] == pytest.approx(expected)
    assert result.averages["average"] == pytest.approx(expected)
    assert result.tasks["LocalSTS"]["metric"] == "cosine_spearman" and result.tasks["LocalSTS"]["splits"] == ["test"]
    assert "pooling: mean" in result.protocol and str(tmp_path) in result.protocol
    assert json.loads(json.dumps(result.to_json()))["average"] == pytest.approx(expected)
    assert all(len(texts) == len(set(texts)) for texts in fake.calls)  # 9 of the 12 first sentences differ


def test_a_task_is_run_once_for_the_same_weights(measured: Measure) -> None:
    first, again, other, fresh = (FakeEncoder() for _ in range(4))
    results = [
        measured(subject(first), task("LocalSTS")),
        measured(subject(again), task("LocalSTS")),
        measured(subject(other, "other weights"), task("LocalSTS")),
        measured(subject(fresh), task("LocalSTS"), fresh=True),
    ]
    assert first.calls and not again.calls and other.calls and fresh.calls
    assert results[1].tasks["LocalSTS"]["score"] == pytest.approx(results[0].tasks["LocalSTS"]["score"], abs=1e-3)


def test_a_task_that_fails_is_named_and_the_others_are_run(measured: Measure) -> None:
    result = measured(subject(FakeEncoder()), task("Broken", broken=True), task("LocalSTS"))
    assert list(result.tasks) == ["LocalSTS"] and result.averages["average"] is None and result.partial
    assert {task: error.what for task, error in result.missing.items()} == {"Broken": "the hub cannot be reached"}
    marks = {name: row[""] for name, row in cells(result).items()}
    assert marks == {"LocalSTS": "", "STS, 1": "", "Broken": "missing", "Avg.": "1 of 2"}


def test_tasks_and_benchmarks_are_found_by_mtebs_names_though_some_hold_a_comma() -> None:
    pytest.importorskip("mteb")
    found = suite.find(["STS13", "Banking77Classification", "STS13"], Options())
    assert list(found) == ["STS13", "Banking77Classification"]
    asked = suite.find(check_tasks("MTEB(eng, v1),STS22.v2", [MTEB]), Options())
    assert {"STS12", "SICK-R", "AmazonCounterfactualClassification", "STS22.v2"} <= asked.keys() and len(asked) == 57


@pytest.mark.parametrize(
    ("names", "what", "hint"),
    [
        ((), "MTEB has hundreds of tasks", "say which"),
        (("MTEB(english, v1)",), "no task or benchmark 'MTEB(english, v1)'", "MTEB("),
        (("CIFAR10",), "'CIFAR10' does not take texts", "leave it out"),
    ],
)
def test_names_that_mean_nothing_are_refused(names: tuple[str, ...], what: str, hint: str) -> None:
    pytest.importorskip("mteb")
    with pytest.raises(UsageError) as caught:
        measure(MTEB, subject(FakeEncoder()), Options(tasks=names))
    assert what in caught.value.what and hint in caught.value.hint


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(UsageError) as caught:
        measure(MTEB, subject(FakeEncoder()), Options(tasks=("STS12",)))
    assert 'pip install "contrastcli[mteb]"' in caught.value.hint
