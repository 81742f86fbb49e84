"""Ours next to the paper's: what is compared with what, and when they agree."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_ind

from contrastcli.evaluation.reproduction import Measurement, Trial, compare, runs_by_settings
from contrastcli.runs import directory as runs
from contrastcli.runs.cells import Cell
from contrastcli.runs.events import Done, encode
from contrastcli.runs.results import Spread
from contrastcli.settings import papers
from contrastcli.settings.papers import Request, System
from contrastcli.settings.published import Score
from support.sts_files import write_year
from support.transfer_files import write_trec

STS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


def sts(value: float, *tasks: str, **more: object) -> dict[str, Any]:
    """Scores by which a task counts its number above `value`."""
    spearman = {task: value + n for n, task in enumerate(tasks or STS)}
    return {"sts": {t: {"all": {"spearman": s}, "wmean": {"spearman": s - 5}, **more} for t, s in spearman.items()}}


def made(folder: Path, system: System, each: Sequence[Mapping[str, Any]]) -> list[Trial]:
    """Finished runs of a system, with these scores."""
    trials = []
    for suites in each:
        run = runs.create(papers.config_of(system, Request()), folder, f"run{len(list(folder.iterdir()))}")
        run.events_path.write_bytes(encode(Done(step=1, status="finished", code=0)))
        run.scores_path.write_text(json.dumps({"model": "", "suites": suites}))
        trials.append(Trial(system, Cell(run, run.name, run.config())))
    return trials


def test_a_number_is_the_mean_over_seeds_and_an_average_that_over_the_columns_of_its_table(tmp_path: Path) -> None:
    row = System("BERT-base", "SimACE")
    ((_, lines),) = compare(papers.find_item("simace", "table-1"), {row: made(tmp_path, row, [sts(70), sts(74)])})
    assert lines[row]["STS13"].ours == Spread.of([71, 75])
    assert lines[row]["STS13"].difference == pytest.approx(73 - 83.44)
    assert lines[row]["average"].ours == Spread.of([73, 77]) and not lines[row]["average"].partial

    row = System("BERT-medium", "SCL allpalln, λ = 0.3")  # five sets, weighted means
    ((_, lines),) = compare(papers.find_item("supcon", "table-6"), {row: made(tmp_path, row, [sts(70)])})
    assert lines[row]["average"].ours == Spread.of([67]) and lines[row]["STS16"].ours == Spread.of([69])


def test_of_equal_runs_one_that_has_finished_counts_or_else_the_newest(tmp_path: Path) -> None:
    config = papers.config_of(System("BERT-base", "SimACE"), Request())
    older, newer = (runs.create(config, tmp_path, name) for name in ("older", "newer"))
    assert [*runs_by_settings(tmp_path).values()] == [newer]
    older.events_path.write_bytes(encode(Done(step=1, status="finished", code=0)))
    assert [*runs_by_settings(tmp_path).values()] == [older]


def without(scores: Mapping[str, Any], *tasks: str) -> dict[str, Any]:
    """Scores of STS without some sets, whose data are not there."""
    entries = {task: one for task, one in scores["sts"].items() if task not in tasks}
    return {"sts": entries | {"missing": {task: {"what": "", "hint": ""} for task in tasks}}}


@pytest.mark.parametrize("scores", [without(sts(70), "STS12"), sts(70, partial=True)], ids=["a set", "other rows"])
def test_what_is_of_fewer_sets_or_other_rows_is_not_compared(tmp_path: Path, scores: Mapping[str, Any]) -> None:
    row = System("BERT-base", "SimCSE")
    ((_, lines),) = compare(papers.find_item("simace", "table-2"), {row: made(tmp_path, row, [scores])})
    average = lines[row]["average"]
    assert average.ours and average.partial and average.difference is None and average.within is None


def test_averages_of_all_rows_and_seeds_are_of_the_same_sets(tmp_path: Path) -> None:
    first, second = System("BERT-base", "SimCSE"), System("BERT-base", "SimACE")
    each = {first: [sts(60), without(sts(70), "SICK-R")], second: [without(sts(80), "STS12"), sts(90, *STS[1:])]}
    rows = {row: made(tmp_path, row, scores) for row, scores in each.items()}
    ((_, lines),) = compare(papers.find_item("simace", "table-2"), rows)
    averages = {row: by_column["average"] for row, by_column in lines.items()}
    # STS13 to STS-B, which all have; what an interrupted evaluation has is no average.
    assert averages[first].ours == Spread.of([63, 73]) and averages[second].ours == Spread.of([83])
    assert all(one.partial for one in averages.values())
    ((_, lines),) = compare(papers.find_item("simace", "table-9"), rows)
    assert lines[first]["p"].ours is None, "one seed is no sample"


def test_numbers_that_nobody_elses_compare_with_have_no_difference(tmp_path: Path) -> None:
    row = System("BERT-medium", "SCL allpalln, λ = 0.1")
    transfer = {"transfer": {"MR": {"accuracy": 70.0}}}
    ((_, lines),) = compare(papers.find_item("supcon", "table-4"), {row: made(tmp_path, row, [transfer])})
    assert lines[row]["MR"].ours == Spread.of([70]) and lines[row]["MR"].printed == Score(66.19)
    assert lines[row]["MR"].difference is None and lines[row]["CR"].ours is None


def test_a_cell_is_done_once_every_set_that_is_there_was_measured(tmp_path: Path) -> None:
    item, row = papers.find_item("simace", "table-1"), System("BERT-base", "SimACE")
    some, absent = sts(70, *STS[1:]), {"STS12": {"what": "", "hint": ""}}
    each = [sts(70), {"sts": some["sts"] | {"missing": absent}}, some, {}]
    assert [trial.done(item) for trial in made(tmp_path, row, each)] == [True, True, False, False]


def test_agreement_is_a_difference_of_at_most_both_deviations() -> None:
    printed = Score(75.0, 0.5)
    assert Measurement(Spread.of([75.0, 77.0]), False, printed, True).within  # 1.0 ≤ 1.41 + 0.5
    assert not Measurement(Spread.of([77.0, 77.2]), False, printed, True).within
    assert Measurement(Spread.of([75.4]), False, printed, True).within
    assert Measurement(Spread.of([75.0]), False, Score(75.0), True).within is None


def test_a_p_value_is_welchs_of_the_averages_of_both_rows(tmp_path: Path) -> None:
    one, other = System("BERT-base", "SimCSE"), System("BERT-base", "SimACE")
    first, second = [60.0, 61.0, 61.5], [62.0, 62.2, 63.4]
    every = {row: made(tmp_path, row, [sts(x) for x in xs]) for row, xs in ((one, first), (other, second))}
    ((_, lines),) = compare(papers.find_item("simace", "table-9"), every)
    assert list(lines) == [one] and (p := lines[one]["p"].ours)
    assert p.mean == pytest.approx(ttest_ind(first, second, equal_var=False).pvalue)


def test_mteb_is_averaged_over_tasks_and_over_those_of_a_kind(tmp_path: Path) -> None:
    tasks = {"a": (10.0, "STS"), "b": (20.0, "STS"), "c": (60.0, "Clustering")}
    entries = {name: {"score": score, "type": kind} for name, (score, kind) in tasks.items()}
    row = System("BERT-base", "SimACE")
    mteb = {"mteb": {**entries, "average": 30.0, "partial": False, "missing": {}, "protocol": "MTEB"}}
    ((_, lines),) = compare(papers.find_item("simace", "table-12"), {row: made(tmp_path, row, [mteb])})
    means = {column: number.ours.mean for column, number in lines[row].items() if number.ours}
    assert means == {"STS": 15, "Clustering": 60, "average": 30}


def test_sets_of_data_are_counted_as_the_papers_tables_of_them_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def counted(paper: str, key: str, task: str) -> dict[str, Measurement]:
        ((_, lines),) = compare(papers.find_item(paper, key), {}, str(tmp_path))
        return dict(lines[System("–", task)])

    def ours(numbers: Mapping[str, Measurement]) -> dict[str, float]:
        return {column: number.ours.mean for column, number in numbers.items() if number.ours}

    texts = ["a b", "a b c", "a b c", "a b c d e"]
    (tmp_path / "agnews.tsv").write_text("".join(f"{n % 3}\t{text}\n" for n, text in enumerate(texts)))
    agnews, tweet = (counted("pairsupcon", "table-2", task) for task in ("AgNews", "Tweet"))
    assert ours(agnews) == {"N": 4, "W": 3.2, "C": 3, "L": 2, "S": 1} and agnews["N"].difference == 4 - 8000
    assert ours(tweet) == {} and tweet["N"].printed == Score(5000)
    assert "note: Tweet is not counted: " in capsys.readouterr().err
    write_year(tmp_path, "STS12")
    assert ours(counted("simace", "table-5", "STS12")) == {"test": 6 + 7 + 8 + 9 + 10}
    write_trec(tmp_path, (24, 8))
    assert ours(counted("simace", "table-6", "TREC")) == {"train": 24 * 6, "test": 8 * 6}
