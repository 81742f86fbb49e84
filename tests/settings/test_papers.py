"""How the papers' tables are made: every one is there, and the run of each row is what the paper prints it of."""

from pathlib import Path

import pytest

from contrastcli.evaluation.reproduction import Trial, key_of, trials
from contrastcli.settings import papers, presets, published
from contrastcli.settings.papers import Item, Request, System

PRINTED = Request()
PAPERS = {"simace": (14, 9), "pairsupcon": (8, 3), "supcon": (7, 2)}
"""How many tables and figures each paper has, its appendices included."""


def stand_for(item: Item, system: System, request: Request = PRINTED) -> list[Trial]:
    """The trials of a system where no run is."""
    return trials(item, system, request, Path("runs"), {})


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_is_there_and_is_made_or_says_why_not(paper: str) -> None:
    tables, figures = PAPERS[paper]
    keys = [f"table-{n + 1}" for n in range(tables)] + [f"figure-{n + 1}" for n in range(figures)]
    items = [item for item in papers.items() if item.paper == paper]
    assert [item.key for item in items] == keys
    for item in items:
        assert item.title and bool(item.tables or item.pictures) != bool(item.why_not), item.name
    assert set(papers.book().papers[paper].items) <= set(keys)


def test_every_printed_table_of_the_papers_is_an_item() -> None:
    names = {book.name for book in papers.book().papers.values()}
    printed = [table for table in published.tables().tables if table.paper in names]
    assert [table for item in papers.items() for table in item.tables] == sorted(printed, key=printed.index)


@pytest.mark.parametrize("item", papers.items(), ids=lambda item: f"{item.paper}-{item.key}")
def test_every_row_is_made_by_a_run_or_a_model_or_says_why_not(item: Item) -> None:
    """A run has the row as its published result, unless that is for reading alone or without numbers."""
    printed = {(backbone, method) for table in item.tables for backbone, method, scores in table.lines() if scores}
    for system in papers.systems(item, PRINTED):
        made = stand_for(item, system, Request(seeds=1))
        assert bool(made) != bool(papers.recipe(system).why_not), system
        assert all((trial.cell is None) != (trial.model == "") for trial in made)
        if system in printed and published.stated(system.method):
            runs = [published.exact(trial.cell.config) for trial in made if trial.cell]
            assert all(system in [(row.backbone, row.method) for row in rows] for rows in runs), system


def test_a_row_has_as_many_seeds_as_in_the_paper() -> None:
    row = System("BERT-base", "SimCSE")
    once, often = (stand_for(papers.find_item("simace", key), row) for key in ("table-1", "table-2"))
    assert [[trial.cell.config.train.seed for trial in made if trial.cell] for made in (once, often)] == [
        [42],
        [42, 43, 44, 45, 46],
    ]


def test_a_shortened_run_reads_a_part_of_the_papers_rows_and_what_is_set_wins() -> None:
    row = System("BERT-base", "PairSupCon")
    config = papers.config_of(row, Request(scale=0.01, settings={"train.batch_size": "64", "dev.every": "3"}))
    assert (config.data.limit, config.dev.every) == (2756, 3)  # of 275,601 triplets
    assert config.train.log_every <= config.train.save_every <= 2756 * 2 * 3 // 64
    least = papers.config_of(row, Request(scale=1e-6))
    assert least.data.limit == least.train.batch_size


def test_a_released_model_stands_for_a_row_unless_something_differs() -> None:
    item, row = papers.find_item("pairsupcon", "Table 3"), System("DistilBERT", "SBERT")
    (released,) = stand_for(item, row)
    assert released.model == "sentence-transformers/distilbert-base-nli-mean-tokens"
    (trained,) = stand_for(item, row, Request(scale=0.5))
    assert trained.cell and trained.cell.config.model.backbone == "distilbert-base-uncased"


def test_one_backbone_for_all_leaves_the_first_row_of_each_method() -> None:
    item = papers.find_item("simace", "table-1")
    on_small = Request(settings={"model.backbone": "starter"})
    assert [method for _, method in papers.systems(item, on_small)] == ["first-last", "SimCSE", "ArcCon", "SimACE"]
    assert stand_for(item, System("BERT-base", "first-last"), on_small)[0].model == "starter"
    some = Request(backbones=("RoBERTa-large",), rows=("SimACE",))
    assert papers.systems(item, some) == [System("RoBERTa-large", "SimACE")]


def test_of_the_users_own_settings_only_those_of_execution_count(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("contrast.toml").write_text("[train]\nlr = 1.0\nkeep = 3\nsave_every = 9\ncompile = 1\n[alerts]\ndisk = 7.0\n")
    monkeypatch.setenv("CONTRAST_TRAIN_DEVICE", "cpu")
    monkeypatch.setenv("CONTRAST_TRAIN_SEED", "7")
    monkeypatch.setenv("CONTRAST_OBJECTIVE_TAU", "0.5")
    config = papers.config_of(System("BERT-base", "SimACE"), PRINTED)
    assert any(note.startswith("train.compile is of an earlier version") for note in config.notes)
    assert (config.train.device, config.train.keep, config.alerts.disk) == ("cpu", 3, 7.0)
    shipped = presets.find("simace-bert-base").config
    assert key_of(config) == key_of(shipped) and config.train.save_every == shipped.train.save_every


@pytest.mark.parametrize("backbone", ["bert-base", "bert-large", "roberta-base", "roberta-large"])
@pytest.mark.parametrize("name", ["simace", "simcse", "arccon"])
def test_a_grid_on_another_backbone_has_the_preset_of_that_backbone(name: str, backbone: str) -> None:
    preset = presets.find(f"{name}-{backbone}").config.flat()
    grid = presets.find(f"{name}-grid")
    varied = {key: preset[key] for key in grid.grid} | {papers.BACKBONE: preset[papers.BACKBONE]}
    assert grid.config.flat() | varied == preset
    assert all(preset[key] in values for key, values in grid.grid.items())
