"""A sweep's cells: every combination of a grid for every seed, each with the settings that the same words give."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from contrastcli.errors import ContrastError, UsageError
from contrastcli.runs import directory as runs
from contrastcli.runs import sweeps
from contrastcli.settings import config as configs
from contrastcli.settings import presets
from support.sweeps import flags, make_sweep, names


def test_a_grid_is_every_combination_for_every_seed(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"train.seed": 7}, "objective.tau=0.05,0.06", "train.lr=1e-5,3e-5", seeds=2)
    assert len(sweep.cells(tmp_path)) == 8 and len(set(names(sweep))) == 8
    assert names(sweep)[:3] == [
        "s-tau=0.05-lr=1e-05-seed=7",
        "s-tau=0.05-lr=1e-05-seed=8",
        "s-tau=0.05-lr=3e-05-seed=7",
    ]
    chosen = {(c.config.flat()["objective.tau"], c.config.train.lr, c.config.train.seed) for c in sweep.cells(tmp_path)}
    assert chosen == {(tau, lr, seed) for tau in (0.05, 0.06) for lr in (1e-5, 3e-5) for seed in (7, 8)}


@pytest.mark.parametrize(
    ("seeds", "grid", "fault"),
    [
        ("[]", '"objective.tau" = [0.05, 0.06]', "malformed"),
        ("[1]", '"objective.tau" = []', "malformed"),
        (str([*range(101)]), f'"objective.tau" = {[n / 100 for n in range(1, 101)]}', "more than 10,000 cells"),
    ],
)
def test_a_sweep_without_cells_or_with_too_many_is_none(tmp_path: Path, seeds: str, grid: str, fault: str) -> None:
    (tmp_path / "bad.sweep.toml").write_text(f"seeds = {seeds}\n[grid]\n{grid}\n[settings]\n")
    with pytest.raises(ContrastError, match=fault):
        sweeps.find_sweep("bad", tmp_path)
    assert sweeps.list_sweeps(tmp_path) == []


@pytest.mark.parametrize(
    ("key", "fault"), [("tau", "no setting 'tau'"), ("gone.tau", "no setting 'gone.tau'"), ("train.compile", "")]
)
def test_a_sweep_over_a_setting_that_is_no_more_is_listed(tmp_path: Path, key: str, fault: str) -> None:
    (tmp_path / "old.sweep.toml").write_text(f'seeds = [1]\n[grid]\n"{key}" = [1, 2]\n[settings]\n')
    (sweep,) = sweeps.list_sweeps(tmp_path)
    title = key.rpartition(".")[2]
    assert [name for name, *_ in sweep.points()] == [f"old-{title}=1", f"old-{title}=2"]
    assert len(sweep.scores({}).cells) == 2
    with pytest.raises(UsageError, match=fault) if fault else nullcontext():
        sweep.cells(tmp_path)


def test_values_of_a_setting_may_be_given_one_by_one(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {}, "objective.tau=0.05,0.06", "objective.tau=0.1")
    assert names(sweep) == [f"s-tau={tau}" for tau in ("0.05", "0.06", "0.1")]


def test_a_sweep_without_a_name_has_that_of_its_objective(tmp_path: Path) -> None:
    for words, typed, title in (
        (["objective.tau=0.05,0.06"], ["objective.name=simace"], "simace"),
        (["objective.name=simcse,simace"], [], "sweep"),
    ):
        above = flags(*typed)
        sweep = sweeps.make([], above, sweeps.parse(words, above), 1, None, tmp_path)
        assert f"-{title}-bert-base" in sweep.name


def test_a_cell_has_the_name_of_a_run(tmp_path: Path) -> None:
    words = ("model.backbone=/models/one,nobody/two", "objective.margin=-10,0", "objective.name=simace,simcse")
    sweep = make_sweep(tmp_path, {}, *words[:1], words[2], seeds=2)
    assert all(runs.run_name(cell.name, cell.config, tmp_path) == cell.name for cell in sweep.cells(tmp_path))
    assert "s-backbone=two-objective=simace-seed=42" in names(sweep)


@pytest.mark.parametrize("preset", ["starter", "simace-bert-base", "supcon-medium", "pairsupcon-base"])
def test_a_cell_is_the_run_that_the_same_words_train(tmp_path: Path, preset: str) -> None:
    below, given = presets.stack(presets.find(preset)), flags("train.lr=2e-4", "dev.every=9")
    sweep = sweeps.make(below, given, sweeps.parse(["objective.tau=0.5,0.7"], given), 2, "s", tmp_path)
    first = sweep.seeds[0]
    words = flags("train.lr=2e-4", "dev.every=9", "objective.tau=0.7", f"train.seed={first + 1}")
    assert sweep.cells(tmp_path)[-1].config == configs.resolve([*below, words])


def test_each_objective_of_a_grid_has_its_own_defaults_and_the_users_settings(tmp_path: Path) -> None:
    below = {"objective.name": "simace", "objective.margin": 7.0, "train.lr": 2e-5}
    sweep = make_sweep(tmp_path, below, "objective.name=simcse,simace", set_=("objective.mlm_weight=0.5",))
    simcse, simace = (cell.config.flat() for cell in sweep.cells(tmp_path))
    names = ("similarity", "tau", "margin")
    assert [simcse[f"objective.{name}"] for name in names] == ["cosine", 0.05, 0.0]
    assert [simace[f"objective.{name}"] for name in names] == ["angle", 0.06, 7.0]
    assert simcse["objective.mlm_weight"] == simace["objective.mlm_weight"] == 0.5
    assert simcse["train.lr"] == simace["train.lr"] == 2e-5


def test_what_is_typed_for_all_cells_may_have_no_effect_in_some(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, {"objective.name": "supcon"}, "objective.lambda=0,0.3", set_=("objective.tau=1",))
    assert [cell.config.flat()["objective.tau"] for cell in sweep.cells(tmp_path)] == [1.0, 1.0]


def test_a_sweep_is_read_as_it_was_written(tmp_path: Path) -> None:
    sweep = make_sweep(
        tmp_path, {"objective.name": "supcon"}, "objective.lambda=0.1,0.3", "data.mask_duplicates=on,off", seeds=2
    )
    sweeps.save(sweep, tmp_path)
    for word in ("s", "last"):
        again = sweeps.find_sweep(word, tmp_path)
        assert again == sweep
        assert [c.config for c in again.cells(tmp_path)] == [c.config for c in sweep.cells(tmp_path)]
    assert runs.list_runs(tmp_path) == []


def test_a_sweep_of_an_earlier_version_may_have_values_without_effect(tmp_path: Path) -> None:
    settings = configs.resolve([flags("objective.name=supcon")]).flat()
    (cell,) = sweeps.Sweep("s", (1,), {"objective.lambda": (0.0,), "objective.tau": (0.5,)}, settings).cells(tmp_path)
    assert cell.config.flat()["objective.tau"] == 0.5
    assert cell.config.notes == ("objective.tau has no effect while lambda is 0 (sweep s)",)


@pytest.mark.parametrize("name", presets.sweep_names())
def test_a_published_grid_is_a_sweep_without_notes(tmp_path: Path, name: str) -> None:
    known = presets.find(name)
    sweep = sweeps.make(presets.stack(known), flags(), known.grid, known.seeds, "s", tmp_path)
    assert known.about.what and known.about.paper and known.grid
    assert all(cell.config.notes == () for cell in sweep.cells(tmp_path))
