"""Training a sweep's cells: the table, cells that fail or stop, signals. Cells end at once in place of processes."""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from contrastcli.commands import sweep as sweep_module
from contrastcli.commands.sweep import check, results, start
from contrastcli.errors import ContrastError
from contrastcli.runs import cells, process, status, sweeps
from contrastcli.runs import directory as runs
from contrastcli.runs.directory import Run
from contrastcli.runs.sweeps import Sweep
from contrastcli.show.format import as_json
from contrastcli.show.runs import sweep_cells, sweep_scores
from support.command import SENTENCES, Contrast, refused
from support.command import train as train_words
from support.recorded import end
from support.sweeps import make_sweep, names
from support.tiny import Tiny


@dataclass
class Launched:
    """The names of the cells that were launched, and how each ends, by a part of its name; the others finish.

    `meanwhile` is called while a cell trains.
    """

    names: list[str] = field(default_factory=list)
    ends: dict[str, tuple[str, int]] = field(default_factory=dict)
    meanwhile: Callable[[Run], object] = lambda run: None

    def __call__(self, run: Run, arguments: list[str]) -> int:
        self.names.append(run.name)
        assert arguments == ["train", "--resume", str(run.path.resolve()), "--no-ui"]
        self.meanwhile(run)
        end_cell(run, *next((how for part, how in self.ends.items() if part in run.name), ("finished", 0)))
        return 0


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Launched:
    """Cells end at once."""
    launch = Launched()
    monkeypatch.setattr(process, "launch", launch)
    return launch


def end_cell(run: Run, status: str = "finished", code: int = 0) -> None:
    """End a cell with a dev score by its seed and temperature."""
    score = (run.config().train.seed - 40) / 10 + 0.5 * (run.config().flat()["objective.tau"] == 0.06)
    end(run, score, status, code, "it broke" if code else "")


@pytest.fixture
def sweep(tiny: Tiny, tmp_path: Path) -> Sweep:
    """A sweep over two temperatures and three seeds, written down in an empty folder."""
    below = tiny.settings("simcse", "sentences", train__max_steps=4)
    made = make_sweep(tmp_path, below, "objective.tau=0.05,0.06", seeds=3)
    sweeps.save(made, tmp_path)
    return made


