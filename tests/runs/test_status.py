"""The state of a run, and the process that trains it: locks, stopping, waiting, launching."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import msgspec
import psutil
import pytest
from msgspec import structs

from contrastcli.errors import RunError
from contrastcli.runs import event_file, process, status
from contrastcli.runs.directory import Run, create
from contrastcli.runs.event import Event
from contrastcli.runs.events import Done, Note, Progress, decode
from contrastcli.runs.measured import Angles, Evaluated, Step
from contrastcli.runs.process import hold, launch, request_stop, wait_for_end
from contrastcli.runs.status import Writer, read_writer, this_process
from contrastcli.tui.live.header import poll
from support.disks import full_disk
from support.settings import config
from support.signs import DEAD, ELSEWHERE, age, beat, evaluated, say, started, step_at
from support.waiting import wait_until


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(config({"objective.name": "simace"}), tmp_path / "runs", "one")


def test_a_run_without_a_process_is_starting_until_the_grace_is_over(run: Run) -> None:
    assert run.status().state == "starting"
    age(run, 1000.0)
    assert run.status().state == "killed"


ME = this_process()
EARLIER = Writer(ME.host, ME.pid, ME.process_start - 3600.0)
BEGAN, LOADS = [started(ME), step_at(10)], [Progress(step=0, what="tokenising", done=1, total=2)]
STOPPED, STOPPED_HERE = (
    [started(writer), step_at(10), Done(step=10, status="stopped", code=0)] for writer in (ELSEWHERE, ME)
)


@pytest.mark.parametrize(
    ("events", "writer", "seconds_ago", "state"),
    [
        pytest.param([], None, 0, "failed", id="the first event could not be written"),
        pytest.param([], ME, 0, "starting", id="there is none yet"),
        pytest.param(LOADS, ME, 0, "starting", id="it loads"),
        pytest.param(LOADS, DEAD, 0, "killed", id="it died while it loaded"),
        pytest.param(BEGAN, None, 0, "silent", id="no heartbeat"),
        pytest.param(BEGAN, ME, 6, "silent", id="none for seconds"),
        pytest.param([started(EARLIER)], EARLIER, 10, "killed", id="another process got its pid"),
        pytest.param([started(ELSEWHERE)], ELSEWHERE, 0, "running", id="on another host"),
        pytest.param([started(ELSEWHERE)], ELSEWHERE, 1e6, "silent", id="on another host it is never killed"),
        pytest.param([Done(step=0, status="failed", code=3)], None, 0, "failed", id="it failed before its start"),
        pytest.param(STOPPED, ME, 0, "starting", id="another process resumes it"),
        pytest.param([*STOPPED, started(ME, step=10, resumed_from=10)], ME, 0, "running", id="it was resumed"),
        pytest.param(STOPPED, DEAD, 0, "stopped", id="its resume failed at once"),
        pytest.param(STOPPED_HERE, ELSEWHERE, 30, "starting", id="another host resumes it"),
        pytest.param(STOPPED_HERE, ELSEWHERE, 90, "stopped", id="another host left its heartbeat"),
        pytest.param([*STOPPED, Note(step=10, text="resuming")], None, 0, "stopped", id="what comes after an end"),
    ],
)
def test_the_state_follows_from_events_heartbeat_and_process(
    run: Run, events: list[Event], writer: Writer | None, seconds_ago: float, state: str
) -> None:
    say(run, *events)
    if writer:
        beat(run, writer, seconds_ago)
    assert run.status().state == state


def test_a_heartbeat_without_a_process_counts(run: Run) -> None:
    say(run, *BEGAN)
    run.alive_path.touch()
    assert run.status().state == "running"


def test_the_status_of_a_run_in_progress_has_step_loss_and_best(run: Run) -> None:
    me = this_process()
    say(run, started(me), evaluated(0, 0.5), evaluated(125, 0.8, True), evaluated(250, 0.7))
    say(run, step_at(260, 0.25), Angles(step=260, positive=1.0, negative=2.0, hardest=1.5, satisfied=1.0))
    beat(run, me)
    now = run.status()
    assert (now.state, now.step, now.steps, now.loss) == ("running", 260, 500, 0.25)
    assert (now.best, now.best_step, now.code, now.ended) == (0.8, 125, 0, False)
    assert now.updated == run.events()[-1].time >= now.created


@pytest.mark.parametrize(("beats", "state", "hint"), [(True, "killed", "--resume"), (False, "failed", "was its disk")])
def test_a_process_that_died_without_its_end_was_killed_or_could_not_write_it(
    run: Run, beats: bool, state: str, hint: str
) -> None:
    """However fresh its heartbeat is; one that was not killed has removed it."""
    say(run, started(DEAD), step_at(10))
    if beats:
        beat(run, DEAD)
    now = run.status()
    assert (now.state, now.code, now.ended) == (state, 1, True)
    assert hint in now.hint and "--resume" in now.hint


@pytest.mark.parametrize("who", [this_process(), DEAD], ids=["leaving", "gone"])
def test_an_end_that_comes_after_the_events_were_read_is_seen(
    run: Run, who: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process removes its heartbeat then, and seems to hang or to have failed."""
    say(run, started(who), step_at(10))
    beat(run, who)
    old, read = status.digest(run.events_path), status.digest

    def end_first(path: Path) -> status.Digest:
        monkeypatch.setattr(status, "digest", read)
        say(run, Done(step=10, status="finished", code=0))
        run.alive_path.unlink()
        return old

    monkeypatch.setattr(status, "digest", end_first)
    assert run.status().state == "finished"
    assert poll(run, old, None).status.state == "finished", "in the app, which knows the events that it read"


