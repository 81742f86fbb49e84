"""checkpoints.json that is lost, or older than the checkpoints: a resume continues or refuses, and deletes none."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Started
from support.command import Contrast, failed
from support.kills import contents
from support.tiny import Tiny, told

RESUME = ("train", "--resume", "one", "--max-steps", "6", "--no-ui")


@pytest.fixture(scope="module")
def original(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of four steps that keeps the checkpoints of steps 2 and 4; no test may change it."""
    return tiny.trained(tmp_path_factory.mktemp("runs") / "one", dev__every=2, train__keep=2, train__max_steps=4)


@pytest.fixture
def one(original: Run, contrast: Contrast) -> Run:
    """A copy of it in runs/one."""
    run = Run(Path(shutil.copytree(original.path, "runs/one")))
    assert [folder.name for folder in run.all_checkpoints()] == ["000002", "000004"]
    return run


def checkpoints(run: Run) -> dict[str, bytes]:
    return contents([run.checkpoints_dir, run.checkpoints_path])


@pytest.mark.parametrize("names", [None, {}, {"best": "000002"}])
def test_without_names_a_run_continues_from_its_newest_checkpoint(
    contrast: Contrast, one: Run, names: dict[str, str] | None
) -> None:
    before = one.checkpoints()
    shutil.copytree(one.path, "whole")
    one.checkpoints_path.unlink() if names is None else one.checkpoints_path.write_text(json.dumps(names))
    assert one.checkpoints() == before | (names or {})
    assert contrast("query", "a", "b", "--model", "one").code == 0
    assert contrast(*RESUME).code == 0
    assert [event.resumed_from for event in told(one, Started)] == [None, 4]
    after = checkpoints(one)
    shutil.rmtree(one.path)
    shutil.move("whole", one.path)
    assert contrast(*RESUME).code == 0
    assert after.keys() == checkpoints(one).keys()
    assert {path for path, data in checkpoints(one).items() if after[path] != data} <= {str(one.checkpoints_path)}


@pytest.mark.parametrize("best", ["000002", "000004"])
@pytest.mark.parametrize("choice", [0, 1])
def test_a_resume_before_later_checkpoints_deletes_none_and_each_hint_helps(
    contrast: Contrast, one: Run, best: str, choice: int
) -> None:
    one.checkpoints_path.write_text(json.dumps({"last": "000002", "best": best}))
    before = checkpoints(one)
    answer = contrast(*RESUME)
    failed(answer, 3, "names 000002, but a later checkpoint is there: runs/one/checkpoints/000004")
    assert checkpoints(one) == before
    commands = re.findall(r"\b(?:rm|mv) [^,\n]+", answer.err)
    assert len(commands) == 2
    subprocess.run(commands[choice].split(), check=True)
    assert contrast(*RESUME).code == 0
    assert one.status().state == "finished" and told(one, Started)[-1].resumed_from == (4, 2)[choice]
    assert contrast("runs", "verify", "one").code == 0
    assert contrast("query", "a", "b", "--model", "one").code == 0
    kept = one.path / ("checkpoints" if choice == 0 else "") / "000004"
    assert (kept / "training" / "position.json").is_file()


def test_checkpoints_that_keep_the_model_only_are_not_deleted_by_a_new_start(contrast: Contrast, one: Run) -> None:
    assert contrast("runs", "prune").code == 0
    one.checkpoints_path.unlink()
    before = checkpoints(one)
    answer = contrast(*RESUME)
    failed(answer, 3, "no checkpoint in runs/one/checkpoints has what a resume needs", "--config runs/one/config.toml")
    assert checkpoints(one) == before
    command = answer.err.partition("contrast train ")[2].splitlines()[-1].split()
    assert contrast("train", *command, "--name", "two", "--no-ui").code == 0


def test_a_new_start_from_a_pruned_run_begins_with_its_best_checkpoint(contrast: Contrast, one: Run) -> None:
    one.checkpoints_path.write_text('{"last": "000004", "best": "000002"}')
    assert contrast("runs", "prune").code == 0
    failed(contrast(*RESUME), 3, "position.json is missing", "--backbone runs/one/checkpoints/000002")


def test_a_folder_of_the_users_among_the_checkpoints_stays(contrast: Contrast, one: Run) -> None:
    shutil.copytree(one.checkpoint(), one.checkpoints_dir / "good")
    assert contrast(*RESUME).code == 0
    assert (one.checkpoints_dir / "good" / "model.safetensors").is_file()
