"""What a killed process leaves is removed by the next one that does its work."""

import os
import shutil
from pathlib import Path

import pytest

from contrastcli.errors import RunError
from contrastcli.files import atomic_write, draft_of
from contrastcli.runs import directory
from contrastcli.runs.directory import Run
from support.signs import DEAD
from support.tiny import Tiny


def leave(path: Path, monkeypatch: pytest.MonkeyPatch, pid: int) -> Path:
    """What that process would leave of a file where it is killed."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        draft = draft_of(path)
    draft.write_text("half")
    return draft


def test_what_killed_writers_left_is_removed_and_what_others_write_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scores[1].json"
    leave(path, monkeypatch, DEAD.pid)
    other_file = leave(tmp_path / "scores.json", monkeypatch, DEAD.pid)
    alive = leave(path, monkeypatch, os.getppid())
    atomic_write(path, b"{}")
    assert {file.name for file in tmp_path.iterdir()} == {path.name, other_file.name, alive.name}


def test_a_run_takes_the_place_of_an_empty_folder_but_of_no_other(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    assert directory.create(tiny.config(), tmp_path, "one").config() == tiny.config()
    with pytest.raises(RunError, match="exists"):
        directory.create(tiny.config(), tmp_path, "one")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="exists"):
        directory.create(tiny.config(), tmp_path, "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "one"]


def test_a_run_that_is_being_written_is_not_listed(tiny: Tiny, tmp_path: Path) -> None:
    run = directory.create(tiny.config(), tmp_path, "one")
    run.path.rename(draft_of(run.path))
    assert directory.list_runs(tmp_path) == []


def test_a_run_whose_deletion_was_interrupted_can_be_deleted(
    trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(shutil.copytree(trained.path, tmp_path / "one"))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            directory.remove(run)
    assert directory.list_runs(tmp_path) == [run] and run.checkpoints() == {}
    assert run.status().state == "finished"
    directory.remove(run)
    assert list(tmp_path.iterdir()) == []
