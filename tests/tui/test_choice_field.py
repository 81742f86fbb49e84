"""The list that every choice of the app is made from: what it shows for what is typed."""

import asyncio
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.events import Paste
from textual.widgets import Input

from contrastcli.tui.fields.choice_field import ChoiceField, narrowed
from contrastcli.tui.fields.completion import complete_data, data_files
from support.screens import press, says, show, until

OBJECTIVES = [("pairsupcon", "takes labelled"), ("simcse", "takes sentences"), ("supcon", "takes labelled")]
PRESETS = [("starter", "small"), ("simace-base", "on BERT"), ("simace", "plain"), ("", "every setting at its default")]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("", ["pairsupcon", "simcse", "supcon"]),
        ("supcon", ["supcon", "pairsupcon"]),
        ("SUP", ["supcon", "pairsupcon"]),
        ("s", ["simcse", "supcon", "pairsupcon"]),
        ("labelled", ["pairsupcon", "supcon"]),
        ("takes pair", ["pairsupcon"]),
        ("nothing", []),
    ],
)
def test_an_exact_name_comes_first_then_names_that_begin_so_then_the_rest(typed: str, names: list[str]) -> None:
    assert [name for name, _ in narrowed(OBJECTIVES, typed)] == names


def test_the_last_of_several_files_is_completed(cwd: Path) -> None:
    for name in ("questions.csv", "quiz.csv", "a,b.csv"):
        Path(name).write_text("x")
    assert [name for name, _ in complete_data("qui")] == ["quiz.csv"]
    assert [name for name, _ in complete_data("a.csv=2, qu")] == ["a.csv=2,questions.csv", "a.csv=2,quiz.csv"]
    assert [name for name, _ in complete_data("a,b")] == ["a,b.csv"]


def test_the_files_of_data_in_the_folder_are_offered(cwd: Path) -> None:
    for name in ("texts.txt", "pairs.csv.gz", "pairs.csv.mined", *(f"image {n}.png" for n in range(300))):
        (cwd / name).write_text("a")
    (cwd / "pairs.d").mkdir()
    (cwd / "gone.csv").symlink_to("nowhere")
    assert [name for name, _ in data_files()] == ["pairs.csv.gz", "texts.txt"]
    assert [name for name, _ in complete_data("pai")] == ["pairs.csv.gz", "pairs.d"], "not how pairs were mined"
    assert not complete_data("~no-such-user/x")


class OneField(App[None]):
    """A field alone on the screen."""

    def compose(self) -> ComposeResult:
        yield ChoiceField("Preset", lambda: PRESETS)


async def test_a_second_click_opens_no_second_list() -> None:
    async with show(OneField()) as pilot:
        field = pilot.app.query_one(ChoiceField)
        await asyncio.gather(field.action_open(), field.action_open())
        assert len(pilot.app.screen_stack) == 2


async def test_where_nothing_matches_nothing_is_described_and_a_pasted_path_keeps_its_spaces_alone() -> None:
    async with show(OneField()) as pilot:
        await pilot.app.query_one(ChoiceField).action_open()
        await until(pilot, lambda: says(pilot, "every setting at its default", "type to narrow the list"))
        await press(pilot, *"zz", then=lambda: not says(pilot, "starter"))
        assert not says(pilot, "every setting")
        line = pilot.app.screen.query_one(Input)
        line.value = ""
        line.post_message(Paste("two  words\0.csv\n"))
        await until(pilot, lambda: line.value == "two  words .csv")
