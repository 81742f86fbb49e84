"""Names, settings and events with control characters and markup: every screen shows them as text."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from contrastcli.boundary import CONTROLS
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Note, Progress, Saved, Started
from contrastcli.runs.results import Preview
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.dialogs import Prompt, Question
from contrastcli.tui.processes import Finished
from support.commands import Commands
from support.recorded import append, recorded
from support.screens import screen_text, settled, show, until

HOSTILE = "\x1b[31m[red]b[/red]\x1b]0;t\x07\r\b\x9b2J\u202e\u200e\u200f\u061c"


@pytest.fixture
def run(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose name, settings and events are hostile, the only one in runs/."""
    monkeypatch.chdir(tmp_path)
    rows = [{"anchor": HOSTILE, "positive": HOSTILE}]
    preview = Preview({}, rows, (HOSTILE,), 9, 9, 9, 9, 9, 0, None)
    commands.answer = lambda directory, words: Finished(msgspec.json.encode(preview).decode())
    made = recorded(Path("runs"), "failed", data__train=HOSTILE)
    started = next(event for event in made.events() if isinstance(event, Started))
    append(made, replace(started, backbone=HOSTILE, objective=HOSTILE, device=HOSTILE, resumed_from=300))
    append(made, Note(step=9, text=HOSTILE), Saved(step=9, checkpoint=HOSTILE, best=True))
    append(made, Progress(step=9, what=HOSTILE, done=1, total=2))
    append(made, Done(step=350, status="failed", code=1, message=HOSTILE, hint=HOSTILE))
    made.path.rename(made.path.with_name(HOSTILE.replace("/", "|")))
    return Run(made.path.with_name(HOSTILE.replace("/", "|")))


SCREENS: list[tuple[Callable[[ContrastApp, Run], object], int]] = [
    (lambda app, run: None, 4),
    (lambda app, run: app.switch_mode("setup"), 3),
    (lambda app, run: app.switch_mode("runs"), 2),
    (lambda app, run: app.open_run(run, "evaluate"), 1),
    (lambda app, run: app.open_run(run, "query"), 1),
    (lambda app, run: app.push_screen(Question(HOSTILE, {"y": "yes"})), 1),
    (lambda app, run: app.push_screen(Prompt(HOSTILE, HOSTILE)), 2),
    (lambda app, run: app.fail(HOSTILE), 2),
]
"""What is opened one after the other, Live first, and how often it shows the text."""


async def test_every_screen_shows_hostile_text_as_text(run: Run) -> None:
    app = ContrastApp(Path("runs"), run)
    async with show(app) as pilot:
        await until(pilot, lambda: "failed  [31m[red]" in screen_text(app))
        for open_screen, times in SCREENS:
            opened = open_screen(app, run)
            if asyncio.iscoroutine(opened):
                await opened
            await until(pilot, lambda: screen_text(app).count("[red]b[") >= times)  # noqa: B023
            text = await settled(pilot)
            assert not CONTROLS.search(text.replace("\n", "")), repr(text)
            if app.screen.is_modal:
                await pilot.press("escape")