def test_the_hint_of_a_killed_run_elsewhere_has_its_path(run: Run) -> None:
    beat(run, DEAD)
    hint = Run(run.path, is_elsewhere=True).status().hint
    assert hint == f"to continue: contrast train --resume {run.path}"


def test_a_zombie_counts_as_dead(run: Run) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read() == b""  # it has closed its output: it is ending
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        zombie = Writer(socket.gethostname(), process.pid, time.time())
        say(run, started(zombie))
        beat(run, zombie)
        assert run.status().state == "killed"


@pytest.mark.parametrize(("word", "code"), [("stopped", 0), ("finished", 0), ("failed", 3), ("diverged", 4)])
def test_an_end_has_its_reason(run: Run, word: str, code: int) -> None:
    end = Done(step=20, status=word, code=code, message="why", hint="how")
    say(run, started(DEAD), step_at(10), end)
    now = run.status()
    assert (now.state, now.step, now.code, now.message, now.hint) == (word, 20, code, "why", "how")
    assert now.ended


def test_the_best_of_steps_that_a_resume_made_void_does_not_count(run: Run) -> None:
    say(run, started(ELSEWHERE), evaluated(100, 0.6, True), step_at(120, 1.0), evaluated(130, 0.9, True))
    say(run, step_at(130, 0.1), started(ELSEWHERE, step=120, resumed_from=120))
    beat(run, ELSEWHERE)
    now = run.status()
    assert (now.best, now.best_step, now.step, now.loss) == (0.6, 100, 120, 1.0)


