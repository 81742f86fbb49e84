"""The papers' tables as data: they agree with themselves, with the presets and with the objectives."""

from typing import Any

import pytest

from contrastcli.evaluation.suites import SUITES
from contrastcli.settings import catalogue, presets, published, sections
from contrastcli.settings.published import ReportedScores, Table, nearest
from support.settings import preset

EVERY = published.all_scores()
AVERAGED = [
    table for table in published.tables().tables if len(table.columns) > 1 and table.columns[-1].startswith("average")
]
"""Those with a column that is the mean of the others."""
KINDS = (12, 11, 3, 4, 15, 10, 1)
"""How many of MTEB's tasks are of each kind (SimACE, section 4.5)."""


@pytest.mark.parametrize("table", published.tables().tables, ids=lambda t: f"{t.paper}-{t.number}")
def test_a_table_is_of_a_suite_and_of_its_tasks_and_averages(table: Table) -> None:
    if table.suite in ("time", "significance"):
        return
    if table.suite == "data":
        assert all(any(task in suite.tasks for suite in SUITES.values()) for _, task, _ in table.lines())
        return
    suite = SUITES[table.suite]
    known = {*suite.tasks, *(average.key for average in suite.averages)}
    assert set(table.columns) <= known or not suite.tasks
    assert table.measure == "all" or any(path.startswith(f"{table.measure}.") for path in suite.columns.values())


def row_of(suite: str, table: int, paper: str, backbone: str, method: str) -> ReportedScores:
    of_table = [row for row in EVERY if (row.table.suite, row.table.number, row.table.paper) == (suite, table, paper)]
    return next(row for row in of_table if (row.backbone, row.method) == (backbone, method))


@pytest.mark.parametrize("table", AVERAGED, ids=lambda t: f"{t.paper}-{t.number}")
def test_a_printed_average_is_the_mean_of_its_row_or_a_slip_of_the_paper(table: Table) -> None:
    step = 0.1 if table.paper == "PairSupCon" else 0.01
    slips = {tuple(slip[:4]): slip[4:] for slip in published.tables().slips}
    for row in (r for r in EVERY if (r.table.paper, r.table.number) == (table.paper, table.number)):
        *values, average = (score.value for score in row.values.values())
        weights = KINDS if table.suite == "mteb" else (1,) * len(values)
        mean = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
        slip = slips.get((row.table.paper, row.table.number, row.backbone, row.method))
        if slip:
            assert slip[0] == average and slip[1] == pytest.approx(mean, abs=step / 2 + 1e-9)
            assert abs(mean - average) > step
        else:
            assert average == pytest.approx(mean, abs=step + 1e-9)  # both the values and their mean are rounded


@pytest.mark.parametrize(
    ("suite", "key", "task", "printed"),
    [
        ("sts", (1, "SimACE", "BERT-base", "SimACE"), "STS16", "79.95"),
        ("sts", (2, "SimACE", "BERT-base", "SimCSE"), "average", "75.97 ± 0.69"),
        ("significance", (9, "SimACE", "BERT-large", "SimCSE"), "p", "0.001"),
        ("fewshot", (6, "PairSupCon", "BERT-base", "untrained"), "MRPC", "56.5 ± 12.1"),
    ],
)
def test_a_number_is_in_the_column_and_with_the_digits_that_the_paper_prints(
    suite: str, key: tuple[int, str, str, str], task: str, printed: str
) -> None:
    assert str(row_of(suite, *key).values[task]) == printed


def test_a_number_that_two_tables_print_is_the_same() -> None:
    seen: dict[tuple[str, ...], float] = {}
    for row in EVERY:
        for task, score in row.values.items():
            key = (row.table.paper, row.table.suite, row.table.mark, row.backbone, row.method, task)
            assert seen.setdefault(key, score.value) == score.value, (row.table.source, *key)


def test_a_cell_without_a_number_is_left_out() -> None:
    assert row_of("sts", 2, "SimACE", "RoBERTa-large", "ArcCon").values == {}
    assert all(row.values for row in nearest("sts", preset("arccon-roberta-large")))


TWICE = ["SimACE, Table 1, one seed: 76.25", "SimACE, Table 2, mean of five seeds: 75.97 ± 0.69"]


