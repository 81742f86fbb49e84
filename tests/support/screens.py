"""The app in tests: shown at a size, waited for, read as text and compared with how it looked before."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.app import App
from textual.events import Paste
from textual.pilot import Pilot

from contrastcli.runs.directory import runs_dir
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.fields.choice_field import ChoiceList
from contrastcli.tui.setup.form import SettingRow
from contrastcli.tui.setup.screen import SetupScreen

Page = Pilot[None]
NARROW, WIDE = (80, 24), (140, 45)
"""Columns and rows: panels are stacked in the first and side by side in the second."""
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])

_GOLDEN = Path(__file__).parents[1] / "tui" / "golden"
_RENEW = os.environ.get("CONTRAST_GOLDEN") == "write"  # read before a fixture clears the environment


@asynccontextmanager
async def show(app: App[None], size: tuple[int, int] = WIDE) -> AsyncIterator[Pilot[None]]:
    """Run the app without a terminal during the body."""
    async with app.run_test(size=size, notifications=True) as pilot:
        yield pilot
        working = [worker.wait() for worker in app.workers]
        app.exit()  # what leaving does before it closes the screens
        # Their processes end with them, not in a later test.
        await asyncio.gather(*working, return_exceptions=True)


@asynccontextmanager
async def setting_up(
    size: tuple[int, int] = WIDE, typed: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Page, SetupScreen]]:
    """Show Setup, with these settings or those that it remembers, once it says whether it can start."""
    app = ContrastApp(runs_dir(None))
    if typed:
        app.project.draft = "starter", dict(typed)
    async with show(app, size) as pilot:
        screen = app.screen
        assert isinstance(screen, SetupScreen)
        await until(pilot, lambda: says(pilot, "ready:") or says(pilot, "cannot start"))
        yield pilot, screen


async def until(pilot: Pilot[None], condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Let the app run until a condition holds; fails with what the screen shows if it never does."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while not condition():
        assert clock() < end, f"the condition does not hold after {seconds} s:\n{screen_text(pilot.app)}"
        await pilot.pause(0.05)


async def press(
    pilot: Pilot[None], *keys: str, shows: str | tuple[str, ...] = (), then: Callable[[], object] = lambda: True
) -> None:
    """Press keys, and let the app run until the screen shows all of this, wherever its lines end, and `then` holds."""
    words = (shows,) if isinstance(shows, str) else shows
    await pilot.press(*keys)
    await until(pilot, lambda: says(pilot, *words) and then())


async def paste(pilot: Pilot[None], text: str) -> None:
    """Let the terminal paste a text where the focus is, which is drawn once and not after each letter."""
    pilot.app.post_message(Paste(text))
    await pilot.pause()


async def open_list(pilot: Pilot[None], key: str) -> None:
    """Open a list by its key."""
    await press(pilot, key, then=lambda: isinstance(pilot.app.screen, ChoiceList))


async def choose(pilot: Pilot[None], key: str, name: str) -> None:
    """Choose from the list that a key opens."""
    await open_list(pilot, key)
    await pilot.press("ctrl+u")
    await paste(pilot, name)
    await press(pilot, "enter", then=lambda: not isinstance(pilot.app.screen, ChoiceList))


async def settled(pilot: Pilot[None]) -> str:
    """What the screen shows, once it stays the same."""
    before = ""
    while (text := screen_text(pilot.app)) != before:
        before = text
        await pilot.pause(0.1)
    return text


def screen_text(app: App[None]) -> str:
    """What the screen shows, as plain text without trailing spaces."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def says(pilot: Pilot[None], *words: str) -> bool:
    """Whether the screen shows all of it, wherever its lines end."""
    text = " ".join(re.sub("[│┃▁-█]", " ", screen_text(pilot.app)).split())
    return all(word in text for word in words)


def row(pilot: Pilot[None], key: str) -> SettingRow:
    """The row of a setting, in Setup."""
    return next(row for row in pilot.app.screen.query(SettingRow) if row.field.setting.key == key)


def footer(pilot: Pilot[None]) -> str:
    return screen_text(pilot.app).splitlines()[-1]


def check_golden(name: str, text: str) -> None:
    """Compare with tests/tui/golden/NAME.txt. CONTRAST_GOLDEN=write writes it again: look at the difference."""
    path = _GOLDEN / f"{name}.txt"
    if _RENEW:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing; CONTRAST_GOLDEN=write writes it"
    assert text == path.read_text(encoding="utf-8"), f"not as in {path}; CONTRAST_GOLDEN=write writes it again\n{text}"
