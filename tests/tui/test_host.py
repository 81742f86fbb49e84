"""The app on the runs of another machine: it says so, acts there, and takes nothing of this one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from contrastcli.runs.host import Host
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.fields.model_field import ModelField
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup import dry_run_panel
from support.commands import answer_commands
from support.recorded import recorded
from support.screens import NARROW, screen_text, show, until

BOX = Host("ann@box", "project", directory="/home/ann/project/runs")


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dry_run_panel, "PAUSE_SECONDS", 60)  # no dry run
    Path("contrast.toml").write_text("train.lr = 7e-3\n")
    Path("mirror").mkdir()
    BOX.save(Path("mirror"))
    return Path("mirror")


def test_it_names_the_machine_and_says_when_it_is_cut_off(mirror: Path) -> None:
    run = recorded(mirror, "running")

    async def body(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "⇄ ann@box" in screen_text(pilot.app))
        replace(BOX, problem="cut off, retry in 2 s: no route to host").save(mirror)
        await until(pilot, lambda: "⇄ cut off, retry in 2 s: no ro" in screen_text(pilot.app).splitlines()[0])

    show(ContrastApp(mirror, run), body, NARROW)


def test_runs_are_stopped_noted_and_deleted_there(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = answer_commands(monkeypatch, Finished(0, "", ""))
    run, old = recorded(mirror, "running", "new"), recorded(mirror, "stopped", "old")

    async def body(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "s stop" in screen_text(pilot.app))
        await pilot.press("s")
        await until(pilot, lambda: "Stop new?" in screen_text(pilot.app))
        await pilot.press("s")
        await until(pilot, lambda: len(commands.calls) == 1)
        await pilot.app.open_run(old)  # type: ignore[attr-defined]
        await until(pilot, lambda: "Stopped and saved" in screen_text(pilot.app))
        await pilot.press("n")
        await pilot.press(*"odd", "enter")
        await until(pilot, lambda: len(commands.calls) == 2)
        await pilot.press("D")
        await until(pilot, lambda: "Delete old?" in screen_text(pilot.app))
        await pilot.press("d")
        await until(pilot, lambda: len(commands.calls) == 3)

    show(ContrastApp(mirror, run), body)
    new_path, old_path = str(run.path.resolve()), str(old.path.resolve())
    stopped, noted = ("stop", "--wait", "0", "--", new_path), ("runs", "note", "--", old_path, "odd")
    assert commands.calls == [stopped, noted, ("runs", "rm", "--yes", "--", old_path)]
    assert not run.stop_path.exists() and not old.note_path.exists() and old.exists(), (
        "only the stream changes the copy"
    )


def test_setup_starts_there_with_its_settings_and_shows_the_new_run(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = answer_commands(monkeypatch, Finished(0, "/home/ann/project/runs/new\n", ""))
    commands.held.clear()

    async def body(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "ssh ann@box 'cd project &&" in screen_text(pilot.app))
        assert "0.007" not in screen_text(pilot.app), "contrast.toml of this machine does not count there"
        await pilot.press("s")
        await until(pilot, lambda: "starting…" in screen_text(pilot.app))
        commands.held.set()
        await pilot.pause(0.2)
        recorded(mirror, "running", "new")  # the stream brings it a moment later
        await until(pilot, lambda: "● running 350/600" in screen_text(pilot.app))

    show(ContrastApp(mirror), body)
    assert commands.calls[-1] == ("train", "--preset", "starter", "--detach")


def test_scores_of_a_model_there_are_shown(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    means = {"spearman": 63.81, "pearson": 60.0}
    sts = {"STS12": {"pairs": 3108, "expected": 3108, "all": means, "mean": means, "wmean": means, "partial": False}}
    document = {"model": "starter", "suites": {"sts": sts | {"average": None, "protocol": "cosine"}}}
    answer_commands(monkeypatch, Finished(0, json.dumps(document), ""))

    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await until(pilot, lambda: "none yet" in screen_text(pilot.app))
        pilot.app.screen.query_one(ModelField).choose("starter")
        await pilot.press("s")
        await until(pilot, lambda: "63.81" in screen_text(pilot.app))

    show(ContrastApp(mirror), body)
