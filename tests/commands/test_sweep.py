"""`contrast sweep` and `contrast train --seeds`: what is printed where, what is refused, and how it stops."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from contrastcli.commands.sweep import results
from contrastcli.errors import nearest
from contrastcli.runs import directory as runs
from contrastcli.runs import process, sweeps
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Started
from contrastcli.runs.measured import Step
from contrastcli.runs.status import SILENT_AFTER
from support.command import COMMAND, LABELLED, SENTENCES, Contrast, refused, train
from support.signs import age
from support.sweeps import make_sweep
from support.tiny import Tiny, told
from support.tiny import train as train_here
from support.waiting import wait_until

WORDS = train(*LABELLED)[1:]
GRID = ("--grid", "objective.tau=0.05,0.07")
SWEEP = ("sweep", *WORDS, *GRID, "--name", "mine")


def test_a_sweep_prints_its_table_on_stdout_and_narrates_on_stderr(contrast: Contrast, launched: list[str]) -> None:
    answer = contrast("sweep", *WORDS, *GRID, "--seeds", "2", "--name", "mine")
    header, *rows = answer.out.splitlines()
    assert (answer.code, header.split()) == (0, ["tau", "seeds", "best", "dev"])
    assert [row.split()[:2] for row in rows] == [["0.05", "2"], ["0.07", "2"]]
    assert "sweep mine: 4 cells\n" in answer.err and "cell 3 of 4: tau=0.07 seed=42\n" in answer.err
    assert [run.name for run in reversed(runs.list_runs(Path("runs")))] == launched
    assert Path("runs/.gitignore").read_text() == "*\n"
    every = {name: 100 * (Run(Path("runs") / name).status().best or 0) for name in launched}
    means = [sum(every[name] for name in pair) for pair in (launched[:2], launched[2:])]
    name = max(launched[:2] if means[0] >= means[1] else launched[2:], key=every.__getitem__)
    of = "of the highest mean, the best is"
    assert answer.err.endswith(f"{of} {name}, {every[name]:.2f}; next: contrast export {name} DIR\n")

    again = contrast("sweep", "--resume", "last", "--json")
    sweep = json.loads(again.out)
    assert (again.code, sweep["name"], sweep["seeds"], len(launched)) == (0, "mine", [42, 43], 4)
    assert [cell["settings"] for cell in sweep["cells"]] == [{"objective.tau": 0.05}, {"objective.tau": 0.07}]
    best = [100 * (Run(Path("runs") / name).status().best or 0) for name in launched]
    assert [value for cell in sweep["cells"] for value in cell["scores"]["dev"]["values"]] == best
    compared = contrast("compare", *launched)
    assert compared.out.splitlines()[0].split() == ["mine-tau=0.05", "mine-tau=0.07"]
    # A sweep, and a method of one, are their runs.
    assert contrast("compare", "mine") == contrast("compare", "mine-tau=0.05", "mine-tau=0.07") == compared
    assert "seed 42 is tested" in contrast("compare", "mine", "--require", "not-worse", "--dev", "tiny/dev.jsonl").err
    three = contrast("compare", "mine", "tiny/backbone", "--require", "better", "--dev", "tiny/dev.jsonl")
    refused(three, 2, "--require is for two models", "name two")


def test_every_seed_is_measured_on_the_same_rows_of_the_data(contrast: Contrast, launched: list[str]) -> None:
    words = train("--data", "tiny/pairs.jsonl", "--objective", "simcse", "--dev", "split:20%")[1:]
    answer = contrast("sweep", *words, "--seeds", "2", "--name", "mine")
    assert len({Run(Path("runs") / name).rows()["dev.data"] for name in launched}) == 1
    assert "of the highest mean, the best is mine-seed=4" in answer.err
    merged = contrast("merge", *launched, "-o", "soup")
    assert merged.code == 0 and "other runs trained on" not in merged.err
    several = contrast("sweep", *words, "--grid", "dev.split_seed=1,2", "--name", "other")
    assert several.code == 0 and "the best is" not in several.err


def test_none_is_the_best_while_another_worker_trains(contrast: Contrast, launched: list[str]) -> None:
    assert "the best is" in contrast(*SWEEP).err
    last = Run(Path("runs") / launched[-1])
    config = last.config()
    shutil.rmtree(last.path)
    runs.create(config, Path("runs"), last.name)
    answer = contrast("sweep", "--resume", "last", "--worker")
    assert "starting" in answer.out and "the best is" not in answer.err and len(launched) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--grid", "dev.data=tiny/dev.jsonl,starter"),
        ("--grid", "dev.metric=spearman,ndcg@10", "--dev", "tiny/labelled.jsonl"),
    ],
)
def test_of_several_measures_none_has_the_best(contrast: Contrast, launched: list[str], words: tuple[str, ...]) -> None:
    usual = [word for word in WORDS if word not in ("--dev", "tiny/dev.jsonl")]
    answer = contrast("sweep", *usual, *words)
    assert (answer.code, len(launched)) == (0, 2) and "the best is" not in answer.err


@pytest.mark.parametrize("variable", [False, True])
def test_a_setting_for_all_cells_replaces_the_values_of_a_files_grid_and_says_so(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    Path("grid.toml").write_text('[grid]\n"objective.tau" = [0.05, 0.07]\n"train.batch_size" = [4, 8]\n')
    words, source = ["--tau", "0.1"], "--tau"
    if variable:
        monkeypatch.setenv("CONTRAST_OBJECTIVE_TAU", "0.1")
        words, source = [], "CONTRAST_OBJECTIVE_TAU"
    usual = [word for word in WORDS if word not in ("--batch-size", "8")]
    answer = contrast("sweep", "--config", "grid.toml", *usual, *words, "--name", "s", "--json", "--dry-run")
    assert [cell["name"] for cell in json.loads(answer.out)] == ["s-batch_size=4", "s-batch_size=8"]
    assert f"note: {source} is set for all cells, instead of objective.tau=0.05,0.07 of the grid\n" in answer.err


def test_training_with_seeds_is_a_sweep_without_a_grid(contrast: Contrast, launched: list[str]) -> None:
    answer = contrast(*train(*LABELLED), "--seeds", "2", "--seed", "7", "--json")
    (cell,) = json.loads(answer.out)["cells"]
    assert answer.code == 0 and cell["n"] == 2
    assert [run["seed"] for run in cell["runs"]] == [7, 8]
    assert launched == [run["name"] for run in cell["runs"]] and launched[0].endswith("-seed=7")


@pytest.mark.parametrize(
    ("words", "key", "end"),
    [
        (("--backbone", "last"), "model.backbone", ""),
        ((*SENTENCES, "--objective", "rankcse", "--teachers", "last:cls"), "objective.teachers", ":cls=1.0"),
        ((*SENTENCES, "--guide", "last:cls"), "objective.guide", ":cls=1.0"),
    ],
)
def test_the_last_run_is_one_backbone_teacher_or_guide_for_all_cells(
    contrast: Contrast, run: Run, launched: list[str], words: tuple[str, ...], key: str, end: str
) -> None:
    assert contrast("sweep", *WORDS, *words, *GRID, "--name", "mine").code == 0
    assert {str(Run(Path("runs") / name).config().flat()[key]) for name in launched} == {f"{run.path}{end}"}
    assert contrast("sweep", "--resume", "mine").code == 0 and len(launched) == 2


def test_the_last_run_is_the_backbone_of_the_cells_that_have_it(contrast: Contrast, run: Run) -> None:
    words = [word for word in WORDS if word not in ("--backbone", "tiny/backbone")]
    grid = ("--grid", "model.backbone=last,tiny/backbone", "--name", "mine")
    assert dry_cells(contrast, *words, *grid) == ["mine-backbone=simple", "mine-backbone=backbone"]


def dry_cells(contrast: Contrast, *words: str) -> list[str]:
    cells, _, _ = contrast("sweep", *words, "--dry-run").out.partition("\n\n")
    return cells.split()[2::2]


def test_a_dry_run_lists_the_cells_and_what_one_takes_and_writes_nothing(contrast: Contrast) -> None:
    words = (*SWEEP, "--dry-run")
    cells, _, first = contrast(*words).out.partition("\n\n")
    assert cells.split() == ["cell", "state", "mine-tau=0.05", "waiting", "mine-tau=0.07", "waiting"]
    assert re.match(r"cell +mine-tau=0.05\n(.+\n)*steps +2, .*\n(.+\n)*disk +about .*\n(.+\n)*time ", first)
    assert json.loads(contrast(*words, "--json").out)[0] == {"name": "mine-tau=0.05", "state": "waiting"}
    assert not Path("runs").exists()


def test_a_sweep_that_is_too_large_for_its_file_is_refused(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrastcli.settings.config.LARGEST", 500)
    refused(contrast(*SWEEP), 2, "a file of them has at most 500")
    assert not Path("runs").exists()


def test_a_resumed_sweep_cannot_be_changed_and_must_exist(contrast: Contrast, launched: list[str]) -> None:
    refused(contrast("sweep", "--resume", "last"), 3, "there is no sweep in runs", "make one: contrast sweep")
    assert contrast(*SWEEP).code == 0
    for words in (GRID, ("--seeds", "3"), ("--tau", "0.1"), ("--preset", "starter"), ("--name", "other")):
        refused(contrast("sweep", "--resume", "mine", *words), 2, "resumed sweep has its grid and settings")
    refused(contrast("sweep", "--resume", "mien"), 3, "there is no sweep 'mien'", "did you mean 'mine'?")
    refused(contrast(*SWEEP), 1, "exists", "--resume mine")


def test_a_cell_whose_process_writes_no_event_ends_the_sweep(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(run: Run, arguments: list[str]) -> int:
        if len(names) < 2:
            train_here(run)
            stopped = run.events_path.read_text().replace('"status":"finished"', '"status":"stopped"')
            run.events_path.write_text(stopped)
        names.append(run.name)
        return 0

    names: list[str] = []
    monkeypatch.setattr(process, "launch", launch)
    contrast(*SWEEP)
    time.sleep(0.01)  # so that later events have later times
    answer = contrast("sweep", "--resume", "mine")
    assert (answer.code, answer.out) == (1, "")
    assert "contrast: error: the process of mine-tau=0.05 ended and reported nothing\nhint: see " in answer.err
    assert "to continue: contrast sweep --resume mine" in answer.err


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "Input/output error")])
def test_the_other_workers_end_with_the_one_in_the_terminal(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    others: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], log: Path) -> int:
        others.append(subprocess.Popen(["sleep", "60"]))
        return others[-1].pid

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    # As in a container with 6 of the machine's cores.
    monkeypatch.setattr("torch.get_num_threads", lambda: 6)
    monkeypatch.setattr(process, "start_detached", start)
    died = Mock(side_effect=error or (lambda run, arguments: age(run, SILENT_AFTER)))
    monkeypatch.setattr(process, "launch", died)
    # Of a test that runs behind a shell's & no process would get it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    code = contrast(*SWEEP, "--workers", "3").code
    signal.signal(signal.SIGINT, before)
    assert code == 1 and os.environ["OMP_NUM_THREADS"] == "2"
    assert [other.wait(20) for other in others] == [-signal.SIGINT] * 2


def test_a_grid_takes_a_setting_by_the_name_of_its_option(contrast: Contrast) -> None:
    for grid, cells in (("tau=0.05,0.07", ["mine-tau=0.05", "mine-tau=0.07"]), ("tau=0.07", ["mine"])):
        assert dry_cells(contrast, *WORDS, "--grid", grid, "--name", "mine") == cells
    assert nearest("every", ["dev.every", "train.log_every"]) == "did you mean 'dev.every'?"


def begin(place: Path) -> subprocess.Popen[str]:
    words = (*COMMAND, "--runs-dir", str(place), "sweep", "--resume", "last")
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and stderr."""
    _, narration = process.communicate(timeout=300)
    return process.returncode, narration