@pytest.mark.parametrize(
    ("suite", "name", "changes", "rows"),
    [
        ("sts", "simcse-bert-base", {}, TWICE),
        ("sts", "simace-bert-base", {"objective__margin": -10.0}, ["SimACE, Table 14, one seed: 73.46"]),
        ("sts", "pairsupcon-base", {"objective__beta": 4.0}, ["PairSupCon, Table 4, one seed: 80.0"]),
        ("clustering", "pairsupcon-base", {"objective__beta": 0.5}, ["PairSupCon, Table 4, one seed: 61.6"]),
        ("sts", "supcon-medium", {"objective__lambda": 0.7}, ["SupCon, Table 6, one seed: 69.69"]),
    ],
)
def test_the_rows_of_a_run_are_those_of_its_method_and_its_margin_β_or_λ(
    suite: str, name: str, changes: dict[str, Any], rows: list[str]
) -> None:
    shown = nearest(suite, preset(name, **changes))
    assert [f"{row.table.source}, {row.table.mark}: {row.values['average']}" for row in shown] == rows
    assert all(row.differs == () for row in shown)
    assert {row.table.measure for row in shown} == {"wmean" if name.startswith("supcon") else "all"}


@pytest.mark.parametrize(
    ("backbone", "changes", "differs"),
    [
        ("BERT-large", {"objective__margin": 25.0}, "objective.margin"),
        ("BERT-base", {"model__backbone": "starter"}, "model.backbone"),
    ],
)
def test_what_the_paper_did_not_do_is_shown_next_to_the_nearest_that_it_did(
    backbone: str, changes: dict[str, Any], differs: str
) -> None:
    (row, *_) = nearest("sts", preset(f"simace-{backbone.lower()}", **changes))
    assert (row.backbone, row.method, row.differs) == (backbone, "SimACE", (differs,))


def test_every_setting_of_method_and_data_that_is_not_the_papers_is_named() -> None:
    changed = {"objective__tau": 1.0, "train__lr": 1.0, "train__batch_size": 2, "data__train": "mine/triplets.tsv"}
    kept = {"train__seed": 7, "train__log_every": 3, "data__train": "elsewhere/wiki1m_for_simcse.txt"}
    row, *_ = nearest("sts", preset("simace-bert-base", **changed))
    assert set(row.differs) == {"objective.tau", "train.lr", "train.batch_size", "data.train"}
    assert nearest("sts", preset("simace-bert-base", **kept))[0].differs == ()
    row, *_ = nearest("sts", preset("simace-bert-base", **changed, model__pooling="mean", dev__data="none"))
    assert row.words.endswith(" and 1 more") and len(row.differs) == 6


@pytest.mark.parametrize(
    "name", ["bert-base-uncased", "google-bert/bert-base-uncased@main", "models/bert-base-uncased/"]
)
def test_a_backbone_is_known_by_its_last_word(name: str) -> None:
    assert not nearest("sts", preset("simace-bert-base", model__backbone=name))[0].differs


def test_supervised_and_unsupervised_simcse_are_two_methods() -> None:
    assert {row.method for row in nearest("transfer", preset("simcse-sup-bert-base"))} == {"SimCSE on NLI"}
    assert {row.method for row in nearest("transfer", preset("simcse-bert-base"))} == {"SimCSE"}
    assert nearest("clustering", preset("simcse-bert-base")) == []


def test_what_does_not_compare_is_never_a_target() -> None:
    marked = [row for row in EVERY if (row.table.suite, row.table.paper) == ("transfer", "SupCon")]
    assert marked and {row.table.mark for row in marked} == {"not comparable"}
    suites = {row.table.suite for row in EVERY if row.table.mark == "not comparable"}
    shown = [row for suite in suites for name in presets.names() for row in nearest(suite, preset(name))]
    assert shown and not [row for row in shown if row.table.mark == "not comparable"]


def test_other_settings_have_no_published_result() -> None:
    assert published.exact(preset("starter")) == []
    assert published.exact(preset("simace-bert-base", objective__margin=12.0)) == []


def test_every_setting_that_identifies_a_row_exists() -> None:
    for method in published.tables().methods:
        wanted = published.stated(method)
        known = sections.settings_of(catalogue.find_objective(str(wanted["objective.name"][0])))
        for key, values in wanted.items():
            for one in values:
                assert key == "objective.name" or known[key].check(one) == one, method


def test_every_paper_has_a_table_and_every_method_a_row() -> None:
    assert {row.table.paper for row in EVERY} == {"SimACE", "PairSupCon", "SupCon", "SBERT", "SimCSE"}
    assert set(published.tables().methods) <= {row.method for row in EVERY}
    assert {row.backbone for row in EVERY} - {"–"} == set(published.tables().backbones)
