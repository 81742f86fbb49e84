"""The screen Evaluate, with a stand-in for the command that measures."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Checkbox, Static

from contrastcli.evaluation.suites import STS as STS_SUITE
from contrastcli.model.locate import ModelRef
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Progress
from contrastcli.tui import state
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.fields.model_field import NO_MODEL, ModelField, list_models
from contrastcli.tui.processes import Finished
from support.commands import Answer, Commands, answer_commands
from support.recorded import recorded
from support.screens import NARROW, SIZES, WIDE, check_golden, choose, press, says, screen_text, settled, show, until

STS_TASKS = STS_SUITE.tasks
STS: dict[str, Any] = {
    "STS12": {
        "pairs": 3108,
        "expected": 3108,
        "all": {"spearman": 63.812, "pearson": 73.5},
        "mean": {"spearman": 60.0, "pearson": 61.0},
        "wmean": {"spearman": 59.05, "pearson": 60.0},
        "partial": False,
    },
    "average": None,
    "partial": True,
    "missing": {
        "STS13": {"what": "there is no file STS13", "hint": "unpack the archive"},
        "STS14": {"what": "there is no file STS14", "hint": "unpack the archive"},
    },
    "protocol": "cosine of the mean, over 3,108 pairs",
}
GEOMETRY = {
    "STS-B": {
        "split": "dev",
        "pairs": 4,
        "sentences": 40,
        "alignment": 0.25,
        "uniformity": -2.5,
        "positive": 31.0,
        "negative": 85.0,
        "positive_histogram": [0] * 6 + [3, 1] + [0] * 28,
        "negative_histogram": [0] * 16 + [5, 5, 10] + [0] * 17,
        "pca": [[0.1 * n, 0.01 * n * n] for n in range(-9, 10)],
        "explained": [0.25, 0.125],
    },
    "protocol": "random pairs",
}


def write(run: Path, **suites: Any) -> None:
    """Write the scores of a run."""
    (run / "scores.json").write_text(json.dumps({"suites": suites}))


def measuring(error: str = "", **suites: Any) -> Answer:
    """`contrast eval` on a run, which leaves these scores."""

    def answer(directory: Path, words: tuple[str, ...]) -> Finished:
        if suites:
            write(directory / words[1], **suites)
        return Finished("", error)

    return answer


pytestmark = pytest.mark.usefixtures("without_setup")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The commands that the screen runs."""
    commands = answer_commands(monkeypatch, measuring(sts=STS | {"missing": {}}))
    commands.progress = [Progress(step=0, what="encoding", done=done, total=400) for done in (100, 200)]
    commands.progress.append(Progress(step=0, what="MR", done=3, total=10))
    return commands


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A runs directory with one run that was not measured yet."""
    recorded(tmp_path, "finished", "one-run")
    return tmp_path


@asynccontextmanager
async def opened(app: ContrastApp, size: tuple[int, int] = WIDE) -> AsyncIterator[Pilot[None]]:
    """Show Evaluate, and go on once it knows the run."""
    async with show(app, size) as pilot:
        await press(pilot, "4", then=lambda: "has not been evaluated" in texts(pilot) or "STS12" in texts(pilot))
        await until(pilot, lambda: "one-run" in screen_text(pilot.app))
        yield pilot


def texts(pilot: Pilot[None]) -> str:
    """All words of the screen, those that are scrolled away included."""
    return "\n".join(str(part.content) for part in pilot.app.screen.query(Static) if part.display)


@SIZES
async def test_a_suite_is_measured_with_progress_and_its_result_is_shown(
    place: Path, commands: Commands, size: tuple[int, int]
) -> None:
    async with opened(ContrastApp(place), size) as pilot:
        commands.held.clear()
        await press(pilot, "s", then=lambda: "MR  3 of 10" in texts(pilot))
        assert "encoding  200 of 400" in texts(pilot)
        assert "100 of 400" not in texts(pilot), "a bar for each work"
        if size == NARROW:
            check_golden("evaluate-narrow", await settled(pilot))
        commands.held.set()
        await until(pilot, lambda: "63.81" in texts(pilot))
        assert "Done." in texts(pilot)
        await pilot.press("y")
        assert "63.81" in pilot.app.clipboard
        pilot.app.screen.query_one("#model", ModelField).choose("starter")
        await until(pilot, lambda: "Done." not in texts(pilot))
    assert commands.calls == [("eval", "one-run", "--suite", "sts", "--json")]


async def test_suites_folder_and_pooling_are_passed_on_and_remembered(place: Path, commands: Commands) -> None:
    async with opened(ContrastApp(place)) as pilot:
        await pilot.press("t")
        assert pilot.app.focused is pilot.app.screen.query_one("#sts")
        await pilot.press("down", "space", "down", "up", "up", "space")
        assert [box.id for box in pilot.app.screen.query(Checkbox) if box.value] == ["transfer"], (
            "sts was ticked before"
        )
        await pilot.press("up")
        assert pilot.app.focused is pilot.app.screen.query_one("#mteb"), "and round"
        pilot.app.screen.query_one("#geometry", Checkbox).value = True
        # Of a user who is not known: such a path is passed on as it is.
        await choose(pilot, "d", "~nobody-here/data dir")
        await pilot.press("escape")
        await choose(pilot, "p", "cls")
        await until(pilot, lambda: says(pilot, "Pooling cls ▾"))
        await press(pilot, "s", then=lambda: commands.calls)
    expected = ("eval", "one-run", "--suite", "transfer,geometry", "--data-dir", "~nobody-here/data dir")
    assert commands.calls == [(*expected, "--pooling", "cls", "--json")]
    assert state.load().project(place).suites == ("transfer", "geometry")
    assert state.load().project(place).data_dir == "~nobody-here/data dir"


async def test_a_file_of_ones_own_is_chosen_with_its_columns(place: Path, commands: Commands) -> None:
    roles = "anchor=title,positive=body"
    app = ContrastApp(place)
    async with opened(app) as pilot:
        assert "Own data" not in screen_text(pilot.app)
        own = pilot.app.screen.query_one("#own", Checkbox)
        own.value = True
        await until(pilot, lambda: "Own data  none chosen ▾" in screen_text(pilot.app))
        await press(pilot, "s", then=lambda: "Choose your own data first: f" in texts(pilot))
        own.value = False  # a choice ticks it
        app.project.keep_roles("~nobody-here/faq.csv", roles)
        await choose(pilot, "f", "~nobody-here/faq.csv")
        await until(pilot, lambda: "/faq.csv ▾" in screen_text(pilot.app) and f"{roles} ▾" in screen_text(pilot.app))
        assert "Choose your own data" not in texts(pilot)
        await press(pilot, "escape", "s", then=lambda: commands.calls)
    expected = ("eval", "one-run", "--suite", "sts,own", "--data", "~nobody-here/faq.csv")
    assert commands.calls == [(*expected, "--columns", roles, "--json")]
    remembered = state.load().project(place)
    assert (remembered.own_data, remembered.roles_of(remembered.own_data)) == ("~nobody-here/faq.csv", roles)
    (place / "circle.csv").symlink_to("circle.csv")
    assert remembered.roles_of(str(place / "circle.csv")) == ""


async def test_rows_appear_as_they_are_measured_also_by_another_process_and_stay_after_a_stop(
    place: Path, commands: Commands
) -> None:
    measured = {"STS12": STS["STS12"], "STS13": {"all": {"spearman": 70.188}, "pairs": 1500}}
    head: dict[str, object] = {"average": None, "partial": True, "missing": {}, "protocol": "p"}
    async with opened(ContrastApp(place)) as pilot:
        assert "x stop" not in screen_text(pilot.app)
        commands.held.clear()
        await press(pilot, "s", shows="x stop")
        for name, said in (("starter", "has not been evaluated here"), ("one-run", "A row appears here as soon as")):
            pilot.app.screen.query_one("#model", ModelField).choose(name)
            await until(pilot, lambda: said in texts(pilot))  # noqa: B023
            assert "one-run: encoding  200 of 400" in texts(pilot), "whichever model is shown"
        for done in (1, 2):
            entries = dict(list(measured.items())[:done])
            write(place / "one-run", sts={**entries, **head, "pending": list(STS_TASKS)[done:]})
            await until(pilot, lambda: f"  {done} of 7" in texts(pilot))  # noqa: B023
        assert "STS14" in texts(pilot) and texts(pilot).count("pending") == 5
        assert "67.00" in texts(pilot), "the average of those that are measured"
        await press(pilot, "x", then=lambda: "Stopped. What was measured is kept" in texts(pilot))
        await until(pilot, lambda: "s start" in screen_text(pilot.app))
        assert "70.19" in texts(pilot)
    assert commands.cancelled == commands.calls


@SIZES
async def test_a_mark_at_the_end_of_a_wide_table_is_read_with_a_key(place: Path, size: tuple[int, int]) -> None:
    task = STS["STS12"] | {"pairs": 300, "partial": True}
    write(place / "one-run", sts=STS | {"STS12": task})
    async with opened(ContrastApp(place), size) as pilot:
        await until(pilot, lambda: "63.81" in texts(pilot))
        await press(pilot, "end", shows="STS13")
        assert "partial, of 3,108" not in screen_text(pilot.app), "else this shows nothing"
        await press(pilot, "right", shows="partial, of 3,108")
        await press(pilot, "left", then=lambda: "partial, of 3,108" not in screen_text(pilot.app))


async def test_scores_of_a_folder_and_of_another_pooling_are_kept_apart(place: Path, tmp_path: Path) -> None:
    ref, other = ModelRef(str(tmp_path)), ModelRef("run", Run(place / "one-run"))
    paths = {ref.scores_path(), ref.scores_path("cls"), other.scores_path(), other.scores_path("cls")}
    assert len(paths) == 4 and other.scores_path() == other.run.scores_path  # type: ignore[union-attr]
    ref.scores_path("cls").parent.mkdir(parents=True)
    ref.scores_path("cls").write_text(json.dumps({"suites": {"sts": STS}}))
    async with opened(ContrastApp(place)) as pilot:
        await choose(pilot, "m", str(tmp_path))
        await choose(pilot, "p", "cls")
        results = pilot.app.screen.query_one("#results")
        await until(pilot, lambda: f"Results of {tmp_path}, pooling cls" in str(results.border_title))
        assert "63.81" in texts(pilot)


async def test_the_end_of_an_evaluation_leaves_the_results_of_another_model_where_they_are(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = answer_commands(monkeypatch, measuring(sts=STS))
    commands.held.clear()
    async with opened(ContrastApp(place), NARROW) as pilot:
        await press(pilot, "s", shows="x stop")
        await choose(pilot, "m", "starter")
        commands.held.set()
        await until(pilot, lambda: "one-run: Done." in texts(pilot))
        assert pilot.app.screen.query_one("#evaluate").scroll_y == 0


async def test_an_error_is_shown_next_to_what_was_measured_and_one_can_start_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, missing = "not measured: STS13\nhint: unpack the archive", "Not measured: STS13, STS14. To get what is"
    commands = answer_commands(monkeypatch, measuring(error, sts=STS))
    async with opened(ContrastApp(place)) as pilot:
        for count in (1, 2):
            await press(pilot, "s", then=lambda: len(commands.calls) == count)  # noqa: B023
            await until(pilot, lambda: all(text in texts(pilot) for text in (error, "63.81", missing)))


@SIZES
async def test_what_was_measured_before_shows_at_once_with_its_pictures_and_is_scrolled_by_keys(
    place: Path, commands: Commands, size: tuple[int, int]
) -> None:
    write(place / "one-run", geometry=GEOMETRY, sts=STS)
    async with opened(ContrastApp(place), size) as pilot:
        await until(pilot, lambda: "-2.50" in texts(pilot))
        assert texts(pilot).index("63.81") < texts(pilot).index("-2.50"), "suites in their usual order"
        assert pilot.app.focused is None
        await press(pilot, "end", shows="PCA, 38 %")
        assert "random pairs" in screen_text(pilot.app) or size == NARROW
        if size == WIDE:
            check_golden("evaluate-wide", await settled(pilot))
        await pilot.press("home", "pagedown", "pageup")
        await until(pilot, lambda: "STS12" in screen_text(pilot.app) or size == NARROW)
        await until(pilot, lambda: "Suites" in screen_text(pilot.app))
    assert not commands.calls


@pytest.mark.skipif(sys.platform != "linux", reason="a stand-in for xdg-open")
@pytest.mark.parametrize("ssh", [False, True])
async def test_the_pictures_open_in_the_viewer_of_the_system_or_their_path_is_said(
    place: Path, ssh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    write(place / "one-run", geometry=GEOMETRY)
    tools = place / "tools"
    tools.mkdir()
    opened = tools / "opened"
    (tools / "xdg-open").write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    (tools / "xdg-open").chmod(0o755)
    for name, value in {"PATH": f"{tools}:{os.environ['PATH']}", "DISPLAY": ":0", "CONTRAST_CACHE": str(tools)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SSH_CONNECTION", "there") if ssh else monkeypatch.delenv("SSH_CONNECTION", raising=False)
    folder = tools / "pictures" / "one-run"
    async with show(ContrastApp(place), WIDE) as pilot:
        await press(pilot, "4", shows="PCA, 38 %")
        await pilot.press("o")
        where = f"The pictures are in {folder}." if ssh else f"Opened the pictures in {folder}."
        await until(pilot, lambda: [told.message for told in pilot.app._notifications] == [where])
        if not ssh:
            await until(pilot, lambda: opened.exists() and len(opened.read_text().splitlines()) == 2)
    assert {path.name for path in folder.iterdir()} >= {"angles.png", "angles.svg", "pca.png", "pca.svg"}
    assert opened.exists() != ssh and all(map(os.path.exists, opened.read_text().splitlines() if not ssh else ()))


async def test_another_screen_chooses_the_model_by_its_path_where_its_name_means_another(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded(place / "other", "finished", "one-run").path.parent)
    other, run = recorded(place, "stopped", "a-other-run"), Run(place / "one-run")
    write(other.path, sts=STS)
    app = ContrastApp(place)
    async with show(app) as pilot:
        await app.open_run(other, "evaluate")
        await until(pilot, lambda: "Results of a-other-run" in screen_text(app))
        await until(pilot, lambda: "63.81" in texts(pilot))
        await app.open_run(run, "evaluate")
        await until(pilot, lambda: "63.81" not in texts(pilot))
        assert "This model has not been evaluated here" in texts(pilot)
        assert app.screen.query_one("#model", ModelField).value == str(run.path)
    assert (str(run.path), "a run here") in list_models(place)


async def test_without_a_suite_or_a_model_it_says_what_is_needed(
    tmp_path: Path, place: Path, commands: Commands
) -> None:
    async with opened(ContrastApp(place), NARROW) as pilot:
        await press(pilot, "t", "space", "s", then=lambda: "Tick a suite first" in texts(pilot))
    async with show(ContrastApp(tmp_path / "none"), NARROW) as pilot:
        await press(pilot, "4", then=lambda: NO_MODEL in texts(pilot))
        await pilot.press("s")
        assert "Press 1" in texts(pilot)
    assert not commands.calls
