"""The run directory as users meet it: names, status, locks, stopping, launching, comparing."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psutil
import pytest

from contrastcli import files
from contrastcli.errors import DataError, RunError, UsageError
from contrastcli.evaluation.run_scores import compare
from contrastcli.runs import event_file, process, status
from contrastcli.runs.directory import Run, create, find_run, list_runs, prune, remove, runs_dir
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Angles, Done, Evaluated, Event, Note, Progress, Step, decode
from contrastcli.runs.process import hold, launch, request_stop, wait_for_end
from contrastcli.runs.status import Writer, this_process
from contrastcli.settings.config import Config
from support.events import started
from support.settings import config
from support.waiting import wait_until

ELSEWHERE = Writer("another-host.example", 1, 1.0)


def config_of(changes: Mapping[str, object] = {}) -> Config:
    return config({"objective.name": "simace", "model.backbone": "google/BERT_base", **changes})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(config_of(), tmp_path / "runs", "one")


def step_at(step: int, loss: float = 1.0) -> Step:
    return Step(step=step, loss=loss, lr=3e-5, epoch=0.1)


def evaluated(step: int, spearman: float, best: bool) -> Evaluated:
    return Evaluated(step=step, score=spearman, alignment=0.2, uniformity=-2.0, pairs=10, best=best)


def say(run: Run, *events: Event) -> None:
    writer = EventWriter(run.events_path)
    for event in events:
        writer(event)
    writer.close()


def beat(run: Run, writer: Writer, seconds_ago: float = 0.0) -> None:
    run.alive_path.write_bytes(msgspec.json.encode(writer))
    os.utime(run.alive_path, (time.time() - seconds_ago,) * 2)


def a_process_that_ended() -> Writer:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return Writer(socket.gethostname(), process.pid, time.time())


def age(run: Run, seconds: float) -> None:
    os.utime(run.config_path, (time.time() - seconds,) * 2)


# Creating and finding


def test_the_runs_directory_is_the_option_else_the_variable_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_RUNS", "elsewhere")
    assert runs_dir("typed") == Path("typed")
    assert runs_dir(None) == Path("elsewhere")
    monkeypatch.delenv("CONTRAST_RUNS")
    assert runs_dir(None) == Path("runs")


def test_a_new_run_is_named_by_date_objective_and_backbone(tmp_path: Path) -> None:
    before = time.strftime("%Y-%m-%d-%H%M")
    name = create(config_of(), tmp_path, None).name
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d{4}-simace-bert-base-[0-9a-f]{4}", name)
    assert before <= name[:15] <= time.strftime("%Y-%m-%d-%H%M")


@pytest.mark.parametrize(
    ("backbone", "part"),
    [
        ("starter", "-starter-"),
        ("/models/My Model (v1.5)/", "-my-model-v1.5-"),
        (r"C:\models\Bert", "-bert-"),
        ("..", "simace-"),
    ],
)
def test_any_backbone_gives_a_clean_name(tmp_path: Path, backbone: str, part: str) -> None:
    name = create(config_of({"model.backbone": backbone}), tmp_path, None).name
    assert part in name and re.fullmatch(r"[a-z0-9.-]+", name) and "--" not in name


def test_a_run_repeats_the_settings_that_made_it(run: Run) -> None:
    assert run.config() == config_of()
    assert set(os.listdir(run.path)) == {"config.toml"}


def test_git_does_not_see_runs_but_a_folder_in_use_is_left_as_it_is(tmp_path: Path) -> None:
    create(config_of(), tmp_path / "new" / "runs", None)
    assert (tmp_path / "new" / "runs" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    create(config_of(), tmp_path / "new", None)
    assert not (tmp_path / "new" / ".gitignore").exists()


@pytest.mark.parametrize("name", ["last", "..", "a/b", "a\\b", ".hidden", "-flag", "a b", "a\n"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        create(config_of(), tmp_path, name)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_the_systems_message_and_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=re.escape(os.strerror(errno.ENOSPC))) as caught:
        create(config_of(), tmp_path, "one")
    assert "prune" in caught.value.hint and caught.value.code == 1
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def three_runs(directory: Path) -> list[Run]:
    made = [create(config_of(), directory, name) for name in ("b-simace-first", "a-simace-second", "c-supcon-third")]
    for i, run in enumerate(made):
        age(run, 100.0 - i)
    (directory / "no-run").mkdir()
    return made


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    made = three_runs(tmp_path)
    assert list_runs(tmp_path) == made[::-1]
    assert list_runs(tmp_path / "missing") == []


def test_a_resumed_run_keeps_its_place_in_the_list(tmp_path: Path) -> None:
    made = three_runs(tmp_path)
    say(made[0], Note(step=0, time=time.time() - 99.9, text="begun then"))
    os.utime(made[0].config_path)  # as a resume that extends the run does
    assert list_runs(tmp_path) == made[::-1]


def test_a_run_is_found_by_path_name_part_and_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = three_runs(tmp_path)
    assert find_run(str(first.path), tmp_path / "missing") == first
    assert find_run("a-simace-second", tmp_path) == second
    assert find_run("supcon", tmp_path) == third
    assert find_run("last", tmp_path) == third
    monkeypatch.chdir(first.path)
    assert find_run(".", tmp_path).name == "b-simace-first"


def test_a_whole_name_is_not_ambiguous_where_others_contain_it(tmp_path: Path) -> None:
    short = create(config_of(), tmp_path, "seed1")
    create(config_of(), tmp_path, "seed10")
    assert find_run("seed1", tmp_path) == short


def test_an_ambiguous_part_lists_what_it_may_mean(tmp_path: Path) -> None:
    three_runs(tmp_path)
    with pytest.raises(DataError, match="means 2 runs") as caught:
        find_run("simace", tmp_path)
    assert "a-simace-second" in caught.value.hint and "b-simace-first" in caught.value.hint


def test_an_unknown_run_names_the_nearest(tmp_path: Path) -> None:
    three_runs(tmp_path)
    with pytest.raises(DataError) as caught:
        find_run("c-supcom-third", tmp_path)
    assert caught.value.hint == "did you mean 'c-supcon-third'?"


def test_without_any_run_the_hint_makes_one(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        find_run("last", tmp_path / "runs")
    assert "contrast train" in caught.value.hint


# Checkpoints


def test_a_run_means_its_best_checkpoint_else_its_last(run: Run) -> None:
    for name in ("000100", "000120"):
        (run.checkpoints_dir / name).mkdir(parents=True)
    run.checkpoints_path.write_text('{"last": "000120"}')
    assert run.checkpoint().name == "000120"
    run.checkpoints_path.write_text('{"last": "000120", "best": "000100"}')
    assert run.checkpoint().name == "000100"
    assert run.checkpoint("last").name == "000120"


@pytest.mark.parametrize("content", ["{}", '{"last": "000120"}', '{"last": '])
def test_a_missing_checkpoint_is_an_error(run: Run, content: str) -> None:
    assert run.checkpoints() == {}
    run.checkpoints_path.write_text(content)
    with pytest.raises(DataError):
        run.checkpoint()


# Status


def test_a_run_without_a_process_is_starting_until_the_grace_is_over(run: Run) -> None:
    assert run.status().state == "starting"
    age(run, 1000.0)
    assert run.status().state == "killed"


def test_a_process_that_ended_and_could_not_write_its_end_has_failed(run: Run) -> None:
    say(run, started(a_process_that_ended()), step_at(10))
    now = run.status()
    assert (now.state, now.code, now.ended) == ("failed", 1, True)
    assert "disk" in now.hint and "--resume" in now.hint


def test_a_run_that_loads_is_starting_until_its_process_dies(run: Run) -> None:
    beat(run, this_process())
    say(run, Progress(step=0, what="tokenising", done=1, total=2))
    assert run.status().state == "starting"
    beat(run, a_process_that_ended())
    assert run.status().state == "killed"


def test_the_status_of_a_run_in_progress_has_step_loss_and_best(run: Run) -> None:
    me = this_process()
    say(run, started(me), evaluated(0, 0.5, False), evaluated(125, 0.8, True), evaluated(250, 0.7, False))
    say(run, step_at(260, 0.25), Angles(step=260, positive=1.0, negative=2.0, hardest=1.5, satisfied=1.0))
    beat(run, me)
    now = run.status()
    assert (now.state, now.step, now.steps, now.loss) == ("running", 260, 500, 0.25)
    assert (now.best, now.best_step, now.code, now.ended) == (0.8, 125, 0, False)
    assert now.updated == run.events()[-1].time >= now.created


def test_a_process_without_a_heartbeat_is_silent(run: Run) -> None:
    say(run, started(this_process()), step_at(10))
    assert run.status().state == "silent"
    beat(run, this_process(), seconds_ago=6.0)
    assert run.status().state == "silent"
    assert not run.status().ended


def test_a_process_that_died_without_an_event_was_killed_however_fresh_its_heartbeat(run: Run) -> None:
    dead = a_process_that_ended()
    say(run, started(dead), step_at(10))
    beat(run, dead)
    now = run.status()
    assert (now.state, now.code, now.ended) == ("killed", 1, True)
    assert "--resume" in now.hint


def test_a_process_that_got_the_pid_of_the_dead_one_does_not_count(run: Run) -> None:
    me = this_process()
    earlier = Writer(me.host, me.pid, me.process_start - 3600.0)
    say(run, started(earlier), step_at(10))
    beat(run, earlier, seconds_ago=10.0)
    assert run.status().state == "killed"


def test_a_zombie_counts_as_dead(run: Run) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read() == b""  # it has closed its output: it is ending
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        zombie = Writer(socket.gethostname(), process.pid, time.time())
        say(run, started(zombie))
        beat(run, zombie)
        assert run.status().state == "killed"


def test_on_another_host_a_run_is_running_or_silent_and_never_killed(run: Run) -> None:
    say(run, started(ELSEWHERE), step_at(10))
    beat(run, ELSEWHERE)
    assert run.status().state == "running"
    beat(run, ELSEWHERE, seconds_ago=1e6)
    assert run.status().state == "silent"


def test_a_heartbeat_without_a_process_counts(run: Run) -> None:
    say(run, started(this_process()), step_at(10))
    run.alive_path.touch()
    assert run.status().state == "running"


@pytest.mark.parametrize(("word", "code"), [("stopped", 0), ("finished", 0), ("failed", 3), ("diverged", 4)])
def test_an_end_has_its_reason(run: Run, word: str, code: int) -> None:
    end = Done(step=20, status=word, code=code, message="why", hint="how")
    say(run, started(a_process_that_ended()), step_at(10), end)
    now = run.status()
    assert (now.state, now.step, now.code, now.message, now.hint) == (word, 20, code, "why", "how")
    assert now.ended


def test_a_failure_before_the_start_is_a_failure(run: Run) -> None:
    say(run, Note(step=0, text="reading"), Done(step=0, status="failed", code=3, message="no rows"))
    assert run.status().state == "failed"


def test_an_ended_run_that_another_process_resumes_is_starting_until_it_starts(run: Run) -> None:
    dead, me = a_process_that_ended(), this_process()
    say(run, started(dead), step_at(10), Done(step=10, status="stopped", code=0))
    beat(run, me)
    assert run.status().state == "starting"
    say(run, started(me, step=10, resumed_from=10))
    assert run.status().state == "running"


def test_an_ended_run_whose_resume_failed_at_once_has_still_ended(run: Run) -> None:
    say(run, started(ELSEWHERE), Done(step=10, status="stopped", code=0))
    beat(run, a_process_that_ended())
    assert run.status().state == "stopped"


def test_events_after_an_end_do_not_undo_it(run: Run) -> None:
    say(run, started(ELSEWHERE), step_at(10), Done(step=10, status="stopped", code=0))
    say(run, Angles(step=10, positive=1.0, negative=2.0, hardest=1.5, satisfied=1.0), Note(step=10, text="resuming"))
    assert run.status().state == "stopped"


def test_the_best_of_steps_that_a_resume_made_void_does_not_count(run: Run) -> None:
    say(run, started(ELSEWHERE), evaluated(100, 0.6, True), step_at(120, 1.0), evaluated(130, 0.9, True))
    say(run, step_at(130, 0.1), started(ELSEWHERE, step=120, resumed_from=120))
    beat(run, ELSEWHERE)
    now = run.status()
    assert (now.best, now.best_step, now.step, now.loss) == (0.6, 100, 120, 1.0)


def test_status_reads_a_long_run_from_both_ends_and_agrees_with_reading_it_all(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = [started(ELSEWHERE), evaluated(0, 0.5, False)]
    for step in range(1, 2000):
        events.append(evaluated(step, step / 2000, step <= 50) if step % 50 == 0 else step_at(step, 1.0 / step))
    say(run, *events)
    monkeypatch.setattr(event_file, "BLOCK", 777)  # so that lines are cut by the ends of blocks
    decoded: list[bytes] = []

    def counted(line: bytes) -> Event | None:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr(event_file, "decode", counted)
    digest = status.digest(run.events_path)
    assert len(decoded) < 100, "only what is needed is decoded"
    everything = run.events()
    assert digest.last == everything[-1]
    assert digest.started == everything[0]
    assert digest.step == [e for e in everything if isinstance(e, Step)][-1]
    assert digest.evaluated == [e for e in everything if isinstance(e, Evaluated)][-1]
    assert digest.best == [e for e in everything if isinstance(e, Evaluated) and e.best][-1]


@pytest.mark.parametrize("end", ['{"event":"note","step":20,"te', '{"event":"note","step":20,"text":"no newline yet"}'])
def test_a_torn_last_line_neither_counts_nor_hides_the_status(run: Run, end: str) -> None:
    say(run, started(ELSEWHERE), step_at(10))
    with open(run.events_path, "ab") as file:
        file.write(end.encode())
    assert run.status().step == 10


# Training in a run


def test_who_trains_shows_signs_of_life_and_leaves_none_behind(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HEARTBEAT", 0.01)
    with hold(run) as me:
        say(run, started(me))
        os.utime(run.alive_path, (0, 0))
        wait_until(lambda: run.alive_path.stat().st_mtime > 0)
        assert run.status().state == "running"
    assert not run.alive_path.exists()


def test_a_second_process_is_kept_out_until_the_first_has_ended(run: Run) -> None:
    program = (
        "import pathlib, sys\n"
        "from contrastcli.runs.process import hold\n"
        "from contrastcli.errors import RunError\n"
        "from contrastcli.runs.directory import Run\n"
        "try:\n"
        "    with hold(Run(pathlib.Path(sys.argv[1]))): print('in')\n"
        "except RunError as error: print(error.what)\n"
    )

    def second() -> str:
        return subprocess.run([sys.executable, "-c", program, str(run.path)], capture_output=True, text=True).stdout

    with hold(run):
        assert "training in" in second()
        assert run.alive_path.exists(), "who was kept out leaves the heart of the other alone"
    assert second() == "in\n"


def test_the_lock_of_a_killed_process_is_free(run: Run) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from contrastcli.runs.process import hold\n"
        "from contrastcli.runs.directory import Run\n"
        "with hold(Run(pathlib.Path(sys.argv[1]))): print('in', flush=True), time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"in\n"
        process.kill()
        process.wait()
    assert run.status().state == "killed"
    with hold(run):
        assert run.status().state == "starting"


def test_a_requested_stop_is_seen(run: Run) -> None:
    with hold(run) as me:
        say(run, started(me), step_at(10))
        assert not run.stop_path.exists()
        request_stop(run)
        assert run.stop_path.exists()
        say(run, Done(step=11, status="stopped", code=0))
    assert not run.stop_path.exists()
    assert wait_for_end(run, timeout=0.0).state == "stopped"


def test_a_run_that_has_ended_needs_no_stop(run: Run) -> None:
    say(run, started(a_process_that_ended()), Done(step=11, status="finished", code=0))
    request_stop(run)
    assert not run.stop_path.exists()


def test_a_stop_meant_for_a_killed_process_does_not_stop_the_next(run: Run) -> None:
    run.stop_path.touch()
    os.utime(run.stop_path, (0, 0))
    with hold(run):
        assert not run.stop_path.exists()


@pytest.mark.parametrize(("seconds_ago", "state"), [(30.0, "starting"), (90.0, "stopped")])
def test_a_heartbeat_left_on_another_host_does_not_hide_the_end(run: Run, seconds_ago: float, state: str) -> None:
    say(run, started(this_process()), Done(step=10, status="stopped", code=0))
    beat(run, ELSEWHERE, seconds_ago=seconds_ago)  # it resumes the run, or has gone
    assert run.status().state == state
    if state == "stopped":
        assert [event for event in run.follow() if event][-1] == run.events()[-1]


def test_a_stop_requested_while_the_process_still_loads_is_seen(run: Run) -> None:
    run.stop_path.touch()
    with hold(run):
        assert run.stop_path.exists()


def test_waiting_for_an_end_lasts_until_the_next_process_may_train(run: Run) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from contrastcli.runs.process import hold\n"
        "from contrastcli.runs.directory import Run\n"
        "with hold(Run(pathlib.Path(sys.argv[1]))): print('in', flush=True), time.sleep(0.3)\n"
    )
    command = [sys.executable, "-c", program, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"in\n"
        writer = Writer(socket.gethostname(), process.pid, time.time())
        say(run, started(writer), Done(step=1, status="stopped", code=0))
        assert run.status().state == "stopped"
        assert wait_for_end(run, timeout=30.0).state == "stopped"
        with hold(run):
            pass


def test_waiting_for_an_end_gives_up_after_its_time(run: Run) -> None:
    say(run, started(ELSEWHERE))
    beat(run, ELSEWHERE)
    assert wait_for_end(run, timeout=0.0).state == "running"


def test_a_launched_process_has_its_own_session_and_writes_to_the_log(run: Run) -> None:
    program = "import os, sys; print(sys.argv[1], os.getsid(0) == os.getpid(), sys.stdin.read()); sys.exit('end')"
    run.log_path.write_text("before\n")
    pid = launch(run, ["--flag"], command=[sys.executable, "-c", program])
    assert pid != os.getpid()
    assert wait_for_end(run, timeout=30.0).state == "killed", "it ended without an event"
    assert run.log_path.read_text() == "before\n--flag True \nend\n"


def test_a_launched_process_that_still_loads_is_starting(run: Run) -> None:
    age(run, 1000.0)
    pid = launch(run, [], command=[sys.executable, "-c", "import time; time.sleep(60)"])
    assert run.status().state == "starting"
    psutil.Process(pid).kill()
    assert wait_for_end(run, timeout=30.0).state == "killed"


def test_nothing_is_launched_into_a_run_in_progress(run: Run) -> None:
    with hold(run), pytest.raises(RunError, match="already"):
        launch(run, [])
    assert not run.log_path.exists()


# Removing, pruning, comparing


def test_removing_a_run_leaves_nothing_of_it(run: Run) -> None:
    say(run, started(a_process_that_ended()), Done(step=11, status="finished", code=0))
    remove(run)
    assert not run.path.exists()


def test_a_run_in_progress_is_not_removed(run: Run) -> None:
    with hold(run) as me:
        say(run, started(me))
        with pytest.raises(RunError, match="in progress"):
            remove(run)
        os.utime(run.alive_path, (0, 0))  # silent for a moment
        with pytest.raises(RunError):
            remove(run)
    assert run.config_path.exists()


def checkpoint_of(run: Run) -> Path:
    training = run.checkpoints_dir / "000100" / "training"
    training.mkdir(parents=True)
    (training / "optimizer.safetensors").write_bytes(b"x" * 1000)
    (training.parent / "model.safetensors").write_bytes(b"x" * 10)
    return training


def test_pruning_keeps_the_models_of_ended_runs_and_leaves_others_alone(tmp_path: Path) -> None:
    ended, going = (create(config_of(), tmp_path, name) for name in ("ended", "going"))
    say(ended, started(a_process_that_ended()), Done(step=100, status="finished", code=0))
    say(going, started(ELSEWHERE))
    beat(going, ELSEWHERE)
    pruned, kept = checkpoint_of(ended), checkpoint_of(going)
    before = ended.size_bytes()
    assert prune([ended, going]) == 1000 == before - ended.size_bytes()
    assert not pruned.exists() and (pruned.parent / "model.safetensors").exists()
    assert (kept / "optimizer.safetensors").exists()


def test_the_size_of_a_run_is_that_of_all_its_files(run: Run) -> None:
    before = run.size_bytes()
    assert before == run.config_path.stat().st_size
    checkpoint_of(run)
    assert run.size_bytes() == before + 1010


def test_a_comparison_shows_settings_that_differ_and_the_results(tmp_path: Path) -> None:
    one = create(config_of({"train.seed": 1}), tmp_path, "one")
    two = create(config_of({"train.seed": 2, "objective.name": "softmax"}), tmp_path, "two")
    angles = Angles(step=20, time=1.0, positive=30.0, negative=70.0, hardest=50.0, satisfied=0.8)
    dev = evaluated(20, 0.7, False)
    say(one, started(ELSEWHERE), evaluated(10, 0.8, True), step_at(20), angles, msgspec.structs.replace(dev, time=2.0))
    one.scores_path.write_text('{"suites": {"sts": {"average": 76.5}}}')
    compared = compare([one, two])
    assert compared.settings["train.seed"] == (1, 2)
    assert compared.settings["objective.name"] == ("simace", "softmax")
    assert compared.settings["objective.margin"] == (10.0, None)
    assert "train.lr" not in compared.settings
    first, second = compared.results
    assert (first.name, first.best, first.dev) == ("one", 0.8, 0.7)
    assert first.angles == {"positive": 30.0, "negative": 70.0, "hardest": 50.0}
    assert first.scores == {"suites": {"sts": {"average": 76.5}}}
    assert (second.dev, second.angles, second.scores) == (None, None, {})


# Files


def test_a_file_that_cannot_be_written_whole_keeps_its_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    files.atomic_write(path, b"old")

    def fail(source: Path, target: Path) -> None:
        raise OSError(errno.EIO, "failed")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="failed"):
        files.atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_watching_runs_imports_no_heavy_library() -> None:
    program = (
        "import sys, contrastcli.runs.directory, contrastcli.runs.process, contrastcli.show.console\n"
        "heavy = {'torch', 'numpy', 'transformers', 'datasets', 'scipy', 'sklearn', 'rich', 'textual'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
