"""Columns of one's own: an error about them leads to a table in which each gets its role."""

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner

from contrastcli.cli import cli
from contrastcli.errors import ContrastError, ErrorRecord
from contrastcli.runs import directory as runs
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.fields.columns import Columns, ColumnsField
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup.form import SettingRow
from contrastcli.tui.setup.screen import SetupScreen
from support.command import Contrast
from support.commands import Commands, answer_commands
from support.screens import NARROW, SIZES, Page, press, row, says, screen_text, setting_up, settled, show, until

ODD = ["Frage, lang", "[b]=a", "", 'say "x"', "Antwort", *(f"c{n}" for n in range(195))]
"""Names of columns that a value such as a=1,b=2, or a terminal, may take for something else."""


@pytest.fixture(autouse=True)
def commands(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The command line in this process, and a file of 30 questions as a spreadsheet writes it."""
    rows = [f"Wie groß ist {n}?;Es ist {n} Meter lang, „ungefähr“.;https://example.org/{n}" for n in range(30)]
    Path("faq.csv").write_bytes("\r\n".join(["Frage;Antwort;Quelle", *rows]).encode("cp1252"))
    Path("tidy.csv").write_text("question,answer\n" + "".join(f"q {n},a {n}\n" for n in range(30)))
    monkeypatch.setattr("contrastcli.tui.setup.dry_run_panel.PAUSE_SECONDS", 0.0)

    def answer(directory: Path, words: tuple[str, ...]) -> Finished:
        done = CliRunner().invoke(cli, words)
        if not isinstance(error := done.exception, ContrastError):
            return Finished(done.stdout)
        return Finished("", error.what, ErrorRecord(error.fault, error.remedies, error.key, error.source))

    return answer_commands(monkeypatch, answer)


def reading(
    data: str = "faq.csv", size: tuple[int, int] = NARROW, objective: str = "simcse", batch: int = 4
) -> AbstractAsyncContextManager[tuple[Page, SetupScreen]]:
    """Setup with data of one's own and a batch that they fill, once the command line has seen them."""
    typed = {"objective.name": objective, "data.train": data, "train.batch_size": str(batch), "dev.data": "none"}
    return setting_up(size, typed)


def note(pilot: Page, key: str) -> str:
    """What stands next to a setting."""
    return " ".join(str(row(pilot, key).query_one(".note").render()).split())


async def opened(pilot: Page) -> None:
    """Open the table of the field that has the focus."""
    await press(pilot, "enter", then=lambda: isinstance(pilot.app.screen, Columns) and pilot.app.screen.is_ready)


@SIZES
async def test_an_error_about_columns_leads_to_their_table_and_to_a_run(size: tuple[int, int]) -> None:
    async with reading(size=size) as (pilot, screen):
        await until(pilot, lambda: screen.focused is row(pilot, "data.columns").value)
        wrong = "faq.csv: its columns 'Frage', 'Antwort', 'Quelle' make neither sentences nor pairs"
        assert note(pilot, "data.columns") == f"Enter chooses them: {wrong}"
        assert (await settled(pilot)).count("neither") == 1
        assert says(pilot, "cannot start: columns (s goes there)") and "--columns" not in screen_text(pilot.app)
        await opened(pilot)
        assert says(pilot, "Frage – Wie groß ist 0?", "Antwort – Es ist 0 Meter lang, „ungefähr“.")
        await pilot.press("a", "down", "p")
        await until(
            pilot, lambda: says(pilot, "Frage anchor", "Antwort positive", "Quelle –", "pairs (anchor, positive)")
        )
        await pilot.press("down", *["left"] * 9)  # past the roles of the others, which keep them
        await press(pilot, "enter", shows="ready: 48 steps of 8 sentences")
        assert screen.draft.typed["data.columns"] == "anchor=Frage,positive=Antwort"
        assert row(pilot, "data.columns").display and says(pilot, "columns", "anchor=Frage,positive")


async def test_the_remedy_of_an_error_is_whole_at_80_columns() -> None:
    Path("tidy.csv").rename("questions and answers.csv")
    async with reading("questions and answers.csv", objective="pairsupcon") as (pilot, _):
        assert note(pilot, "objective.name").endswith("-o triplets.jsonl; then --data triplets.jsonl")
        assert (await settled(pilot)).count("triplets.jsonl") == 2


async def test_what_columns_hold_is_known_on_every_screen_and_for_their_file_alone() -> None:
    async with reading() as (pilot, screen):
        await opened(pilot)
        await pilot.press("a", "down", "p", "enter")
        await until(pilot, lambda: screen.draft.typed.get("data.columns") == "anchor=Frage,positive=Antwort")
        data = row(pilot, "data.train").value
        assert isinstance(data, ChoiceField)
        for file, typed in (("tidy.csv", None), ("./faq.csv", "anchor=Frage,positive=Antwort")):
            data.choose(file)
            await until(pilot, lambda: screen.draft.typed.get("data.columns") == typed)  # noqa: B023
        for key, name in (("4", "#own_data"), ("5", "#file")):
            await press(pilot, "escape", key, then=lambda: pilot.app.screen.query(name))  # noqa: B023
            pilot.app.screen.query_one(name, ChoiceField).choose(str(Path("faq.csv").absolute()))
            columns = pilot.app.screen.query_one(ColumnsField)
            await until(pilot, lambda: columns.value == "anchor=Frage,positive=Antwort")  # noqa: B023
        columns.focus()
        await opened(pilot)
        await press(pilot, "delete", "s", "enter", then=lambda: columns.value == "sentence=Frage,positive=Antwort")


async def test_the_command_says_what_the_table_was_given_whatever_the_columns_are_called() -> None:
    lines = [{name: f"{name} {n} \x1b[1m" for name in ODD} for n in range(9)]
    Path("odd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with reading("odd.jsonl") as (pilot, screen):
        assert "'c14' and 180 more make neither" in note(pilot, "data.columns")
        await opened(pilot)
        assert says(pilot, "Frage, lang", "[b]=a", "column 3", 'say "x"')
        await pilot.press("right", "right", "down", "p", "down", "n", "down", "n", "down", "left", "enter")
        given = '"anchor=Frage, lang",positive=[b]=a,negative_3=column 3,"negative_4=say ""x""",id=Antwort'
        await until(pilot, lambda: screen.draft.typed.get("data.columns") == given)
        await until(pilot, lambda: says(pilot, "ready:"))
        await opened(pilot)
        await until(pilot, lambda: says(pilot, "Frage, lang anchor", 'say "x" negative', "Antwort id"))
        await press(pilot, "end", "a", "escape", then=lambda: pilot.app.screen is screen)
        assert screen.draft.typed["data.columns"] == given


async def test_a_role_is_taken_from_the_column_that_had_it() -> None:
    Path("two.csv").write_text("question,query,answer\na,b,c\nd,e,f\n")
    async with reading("two.csv", batch=2) as (pilot, screen):
        assert says(pilot, "cannot start: columns")
        await opened(pilot)
        assert says(pilot, "question anchor", "query anchor", "answer positive")
        await press(pilot, "down", "a", "enter", shows="ready:")
        assert screen.draft.typed["data.columns"] == "anchor=query,positive=answer"


async def test_the_table_opens_without_an_error_too_and_changes_nothing_by_itself() -> None:
    async with reading("tidy.csv") as (pilot, screen):
        assert screen.focused is None and not screen.query(SettingRow).filter("#data-columns")
        await pilot.press("slash", *"roles of columns", "enter")
        await opened(pilot)
        await until(pilot, lambda: says(pilot, "question anchor", "pairs (anchor, positive)"))
        await press(pilot, "enter", then=lambda: pilot.app.screen is screen)
        assert "data.columns" not in screen.draft.typed


async def test_nobody_is_taken_away_from_a_text_that_is_being_typed(commands: Commands) -> None:
    async with reading("tidy.csv") as (pilot, screen):
        commands.held.clear()
        screen.draft.type("data.train", "faq.csv")
        screen._show()
        seed = row(pilot, "train.seed").value
        seed.focus()
        await pilot.press("7")
        commands.held.set()
        await until(pilot, lambda: says(pilot, "cannot start: columns"))
        assert screen.focused is seed and row(pilot, "data.columns").display
        await press(pilot, "escape", "s", then=lambda: screen.focused is row(pilot, "data.columns").value)


async def test_a_suggestion_says_no_more_than_the_error_of_which_other_data_leave_nothing(commands: Commands) -> None:
    async with reading() as (pilot, screen):
        await until(pilot, lambda: pilot.app.focused is row(pilot, "data.columns").value)
        await pilot.press("e")
        await until(pilot, lambda: commands.calls[-1][0] == "suggest" and says(pilot, "cannot start: columns"))
        assert (await settled(pilot)).count("neither") == 1
        commands.held.clear()
        screen.draft.type("data.train", "tidy.csv")
        screen._show()
        await until(pilot, lambda: says(pilot, "reading the data"))
        assert not note(pilot, "data.columns") and "neither" not in screen_text(pilot.app)
        await pilot.press("escape")
        screen.draft.type("train.batch_size", "0")
        screen._show()
        commands.held.set()
        await until(pilot, lambda: says(pilot, "cannot start: batch size") and commands.cancelled)
        assert not row(pilot, "data.columns").display and "neither" not in screen_text(pilot.app)
        screen.draft.type("train.batch_size", "4")
        screen._show()
        await until(pilot, lambda: says(pilot, "ready:"))


async def test_keys_that_are_typed_while_the_table_opens_reach_it(commands: Commands) -> None:
    async with reading() as (pilot, screen):
        commands.held.clear()
        await pilot.press("enter")
        for key in ("a", "down", "p", "enter"):
            pilot.app.simulate_key(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, Columns))
        await pilot.pause(0.1)
        assert isinstance(pilot.app.screen, Columns) and not pilot.app.screen.is_ready
        commands.held.set()
        await until(pilot, lambda: screen.draft.typed.get("data.columns") == "anchor=Frage,positive=Antwort")
        assert not [words for words in commands.calls if "--detach" in words or "suggest" in words]


async def test_what_cannot_be_read_is_said_and_escape_leaves_at_once(commands: Commands) -> None:
    app = ContrastApp(runs.runs_dir(None))
    async with show(app, NARROW) as pilot:
        app.push_screen(Columns(app.directory, "gone.csv", ""))
        await until(pilot, lambda: says(pilot, "there is no file or folder gone.csv"))
        await pilot.press("a", "left", "enter")
        assert isinstance(app.screen, Columns)
        await pilot.press("escape")
        assert isinstance(app.screen, SetupScreen)
        app.push_screen(Columns(app.directory, "~no-such-user/x.csv", ""))
        await until(pilot, lambda: says(pilot, "there is no file or folder ~no-such-user/x.csv"))
        await pilot.press("escape")
        commands.held.clear()
        app.push_screen(Columns(app.directory, "faq.csv", ""))
        await until(pilot, lambda: says(pilot, "reading…"))
        await press(pilot, "escape", then=lambda: isinstance(app.screen, SetupScreen) and commands.cancelled)
        commands.held.set()
