"""A sweep that is interrupted, or killed together with its cell, and goes on: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contrastcli.commands import sweep
from contrastcli.runs import sweeps as grid
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Started, Step
from contrastcli.runs.sweeps import Sweep
from contrastcli.settings import config as configs
from support.tiny import Tiny, told

PROGRAM = """
import sys
from pathlib import Path
from contrastcli import grid, sweep
place = Path(sys.argv[1])
sys.exit(sweep.start(grid.find("last", place), place))
"""


def begin(place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(place)], stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and what was told."""
    _, narration = process.communicate(timeout=120)
    return process.returncode, narration


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def two(tiny: Tiny, tmp_path: Path) -> Sweep:
    """Two cells of 60 steps."""
    values = tiny.settings("simcse", "sentences", train__epochs=3, dev__every=20)
    below = configs.Layer(values, dict.fromkeys(values, "test"))
    found = grid.make([below], configs.Layer({}, {}), {"train.lr": (1e-3, 2e-3)}, 1, "s", tmp_path)
    grid.save(found, tmp_path)
    return found


@pytest.mark.slow
def test_an_interrupt_stops_the_cell_saves_and_the_sweep_goes_on_later(two: Sweep, tmp_path: Path) -> None:
    first, second = (Run(tmp_path / cell.name) for cell in two.cells())
    process = begin(tmp_path)
    until(lambda: len(told(first, Step)) > 3)
    os.kill(process.pid, signal.SIGINT)
    code, narration = finish(process)
    assert code == 0 and "go on with: contrast sweep --resume s" in narration
    assert told(first, Done)[-1].status == "stopped" and first.checkpoint("last").is_dir()
    assert not second.path.exists()

    stopped = told(first, Done)[-1].step
    code, narration = finish(begin(tmp_path))
    assert code == 0
    assert told(first, Started)[-1].resumed_from == stopped < 60
    assert [run.status().state for run in (first, second)] == ["finished", "finished"]
    assert narration.count("resumed") == 1  # and nothing of what was told before

    before = [run.events_path.read_bytes() for run in (first, second)]
    assert finish(begin(tmp_path))[0] == 0
    assert [run.events_path.read_bytes() for run in (first, second)] == before


@pytest.mark.slow
def test_a_sweep_that_was_killed_takes_up_the_cell_that_goes_on_without_it(two: Sweep, tmp_path: Path) -> None:
    first, second = (Run(tmp_path / cell.name) for cell in two.cells())
    process = begin(tmp_path)
    until(lambda: len(told(first, Step)) > 3)
    process.kill()
    finish(process)
    assert not first.status().ended
    again = begin(tmp_path)
    until(lambda: len(told(second, Step)) > 3)
    os.kill(told(second, Started)[-1].pid, signal.SIGKILL)
    code, narration = finish(again)
    assert code == 1 and "killed" in narration
    assert [event.resumed_from for event in told(first, Started)] == [None]
    assert finish(begin(tmp_path))[0] == 0
    assert [run.status().state for run in (first, second)] == ["finished", "finished"]
    assert {m.state for group in sweep.results(two, tmp_path) for m in group.members} == {"finished"}
