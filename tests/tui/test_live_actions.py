"""What the keys of Live do to a run, and what Live notices of it by itself."""

import errno
import os
import shutil
import time
from functools import partial
from pathlib import Path

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from contrastcli import boundary
from contrastcli.runs.alerts import notice
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import read_lines
from contrastcli.runs.events import Alert, Done, Queued
from contrastcli.runs.status import Digest, Status, this_process
from contrastcli.settings.sections import Alerts
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.fields.model_field import ModelField
from contrastcli.tui.history import feed
from contrastcli.tui.history.history import History
from contrastcli.tui.live.header import advice, poll
from contrastcli.tui.live.screen import notices
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup import dry_run_panel
from support.commands import answer_commands
from support.recorded import append, recorded, started
from support.screens import NARROW, footer, press, says, show, until
from support.settings import config
from support.signs import DEAD, beat

pytestmark = pytest.mark.usefixtures("quick_live")


def opened(run: Run) -> ContrastApp:
    return ContrastApp(run.path.parent, run)


async def test_a_killed_process_is_recognized_and_can_be_resumed(tmp_path: Path) -> None:
    run = recorded(tmp_path, "running")
    async with show(opened(run)) as page:
        await until(page, lambda: says(page, "● running") and "s stop" in footer(page))
        assert "r resume" not in footer(page)
        append(run, started(DEAD, resumed_from=350))
        beat(run, DEAD)
        await until(page, lambda: says(page, "✖ killed", "r resumes") and "r resume" in footer(page))
        assert "s stop" not in footer(page)


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bells, and what the terminal was asked to tell the desktop."""
    calls: list[str] = []

    def write(driver: HeadlessDriver, data: str) -> None:
        if data.startswith("\x1b]9"):
            calls.append(data)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setattr(ContrastApp, "bell", lambda app: calls.append("bell"))
    monkeypatch.setattr(HeadlessDriver, "write", write)
    return calls


_STALLED = Alert(step=350, time=time.time() + 3600, rule="stalled", text="it stalls", hint="stop it")
_ENDED = Done(step=600, time=time.time() + 7200, status="finished", code=0)


async def test_alerts_silence_and_the_end_ring_once_each(tmp_path: Path, rung: list[str]) -> None:
    run = recorded(tmp_path, "running")
    earlier = Alert(step=350, time=time.time() - 60, rule="disk", text="the disk fills", hint="make room")
    append(run, earlier)
    async with show(opened(run)) as page:
        await until(page, lambda: says(page, "● running", "the disk fills"))
        append(run, _STALLED)
        await until(page, lambda: len(rung) == 2)
        os.utime(run.alive_path, (0, 0))
        await until(page, lambda: len(rung) == 4)
        append(run, _ENDED)
        await until(page, lambda: says(page, "✔ finished") and len(rung) == 6)
    assert rung[::2] == ["bell"] * 3
    assert rung[1] == "\x1b]9;contrast starter-running, step 350: it stalls, stop it\a"
    assert "does not respond" in rung[3] and "finished" in rung[5]


def test_a_run_that_fails_without_a_word_calls_for_attention(tmp_path: Path) -> None:
    run = recorded(tmp_path, "running")
    before = poll(run, Digest(), None)
    append(run, started(DEAD, resumed_from=350))
    run.alive_path.unlink()
    (told,) = notices([], before, poll(run, Digest(), before), Alerts())
    assert "could not say why" in told
    append(run, Done(step=350, status="failed", code=1))
    assert not notices([], before, poll(run, Digest(), before), Alerts()), "that event calls"


def test_the_commands_that_live_names_have_the_runs_directory_that_was_typed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    boundary.remember_typed("there")
    request.addfinalizer(partial(boundary.remember_typed, None))
    run, history = recorded(tmp_path, "running"), History()
    alert = Alert(step=350, rule="stalled", text="it stalls", hint="stop it: contrast stop a")
    history.add(alert)
    append(run, Done(step=350, status="failed", code=1, message="no", hint="put it back: contrast train --resume a"))
    ended = poll(run, Digest(), None)
    for shown in (history.log[-1], *notices([alert], None, ended, Alerts())):
        assert "contrast --runs-dir there stop a" in shown
    assert "contrast --runs-dir there train --resume a" in advice(ended)


@pytest.mark.parametrize(
    ("setting", "calls"), [("none", []), ("alerts", [_STALLED]), ("end", [_ENDED]), ("all", [_STALLED, _ENDED])]
)
def test_a_setting_says_what_calls_for_attention(setting: str, calls: list[Alert | Done]) -> None:
    alerts = config(alerts__ring=setting).alerts
    assert [event for event in (_STALLED, _ENDED) if notice("one", event, alerts)] == calls


async def test_a_run_rings_for_what_its_settings_say(tmp_path: Path, rung: list[str]) -> None:
    run = recorded(tmp_path, "running", alerts__ring="end")
    async with show(opened(run)) as page:
        await until(page, lambda: says(page, "● running", "step 350 of 600"))
        append(run, _STALLED, _ENDED)
        await until(page, lambda: says(page, "✔ finished", "it stalls; stop it") and len(rung) == 2)


async def test_s_asks_before_it_stops_a_run_that_has_not_ended_meanwhile(tmp_path: Path) -> None:
    run = recorded(tmp_path, "running")
    async with show(opened(run)) as page:
        await until(page, lambda: "s stop" in footer(page))
        await press(page, "s", shows=("Stop starter-running?", "It saves first, and can be resumed."))
        await press(page, "k", then=lambda: not says(page, "Stop starter-running?"))
        assert not run.stop_path.exists()
        await press(page, "s", "s", shows="Stop starter-running?")
        await page.pause(0.2)
        assert not run.stop_path.exists(), "by one key that is pressed twice"
        await press(page, "y", then=lambda: run.stop_path.exists() and says(page, "● running, stopping"))
        run.stop_path.unlink()
        await press(page, "s", shows="Stop starter-running?")
        append(run, Done(step=350, status="stopped", code=0))
        await press(page, "y", shows="starter-running has ended already")
        assert not run.stop_path.exists()


async def test_leaving_stays_where_the_run_is_not_stopped_and_needs_no_run_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(tmp_path, "running")
    answer_commands(monkeypatch, Finished("", "the disk is full"))
    async with show(opened(run)) as page:
        await until(page, lambda: says(page, "● running"))
        await press(page, "q", shows="is still training")
        await press(page, "s", shows="the disk is full")
        assert page.app.return_code is None
        run.events_path.unlink()
        run.events_path.mkdir()
        await press(page, "q", then=lambda: page.app.return_code == 0)


async def test_leaving_asks_once_about_all_runs_in_progress_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = [recorded(tmp_path, "running", name) for name in ("one", "two")]
    recorded(tmp_path, "silent", "elsewhere")
    commands = answer_commands(monkeypatch, Finished(""))
    async with show(opened(recorded(tmp_path, "finished"))) as page:
        await until(page, lambda: says(page, "✔ finished"))
        await press(page, "q", shows=("are still training.", "s stop them; they save first"))
        await press(page, "s", then=lambda: page.app.return_code == 0)
    assert {words[-1] for words in commands.calls} == {str(run.path) for run in training}


async def test_a_resume_that_fails_says_why_and_one_that_is_done_leaves_the_dialog_that_leaving_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = answer_commands(monkeypatch, Finished("", "the data set is gone\nhint: bring it back"))
    commands.held.clear()
    async with show(opened(recorded(tmp_path, "killed"))) as page:
        await until(page, lambda: "r resume" in footer(page))
        await press(page, "r", "q", shows="The resume is not done yet: leaving ends it.")
        await page.press("escape", "r")
        commands.held.set()
        await until(page, lambda: says(page, "could not be", "data set is gone", "bring it back", "✖ killed"))
        assert len(commands.calls) == 1 and not commands.cancelled
        commands.answer = lambda directory, words: Finished("")
        commands.held.clear()
        await press(page, "r", "q", shows="The resume is not done yet: leaving ends it.")
        commands.held.set()
        await until(page, lambda: says(page, "The resume is not done yet", "resumed starter-killed"))


@pytest.mark.parametrize(("key", "what"), [("x", "export"), ("M", "merge"), ("e", "evaluation")])
async def test_leaving_asks_about_an_export_a_merge_and_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, what: str
) -> None:
    commands = answer_commands(monkeypatch, Finished(""))
    commands.held.clear()
    recorded(tmp_path, "running", "other")
    async with show(opened(recorded(tmp_path, "finished"))) as page:
        await until(page, lambda: "x export" in footer(page))
        await press(page, key, shows="best, step 300" if what == "evaluation" else "which new folder")
        await page.press({"export": "enter", "merge": "enter", "evaluation": "s"}[what])
        await press(page, *["enter"] * (what == "export"), then=lambda: commands.calls)
        await press(page, "q", shows=f"The {what} is not done yet: leaving ends it.")
        await press(page, "l", shows="other is still training.")
        recorded(tmp_path, "running", "begun-meanwhile")
        await press(page, "k", shows="begun-meanwhile is still training.")
        await press(page, "k", then=lambda: page.app.return_code == 0 and commands.cancelled)


async def test_a_process_that_ends_before_it_resumes_the_run_is_reported_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(tmp_path, "stopped")
    monkeypatch.setattr(feed, "BLOCK_BYTES", 2000)

    def read_slowly(path: Path, start: int, size: int) -> tuple[list[bytes], int]:
        """The events are still being read when the process starts, and when it ends."""
        time.sleep(0.05)
        return read_lines(path, start, size)

    monkeypatch.setattr(feed, "read_lines", read_slowly)
    async with show(opened(run), NARROW) as page:
        await until(page, lambda: says(page, "■ stopped", "Stopped and saved"))
        beat(run, this_process())
        await until(page, lambda: says(page, "◌ starting"))
        run.log_path.write_text("contrast: error: no space is left\n")
        beat(run, DEAD)
        await until(page, lambda: says(page, "■ stopped", "could not be resumed", "no space is left"))
        await until(page, lambda: "r resume" in footer(page))  # the footer follows a moment later
        assert not says(page, "Stopped and saved")


async def test_a_run_that_ended_before_it_saved_says_that_r_starts_it_again(tmp_path: Path) -> None:
    run = recorded(tmp_path, "starting")
    async with show(opened(run), NARROW) as page:
        await until(page, lambda: says(page, "◌ starting"))
        beat(run, DEAD)
        await until(page, lambda: says(page, "✖ killed", "nothing was saved; r starts it again"))
        append(run, started(this_process()), Done(step=0, status="stopped", code=130))
        await until(page, lambda: says(page, "■ stopped", "Stopped: nothing was saved; r starts it again"))


async def test_a_queued_run_is_shown_and_another_is_put_behind_it(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run_panel, "PAUSE_SECONDS", 60)  # no dry run
    run = recorded(Path("runs"), "empty", "waiting")
    append(run, Queued(step=0, behind="first"))
    beat(run, this_process())
    commands = answer_commands(monkeypatch, Finished(f"{run.path}\n"))
    async with show(ContrastApp(Path("runs"), run), NARROW) as page:
        await until(page, lambda: says(page, "◔ queued waiting", "waits for the end of first", "s stop"))
        await press(page, "1", shows="starter ▾")
        await press(page, "a", then=lambda: commands.calls)
    assert commands.calls == [("train", "--preset", "starter", "--detach", "--after", "last")]


async def test_a_notice_does_not_lie_on_the_answers_to_a_question_and_detaching_lets_the_run_continue(
    tmp_path: Path,
) -> None:
    run = recorded(tmp_path, "running")
    app = opened(run)
    async with show(app, NARROW) as page:
        await until(page, lambda: "s stop" in footer(page))
        app.notify("\n".join(["what it says"] * 12), timeout=100)
        await until(page, lambda: says(page, "what it says"))
        await press(page, "s", shows="k keep running")
        await page.press("k")
        app.clear_notifications()
        await press(page, "d", shows=("No run is shown.", "starter-running continues training"))
        assert not run.stop_path.exists() and not app.watched
        await app.open_run(run)
        await until(page, lambda: says(page, "● running", "step 350 of 600"))


async def test_a_run_stays_on_the_screen_where_its_disk_fails_and_that_is_said_once_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[OSError] = [OSError(errno.EIO, "input/output error"), FileNotFoundError()]
    whole = Run.status

    def status(run: Run, events: Digest | None = None) -> Status:
        if errors:
            raise errors.pop()
        return whole(run, events)

    run = recorded(tmp_path, "running")
    async with show(opened(run)) as page:
        await until(page, lambda: says(page, "● running"))
        monkeypatch.setattr(Run, "status", status)
        await until(page, lambda: not errors)
        assert not page.app._notifications
        errors += [PermissionError(errno.EACCES, "Permission denied")] * 25
        await until(page, lambda: not errors)
        told = [one.message for one in page.app._notifications]
        assert told == [f"{run.path} cannot be read: Permission denied"] and says(page, "● running")


async def test_e_and_u_use_a_run_of_anywhere_as_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrastcli.tui.query.query_panel.QueryPanel.ask_process", lambda *words: None)
    run = recorded(tmp_path / "runs", "finished")
    async with show(ContrastApp(tmp_path / "elsewhere", run)) as page:
        for key, mode in (("e", "evaluate"), ("u", "query")):
            await until(page, lambda: "e evaluate" in footer(page) and "u query" in footer(page))
            await press(page, key, then=lambda: page.app.current_mode == mode and page.app.screen.query(ModelField))  # noqa: B023
            assert page.app.screen.query(ModelField).first().value == str(run.path)
            await page.press("2")


async def test_deleting_asks_and_leaves_no_run_and_one_that_could_not_be_deleted_is_missed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = recorded(tmp_path, "finished"), recorded(tmp_path, "stopped")
    app = opened(run)
    async with show(app) as page:
        await until(page, lambda: says(page, "✔ finished"))
        await press(page, "D", shows="Delete starter-finished?")
        await press(page, "d", shows="No run is shown.")
        assert not run.path.exists() and not says(page, "no longer exists") and not says(page, "queries it")
        answer_commands(monkeypatch, Finished("", "not writable"))
        await app.open_run(other)
        await until(page, lambda: says(page, "■ stopped"))
        await press(page, "D", shows="Delete starter-stopped?")
        await press(page, "d", shows="not writable")
        shutil.rmtree(other.path)
        await until(page, lambda: says(page, "No run is shown.", "no longer exists"))