def test_status_reads_a_long_run_from_both_ends_and_agrees_with_reading_it_all(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = [started(ELSEWHERE), evaluated(0, 0.5)]
    for step in range(1, 2000):
        events.append(evaluated(step, step / 2000, step <= 50) if step % 50 == 0 else step_at(step, 1.0 / step))
    say(run, *events)
    monkeypatch.setattr(event_file, "BLOCK_BYTES", 777)  # so that lines are cut by the ends of blocks
    decoding = Mock(wraps=decode)
    monkeypatch.setattr(event_file, "decode", decoding)
    digest = status.digest(run.events_path)
    assert decoding.call_count < 100, "only what is needed is decoded"
    everything = run.events()
    assert digest.last == everything[-1]
    assert digest.started == everything[0]
    assert digest.step == [e for e in everything if isinstance(e, Step)][-1]
    assert digest.evaluated == [e for e in everything if isinstance(e, Evaluated)][-1]
    assert digest.best == [e for e in everything if isinstance(e, Evaluated) and e.best][-1]


def test_the_heartbeat_of_another_process_is_left_as_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HEARTBEAT", 0.01)
    with hold(run) as me:
        me.step = 57
        run.alive_path.unlink()
        beat(run, ELSEWHERE)
        os.utime(run.alive_path, (0, 0))
        wait_until(lambda: run.alive_path.stat().st_mtime > 0)
        assert read_writer(run.alive_path) == ELSEWHERE


def test_a_pulse_that_is_left_over_says_nothing_of_the_process_that_resumes(run: Run) -> None:
    say(run, started(ELSEWHERE), step_at(10))
    run.alive_path.write_bytes(msgspec.json.encode(structs.replace(this_process(), step=400)))
    assert (run.status().state, run.status().step) == ("starting", 10)


def holding(run: Run, seconds: float) -> subprocess.Popen[bytes]:
    """A process that holds the run for some seconds, and does so already."""
    program = (
        "import pathlib, sys, time\n"
        "from contrastcli.runs.process import hold\n"
        "from contrastcli.runs.directory import Run\n"
        "with hold(Run(pathlib.Path(sys.argv[1]))): print('in', flush=True), time.sleep(float(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", program, str(run.path), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"in\n"
    return process


def test_a_second_process_is_kept_out_and_the_lock_of_a_killed_one_is_free(run: Run) -> None:
    with holding(run, 60) as process:
        first = read_writer(run.alive_path)
        with pytest.raises(RunError, match="training in"), hold(run):
            pass
        assert read_writer(run.alive_path) == first, "who is kept out leaves the heart of the other alone"
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
    assert not run.stop_path.exists() and not run.alive_path.exists()
    assert wait_for_end(run, timeout=0.0).state == "stopped"
    request_stop(run)
    assert not run.stop_path.exists(), "what has ended needs none"


def test_a_stop_is_seen_by_the_process_that_still_loads_and_not_by_the_next(run: Run) -> None:
    for moment, is_seen in ((time.time(), True), (0, False)):
        run.stop_path.touch()
        os.utime(run.stop_path, (moment, moment))
        with hold(run):
            assert run.stop_path.exists() == is_seen


def test_what_is_written_just_before_the_end_is_followed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_first(run: Run) -> status.Status:
        monkeypatch.undo()
        say(run, Note(step=1, text="the verdict"), Done(step=1, status="finished", code=0))
        return run.status()

    say(run, started(this_process()))
    monkeypatch.setattr(Run, "status", end_first)
    assert [event for event in run.follow() if event] == run.events()


def test_waiting_for_an_end_lasts_until_the_next_process_may_train(run: Run) -> None:
    with holding(run, 0.3) as process:
        writer = Writer(socket.gethostname(), process.pid, psutil.Process(process.pid).create_time())
        say(run, started(writer), Done(step=1, status="stopped", code=0))
        assert run.status().state == "stopped"
        assert wait_for_end(run, timeout=30.0).state == "stopped"
        with hold(run):
            pass


def test_an_end_is_not_waited_for_where_no_lock_can_be_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is full."""
    say(run, started(ELSEWHERE), Done(step=11, status="stopped", code=0))
    run.lock_path.unlink(missing_ok=True)
    run.lock_path.mkdir()
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
    assert wait_for_end(run, timeout=300.0).state == "stopped"


def test_a_launched_process_has_its_own_session_and_writes_to_the_log(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os, sys; print(sys.argv[1], os.getsid(0) == os.getpid(), sys.stdin.read())"
    program += "; sys.exit(os.environ.keys() & {'CONTRAST_PROGRESS', 'CONTRAST_TRAIN_LR'} or 'end')"
    # The app sets it for its own children; a run's log is for people.
    monkeypatch.setenv("CONTRAST_PROGRESS", "json")
    # A flag may have been typed above it.
    monkeypatch.setenv("CONTRAST_TRAIN_LR", "1e-4")
    run.log_path.write_text("before\n")
    pid = launch(run, ["--flag"], command=[sys.executable, "-c", program])
    assert pid != os.getpid()
    assert wait_for_end(run, timeout=30.0).state == "killed", "it ended without an event"
    assert run.log_path.read_text() == "before\n--flag True \nend\n"


@pytest.mark.parametrize(("has_room", "state"), [(True, "starting"), (False, "killed")])
def test_a_launched_process_that_still_loads_is_starting_and_not_given_up_for_want_of_room(
    run: Run, monkeypatch: pytest.MonkeyPatch, has_room: bool, state: str
) -> None:
    age(run, 1000.0)
    if not has_room:
        monkeypatch.setattr(process, "atomic_write", full_disk)
    pid = launch(run, [], command=[sys.executable, "-c", "import time; time.sleep(60)"])
    assert run.status().state == state
    psutil.Process(pid).kill()
    assert wait_for_end(run, timeout=30.0).state == "killed"
