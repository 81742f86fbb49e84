"""A sweep as a user meets it: what it would train, what it leaves, how it stops and goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contrastcli import options
from contrastcli.commands import sweep
from contrastcli.errors import ContrastError, DataError, RunError, UsageError
from contrastcli.runs import directory as runs
from contrastcli.runs import process as control
from contrastcli.runs import status
from contrastcli.runs import sweeps as grid
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Evaluated, EventWriter, Started
from contrastcli.runs.sweeps import Sweep
from contrastcli.settings import config as configs
from contrastcli.show import comparison
from support.tiny import Tiny

Ends = dict[str, tuple[str, int]]
"""How cells end, by a part of their name: status and exit code; the others finish."""


def layer(values: dict[str, object]) -> configs.Layer:
    return configs.Layer(values, dict.fromkeys(values, "test"))


def typed(*assignments: str) -> configs.Layer:
    return options.flag_layer(assignments, {})


def make(directory: Path, below: dict[str, object], *words: str, seeds: int = 1, flags: tuple[str, ...] = ()) -> Sweep:
    given = typed(*flags)
    return grid.make([layer(below)], given, grid.parse(words, given), seeds, "s", directory)


def names(found: Sweep) -> list[str]:
    return [cell.name for cell in found.cells()]


def test_a_grid_is_every_combination_for_every_seed(tmp_path: Path) -> None:
    found = make(tmp_path, {"train.seed": 7}, "objective.tau=0.05,0.06", "train.lr=1e-5,3e-5", seeds=2)
    assert len(found.cells()) == 8 and len(set(names(found))) == 8
    assert names(found)[:3] == [
        "s-tau=0.05-lr=1e-05-seed=7",
        "s-tau=0.05-lr=1e-05-seed=8",
        "s-tau=0.05-lr=3e-05-seed=7",
    ]
    chosen = {(c.config.flat()["objective.tau"], c.config.train.lr, c.seed) for c in found.cells()}
    assert chosen == {(tau, lr, seed) for tau in (0.05, 0.06) for lr in (1e-5, 3e-5) for seed in (7, 8)}


def test_a_cell_has_the_name_of_a_run(tmp_path: Path) -> None:
    words = ("model.backbone=/models/one,nobody/two", "objective.margin=-10,0", "objective.name=simace,simcse")
    found = make(tmp_path, {}, *words[:1], words[2], seeds=2)
    assert all(runs.checked_name(name) == name for name in names(found))
    assert "s-backbone=two-objective=simace-seed=42" in names(found)


@pytest.mark.parametrize("preset", ["starter", "simace-bert-base", "supcon-medium", "pairsupcon-base"])
def test_a_cell_is_the_run_that_the_same_words_train(tmp_path: Path, preset: str) -> None:
    below, given = grid.layers(grid.published(preset), None), typed("train.lr=2e-4", "dev.every=9")
    found = grid.make(below, given, grid.parse(["objective.tau=0.5,0.7"], given), 2, "s", tmp_path)
    first = found.seeds[0]
    words = typed("train.lr=2e-4", "dev.every=9", "objective.tau=0.7", f"train.seed={first + 1}")
    assert found.cells()[-1].config == configs.resolve([*below, words])


def test_each_objective_of_a_grid_has_its_own_defaults_and_what_was_typed(tmp_path: Path) -> None:
    below = {"objective.name": "simace", "objective.margin": 7.0, "train.lr": 2e-5}
    found = make(tmp_path, below, "objective.name=simcse,simace", flags=("objective.mlm_weight=0.5",))
    simcse, simace = (cell.config.flat() for cell in found.cells())
    assert (simcse["objective.similarity"], simcse["objective.tau"], simcse["objective.margin"]) == (
        "cosine",
        0.05,
        0.0,
    )
    assert (simace["objective.similarity"], simace["objective.tau"], simace["objective.margin"]) == ("angle", 0.06, 7.0)
    assert simcse["objective.mlm_weight"] == simace["objective.mlm_weight"] == 0.5
    assert simcse["train.lr"] == simace["train.lr"] == 2e-5


@pytest.mark.parametrize(
    ("words", "flags", "what"),
    [
        (("objective.tau=0.05,-1",), (), "objective.tau is -1.0"),
        (("objective.tau=0.05,cold",), (), "objective.tau is 'cold'"),
        (("objective.tua=1,2",), (), "no setting 'objective.tua'"),
        (("objective.tau=",), (), "has no values"),
        (("objective.tau",), (), "has no values"),
        (("train.seed=1,2",), (), "no seeds"),
        (("objective.tau=0.05,0.06",), ("objective.tau=0.07",), "given for all cells"),
        (("objective.tau=0.05,0.050",), (), "two cells would be named s-tau=0.05"),
        (("objective.name=simcse,simase",), (), "no objective 'simase'"),
        (("objective.name=simcse,softmax",), ("objective.tau=0.1",), "'softmax' has no setting 'objective.tau'"),
        (("objective.margin=10,20",), (), "objective.margin is 10"),  # of a cosine
        ((), (), "one cell only"),
    ],
)
def test_a_bad_grid_is_an_error_before_anything_is_written(
    tmp_path: Path, words: tuple[str, ...], flags: tuple[str, ...], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        make(tmp_path, {}, *words, flags=flags)
    assert not list(tmp_path.iterdir())


def test_a_sweep_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = make(
        tmp_path, {"objective.name": "supcon"}, "objective.lambda=0.1,0.3", "data.mask_duplicates=on,off", seeds=2
    )
    grid.save(found, tmp_path)
    for word in ("s", "last"):
        again = grid.find(word, tmp_path)
        assert again == found
        assert [c.config for c in again.cells()] == [c.config for c in found.cells()]
    assert runs.list_runs(tmp_path) == []
    with pytest.raises(RunError, match="exists"):
        grid.save(found, tmp_path)
    with pytest.raises(DataError, match="no sweep 'z'"):
        grid.find("z", tmp_path)
    (tmp_path / "s.sweep.toml").write_text("seeds = 3")
    with pytest.raises(DataError, match="malformed"):
        grid.find("s", tmp_path)


def test_a_sweep_does_not_take_a_run_for_its_cell(tmp_path: Path) -> None:
    found = make(tmp_path, {}, "objective.tau=0.05,0.06")
    runs.create(found.cells()[1].config, tmp_path, "s-tau=0.06")
    with pytest.raises(RunError, match=r"s-tau=0\.06 exists"):
        grid.save(found, tmp_path)
    assert not grid.path_of(found, tmp_path).exists()


@pytest.mark.parametrize("name", grid.preset_names())
def test_a_published_grid_is_a_sweep_without_reservations(tmp_path: Path, name: str) -> None:
    known = grid.published(name)
    found = grid.make(grid.layers(known, None), typed(), known.grid, known.seeds, "s", tmp_path)
    assert known.preset in configs.preset_names()
    assert all(cell.config.notes == () for cell in found.cells())
    header = " ".join(configs.preset_header(grid.presets_dir() / f"{name}.toml"))
    assert "Paper:" in header


def test_the_grid_of_simace_holds_what_its_table_chose(tmp_path: Path) -> None:
    known = grid.published("simace-grid")
    found = grid.make(grid.layers(known, None), typed(), known.grid, known.seeds, "s", tmp_path)
    tried = {(c.config.train.lr, c.config.flat()["objective.tau"], c.config.train.batch_size) for c in found.cells()}
    assert len(tried) == 18
    for row in ("bert-base", "bert-large", "roberta-base", "roberta-large"):
        best = configs.resolve([configs.file_layer(configs.preset_path(f"simace-{row}"))])
        assert (best.train.lr, best.flat()["objective.tau"], best.train.batch_size) in tried


def test_what_is_typed_takes_the_place_of_a_grid_s_values(tmp_path: Path) -> None:
    known, given = grid.published("simace-grid"), typed("objective.tau=0.1", "train.lr=1e-4")
    found = grid.make(grid.layers(known, None), given, known.grid, 1, "s", tmp_path)
    assert names(found) == ["s-batch_size=32", "s-batch_size=64", "s-batch_size=128"]
    assert {(c.config.train.lr, c.config.flat()["objective.tau"]) for c in found.cells()} == {(1e-4, 0.1)}


# Training, with cells that end at once in place of processes


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Ends]:
    """What was launched, and how each is to end; the dev score of a cell is its seed's."""
    said: list[str] = []
    ends: Ends = {}

    def launch(run: Run, arguments: list[str]) -> int:
        said.append(run.name)
        assert arguments == ["train", "--resume", str(run.path.resolve()), "--no-ui"]
        status, code = next((end for part, end in ends.items() if part in run.name), ("finished", 0))
        end(run, status, code)
        return 0

    monkeypatch.setattr(control, "launch", launch)
    return said, ends


