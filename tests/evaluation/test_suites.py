"""What all suites share: names, the cache of scores, where results go, and what an interruption leaves."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from contrastcli.evaluation.evaluate import evaluate
from contrastcli.evaluation.measure import measure, sizes
from contrastcli.evaluation.procedure import Options
from contrastcli.evaluation.suites import (
    CLUSTERING,
    FEWSHOT,
    MTEB,
    STS,
    TRANSFER,
    Suite,
    check_suites,
    check_tasks,
)
from contrastcli.files import cache_dir
from contrastcli.runs.directory import Run
from contrastcli.runs.scores import add_scores, forget_suites, read_scores
from contrastcli.settings.sections import Pooling
from contrastcli.show import scores as show_scores
from support.settings import preset
from support.sts_files import (
    FakeEncoder,
    some_rows,
    subject,
    write_all,
    write_published_counts,
    write_sick,
    write_stsb,
    write_year,
)
from support.tiny import Tiny
from support.transfer_files import write_one_file


def test_suites_and_tasks_are_lists_of_names_of_which_each_counts_once() -> None:
    assert check_suites("transfer, sts,transfer") == (TRANSFER, STS)
    assert check_tasks("STS12,TREC", (STS, TRANSFER)) == ("STS12", "TREC")
    benchmarks = ("MTEB(eng, v1)", "MTEB(fra, v1)", "STS22")
    assert check_tasks(",".join(benchmarks), (MTEB,)) == benchmarks  # which it knows better


@pytest.mark.parametrize("name", ["absent", "empty"])
@pytest.mark.parametrize("suite", [STS, TRANSFER, FEWSHOT, CLUSTERING], ids=lambda suite: suite.name)
def test_in_a_folder_without_sets_every_task_is_missing(tmp_path: Path, suite: Suite, name: str) -> None:
    (tmp_path / "empty").mkdir()
    encoder = FakeEncoder()
    result = measure(suite, subject(encoder), Options(tmp_path / name))
    assert result.suite == suite.name and not result.tasks and not encoder.calls
    assert list(result.missing) == list(suite.tasks)
    assert all(name in error.what and "--data-dir" in error.hint for error in result.missing.values())


@pytest.mark.parametrize("suite", [STS, TRANSFER, CLUSTERING], ids=lambda suite: suite.name)
def test_the_published_sets_that_are_there_have_the_published_counts(data_folder: Path, suite: Suite) -> None:
    counts = {task: sizes(suite, task, data_folder / "senteval") for task in suite.tasks}
    there = {task: numbers for task, numbers in counts.items() if numbers}
    assert len(there) > 1
    for task, numbers in there.items():
        texts_and_classes = ("N", "C") if suite is CLUSTERING else numbers
        assert tuple(numbers[name] for name in texts_and_classes) == suite.tasks[task], task


def test_scores_are_written_next_to_those_of_other_suites(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    write_stsb(tmp_path, some_rows("stsb"))
    write_one_file(tmp_path / "agnews.tsv")
    options = Options(data_dir=tmp_path, out=tmp_path / "out")
    sts_scores = evaluate(str(run.path), (STS,), options).to_json()["suites"]["sts"]
    both = evaluate(str(run.path), (CLUSTERING,), options)
    for place in (run.path, tmp_path / "out"):
        kept = json.loads((place / "scores.json").read_text())
        assert kept["suites"] == {"sts": sts_scores, "clustering": both.to_json()["suites"]["clustering"]}
    assert kept["suites"]["clustering"]["AgNews"]["rows"] == 60
    evaluate(str(tiny.backbone), (STS,), options)
    folder = read_scores(tmp_path / "out" / "scores.json")
    assert folder["suites"].keys() == {"sts"}, "a folder holds the results of one model"


def test_single_tasks_are_kept_and_all_of_them_together_are_the_suite(run: Run, tmp_path: Path) -> None:
    write_published_counts(tmp_path)

    def measured(*tasks: str) -> Any:
        evaluate(str(run.path), (STS,), Options(tmp_path, tasks, out=tmp_path / "out"))
        return run.scores()["suites"]["sts"]

    one = measured("STS12")
    assert one["average"] is None and one["partial"] and "STS13" not in one
    two = measured("STS-B")
    shutil.rmtree(tmp_path / "STS" / "STS13-en-test")
    assert two["STS12"] == one["STS12"] and two["average"] is None and two["partial"]
    assert list(two["missing"]) == [] and list(measured("STS-B", "STS13")["missing"]) == ["STS13"]
    assert list(measured("STS12")["missing"]) == ["STS13"], "what was missing still is"
    write_published_counts(tmp_path)
    rest = measured(*[task for task in STS.tasks if task not in ("STS12", "STS-B")])
    assert not rest["partial"] and rest == measured() == measured("STS13")
    assert read_scores(tmp_path / "out" / "scores.json")["suites"]["sts"] == rest


def test_what_was_measured_of_other_weights_goes(run: Run, tmp_path: Path) -> None:
    write_all(tmp_path)
    evaluate(str(run.path), (STS,), Options(tmp_path))
    before = run.scores()
    for name in ("sts", "clustering"):
        before["suites"][name] = before["suites"]["sts"] | {"vectors": "others"}
    run.scores_path.write_text(json.dumps(before))
    evaluate(str(run.path), (STS,), Options(tmp_path, ("STS12",), fresh=True))
    after = run.scores()["suites"]
    assert after.keys() == {"sts"} and after["sts"]["vectors"] != "others" and after["sts"].keys().isdisjoint(["STS13"])


def test_a_table_has_the_mean_of_each_kind_of_task() -> None:
    kinds = {"a": (10.0, "STS"), "b": (20.0, "STS"), "c": (60.0, "Clustering")}
    tasks = {name: {"score": score, "metric": "", "type": kind} for name, (score, kind) in kinds.items()}
    averages = MTEB.averages_over(tasks)
    assert {a.key: a.tasks for a in averages} == {"average": (), "Clustering": ("c",), "STS": ("a", "b")}
    entries = {**tasks, "average": 30.0, "STS": 15.0, "Clustering": 60.0}
    (table,) = show_scores.suite_tables({"suites": {"mteb": entries}}, preset("simace-bert-base"))
    assert table.header[:4] == ("Task", "Score", "Tab. 3", "Tab. 12")  # of SimACE
    rows = {row[0]: (row[1], row[3]) for row in table.rows}
    assert rows["STS, 2"] == ("15.00", "75.70") and rows["Avg."] == ("30.00", "48.19")


def test_an_average_says_over_how_many_of_the_tasks_that_were_asked_for() -> None:
    """Also in a suite that does not know its tasks: the mean of two of three is no mean of three."""
    tasks = {name: {"score": score, "metric": "", "type": "STS"} for name, score in {"a": 10.0, "b": 20.0}.items()}
    missing = {"c": {"what": "the hub cannot be reached", "hint": ""}}
    (table,) = show_scores.suite_tables({"suites": {"mteb": {**tasks, "average": None, "missing": missing}}}, None)
    rows = {row[0]: (row[1], row[-1]) for row in table.rows}
    assert rows == {"a": ("10.00", ""), "b": ("20.00", ""), "c": ("–", "missing"), "Avg.": ("15.00", "2 of 3")}


def test_what_was_measured_is_known_by_its_data_its_model_and_its_pooling(
    tiny: Tiny, run: Run, tmp_path: Path, encoded: list[str]
) -> None:
    write_stsb(tmp_path, some_rows("stsb"))

    def measured(model: Path = tiny.backbone, pooling: Pooling | None = None, *, fresh: bool = False) -> int:
        before = len(encoded)
        scores.append(evaluate(str(model), (STS,), Options(tmp_path, fresh=fresh), pooling).to_json())
        return len(encoded) - before

    scores: list[Any] = []
    assert [measured(), measured(), measured(fresh=True)] == [12, 0, 12]
    assert scores[0] == scores[1] == scores[2]
    assert [measured(pooling="cls"), measured(run.path)] == [12, 12]
    write_sick(tmp_path, some_rows("sick"))
    assert measured() == 12, "the other set is known"
    write_stsb(tmp_path, some_rows("stsb", 7))
    assert measured() == 14
    write_stsb(tmp_path, [(a, b, str(5 - float(gold))) for a, b, gold in some_rows("stsb", 7)])
    assert measured() == 14


def test_a_damaged_or_unwritable_cache_costs_time_and_nothing_else(
    tiny: Tiny, tmp_path: Path, encoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stsb(tmp_path, some_rows("stsb"))

    def measured() -> dict[str, Any]:
        return evaluate(str(tiny.backbone), (STS,), Options(data_dir=tmp_path)).to_json()

    first = measured()
    [entry] = (cache_dir() / "scores").iterdir()
    entry.write_bytes(b"[1]")
    assert measured() == first and len(encoded) == 2 * 12
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONTRAST_CACHE", str(tmp_path / "file"))
    assert measured() == first


def test_an_interrupted_evaluation_keeps_what_is_done_and_continues_there(
    run: Run, tmp_path: Path, encoded: list[str]
) -> None:
    write_all(tmp_path)
    write_one_file(tmp_path / "agnews.tsv")
    write_one_file(tmp_path / "tweet.tsv", classes=2)

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "clustering Tweet":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(str(run.path), (STS, CLUSTERING), Options(data_dir=tmp_path, on_progress=interrupt))
    assert list(run.scores()["suites"]) == ["sts", "clustering"]
    unfinished = run.scores()["suites"]["clustering"]
    assert unfinished["pending"] == ["Tweet"] and unfinished["average"] is None and "accuracy" in unfinished["AgNews"]
    before = len(encoded)
    evaluate(str(run.path), (STS, CLUSTERING), Options(data_dir=tmp_path))
    assert len(encoded) - before == 40  # the distinct texts of Tweet
    assert list(run.scores()["suites"]) == ["sts", "clustering"]
    assert "pending" not in run.scores()["suites"]["clustering"]


def test_progress_reports_tasks_and_texts(tiny: Tiny, tmp_path: Path) -> None:
    write_year(tmp_path, "STS13")
    write_stsb(tmp_path, some_rows("stsb"))
    reports: list[tuple[str, int, int]] = []
    options = Options(data_dir=tmp_path, tasks=("STS13", "STS-B"), on_progress=lambda *words: reports.append(words))
    evaluate(str(tiny.backbone), (STS,), options)
    assert [words for words in reports if words[0] == "sts"] == [("sts", 0, 2), ("sts", 1, 2), ("sts", 2, 2)]
    encoded = [("encoding", 0, 42), ("encoding", 42, 42), ("encoding", 0, 12), ("encoding", 12, 12)]
    assert [words for words in reports if words[0] == "encoding"] == encoded


CHANGES: dict[str, tuple[Callable[[Path], object], dict[str, object]]] = {
    "adds": (partial(add_scores, more={"suites": {"geometry": {}}}), {"geometry": {}}),
    "forgets": (partial(forget_suites, vectors="new"), {}),
}


@pytest.mark.parametrize(("change", "more"), CHANGES.values(), ids=CHANGES)
def test_what_another_evaluation_adds_meanwhile_is_kept(
    tmp_path: Path, change: Callable[[Path], object], more: dict[str, object]
) -> None:
    """Each reads the file, changes it and writes it; none may do so between another's reading and writing."""
    path, added = tmp_path / "scores.json", {"retrieval": {"vectors": "new"}}
    add_scores(path, {"suites": {"sts": {"vectors": "old"}}})
    with ThreadPoolExecutor() as threads, FileLock(tmp_path / ".scores.json.lock"):
        changing = threads.submit(change, path)
        wait([changing], timeout=0.2)
        path.write_text(json.dumps({"suites": added}))
    assert changing.result() is None and read_scores(path) == {"suites": added | more}