def test_the_table_has_mean_and_deviation_of_each_point_and_scores_that_all_its_runs_have(
    sweep: Sweep, tmp_path: Path, launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(sweep, tmp_path) == 0
    assert launched.names == names(sweep) == [run.name for run in reversed(runs.list_runs(tmp_path))]
    scores = results(sweep, tmp_path)
    rows = [line.split() for line in sweep_scores(scores).splitlines()]
    assert rows[0] == ["tau", "seeds", "best", "dev"]
    assert rows[1:] == [["0.05", "3", "30.00", "±", "10.00"], ["0.06", "3", "80.00", "±", "10.00"]]
    spread = json.loads(as_json(scores))["cells"][1]["scores"]["dev"]
    assert spread["values"] == pytest.approx([70, 80, 90]) and spread["sd"] == pytest.approx(10)
    narration = capsys.readouterr().err
    assert "cell 4 of 6: tau=0.06 seed=42\n" in narration
    assert "cell 4 of 6: tau=0.06 seed=42: finished, best dev 70.00 (step 4)\n" in narration
    # Of suites it has the scores that all finished runs of a point have.
    for cell in sweep.cells(tmp_path):
        task = {"pairs": 9, "all": {"spearman": 70.0 + cell.config.train.seed, "pearson": 1.0}, "partial": False}
        suites = {"sts": {"STS12": task, "average": None}}
        if cell.config.train.seed < 44 or "tau=0.05" in cell.name:
            cell.run.scores_path.write_text(json.dumps({"suites": suites}))
    first, second = sweep_scores(results(sweep, tmp_path)).splitlines()[1:]
    assert first.endswith("113.00 ± 1.00") and second.endswith("–")


def test_a_cell_that_diverges_or_fails_does_not_end_the_sweep(
    sweep: Sweep, tmp_path: Path, launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    launched.ends |= {"tau=0.05-seed=43": ("diverged", 4), "tau=0.06-seed=42": ("failed", 1)}
    assert start(sweep, tmp_path) == 4
    assert launched.names == names(sweep)
    table = sweep_scores(results(sweep, tmp_path))
    assert "2 of 3  30.00 ± 14.14  seed 43 diverged" in table and "seed 42 failed" in table
    assert "seed=43: diverged, best dev 30.00 (step 4): it broke" in capsys.readouterr().err
    launched.ends.clear()
    assert start(sweeps.find_sweep("s", tmp_path), tmp_path) == 4  # diverging again would help no one
    assert launched.names[6:] == ["s-tau=0.06-seed=42"]
    assert start(sweep, tmp_path) == 4 and len(launched.names) == 7  # nothing is trained twice


def test_a_stopped_cell_is_resumed_and_a_finished_one_is_skipped(
    sweep: Sweep, tmp_path: Path, launched: Launched
) -> None:
    launched.ends |= {"tau=0.05-seed=44": ("stopped", 0)}
    assert start(sweep, tmp_path) == 0
    shutil.rmtree(tmp_path / "s-tau=0.06-seed=44")
    kept = (tmp_path / "s-tau=0.05-seed=42" / "events.jsonl").read_bytes()
    launched.ends.clear()
    cells = sweep_cells(results(sweep, tmp_path), to_json=False)
    assert "s-tau=0.05-seed=44  stopped" in cells and "s-tau=0.06-seed=44  waiting" in cells
    assert start(sweep, tmp_path) == 0
    assert launched.names[6:] == ["s-tau=0.05-seed=44", "s-tau=0.06-seed=44"]
    assert (tmp_path / "s-tau=0.05-seed=42" / "events.jsonl").read_bytes() == kept


def test_a_cell_that_a_killed_sweep_did_not_launch_is_trained_after_the_grace(
    sweep: Sweep, tmp_path: Path, launched: Launched
) -> None:
    first = runs.create(sweep.cells(tmp_path)[0].config, tmp_path, names(sweep)[0])
    almost = time.time() - status.SILENT_AFTER + 0.2
    os.utime(first.config_path, (almost, almost))
    assert first.status().state == "starting"  # its process may still be starting
    assert start(sweep, tmp_path) == 0
    assert launched.names == [*names(sweep)[1:], first.name]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_sweep_after_the_running_cell(
    sweep: Sweep, tmp_path: Path, launched: Launched, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def signalled(run: Run) -> None:
        signal.raise_signal(signal.SIGHUP)  # a lost terminal ends nothing
        if "seed=43" in run.name:
            signal.raise_signal(number)

    asked: list[str] = []
    before = signal.getsignal(number)
    launched.meanwhile, launched.ends = signalled, {"seed=43": ("stopped", 0)}
    monkeypatch.setattr(process, "request_stop", lambda run: asked.append(run.name))
    assert start(sweep, tmp_path) == (75 if number == signal.SIGTERM else 0)
    assert [run.name for run in reversed(runs.list_runs(tmp_path))] == names(sweep)[:2]
    assert asked == ["s-tau=0.05-seed=43"] and signal.getsignal(number) is before


def test_data_models_and_batch_are_checked_before_anything_is_trained(tiny: Tiny, tmp_path: Path) -> None:
    below = tiny.settings("simcse", "sentences")
    for words, what in (
        ("train.batch_size=8,4096", "train.batch_size is 4096"),
        (f"data.train={tiny.data['pairs']},nothing.txt", "nothing.txt"),
        (f"model.backbone={tiny.backbone},no/such/folder", "no/such/folder"),
        ("model.freeze=40,none", "model.freeze is 40"),
        ("train.device=cpu,quantum", "quantum"),
        (f"objective.guide={tiny.backbone},no/such/guide", "no/such/guide"),
    ):
        with pytest.raises(ContrastError, match=what):
            check(make_sweep(tmp_path, below, words), tmp_path)
    check(make_sweep(tmp_path, below, "train.batch_size=8,16"), tmp_path)


def test_a_cell_that_failed_keeps_no_other_from_training(tiny: Tiny, tmp_path: Path) -> None:
    grid = f"data.train={tiny.data['pairs']},nothing.txt"
    sweep = make_sweep(tmp_path, tiny.settings("simcse", "sentences"), grid)
    failed = sweep.cells(tmp_path)[1]
    end(runs.create(failed.config, tmp_path, failed.name), 0.5, "failed", 3)
    check(sweep, tmp_path)


def test_several_workers_train_each_cell_once(
    sweep: Sweep, tmp_path: Path, launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    def join(run: Run) -> None:
        # A second worker comes in the first cell, a third one in the second's second.
        if len(launched.names) in (1, 3):
            start(sweep, tmp_path, worker=True)

    launched.meanwhile, launched.ends = join, {"0.06-seed=43": ("failed", 1)}
    assert start(sweep, tmp_path, worker=True) == 1  # that of the cell that failed, whoever trained it
    assert launched.names == names(sweep)
    results = [line for line in capsys.readouterr().err.splitlines() if ": finished" in line or ": failed" in line]
    assert {line.split(":")[0] for line in results[-6:]} == {f"cell {number} of 6" for number in range(1, 7)}


def test_a_cell_that_was_killed_here_and_resumed_by_another_worker_is_waited_for(
    sweep: Sweep, tmp_path: Path, launched: Launched, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Run(tmp_path / names(sweep)[0])

    def resume(run: Run) -> None:
        if run.name == names(sweep)[-1]:
            first.alive_path.write_bytes(msgspec.json.encode(status.Writer("elsewhere", 5, time.time())))
            threading.Timer(0.1, finish).start()

    def finish() -> None:
        end_cell(first)
        first.alive_path.unlink()

    launched.meanwhile, launched.ends = resume, {first.name: ("failed", 1)}
    assert start(sweep, tmp_path) == 0
    assert "seed=42: another process trains it" in capsys.readouterr().err
    assert [method.n for method in results(sweep, tmp_path).cells] == [3, 3]


def test_a_cell_that_is_deleted_meanwhile_takes_no_other_result_away(
    sweep: Sweep, tmp_path: Path, launched: Launched
) -> None:
    first, *_, last = names(sweep)
    launched.meanwhile = lambda run: shutil.rmtree(tmp_path / first) if run.name == last else None
    assert start(sweep, tmp_path) == 0
    assert [method.n for method in results(sweep, tmp_path).cells] == [2, 3]


@pytest.mark.parametrize(("seconds", "is_free"), [(20, False), (100, True)])
def test_the_cell_of_a_dead_worker_of_another_machine_is_free_again(
    sweep: Sweep, tmp_path: Path, launched: Launched, seconds: float, is_free: bool
) -> None:
    first, *others = names(sweep)
    run = runs.create(sweep.cells(tmp_path)[0].config, tmp_path, first)
    run.alive_path.write_bytes(msgspec.json.encode(status.Writer("elsewhere", 5, time.time() - 1000)))
    os.utime(run.alive_path, (time.time() - seconds, time.time() - seconds))
    assert start(sweep, tmp_path, worker=True) == 0
    assert launched.names == ([first] if is_free else []) + others


def test_two_processes_do_not_take_one_cell(sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell, *_), start_detached = sweep.cells(tmp_path), Mock(return_value=os.getpid())
    monkeypatch.setattr(process, "start_detached", start_detached)
    assert cells.start(cell) is not None
    assert not cell.is_free and cells.start(cell) is None
    cell.run.alive_path.unlink()
    end_cell(cell.run, "stopped")
    with cell.run.locked():
        assert cell.is_free and cells.start(cell) is None
    assert cells.start(cell) is not None
    assert [call.args[1] for call in start_detached.call_args_list] == [cell.run.log_path] * 2


def test_a_worker_writes_the_sweep_or_joins_it(
    contrast: Contrast, launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sweep", *train_words(*SENTENCES)[1:], "--name", "mine", "--worker")
    grid = ("--grid", "objective.tau=0.05,0.06")
    assert contrast(*words, *grid).code == contrast(*words, *grid).code == 0
    assert launched.names == ["mine-tau=0.05", "mine-tau=0.06"]
    assert contrast("sweep", "--resume", "mine", "--worker").code == 0
    saved = Path("runs/mine.sweep.toml")
    text, plan = saved.read_bytes(), sweep_module.check
    saved.unlink()

    def check(sweep: Sweep, directory: Path) -> None:
        saved.write_bytes(text)  # another one that began at the same moment is first
        plan(sweep, directory)

    monkeypatch.setattr(sweep_module, "check", check)
    assert contrast(*words, *grid).code == 0 and saved.read_bytes() == text
    refused(contrast(*words, "--grid", "objective.tau=0.05,0.07"), 1, "another grid", "--resume mine --worker")
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused(contrast(*train_words(*SENTENCES), "--seeds", 2), 2, "by one process each", "leave out torchrun")
    assert contrast("sweep", "--resume", "mine", "--worker").code == 0
