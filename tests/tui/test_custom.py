"""The user's own themes and keys: what app.toml changes, and what is said of a mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from contrastcli.files import user_file
from contrastcli.tui.app import ContrastApp, make_screen
from contrastcli.tui.custom import checked, commands, customise
from contrastcli.tui.screen import SCREENS
from support.screens import NARROW, show

MINE = """
[themes.mine]
primary = "#ff8800"
dark = false

[keys]
"app.leave" = "w"
"""


@pytest.fixture(autouse=True)
def without_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ContrastApp.MODES, "setup", Screen)


def write(text: str) -> None:
    path = user_file().with_name("app.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def shown_with(text: str, directory: Path, theme: str = "") -> tuple[ContrastApp, list[str], list[bool]]:
    """Run the app with this file, and return it, what it said, and whether it ran after each of the keys q and w."""
    write(text)
    app = ContrastApp(directory)
    app.remembered.theme = theme
    said: list[str] = []
    runs: list[bool] = []

    async def body(pilot: Pilot[None]) -> None:
        for key in "qw":
            await pilot.press(key)
            await pilot.pause()
            runs.append(not app._exit)
        said.extend(notification.message for notification in app._notifications)

    show(app, body, NARROW)
    return app, said, runs


def test_a_theme_and_a_key_are_the_users(tmp_path: Path) -> None:
    app, said, runs = shown_with(MINE, tmp_path, "mine")
    assert said == [] and runs == [True, False]  # w leaves, q does not
    assert app.theme == "mine" and app.current_theme.primary == "#ff8800" and not app.current_theme.dark


def test_a_key_of_another_command_is_refused_in_words_and_the_usual_key_stays(tmp_path: Path) -> None:
    _, said, runs = shown_with("[keys]\n'app.leave' = '?'", tmp_path)
    assert runs[0] is False and len(said) == 1
    assert "app.leave cannot be ?, the key of app.help\ngive one of them another key" in said[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[themes.mine]\nprimary = 'orangy'", "the theme mine"),
        ("[themes.mine]\nprimry = '#ff8800'", "there is no primry; did you mean 'primary'?"),
        ("[themes.mine]\naccent = '#ff8800'", "missing required field `primary`"),
        ("[keys]\n'app.leave' = 3", "Expected `str`, got `int`"),
        ("[keys", "is not TOML"),
        ("[keys]\n'app.leav' = 'w'", "there is no app.leav\ndid you mean 'app.leave'?"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_a_remedy(text: str, what: str, tmp_path: Path) -> None:
    write(text)
    app = ContrastApp(tmp_path)
    said = list(customise(app, lambda: [commands(app)]))
    assert len(said) == 1 and what in said[0] and "\n" in said[0]


def test_keys_are_checked_against_each_screen_and_may_be_exchanged() -> None:
    live = {"run.stop": "s", "live.zoom": "z", "app.leave": "q"}
    runs = {"run.stop": "s", "runs.select": "space", "app.leave": "q"}
    assert checked({"run.stop": "z", "live.zoom": "s"}, [live, runs]) == ({"run.stop": "z", "live.zoom": "s"}, [])
    assert checked({"live.zoom": "space"}, [live, runs])[1] == []
    keys, problems = checked({"run.stop": "space", "live.zoom": "s"}, [live, runs])
    assert keys == {} and len(problems) == 2  # s stays with run.stop, so that zoom cannot have it


def test_every_command_of_a_screen_has_a_name_of_its_own() -> None:
    names = commands(*(make_screen(mode) for mode in SCREENS))
    assert {"setup.start", "run.export", "live.pause-view", "evaluate.suites", "query.second-model"} <= set(names)
    assert commands(make_screen("live"))["run.delete"] == "D,delete,backspace"
    assert all(" " not in name for name in names)
