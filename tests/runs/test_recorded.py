"""Run directories that an earlier commit has written (2b9eb71) are listed, resumed, evaluated and queried."""

import json
import shutil
from pathlib import Path

import pytest

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Started
from support.command import Contrast, refused
from support.tiny import told

RECORDED = Path(__file__).parents[1] / "recorded"
STATES = {"simcse-stopped": "stopped", "pairsupcon-evaluated": "finished", "tau-tau=0.05": "finished"}
STS = ("--suite", "sts", "--task", "STS-B", "--data-dir", "senteval", "--json")


@pytest.fixture
def old(contrast: Contrast) -> Contrast:
    """Runs a command line in a copy of the recorded folder, from which the runs name their backbone and data."""
    shutil.copytree(RECORDED, ".", dirs_exist_ok=True)
    return contrast


def test_they_are_listed(old: Contrast) -> None:
    assert {run["name"]: run["state"] for run in json.loads(old("runs", "list", "--json").out)} == STATES
    assert json.loads(old("runs", "show", "pairsupcon-evaluated", "--json").out)["best_step"] == 2


@pytest.mark.parametrize("name", STATES)
def test_they_are_in_order_queried_and_resumed(old: Contrast, name: str) -> None:
    answer = old("runs", "verify", name)
    assert (answer.code, answer.err) == (0, "")
    cosine = json.loads(old("query", "ba den", "ba den", "--model", name, "--json").out)["cosine"]
    assert cosine == pytest.approx(1)
    run = Run(Path("runs", name))
    before = run.status().step
    answer = old("train", "--resume", name, "--max-steps", str(before + 2), "--no-ui")
    assert answer.code == 0, answer.err
    assert told(run, Started)[-1].resumed_from == before
    assert (run.status().state, run.status().step) == ("finished", before + 2)


@pytest.mark.parametrize("steps", [2, 3])
def test_a_stopped_run_does_not_end_before_where_it_is(old: Contrast, steps: int) -> None:
    """It would be called finished at a step whose dev score nobody has measured."""
    before = Path("runs/simcse-stopped/config.toml").read_bytes()
    answer = old("train", "--resume", "simcse-stopped", "--max-steps", str(steps), "--no-ui")
    refused(answer, 2, "run simcse-stopped has done 3 steps already", "continue it: --max-steps 4 or more, or use what")
    assert Path("runs/simcse-stopped/config.toml").read_bytes() == before


def test_they_are_evaluated_to_the_same_scores(old: Contrast) -> None:
    recorded = json.loads(Path("runs/pairsupcon-evaluated/scores.json").read_text())["suites"]["sts"]["STS-B"]["all"]
    for words in ((), ("--fresh",)):
        (scores,) = [json.loads(old("eval", "pairsupcon-evaluated", *STS, *words).out)]
        assert scores["suites"]["sts"]["STS-B"]["all"] == pytest.approx(recorded, abs=0.01)
    assert json.loads(old("eval", "simcse-stopped", *STS).out)["suites"]["sts"]["STS-B"]["pairs"] == 8


def test_a_sweep_is_resumed(old: Contrast, launched: list[str]) -> None:
    answer = old("sweep", "--resume", "tau", "--json")
    assert answer.code == 0 and launched == ["tau-tau=0.07"], answer.err
    assert [cell["n"] for cell in json.loads(answer.out)["cells"]] == [1, 1]


def test_what_a_figure_was_made_of_is_known(old: Contrast) -> None:
    plan = old("papers", "run", "simace", "figure-4", "--dry-run")
    assert "Scale 2e-05" in plan.out and "train.max_steps = 2" in plan.out and "1 of the 2 rows" in plan.out


def test_a_run_may_have_a_setting_that_is_gone(old: Contrast) -> None:
    assert "compile = false" in Path("runs/simcse-stopped/config.toml").read_text()
    answer = old("train", "--config", "runs/simcse-stopped/config.toml", "--dry-run")
    assert answer.code == 0 and "train.compile is of an earlier version" in answer.out + answer.err


@pytest.mark.parametrize(("dev", "seed"), [("split:5%", 43), ("stsb", 42)])
def test_a_run_of_before_has_held_out_rows_by_its_seed(tmp_path: Path, dev: str, seed: int) -> None:
    settings = f'format = 1\n[dev]\ndata = "{dev}"\n[train]\nseed = 43\n'
    (tmp_path / "config.toml").write_text(settings)
    assert Run(tmp_path).config().dev.split_seed == seed
    (tmp_path / "config.toml").write_text(settings.replace("format = 1\n", ""))
    assert Run(tmp_path).config().dev.split_seed == 42


def test_a_run_of_a_later_version_can_be_read_but_not_resumed(contrast: Contrast, run: Run) -> None:
    assert run.config_path.read_text().startswith("format = 2\n")
    later = run.config_path.read_text().replace("[model]\n", '[model]\nrotation = "left"\n')
    run.config_path.write_text(later)
    refused(contrast("runs", "show", "simple"), 2, "there is no setting 'model.rotation'")
    run.config_path.write_text(later.replace("format = 2\n", "format = 3\n"))
    assert "model.rotation is of a later version" in contrast("runs", "show", "simple").out
    assert json.loads(contrast("runs", "show", "simple", "--json").out)["schema"] == 1
    assert contrast("query", "a", "b", "--model", "simple").code == 0
    words = ("train", "--resume", "simple", "--max-steps", "6")
    refused(contrast(*words), 2, "model.rotation is of a later version", "pip install --upgrade contrastcli")


def test_a_run_whose_objective_is_of_a_package_that_has_gone_is_used_and_not_trained(
    contrast: Contrast, run: Run
) -> None:
    other = Run(Path("runs/other"))
    shutil.copytree(run.path, other.path)
    settings = run.config_path.read_text().replace('name = "pairsupcon"', 'name = "angular"')
    other.config_path.write_text(settings)
    assert 'name = "angular"' in settings
    shown = [contrast("runs", "show", one, "--json").out for one in ("simple", "other")]
    first, second = (json.loads(out)["settings"] for out in shown)
    assert second == first | {"objective.name": "angular"}
    for words in (
        ("query", "a", "b", "--model", "other"),
        ("compare", "simple", "other"),
        ("export", "other", "folder"),
        ("merge", "tiny/backbone", "other", "--alpha", "0.5", "--dev", "tiny/dev.jsonl", "-o", "merged"),
        ("eval", "other", "--data", "tiny/dev.jsonl"),
    ):
        answer = contrast(*words)
        assert answer.code == 0, answer.err
    assert "Objective `angular`: its package could not be loaded." in Path("folder/README.md").read_text()
    margin = settings.replace("margin = 0.0", "margin = 30.0")
    other.config_path.write_text(margin)
    assert margin != settings and contrast("runs", "show", "other").code == 0, "nobody knows its bounds"
    for odd in ("k = [1]", "bounds = 1", '"a-b" = 1'):
        other.config_path.write_text(settings.replace('name = "angular"', f'name = "angular"\n{odd}'))
        refused(contrast("runs", "show", "other"), 2, "there is no objective 'angular'")
    other.config_path.write_text(settings)
    again = contrast("train", "--no-ui", "--resume", "other", "--max-steps", "6")
    refused(again, 2, "there is no objective 'angular'", "install the package that it comes from")