def end(run: Run, status: str, code: int) -> None:
    """What a cell says from its first to its last event."""
    begun = Started(
        **{"step": 0, "host": "elsewhere", "pid": 1, "process_start": 0.0, "steps": 4, "steps_per_epoch": 4},
        **{"batch_size": 8, "sentences_per_step": 8, "negatives_per_anchor": 1, "objective": "", "backbone": ""},
        **{"device": "cpu", "precision": "fp32", "resumed_from": 0 if run.events() else None},
    )
    score = (run.config().train.seed - 40) / 10 + 0.5 * (run.config().flat()["objective.tau"] == 0.06)
    dev = Evaluated(step=4, spearman=score, alignment=0.1, uniformity=-1.0, pairs=9, best=True)
    writer = EventWriter(run.events_path)
    for event in (begun, dev, Done(step=4, status=status, code=code, message="" if code == 0 else "it broke")):
        writer(event)
    writer.close()


Small = Callable[..., Sweep]


@pytest.fixture
def small(tiny: Tiny, tmp_path: Path) -> Small:
    """A sweep over two temperatures and three seeds, written down in an empty folder."""
    below = tiny.settings("simcse", "sentences", train__max_steps=4)

    def new() -> Sweep:
        found = make(tmp_path, below, "objective.tau=0.05,0.06", seeds=3)
        grid.save(found, tmp_path)
        return found

    return new


