"""Keys that arrive together, as from a paste or after a stalled connection: what they do, and what they do not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from contrastcli.tui.app import ContrastApp
from contrastcli.tui.dialogs import Question
from contrastcli.tui.processes import Finished
from support.commands import Commands, answer_commands
from support.recorded import recorded
from support.screens import screen_text, show, until


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return answer_commands(monkeypatch, Finished("", "no dry run"))


@asynccontextmanager
async def opened(place: Path) -> AsyncIterator[Pilot[None]]:
    """Show the app on a runs directory, with the gap between keys that it has for its users."""
    app = ContrastApp(place)
    gap = app.keys.gap
    async with show(app) as pilot:
        app.keys.gap = gap
        yield pilot


def send(pilot: Pilot[None], text: str) -> None:
    """Let the terminal send all of this at once."""
    names = {"/": "slash", "\n": "enter", " ": "space"}
    for character in text:
        pilot.app.post_message(Key(names.get(character, character), character))


async def test_pasted_words_do_not_start_train_or_leave(tmp_path: Path, commands: Commands) -> None:
    async with opened(tmp_path) as pilot:
        await until(pilot, lambda: "no dry run" in screen_text(pilot.app))
        send(pilot, "squares\nq")
        await pilot.pause(0.5)
        assert pilot.app.is_running and "Setup" in screen_text(pilot.app)
        await pilot.press("q")
        await until(pilot, lambda: pilot.app.return_code == 0)
    assert not any("--detach" in words for words in commands.calls), "s did not start a training"


async def test_what_is_typed_ahead_reaches_the_field_that_its_first_key_opens(
    tmp_path: Path, commands: Commands
) -> None:
    recorded(tmp_path, "stopped")
    recorded(tmp_path, "finished")
    async with opened(tmp_path) as pilot:
        send(pilot, "3/stopped q")
        await until(pilot, lambda: "stopped q" in [field.value for field in pilot.app.screen.query(Input)])
        assert pilot.app.is_running


async def test_text_does_not_answer_a_question(tmp_path: Path, commands: Commands) -> None:
    run = recorded(tmp_path, "stopped")
    async with opened(tmp_path) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "stopped" in screen_text(pilot.app))
        await pilot.press("D")
        await until(pilot, lambda: isinstance(pilot.app.screen, Question))
        send(pilot, "odd")
        await pilot.pause(0.5)
        assert isinstance(pilot.app.screen, Question)
    assert run.exists()


async def test_a_key_that_is_held_down_repeats_its_command(tmp_path: Path, commands: Commands) -> None:
    for kind in ("stopped", "finished"):
        recorded(tmp_path, kind)
    async with opened(tmp_path) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "newest first" in screen_text(pilot.app))
        send(pilot, "oo")
        await until(pilot, lambda: "by state" in screen_text(pilot.app))
