"""Runs, and what the app remembers, with any value in any place: other runs, lists and the app are as they were."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from contrastcli.files import state_dir
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Alert, Note, Queued, encode
from contrastcli.runs.measured import System
from contrastcli.tui import state
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.state import Project, State
from support.command import Contrast
from support.damage import HUGE, VALUES
from support.recorded import append, recorded
from support.screens import screen_text, settled, show, until

SIZES: tuple[object, ...] = ([1] * 35, [1] * 37, [2**60] * 36, [-1] * 36, 2**63 - 1, 2**53, -1e-3, 1e39, 1e11)
"""What was too much for a chart or the clock, more than VALUES has."""


def one_of_each(run: Run) -> list[Event]:
    """An event of every kind, the last of each that the run has."""
    more = [
        Queued(step=0, behind="other"),
        System(step=9, gpu=1.0, gpu_power=1.0, cpu=1.0, memory=1.0, disk_free=1.0),
        Alert(step=9, rule="disk", text="full", hint="make room"),
    ]
    return [*{event.kind(): event for event in [*more, *run.events()]}.values()]


def variants(value: object) -> Iterator[object]:
    """A JSON value with one place in turn replaced by each of the values, and of a list's items only in the first."""
    yield from (other for other in (*VALUES, *SIZES) if other != HUGE)
    if isinstance(value, dict):
        for key in value:
            yield from ({**value, key: other} for other in variants(value[key]))
    elif isinstance(value, list) and value:
        yield from ([other, *value[1:]] for other in variants(value[0]))


def damaged_lines(events: list[Event]) -> list[bytes]:
    """Every event with each of its values in turn replaced."""
    return [
        json.dumps(other).encode("utf-8", "surrogatepass") + b"\n"
        for event in events
        for other in variants(json.loads(encode(event)))
        if isinstance(other, dict) and len(json.dumps(other)) < 3_000
    ]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with a whole run, and one whose events are followed by all damaged ones."""
    recorded(tmp_path, "finished", "whole")
    run = recorded(tmp_path, "running", "damaged")
    events = one_of_each(run)
    with open(run.events_path, "ab") as file:
        file.writelines(damaged_lines(events))
    return tmp_path


def test_no_line_of_events_harms_a_command_or_another_run(runs: Path, contrast: Contrast) -> None:
    whole = Run(runs / "whole").status()
    words: tuple[tuple[str, ...], ...] = (
        *(("runs",), ("runs", "list", "--json"), ("runs", "show", "damaged"), ("runs", "show", "whole")),
        *(("compare", "damaged", "whole"), ("compare", "damaged", "whole", "--json"), ("runs", "prune")),
    )
    for command in words:
        answer = contrast("--runs-dir", runs, *command)
        assert answer.code == 0, answer
    assert "broken" not in contrast("--runs-dir", runs, "runs").out
    assert Run(runs / "whole").status() == whole


def test_a_start_with_any_numbers_leaves_the_list_whole(tmp_path: Path, contrast: Contrast) -> None:
    recorded(tmp_path, "stopped", "whole")
    damaged = {
        f"{key}={value:g}": {key: value}
        for key in ("pid", "process_start", "step", "time", "steps")
        for value in (-1, 2**31, 2**63, 1e300)
    }
    for name, change in damaged.items():
        run = recorded(tmp_path, "killed", name)
        lines = [json.loads(line) for line in run.events_path.read_bytes().splitlines()]
        run.events_path.write_text("".join(json.dumps(line | change) + "\n" for line in lines))
    listed = json.loads(contrast("--runs-dir", tmp_path, "runs", "list", "--json").out)
    states = {one["name"]: one["state"] for one in listed}
    assert states["whole"] == "stopped" and states.keys() == {"whole", *damaged}
    assert contrast("--runs-dir", tmp_path, "runs", "prune").code == 0


def test_a_run_that_cannot_be_read_is_named_after_the_others_are_pruned(tmp_path: Path, contrast: Contrast) -> None:
    bad, good = (recorded(tmp_path, "finished", name) for name in ("bad", "good"))
    bad.events_path.unlink()
    bad.events_path.mkdir()
    answer = contrast("--runs-dir", tmp_path, "runs", "prune")
    assert answer.code == 3 and "events.jsonl is a folder" in answer.err
    assert not (good.checkpoint("last") / "training").exists()
    assert "broken" in contrast("--runs-dir", tmp_path, "runs").out


async def test_no_line_of_events_ends_the_app(runs: Path) -> None:
    run = Run(runs / "damaged")
    append(run, Note(step=600, text="the end of the file"))
    app = ContrastApp(runs, run)
    async with show(app) as pilot:
        await until(pilot, lambda: "the end of the file" in screen_text(app))
        for key in ("left", "h", "l", "a", "a", "a", "3", "2"):
            await pilot.press(key)
            await settled(pilot)
        await app.open_run(Run(runs / "whole"), "live")
        await until(pilot, lambda: "step 600 of 600" in screen_text(app))


@pytest.mark.usefixtures("without_setup")
async def test_a_run_that_cannot_be_read_does_not_end_the_app(tmp_path: Path) -> None:
    recorded(tmp_path, "finished", "whole")
    run = recorded(tmp_path, "finished", "damaged")
    run.events_path.unlink()
    run.events_path.mkdir()
    app = ContrastApp(tmp_path, run)
    async with show(app) as pilot:
        await until(pilot, lambda: "events.jsonl is a folder" in screen_text(app))
        await pilot.press("3")
        await until(pilot, lambda: "broken" in screen_text(app) and "whole" in screen_text(app))


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize(
    "text",
    ["nan", "\0", *(pytest.param(text, marks=pytest.mark.slow) for text in ("", "x" * 3_000, "\x1b[31m[red]", "-1"))],
)
async def test_what_the_app_remembers_may_be_any_text(tmp_path: Path, text: str) -> None:
    def texts(struct: type[msgspec.Struct]) -> dict[str, object]:
        return {name: text for name, kind in get_type_hints(struct).items() if kind is str}

    of_one = {"draft": (text, {text: text}), "sentences": (text, text), "suites": (text,), "nearest": "7"}
    of_all = {"panels": ("loss", "loss", text), "columns": ("name", "name", text), "unfolded": frozenset({(text,)})}
    projects = {str(tmp_path.resolve()): texts(Project) | of_one}
    state.save(msgspec.convert(texts(State) | of_all | {"projects": projects}, State))
    app = ContrastApp(tmp_path, recorded(tmp_path, "finished"))
    async with show(app) as pilot:
        for key in ("2", "a", "h", "3", "g", "o", "4", "5", "1"):
            await pilot.press(key)
            await settled(pilot)
        await until(pilot, lambda: "learning rate" in screen_text(app) or "backbone" in screen_text(app))


def test_what_the_app_remembers_may_be_anything() -> None:
    project = Project(draft=("starter", {"train.lr": "1e-3"}), suites=("sts",))
    state.save(State(projects={"runs": project}, panels=("loss",)))
    path = next(state_dir().glob("*.json"))
    for other in variants(json.loads(path.read_bytes())):
        path.write_bytes(json.dumps(other).encode("utf-8", "surrogatepass"))
        assert isinstance(state.load(), State)
        state.save(state.load())
