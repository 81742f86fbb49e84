"""`contrast runs`, `watch` and `stop`: what they show of runs, and what they change."""

import json
import os
import re
import shlex
import shutil
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done
from support.command import Contrast, failed, refused
from support.recorded import append, recorded


@pytest.fixture
def runs_of_two(run: Run) -> list[Run]:
    """runs/simple, and runs/other that was made after it."""
    shutil.copytree(run.path, "runs/other")
    other = Run(Path("runs/other"))
    events = other.events_path.read_text().splitlines()
    later = [json.dumps(json.loads(line) | {"time": json.loads(line)["time"] + 60}) for line in events]
    other.events_path.write_text("\n".join(later) + "\n")
    os.utime(other.config_path, (time.time() + 60,) * 2)
    return [run, other]


def test_runs_are_listed_the_newest_first(contrast: Contrast, runs_of_two: list[Run]) -> None:
    text, again = contrast("runs"), contrast("runs", "list")
    # They may be a second older.
    assert text.code == 0 and re.sub(r"[\dhms ]+ ago", "", text.out) == re.sub(r"[\dhms ]+ ago", "", again.out)
    header, first, second = text.out.splitlines()
    assert header.split() == ["run", "state", "step", "best", "dev", "updated", "size"]
    assert [line.split()[:3] for line in (first, second)] == [
        ["other", "finished", "4/4"],
        ["simple", "finished", "4/4"],
    ]
    listed = json.loads(contrast("runs", "list", "--json").out)
    assert [run["name"] for run in listed] == ["other", "simple"]
    assert listed[1]["best"] == runs_of_two[0].status().best and listed[1]["path"] == "runs/simple"


def test_a_folder_that_is_closed_to_the_user_is_listed_as_broken(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("runs/anothers").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: "anothers" not in str(path))
    assert contrast("runs").out.splitlines()[-1].split()[:2] == ["anothers", "broken"]
    assert contrast("runs", "path", "last").out == "runs/simple\n"


def test_without_runs_the_list_says_how_to_make_one(contrast: Contrast) -> None:
    assert "contrast train --preset starter" in contrast("runs").out
    assert json.loads(contrast("runs", "list", "--json").out) == []


def test_a_run_shows_its_status_checkpoints_and_settings(contrast: Contrast, run: Run) -> None:
    assert contrast("--runs-dir", "elsewhere", "runs", "path", "runs/simple").out == "runs/simple\n"
    text = contrast("runs", "show", "sim").out
    for word in ("finished", "4 of 4", "best checkpoint", "last checkpoint", "train.lr", "0.001"):
        assert word in text
    shown = json.loads(contrast("runs", "show", "--json").out)
    assert shown["state"] == "finished" and shown["settings"]["train.lr"] == 1e-3
    assert shown["checkpoints"] == {which: str(run.checkpoint(which)) for which in ("last", "best")}


def test_a_run_is_removed_after_confirmation(contrast: Contrast, runs_of_two: list[Run]) -> None:
    kept = contrast("runs", "rm", "simple", stdin=b"n\n")
    assert (kept.code, kept.out) == (0, "") and "Delete runs/simple?" in kept.err
    failed(contrast("runs", "rm", "simple"), 2, "nobody is there", "contrast runs rm simple --yes")
    assert runs_of_two[0].path.is_dir()
    assert contrast("runs", "rm", "simple", stdin=b"y\n").code == 0
    twice = contrast("runs", "rm", "other", Path("runs/other").resolve(), "--yes")
    assert (twice.code, twice.err.count("deleted")) == (0, 1)
    assert not list(Path("runs").glob("*/config.toml"))


