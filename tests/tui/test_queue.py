"""The queue in the app: a run that waits, and one that is put behind it."""

from pathlib import Path

import msgspec
import pytest

from contrastcli.runs.events import Queued
from contrastcli.runs.status import this_process
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup import dry_run_panel
from support.commands import answer_commands
from support.recorded import append, recorded
from support.screens import NARROW, press, screen_text, show, until


async def test_a_queued_run_is_shown_and_another_is_put_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run_panel, "PAUSE_SECONDS", 60)  # no dry run
    monkeypatch.chdir(tmp_path)
    run = recorded(Path("runs"), "empty", "waiting")
    append(run, Queued(step=0, behind="first"))
    run.alive_path.write_bytes(msgspec.json.encode(this_process()))
    commands = answer_commands(monkeypatch, Finished(f"{run.path}\n"))
    async with show(ContrastApp(Path("runs"), run), NARROW) as pilot:
        await until(pilot, lambda: "waits for the end of first" in screen_text(pilot.app))
        await until(pilot, lambda: "s stop" in screen_text(pilot.app))
        assert "◔ queued  waiting" in screen_text(pilot.app)
        await press(pilot, "1", shows="starter ▾")
        await pilot.press("a")
        await until(pilot, lambda: commands.calls)
    assert commands.calls == [("train", "--preset", "starter", "--detach", "--after", "last")]