@pytest.mark.slow
def test_cells_of_a_worker_that_was_killed_are_trained_by_the_others(tiny: Tiny, tmp_path: Path) -> None:
    values = tiny.settings("simcse", "sentences", train__epochs=2, dev__every=30)
    sweep = make_sweep(tmp_path, values, "train.lr=1e-3,2e-3", seeds=2)
    sweeps.save(sweep, tmp_path)
    every = [cell.run for cell in sweep.cells(tmp_path)]
    words = (*COMMAND, "--runs-dir", str(tmp_path), "sweep", "--resume", "s")
    worker = subprocess.Popen([*words, "--worker"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    others = subprocess.Popen([*words, "--workers", "2", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    cells = list[psutil.Process]()
    while not cells:
        cells = psutil.Process(worker.pid).children()
    worker.kill()
    cells[0].kill()
    out, narration = others.communicate(timeout=300)
    worker.wait()
    assert others.returncode == 0, narration
    assert {run.status().state for run in every} == {"finished"}
    assert "cell" in (tmp_path / "s.worker-2.log").read_text()
    assert [cell["n"] for cell in json.loads(out)["cells"]] == [2, 2]


@pytest.mark.slow
def test_a_resumed_sweep_waits_for_the_cell_that_outlived_the_killed_one(tiny: Tiny, tmp_path: Path) -> None:
    values = tiny.settings("simcse", "sentences", train__epochs=3, dev__every=20)
    sweep = make_sweep(tmp_path, values, "train.lr=1e-3,2e-3")
    sweeps.save(sweep, tmp_path)
    first, second = (cell.run for cell in sweep.cells(tmp_path))
    process = begin(tmp_path)
    wait_until(lambda: len(told(first, Step)) > 3)
    process.kill()
    finish(process)
    assert not first.status().ended
    again = begin(tmp_path)
    wait_until(lambda: len(told(second, Step)) > 3)
    os.kill(told(second, Started)[-1].pid, signal.SIGKILL)
    code, narration = finish(again)
    assert code == 1 and "1 of 2 cells failed or were killed; to continue: contrast " in narration
    assert [event.resumed_from for event in told(first, Started)] == [None]
    assert finish(begin(tmp_path))[0] == 0
    assert [run.status().state for run in (first, second)] == ["finished", "finished"]
    assert {run.state for method in results(sweep, tmp_path).cells for run in method.runs} == {"finished"}