def test_a_run_in_progress_is_neither_removed_nor_pruned(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = msgspec.structs.replace(run.status(), state="running")
    monkeypatch.setattr(Run, "status", lambda self: live)
    for verb in ("rm", "prune"):
        # Nobody is asked about it.
        answer = contrast("runs", verb, "simple", stdin=b"y\n")
        refused(answer, 1, "run simple is in progress", "contrast stop simple")
    assert run.checkpoint("last").joinpath("training").exists()


def test_pruning_frees_space_and_keeps_the_model(contrast: Contrast, run: Run) -> None:
    shutil.copytree(run.checkpoint("last") / "training", run.checkpoints_dir / ".000002.tmp" / "training")  # by a kill
    before = run.size_bytes()
    answer = contrast("runs", "prune", "simple")
    assert answer.code == 0 and re.fullmatch(r"freed [\d.]+ [KM]B: simple\n", answer.err)
    assert contrast("runs", "prune").err == "freed 0 B: no run\n"
    assert run.size_bytes() < before
    assert {folder.name for folder in run.checkpoints_dir.iterdir()} == {*run.checkpoints().values()}
    assert contrast("query", "a", "b").code == 0


def test_watching_rings_at_what_happens_from_then_on(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "\a" not in contrast("watch", "simple").err
    *_, end = run.events()
    append(run, msgspec.structs.replace(end, time=time.time() + 60))
    assert contrast("watch", "simple").err.count("\a") in (1, 2)  # the bell, and the end of the code of a notification


def test_watching_an_ended_run_shows_it_and_ends_with_its_code(contrast: Contrast, run: Run) -> None:
    answer = contrast("watch", "simple")
    assert (answer.code, answer.out) == (0, "") and "finished" in answer.err
    assert contrast("watch", "simple", "--json").out.encode() == run.events_path.read_bytes()
    append(run, Done(step=0, status="stopped", code=0))
    before_any_step = contrast("watch", "simple").err
    assert "next: contrast query" in answer.err and "next:" not in before_any_step and "to continue" in before_any_step
    assert answer.err.endswith(' "a puppy sprints" --model simple\n')


def test_a_process_that_does_not_respond_is_told_of_by_watch_and_by_stop(contrast: Contrast, tmp_path: Path) -> None:
    silent = recorded(tmp_path / "runs", "silent", "mute")
    ends = threading.Timer(0.3, append, [silent, Done(step=350, status="stopped", code=0)])
    hint = "hint: it hangs, or its disk or host is unreachable; to end it on elsewhere: kill -KILL 4242"
    answer = contrast("stop", "mute", "--wait", "0.1")
    assert answer.code == 1 and f"error: mute: silent at step 350 after 0.1 s\n{hint}\n" in answer.err
    assert contrast("stop", "mute", "--wait", "0").code == 0  # it was only asked
    ends.start()
    answer = contrast("watch", "mute")
    assert answer.code == 0 and answer.err.count(f"mute is silent: the training process does not respond\n{hint}") == 1


def test_of_a_run_that_was_killed_it_is_said_where_its_words_are(contrast: Contrast, tmp_path: Path) -> None:
    killed = recorded(tmp_path / "runs", "killed", "dead")
    log = killed.log_path.relative_to(tmp_path)
    end = f"dead killed: the training process was killed (see {log})\nhint: to"
    assert (answer := contrast("watch", "dead")).code == 1 and end in answer.err
    assert re.search(rf"^log +{log}$", contrast("runs", "show", "dead").out, re.MULTILINE)


def test_a_run_of_another_folder_is_named_by_its_path(contrast: Contrast, run: Run) -> None:
    """Each command that is told is for that run, wherever it is typed, and whatever is in its name."""
    place = Path(shutil.copytree("runs/simple", "other runs/my run"))
    (place / "checkpoints.json").unlink()
    shutil.rmtree(place / "checkpoints")
    command = f"contrast train --resume {shlex.quote(str(place))}"
    refused(contrast("query", "a", "b", "--model", place), 3, "run my run has no saved checkpoint", command)
    with Run(place).locked():
        watch = f"contrast watch {shlex.quote(str(place))} shows it"
        refused(contrast("runs", "rm", place, "--yes"), 1, "a process is training in", watch)


def test_a_link_to_a_run_is_that_run_but_is_not_deleted_with_it(contrast: Contrast, run: Run) -> None:
    shutil.move("runs/simple", "elsewhere")
    Path("runs/alias").symlink_to("../elsewhere")
    assert "alias" in contrast("runs").out and contrast("runs", "show", "alias").code == 0
    refused(contrast("runs", "rm", "alias", "--yes"), 1, "runs/alias is a link to", "rm runs/alias, or delete the run")
    assert contrast("query", "a", "b", "--model", "alias").code == 0


def test_a_name_that_is_too_long_for_a_path_names_no_run(contrast: Contrast, run: Run) -> None:
    for command in (("runs", "show", "x" * 300), ("query", "a", "b", "--model", "x" * 300)):
        assert contrast(*command).code == 3


def test_a_note_is_told_and_shown(contrast: Contrast, run: Run) -> None:
    assert "#paper first" in contrast("runs", "note", "simple", "#paper first").err
    listed = contrast("runs").out.splitlines()
    assert listed[0].endswith("  note") and any(line.endswith("  #paper first") for line in listed)
    (simple,) = json.loads(contrast("runs", "list", "--json").out)
    assert simple["note"] == "#paper first"
    assert re.search(r"^note +#paper first$", contrast("runs", "show", "simple").out, re.MULTILINE)
    assert json.loads(contrast("runs", "show", "simple", "--json").out)["note"] == "#paper first"
    assert contrast("runs", "note", "simple", "#second").err == "note on simple: #second (was: #paper first)\n"