def test_the_table_has_mean_and_deviation_of_each_point(
    small: Small, tmp_path: Path, launched: tuple[list[str], Ends], capsys: pytest.CaptureFixture[str]
) -> None:
    found = small()
    assert sweep.start(found, tmp_path) == 0
    assert launched[0] == names(found) == [run.name for run in reversed(runs.list_runs(tmp_path))]
    groups = sweep.results(found, tmp_path)
    rows = [line.split() for line in comparison.sweep(found, groups, to_json=False).splitlines()]
    assert rows[0] == ["tau", "seeds", "best", "dev"]
    assert rows[1:] == [["0.05", "3", "30.00", "±", "10.00"], ["0.06", "3", "80.00", "±", "10.00"]]
    spread = json.loads(comparison.sweep(found, groups, to_json=True))["cells"][1]["scores"]["dev"]
    assert spread["values"] == pytest.approx([70, 80, 90]) and spread["sd"] == pytest.approx(10)
    told = capsys.readouterr().err
    assert "cell 4 of 6: tau=0.06 seed=42\n" in told
    assert "cell 4 of 6: tau=0.06 seed=42: finished, best dev 70.00 (step 4)\n" in told


def test_scores_stand_in_the_table_where_all_finished_runs_of_a_point_have_them(
    small: Small, tmp_path: Path, launched: tuple[list[str], Ends]
) -> None:
    found = small()
    sweep.start(found, tmp_path)
    for cell in found.cells():
        task = {"pairs": 9, "all": {"spearman": 70.0 + cell.seed, "pearson": 1.0}, "partial": False}
        suites = {"sts": {"STS12": task, "average": None}}
        if cell.seed < 44 or cell.point["objective.tau"] == 0.05:
            (tmp_path / cell.name / "scores.json").write_text(json.dumps({"suites": suites}))
    first, second = comparison.sweep(found, sweep.results(found, tmp_path), to_json=False).splitlines()[1:]
    assert first.endswith("113.00 ± 1.00") and second.endswith("–")


def test_a_cell_that_diverges_or_fails_does_not_end_the_sweep(
    small: Small, tmp_path: Path, launched: tuple[list[str], Ends], capsys: pytest.CaptureFixture[str]
) -> None:
    said, ends = launched
    ends |= {"tau=0.05-seed=43": ("diverged", 4), "tau=0.06-seed=42": ("failed", 1)}
    found = small()
    assert sweep.start(found, tmp_path) == 4
    assert said == names(found)
    table = comparison.sweep(found, sweep.results(found, tmp_path), to_json=False)
    assert "2 of 3  30.00 ± 14.14  seed 43 diverged" in table and "seed 42 failed" in table
    assert "seed=43: diverged, best dev 30.00 (step 4): it broke" in capsys.readouterr().err
    ends.clear()
    assert sweep.start(grid.find("s", tmp_path), tmp_path) == 4  # diverging again would help no one
    assert said[6:] == ["s-tau=0.06-seed=42"]
    assert sweep.start(found, tmp_path) == 4 and len(said) == 7  # nothing is trained twice


