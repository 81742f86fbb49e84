"""The run directory as users meet it: names, lists, checkpoints, removing, comparing."""

import errno
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from contrastcli.errors import RunError
from contrastcli.runs.directory import Run, create, find_run, list_runs, prune, remove, runs_dir
from contrastcli.runs.events import Done, Note
from contrastcli.settings.config import Config
from support.disks import full_disk
from support.settings import config
from support.signs import DEAD, ELSEWHERE, age, beat, say, started


def config_of(changes: Mapping[str, object] = {}) -> Config:
    return config({"objective.name": "simace", "model.backbone": "google/BERT_base", **changes})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(config_of(), tmp_path / "runs", "one")


def test_the_runs_directory_is_the_option_else_the_variable_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_RUNS", "elsewhere")
    assert runs_dir("typed") == Path("typed")
    assert runs_dir(None) == Path("elsewhere")
    monkeypatch.delenv("CONTRAST_RUNS")
    assert runs_dir(None) == Path("runs")


@pytest.mark.parametrize(
    ("backbone", "part"),
    [
        ("google/BERT_base", "-bert-base"),
        ("/models/My Model (v1.5)/", "-my-model-v1.5"),
        (r"C:\models\Bert", "-bert"),
        ("..", ""),
    ],
)
def test_a_new_run_is_named_by_date_objective_and_backbone(tmp_path: Path, backbone: str, part: str) -> None:
    before = time.strftime("%Y-%m-%d-%H%M")
    name = create(config_of({"model.backbone": backbone}), tmp_path, None).name
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d-\d{{4}}-simace{re.escape(part)}-[0-9a-f]{{4}}", name)
    assert before <= name[:15] <= time.strftime("%Y-%m-%d-%H%M")


def test_git_does_not_see_runs_but_a_folder_in_use_is_left_as_it_is(tmp_path: Path) -> None:
    create(config_of(), tmp_path / "new" / "runs", None)
    assert (tmp_path / "new" / "runs" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    create(config_of(), tmp_path / "new", None)
    assert not (tmp_path / "new" / ".gitignore").exists()


def test_a_full_disk_is_the_systems_message_and_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(RunError, match=re.escape(os.strerror(errno.ENOSPC))) as caught:
        create(config_of(), tmp_path, "one")
    assert "make room on the disk of" in caught.value.hint and "--runs-dir" in caught.value.hint
    assert caught.value.code == 1
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def three_runs(directory: Path) -> list[Run]:
    made = [create(config_of(), directory, name) for name in ("b-simace-first", "a-simace-second", "c-supcon-third")]
    for i, run in enumerate(made):
        age(run, 100.0 - i)
    (directory / "no-run").mkdir()
    return made


def test_runs_are_listed_newest_first_and_a_resume_makes_none_newer(tmp_path: Path) -> None:
    made = three_runs(tmp_path)
    say(made[0], Note(step=0, time=time.time() - 99.9, text="begun then"))
    os.utime(made[0].config_path)  # as a resume that extends the run does
    assert list_runs(tmp_path) == made[::-1]
    assert list_runs(tmp_path / "missing") == []


def test_a_run_is_found_by_path_name_part_and_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = three_runs(tmp_path)
    assert find_run(str(first.path), tmp_path / "missing") == first
    assert find_run("a-simace-second", tmp_path) == second
    assert find_run("supcon", tmp_path) == third
    assert find_run("last", tmp_path) == third
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_run(f"~/{first.name}", tmp_path / "missing") == first
    monkeypatch.chdir(first.path)
    assert find_run(".", tmp_path).name == "b-simace-first"


def test_a_letter_and_its_accent_name_a_run_as_one_letter_does(tmp_path: Path) -> None:
    run = create(config_of(), tmp_path, "u\u0308ben")
    assert find_run(run.name, tmp_path) == run


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM], ids=["closed", "sticky"])
def test_a_run_in_a_folder_of_others_is_not_emptied(run: Run, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    os.utime(run.config_path, (0, 0))
    before = {*run.path.rglob("*")}

    def refuse(path: Path) -> None:
        raise PermissionError(number, os.strerror(number), str(path))

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(RunError, match=os.strerror(number)):
        remove(run)
    assert before <= {*run.path.rglob("*")}


def checkpoint_of(run: Run) -> Path:
    training = run.checkpoints_dir / "000100" / "training"
    training.mkdir(parents=True)
    (training / "optimizer.safetensors").write_bytes(b"x" * 1000)
    (training.parent / "model.safetensors").write_bytes(b"x" * 10)
    return training


def test_pruning_keeps_models_runs_in_progress_and_without_names_what_can_be_resumed(tmp_path: Path) -> None:
    every = finished, diverged, stopped, going = [
        create(config_of(), tmp_path, name) for name in ("finished", "diverged", "stopped", "going")
    ]
    for run in every[:3]:
        say(run, started(DEAD), Done(step=100, status=run.name, code=0))
    say(going, started(ELSEWHERE))
    beat(going, ELSEWHERE)
    trainings = [checkpoint_of(run) for run in every]
    before = finished.size_bytes()
    assert prune(every, resumable=False) == {finished: 1000, diverged: 1000}
    assert before - finished.size_bytes() == 1000
    assert prune(every) == {finished: 0, diverged: 0, stopped: 1000}
    assert [path.exists() for path in trainings] == [False, False, False, True]
    assert all((path.parent / "model.safetensors").exists() for path in trainings)
