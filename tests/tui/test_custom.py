"""The user's own themes and keys: what app.toml changes, and what is said of a mistake in it."""

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import contrastcli
from contrastcli.files import user_file
from contrastcli.runs.directory import list_runs
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.custom import customise
from support.packages import bring_objective
from support.recorded import recorded
from support.screens import NARROW, settled, show, until

pytestmark = pytest.mark.usefixtures("without_setup")


def write(text: str) -> None:
    path = user_file().with_name("app.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def shown_with(text: str, directory: Path, theme: str = "") -> tuple[ContrastApp, list[str], list[bool]]:
    """Run the app with this file, and return it, what it said, and whether it ran after each of the keys q and Q."""
    write(text)
    app = ContrastApp(directory, next(iter(list_runs(directory)), None))
    app.remembered.theme = theme
    said: list[str] = []
    runs: list[bool] = []
    async with show(app, NARROW) as pilot:
        for key in "qQ":
            await pilot.press(key)
            await pilot.pause()
            runs.append(app.return_code is None)
        said.extend(notification.message for notification in app._notifications)
    return app, said, runs


async def test_an_objective_that_cannot_be_loaded_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_objective(monkeypatch, "wrong", Mock(side_effect=SystemExit(0)))
    # As Textual's, which has no encoding.
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=len, flush=list))
    _, said, runs = await shown_with("", tmp_path)
    assert runs == [False, False] and len(said) == 1
    assert said[0].startswith("'wrong' of contrast.objectives") and said[0].endswith("pip uninstall wrong:SPEC")


async def test_charts_are_drawn_on_a_background_that_is_transparent(tmp_path: Path) -> None:
    write("[themes.mine]\nprimary = 'red'\nbackground = 'transparent'")
    app = ContrastApp(tmp_path, recorded(tmp_path, "finished"))
    app.remembered.theme, app.remembered.zoomed = "mine", "histogram"
    async with show(app) as pilot:
        await until(pilot, lambda: any(not chart.picture.empty for chart in app.screen.query(ChartView)))
        await settled(pilot)


async def test_the_theme_and_the_keys_of_the_file_in_the_help_are_the_users(tmp_path: Path) -> None:
    text = Path(contrastcli.__file__).with_name("help").joinpath("app.txt").read_text("utf-8")
    example = "".join(line[4:] for line in text[text.index("    [themes") :].splitlines(True) if line.startswith(" "))
    recorded(tmp_path, "finished")
    app, said, runs = await shown_with(f"{example}'mode.runs' = 'R'", tmp_path, "mine")
    assert "run.delete" in example and said == [] and runs == [True, False]  # Q leaves, q does not
    assert app.theme == "mine" and f'primary = "{app.current_theme.primary}"' in example and not app.current_theme.dark


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[themes.mine]\nprimary = 'orangy'", "the theme mine"),
        ("[themes.mine]\nprimry = '#ff8800'", "there is no primry; did you mean 'primary'?"),
        ("[themes.mine]\nprimary = 'red'\nluminosity_spread = -5e300", "the theme mine"),
        ("[themes.mine]\naccent = '#ff8800'", "missing required field `primary`"),
        ("[keys]\n'app.leave' = 3", "Expected `str`, got `int`"),
        ("[keys", "is not TOML"),
        ("[keys]\n'app.leav' = 'w'", "there is no app.leav\ndid you mean 'app.leave'?"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_a_remedy(text: str, what: str, tmp_path: Path) -> None:
    write(text)
    app = ContrastApp(tmp_path)
    said = list(customise(app, app.command_names))
    assert len(said) == 1 and what in said[0] and "\n" in said[0]


def test_every_command_has_a_name_for_the_users_keys(tmp_path: Path) -> None:
    names = ContrastApp(tmp_path).command_names()
    assert {"setup.start", "run.export", "live.pause-view", "evaluate.suites", "query.second-model"} <= names
    assert all(" " not in name for name in names)