def test_a_cell_that_was_stopped_goes_on_and_a_finished_one_is_left_alone(
    small: Small, tmp_path: Path, launched: tuple[list[str], Ends]
) -> None:
    said, ends = launched
    ends |= {"tau=0.05-seed=44": ("stopped", 0)}
    found = small()
    assert sweep.start(found, tmp_path) == 0
    shutil.rmtree(tmp_path / "s-tau=0.06-seed=44")
    kept = (tmp_path / "s-tau=0.05-seed=42" / "events.jsonl").read_bytes()
    ends.clear()
    cells = comparison.cells(sweep.results(found, tmp_path), to_json=False)
    assert "s-tau=0.05-seed=44  stopped" in cells and "s-tau=0.06-seed=44  waiting" in cells
    assert sweep.start(found, tmp_path) == 0
    assert said[6:] == ["s-tau=0.05-seed=44", "s-tau=0.06-seed=44"]
    assert (tmp_path / "s-tau=0.05-seed=42" / "events.jsonl").read_bytes() == kept


def test_a_cell_that_a_killed_sweep_never_launched_is_waited_for_and_then_trained(
    small: Small, tmp_path: Path, launched: tuple[list[str], Ends]
) -> None:
    found = small()
    first = runs.create(found.cells()[0].config, tmp_path, names(found)[0])
    almost = time.time() - status.STARTING_GRACE + 0.5
    os.utime(first.config_path, (almost, almost))
    assert first.status().state == "starting"  # a process may be yet to come
    assert sweep.start(found, tmp_path) == 0
    assert launched[0] == names(found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_sweep_after_the_running_cell(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    asked: list[str] = []
    before = signal.getsignal(number)

    def launch(run: Run, arguments: list[str]) -> int:
        signal.raise_signal(signal.SIGHUP)  # a lost terminal ends nothing
        if "seed=43" in run.name:
            signal.raise_signal(number)
        end(run, "stopped" if "seed=43" in run.name else "finished", 0)
        return 0

    monkeypatch.setattr(control, "launch", launch)
    monkeypatch.setattr(control, "request_stop", lambda run: asked.append(run.name))
    found = small()
    assert sweep.start(found, tmp_path) == 0
    assert [run.name for run in reversed(runs.list_runs(tmp_path))] == names(found)[:2]
    assert asked == ["s-tau=0.05-seed=43"] and signal.getsignal(number) is before


def test_data_backbone_and_batch_are_looked_at_before_anything_is_trained(tiny: Tiny, tmp_path: Path) -> None:
    below = tiny.settings("simcse", "sentences")
    for words, what in (
        ("train.batch_size=8,4096", "train.batch_size is 4096"),
        (f"data.train={tiny.data['pairs']},nothing.txt", "nothing.txt"),
        (f"model.backbone={tiny.backbone},no/such/folder", "no/such/folder"),
        ("train.device=cpu,quantum", "quantum"),
    ):
        with pytest.raises(ContrastError, match=what):
            sweep.check(make(tmp_path, below, words), tmp_path)
    sweep.check(make(tmp_path, below, "train.batch_size=8,16"), tmp_path)


def test_a_cell_that_was_trained_with_other_settings_is_an_error(small: Small, tmp_path: Path) -> None:
    found = small()
    changed = Sweep("s", {"objective.tau": (0.05, 0.08)}, found.seeds, found.settings)
    other = changed.cells()[-1]
    runs.create(other.config, tmp_path, "s-tau=0.06-seed=44")
    with pytest.raises(UsageError, match=r"another objective\.tau"):
        sweep.check(found, tmp_path)


def test_two_processes_do_not_train_one_sweep(
    small: Small, tmp_path: Path, launched: tuple[list[str], Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = small()

    def launch(run: Run, arguments: list[str]) -> int:
        with pytest.raises(RunError, match="training sweep s already"):
            sweep.start(found, tmp_path)
        end(run, "finished", 0)
        return 0

    monkeypatch.setattr(control, "launch", launch)
    assert sweep.start(found, tmp_path) == 0
