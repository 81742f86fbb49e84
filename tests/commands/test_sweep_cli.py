"""`contrast sweep` and `contrast train --seeds`: what is printed where, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contrastcli.runs import directory as runs
from contrastcli.runs import process as control
from contrastcli.runs.directory import Run
from support.command import LABELLED, Contrast, refused, train

WORDS = train(*LABELLED)[1:]
GRID = ("--grid", "objective.tau=0.05,0.07")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cells that train in this process."""
    said: list[str] = []

    def launch(run: Run, arguments: list[str]) -> int:
        from support.tiny import train as train_here

        said.append(run.name)
        train_here(run)
        return 0

    monkeypatch.setattr(control, "launch", launch)
    return said


def test_a_sweep_prints_its_table_and_tells_the_rest_on_stderr(contrast: Contrast, launched: list[str]) -> None:
    answer = contrast("sweep", *WORDS, *GRID, "--seeds", "2", "--name", "mine")
    header, *rows = answer.out.splitlines()
    assert (answer.code, header.split()) == (0, ["tau", "seeds", "best", "dev"])
    assert [row.split()[:2] for row in rows] == [["0.05", "2"], ["0.07", "2"]]
    assert "sweep mine: 4 cells\n" in answer.err and "cell 3 of 4: tau=0.07 seed=42\n" in answer.err
    assert [run.name for run in reversed(runs.list_runs(Path("runs")))] == launched
    assert Path("runs/.gitignore").read_text() == "*\n"

    again = contrast("sweep", "--resume", "last", "--json")
    found = json.loads(again.out)
    assert (again.code, found["name"], found["seeds"], len(launched)) == (0, "mine", [42, 43], 4)
    assert [cell["settings"] for cell in found["cells"]] == [{"objective.tau": 0.05}, {"objective.tau": 0.07}]
    best = [100 * (Run(Path("runs") / name).status().best or 0) for name in launched]
    assert [value for cell in found["cells"] for value in cell["scores"]["dev"]["values"]] == best
    assert contrast("compare", *launched).out.splitlines()[0].split() == [launched[0], launched[2]]


def test_training_with_seeds_is_a_sweep_without_a_grid(contrast: Contrast, launched: list[str]) -> None:
    answer = contrast(*train(*LABELLED), "--seeds", "2", "--seed", "7", "--json")
    (cell,) = json.loads(answer.out)["cells"]
    assert answer.code == 0 and cell["n"] == 2
    assert [run["seed"] for run in cell["runs"]] == [7, 8]
    assert launched == [run["name"] for run in cell["runs"]] and launched[0].endswith("-seed=7")


def test_a_dry_run_lists_the_cells_and_writes_nothing(contrast: Contrast) -> None:
    words = ("sweep", *WORDS, *GRID, "--name", "mine", "--dry-run")
    assert contrast(*words).out.split() == ["cell", "state", "mine-tau=0.05", "waiting", "mine-tau=0.07", "waiting"]
    assert json.loads(contrast(*words, "--json").out)[0] == {"name": "mine-tau=0.05", "state": "waiting"}
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        ((*GRID, "--tau", "0.1"), 2, "objective.tau is in the grid and given for all cells (--tau)"),
        (("--grid", "objective.tau=0.05,-1"), 2, "objective.tau is -1.0"),
        ((), 2, "there is one cell only"),
        ((*GRID, "--data", "nothing.txt"), 3, "nothing.txt"),
        ((*GRID, "--preset", "simace-gird"), 2, "there is no preset 'simace-gird'"),
        ((*GRID, "--name", "last"), 2, "cannot be named 'last'"),
    ],
)
def test_a_bad_sweep_is_refused_before_anything_is_written(
    contrast: Contrast, words: tuple[str, ...], code: int, what: str
) -> None:
    refused(contrast("sweep", *WORDS, *words), code, what)
    assert not Path("runs").exists()


def test_a_sweep_to_go_on_with_cannot_be_changed_and_must_exist(contrast: Contrast, launched: list[str]) -> None:
    refused(contrast("sweep", "--resume", "last"), 3, "there is no sweep 'last'", "make one: contrast sweep")
    assert contrast("sweep", *WORDS, *GRID, "--name", "mine").code == 0
    for words in (GRID, ("--seeds", "3"), ("--tau", "0.1"), ("--preset", "starter"), ("--name", "other")):
        refused(contrast("sweep", "--resume", "mine", *words), 2, "resumed sweep has its grid and settings")
    refused(contrast("sweep", "--resume", "mien"), 3, "there is no sweep 'mien'", "did you mean 'mine'?")
    refused(contrast("sweep", *WORDS, *GRID, "--name", "mine"), 1, "exists", "--resume mine")
