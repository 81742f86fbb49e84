"""The unusual rows of the data, over Setup: paged through, accepted, rejected, and what remains written."""

import csv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from contrastcli.cli import cli
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.setup.rows import Rows
from contrastcli.tui.setup.screen import SetupScreen
from support.command import Contrast
from support.commands import answer_commands
from support.screens import NARROW, SIZES, Page, check_golden, press, says, screen_text, setting_up, until

ROWS = [
    ("where is the tram", "at the harbour"),
    ("where is the TRAM", "at  the harbour"),
    ("when does it run", "when does it run"),
    ("who knows the stops", "the driver does"),
    ("where is the train", ""),
]


@asynccontextmanager
async def inspecting(size: tuple[int, int] = NARROW, *, data: str = "rows.csv") -> AsyncIterator[tuple[Page, Rows]]:
    """Setup with data of one's own, and the unusual rows of them once they are there."""
    typed = {"data.train": data, "data.columns": "anchor=q,positive=a", "model.backbone": "tiny/backbone"}
    async with setting_up(size, typed) as (pilot, _):
        await press(pilot, "i", then=lambda: isinstance(pilot.app.screen, Rows) and says(pilot, "pairs"))
        assert isinstance(pilot.app.screen, Rows)
        yield pilot, pilot.app.screen


@pytest.fixture(autouse=True)
def _data(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows in a file, and `contrast data` in this process."""
    with open("rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([("q", "a"), *ROWS])

    def answer(directory: Path, words: tuple[str, ...]) -> Finished:
        if words[0] != "data":
            return Finished("", "nothing is tried here")
        done = CliRunner().invoke(cli, words)
        return Finished(done.stdout, str(done.exception) if done.exception else "")

    answer_commands(monkeypatch, answer)


def remaining(path: str = "rows-clean.csv") -> list[str]:
    return [question for question, _ in list(csv.reader(Path(path).read_text().splitlines()))[1:]]


@SIZES
async def test_each_row_is_shown_with_why_and_what_it_equals(size: tuple[int, int]) -> None:
    async with inspecting(size) as (pilot, _):
        assert says(pilot, "rows.csv: 5 pairs (anchor, positive)", "blank 1, same 1, repeated 1")
        await press(pilot, "down", "down", shows="repeated: equal")
        check_golden(f"rows-{size[0]}", screen_text(pilot.app))


async def test_a_text_has_the_room_that_is_left_and_end_goes_to_the_last_row() -> None:
    with open("long.csv", "w", newline="") as file:
        csv.writer(file).writerows([("q", "a"), *((f"{n} {'why ' * 20}", "") for n in range(40)), ROWS[0]])
    async with inspecting(data="long.csv") as (pilot, _):
        await press(pilot, "end", shows="39 why")
        assert max(map(len, screen_text(pilot.app).splitlines()[4:10])) == 76
        await press(pilot, "home", shows=" 0 why")


async def test_a_kind_is_kept_by_one_key_and_rows_by_another_and_what_remains_becomes_the_data() -> None:
    async with inspecting() as (pilot, _):
        # The blank row by itself, then both other kinds, of the last of which the row is left out again.
        await press(pilot, "space", "k", "down", "k", "space", "w", shows="to which new file?")
        await press(pilot, "enter", then=lambda: isinstance(pilot.app.screen, SetupScreen))
        assert remaining() == [ROWS[n][0] for n in (0, 2, 3, 4)]
        screen = pilot.app.screen
        assert isinstance(screen, SetupScreen) and screen.draft.typed["data.train"] == "rows-clean.csv"


async def test_a_file_that_is_there_is_replaced_only_when_asked() -> None:
    Path("rows-clean.csv").write_text("mine\n")
    async with inspecting() as (pilot, rows):
        await press(pilot, "w", "enter", shows="rows-clean.csv is there. Replace it?")
        await press(pilot, "escape", then=lambda: pilot.app.screen is rows)
        assert Path("rows-clean.csv").read_text() == "mine\n"
        await press(pilot, "w", "enter", shows="Replace it?")
        await press(pilot, "r", then=lambda: isinstance(pilot.app.screen, SetupScreen))
    assert remaining()


async def test_a_file_that_is_left_while_it_is_written_is_said_and_the_backbone_is_not_asked_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with inspecting() as (pilot, rows):
        commands = answer_commands(monkeypatch, Finished(""))
        commands.held.clear()
        await press(pilot, "w", shows="to which new file?")
        await press(pilot, "enter", then=lambda: commands.calls)
        # Neither is another file.
        await pilot.press("b", "w")
        await pilot.pause()
        assert len(commands.calls) == 1 and pilot.app.screen is rows
        await press(pilot, "escape", shows="rows-clean.csv was not written")
        assert isinstance(pilot.app.screen, SetupScreen)


async def test_the_backbone_adds_what_only_a_model_sees_and_what_was_marked_is_not_forgotten_unasked() -> None:
    async with inspecting() as (pilot, rows):
        await press(pilot, "b", shows="false-negative")
        await press(pilot, "down", shows="the nearest positives of other anchors")
        await press(pilot, "space", "escape", shows="Leave? What was marked is forgotten")
        await press(pilot, "escape", then=lambda: pilot.app.screen is rows)
        await press(pilot, "escape", "l", then=lambda: isinstance(pilot.app.screen, SetupScreen))
    assert not Path("rows-clean.csv").exists()


async def test_a_backbone_that_cannot_be_loaded_leaves_the_rows_to_be_written() -> None:
    async with inspecting() as (pilot, rows):
        rows._backbone = "no/such-model"
        await press(pilot, "b", shows="no/such-model")
        await press(pilot, "w", shows="to which new file?")
        await press(pilot, "enter", then=lambda: isinstance(pilot.app.screen, SetupScreen))
        assert Path("rows-clean.csv").exists()


async def test_without_data_there_is_nothing_to_inspect_or_suggest_and_an_error_stands_where_the_counts_are() -> None:
    async with setting_up(NARROW) as (pilot, screen):
        screen.draft.choose_preset("")
        for key in ("i", "e"):
            await press(pilot, key, shows=("there are no data", "choose some: d"))
            pilot.app.clear_notifications()
        assert pilot.app.screen is screen
        pilot.app.push_screen(Rows(screen.contrast.directory, Draft("", {"data.train": "gone.csv"})))
        await until(pilot, lambda: says(pilot, "there is no file or folder gone.csv"))
        await pilot.press("space", "k", "escape")
        assert pilot.app.screen is screen


async def test_rows_of_which_none_is_unusual_are_none_to_move_among() -> None:
    Path("usual.csv").write_text("q,a\nhow many dogs run,two of them do\nwhere is the train,at the station\n")
    async with inspecting(data="usual.csv") as (pilot, _):
        await press(pilot, "up", "home", "end", "space", shows="nothing unusual")
