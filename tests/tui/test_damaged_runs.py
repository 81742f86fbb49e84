"""Runs, and what the app remembers, with any value or hostile text in any place: the rest is as it was, and text."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

from contrastcli.boundary import CONTROLS
from contrastcli.files import state_dir
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Alert, Done, Note, Progress, Queued, Saved, Started, encode
from contrastcli.runs.measured import System
from contrastcli.runs.results import Preview
from contrastcli.tui import state
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.dialogs import Prompt, Question
from contrastcli.tui.processes import Finished
from contrastcli.tui.state import Project, State
from support.command import Contrast
from support.commands import Commands
from support.damage import HUGE, VALUES
from support.recorded import append, recorded
from support.screens import press, screen_text, settled, show, until

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


async def test_no_line_of_events_and_no_run_that_cannot_be_read_ends_the_app(runs: Path) -> None:
    run, unread = Run(runs / "damaged"), recorded(runs, "finished", "unread")
    append(run, Note(step=600, text="the end of the file"))
    unread.events_path.unlink()
    unread.events_path.mkdir()
    app = ContrastApp(runs, run)
    async with show(app) as pilot:
        await until(pilot, lambda: "the end of the file" in screen_text(app))
        for key in ("left", "h", "l", "a", "a", "a", "3", "2"):
            await pilot.press(key)
            await settled(pilot)
        await app.open_run(Run(runs / "whole"), "live")
        await until(pilot, lambda: "step 600 of 600" in screen_text(app))
        await app.open_run(unread, "live")
        await until(pilot, lambda: "events.jsonl is a folder" in screen_text(app))
        await press(pilot, "3", then=lambda: "broken" in screen_text(app) and "whole" in screen_text(app))


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize(
    "text",
    ["\0", *(pytest.param(text, marks=pytest.mark.slow) for text in ("nan", "", "x" * 3_000, "\x1b[31m[red]", "-1"))],
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
        read = state.load()
        assert isinstance(read, State)
        state.save(read)


HOSTILE = "\x1b[31m[red]b[/red]\x1b]0;t\x07\r\b\x9b2J\u202e\u200e\u200f\u061c"


@pytest.fixture
def hostile(commands: Commands, cwd: Path) -> Run:
    """A run whose name, settings and events are hostile, the only one in runs/."""
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


async def test_every_screen_shows_hostile_text_as_text(hostile: Run) -> None:
    app = ContrastApp(Path("runs"), hostile)
    async with show(app) as pilot:
        await until(pilot, lambda: "failed  [31m[red]" in screen_text(app))
        for open_screen, times in SCREENS:
            opened = open_screen(app, hostile)
            if asyncio.iscoroutine(opened):
                await opened
            await until(pilot, lambda: screen_text(app).count("[red]b[") >= times)  # noqa: B023
            text = await settled(pilot)
            assert not CONTROLS.search(text.replace("\n", "")), repr(text)
            if app.screen.is_modal:
                await pilot.press("escape")
