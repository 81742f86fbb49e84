"""The screen Runs, on recorded runs."""

import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input

from contrastcli.runs import directory as runs
from contrastcli.runs.events import Done, Progress, Verdict
from contrastcli.runs.verdict import Change
from contrastcli.tui import state
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.dialogs import Question
from contrastcli.tui.history.history import metrics
from contrastcli.tui.processes import Finished
from contrastcli.tui.runs import columns, screen
from contrastcli.tui.runs.columns import all_columns
from contrastcli.tui.runs.listing import read_entries
from contrastcli.tui.runs.overlay_panel import LETTERS, OverlayPanel
from contrastcli.tui.runs.runs_table import RunsTable
from contrastcli.tui.runs.screen import RunsScreen
from contrastcli.tui.runs.tree import Groupings
from contrastcli.tui.widgets import PlainText
from support.commands import answer_commands
from support.recorded import Kind, append, end, evaluated, recorded, stepped
from support.runs_screen import at, names, opened, select
from support.screens import NARROW, SIZES, WIDE, check_golden, paste, press, says, screen_text, settled, show, until

KINDS: tuple[Kind, ...] = ("finished", "running", "stopped", "diverged", "killed", "silent")


pytestmark = pytest.mark.usefixtures("without_setup")


@pytest.fixture
def place(cwd: Path) -> Path:
    """A runs directory with a run in each state."""
    for kind in KINDS:
        recorded(Path("runs"), kind)
    return Path("runs")


@pytest.fixture
def read_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen looks at its directory more often than a user would notice."""
    monkeypatch.setattr(screen, "READ_SECONDS", 0.05)


def timeless(text: str) -> str:
    """A screen with the same ages and sizes on every day and disk."""
    for pattern, instead in ((r" +\d+[smhd] ago", "2h ago"), (r" +[\d.]+ [KMG]?B", "89.1 MB")):
        text = re.sub(pattern, lambda match: instead.rjust(len(match[0])), text)  # noqa: B023
    return text


@SIZES
async def test_every_run_has_a_row_with_its_state(place: Path, size: tuple[int, int]) -> None:
    async with opened(ContrastApp(place), size) as (pilot, _):
        text = screen_text(pilot.app)
        for state_ in ("✔ finished", "● running", "■ stopped", "▲ diverged", "✖ killed", "◍ silent"):
            assert state_ in text
        await until(pilot, lambda: "━━ starter-stopped" in screen_text(pilot.app))
        await until(pilot, lambda: size == NARROW or "checkpoint" in screen_text(pilot.app))
        if size == NARROW:
            check_golden("runs-narrow", timeless(await settled(pilot)))


@SIZES
async def test_selected_runs_are_overlaid_and_compared(tmp_path: Path, size: tuple[int, int]) -> None:
    recorded(tmp_path, "finished", "one", train__lr=1e-4)
    recorded(tmp_path, "stopped", "two", train__lr=3e-4)
    async with opened(ContrastApp(tmp_path), size) as (pilot, table):
        await select(pilot, table, "one", "two")
        await until(pilot, lambda: "━━ A one 72.71  ╍╍ B two 72.85" in screen_text(pilot.app))
        text = pilot.app.screen.query_one("#details-text", PlainText)
        await until(pilot, lambda: "train.lr" in str(text.content))
        assert ["train.lr", "0.0001", "0.0003"] in [line.split() for line in str(text.content).splitlines()]
        assert "train.batch_size" not in str(text.content), "only settings that differ"
        if size == WIDE:
            check_golden("runs-overlaid-wide", timeless(await settled(pilot)))
        await press(pilot, "space", shows="━━ one")


async def test_scores_of_other_dev_sets_are_told_apart_in_the_legend(tmp_path: Path) -> None:
    recorded(tmp_path, "stopped", "one")
    other = msgspec.structs.replace(evaluated(350, best=True), metric="ndcg@10", data="faq.csv", score=1.0)
    append(recorded(tmp_path, "running", "two"), other)
    async with opened(ContrastApp(tmp_path), WIDE) as (pilot, _):
        await press(pilot, "a", shows=("dev score × 100, of dev sets that differ", "Spearman · starter"))
        assert says(pilot, "nDCG@10 · faq.csv", "100 nDCG@10 ")


async def test_the_number_in_the_legend_is_the_last_value(tmp_path: Path) -> None:
    losses = [msgspec.structs.replace(stepped(100), step=n, loss=1 + n % 10 / 10) for n in range(1, 996)]
    append(recorded(tmp_path, "empty", "noisy"), *losses)
    app = ContrastApp(tmp_path)
    app.remembered.metric = "loss"
    async with opened(app) as (pilot, _):
        await until(pilot, lambda: "━━ noisy 1.5" in screen_text(pilot.app), seconds=10)


async def test_runs_that_differ_in_their_seed_are_one_method_with_mean_and_deviation(tmp_path: Path) -> None:
    for seed, score in ((1, 0.70), (2, 0.74), (3, 0.72)):
        end(recorded(tmp_path, "empty", f"low-{seed}", train__seed=seed), score)
    end(recorded(tmp_path, "empty", "high", train__lr=3e-4), 0.60)
    async with opened(ContrastApp(tmp_path)) as (pilot, _):
        await pilot.press("a")
        text = pilot.app.screen.query_one("#details-text", PlainText)
        await until(pilot, lambda: "seeds finished" in str(text.content))
        rows = {line.split()[0]: line.split()[1:] for line in str(text.content).splitlines() if line.strip()}
        assert sorted(rows["seeds"][1:]) == ["1", "3"]
        assert "72.00 ± 2.00" in str(text.content) and "train.lr" in rows
        await press(pilot, "a", then=lambda: "seeds finished" not in str(text.content))


async def test_m_draws_the_next_curve_o_and_a_click_on_a_header_sort_and_both_are_remembered(place: Path) -> None:
    async with opened(ContrastApp(place)) as (pilot, table):
        for metric in [*list(metrics())[1:], "score", "uniformity"]:
            await pilot.press("m")
            title = "dev Spearman · starter" if metric == "score" else metrics()[metric].title
            await until(pilot, lambda: f"─ {title} ─" in screen_text(pilot.app))  # noqa: B023
        await pilot.press("o")
        assert names(table) == sorted(f"starter-{kind}" for kind in KINDS)
        assert "by name" in screen_text(pilot.app)
        await pilot.click(RunsTable, offset=(26, 1))
        await until(pilot, lambda: "by state" in screen_text(pilot.app))
    assert (state.load().metric, state.load().sort) == ("uniformity", "state")


async def test_a_filter_keeps_the_runs_that_have_all_its_words(place: Path) -> None:
    async with opened(ContrastApp(place)) as (pilot, table):
        await press(pilot, "a", shows="A ")
        await press(pilot, "slash", *"killed", then=lambda: names(table) == ["starter-killed"])
        assert "1 of 6 runs, newest first, 5 selected not shown" in screen_text(pilot.app)
        await pilot.press("escape")
        assert pilot.app.focused is table
        assert "killed" in pilot.app.screen.query_one(Input).value, "the filter stays"
        await press(pilot, "slash", *"x", then=lambda: table.row_count == 0)
        assert "no run satisfies all of this: x (/ and Ctrl+U show all)" in screen_text(pilot.app)
        await press(pilot, "ctrl+u", "enter", then=lambda: table.row_count == len(KINDS))
        assert not pilot.app.screen.query_one(Input).display


@pytest.mark.usefixtures("read_often")
async def test_table_and_details_follow_the_runs_and_the_cursor_stays_at_its_own(place: Path) -> None:
    run = runs.Run(place / "starter-running")
    async with opened(ContrastApp(place)) as (pilot, table):
        at(table, "starter-killed")
        recorded(place, "finished", "z-new")
        append(run, stepped(360), evaluated(360, best=True))
        await until(pilot, lambda: "z-new" in names(table))
        await until(pilot, lambda: "360/600" in screen_text(pilot.app))
        assert names(table)[table.cursor_row] == "starter-killed"
        at(table, run.name)
        await until(pilot, lambda: says(pilot, "360 of 600"))
        change = Change(before=0.5, after=0.7, low=0.1, high=0.3)
        verdict = Verdict(step=600, base="starter", best_step=360, change=change)
        append(run, stepped(600), verdict, Done(step=600, status="finished", code=0))
        run.alive_path.unlink()
        await until(pilot, lambda: says(pilot, "600 of 600", "state finished"))
        below = r"verdict( +)better than starter, at step 360: Spearman.*\n.*││ {8}\1\S"
        assert re.search(below, screen_text(pilot.app)), "a long text wraps in its own column"
        assert "(+20.00, 95 % +10.00 … +30.00)" in pilot.app.screen.query_one(OverlayPanel).clipboard_text()


@pytest.mark.usefixtures("read_often")
async def test_a_selected_run_that_another_process_deletes_leaves_the_table(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Groupings.read_sweeps

    def slow(groupings: Groupings) -> None:
        time.sleep(0.5)
        usual(groupings)

    async with opened(ContrastApp(place)) as (pilot, table):
        await pilot.press("a")
        monkeypatch.setattr(Groupings, "read_sweeps", slow)
        shutil.rmtree(place / "starter-killed")
        for _ in range(10):  # while the sweeps are read
            await pilot.press("down")
            await pilot.pause(0.1)
        await until(pilot, lambda: "starter-killed" not in names(table), seconds=10)


async def test_a_run_that_was_opened_by_its_whole_path_is_the_one_in_its_row_and_enter_opens_another(
    place: Path,
) -> None:
    app = ContrastApp(place, runs.Run(place.resolve() / "starter-silent"))
    async with opened(app) as (pilot, table):
        at(table, "starter-silent")
        assert table.row and table.row.entry and table.row.entry.run == app.run_shown
        at(table, "starter-diverged")
        await press(pilot, "enter", then=lambda: not isinstance(pilot.app.screen, RunsScreen))
        assert app.run_shown == runs.Run(place / "starter-diverged")


@pytest.mark.usefixtures("read_often")
async def test_a_run_that_has_saved_is_resumed_and_shown_but_to_one_who_writes_a_note_meanwhile(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = answer_commands(monkeypatch, Finished(""))
    app = ContrastApp(place)
    async with opened(app) as (pilot, table):
        at(table, "starter-finished")
        await pilot.press("r")
        at(table, "starter-killed")
        await until(pilot, lambda: says(pilot, "r resumes from the last checkpoint"))
        runs.prune([runs.Run(place / "starter-killed")])
        await until(pilot, lambda: says(pilot, "nothing to resume from; t takes its settings"))
        await pilot.press("r")
        assert not commands.calls, "neither a finished run nor a pruned one has any"
        at(table, "starter-stopped")
        await pilot.pause()
        await press(pilot, "r", then=lambda: app.run_shown)
        resume = ("train", "--resume", str((place / "starter-stopped").resolve()), "--detach")
        assert commands.calls == [resume]
        commands.held.clear()
        await press(pilot, "3", "r", then=lambda: commands.calls == [resume, resume])
        await press(pilot, "n", *"they", shows="A note on starter-stopped")
        commands.held.set()
        await until(pilot, lambda: says(pilot, "resumed starter-stopped; 3 lists it"))
        await pilot.press(*"sy")
        assert says(pilot, "theysy") and pilot.app.current_mode == "runs" and len(commands.calls) == 2


@pytest.mark.parametrize("key", ["r", "M"])
async def test_what_is_begun_with_a_run_goes_on_while_the_same_is_begun_with_another(
    place: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    commands = answer_commands(monkeypatch, Finished("", "no room"))
    commands.held.clear()
    async with opened(ContrastApp(place)) as (pilot, table):
        for number, name in enumerate(("starter-stopped", "starter-killed"), 1):
            at(table, name)
            await press(pilot, key, then=lambda: key == "r" or pilot.app.screen.is_modal)
            await press(pilot, "enter" if key == "M" else "escape", then=lambda: len(commands.calls) == number)  # noqa: B023
        assert not commands.cancelled


async def test_the_settings_of_a_run_that_diverged_are_taken_to_setup_with_half_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    answer_commands(monkeypatch, Finished("", "no dry run"))
    recorded(tmp_path, "diverged", train__lr=2e-2, train__batch_size=17)
    async with opened(ContrastApp(tmp_path)) as (pilot, _):
        footer = screen_text(pilot.app).splitlines()[-1]
        assert "resume" not in footer and "evaluate" not in footer, "it would diverge again, and has no model"
        await press(pilot, "t", then=lambda: pilot.app.screen.query("#command"))
        command = pilot.app.screen.query_one("#command", PlainText)
        await until(pilot, lambda: str(command.content).endswith("--preset starter --batch-size 17 --lr 0.01"))


async def test_an_export_asks_for_a_folder_a_format_and_whether_to_replace_and_takes_all_that_is_selected(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = answer_commands(monkeypatch, Finished("out\n"))
    for folder in ("out", "empty"):
        Path(folder).mkdir()
    Path("out/README.md").touch()
    async with opened(ContrastApp(place), NARROW) as (pilot, table):
        at(table, "starter-finished")
        await press(pilot, "x", shows="which new folder")
        await pilot.press("escape")
        for answer in ("escape", "r"):
            await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
            assert not commands.calls
            await press(pilot, "x", shows="which new folder")
            await press(pilot, "ctrl+u", *"out", "enter", shows="In which format?")
            await press(pilot, *"int8", "enter", shows="out is there. Replace it?")
            await pilot.press(answer)
        await until(pilot, lambda: says(pilot, "exported starter-finished to out"))
        await press(pilot, "x", shows="which new folder")
        await press(pilot, "ctrl+u", *"empty", "enter", shows="In which format?")
        await press(pilot, *"int8", "enter", shows="exported starter-finished to empty")
        await select(pilot, table, "starter-stopped", "starter-finished")
        await press(pilot, "x", shows="Write the best model of 2 runs")
        await press(pilot, "enter", shows="In which format?")
        await press(pilot, "enter", then=lambda: len(commands.calls) == 4)
    words = ("export", str((place / "starter-finished").resolve()))
    kind = ("--format", "onnx-int8")
    assert commands.calls[:2] == [(*words, "out", *kind, "--overwrite"), (*words, "empty", *kind)]
    assert {call[2] for call in commands.calls[2:]} == {"exported/starter-stopped", "exported/starter-finished"}


async def test_deleting_asks_and_deletes_what_is_not_in_progress(place: Path) -> None:
    async with opened(ContrastApp(place)) as (pilot, table):
        at(table, "starter-running")
        await press(pilot, "D", shows="stop it first")
        at(table, "starter-stopped")
        await press(pilot, "D", shows="Delete starter-stopped?")
        await press(pilot, "k", then=lambda: isinstance(pilot.app.screen, RunsScreen))
        assert (place / "starter-stopped").exists()
        await press(pilot, "delete", shows="Delete starter-stopped?")
        await press(pilot, "d", then=lambda: "starter-stopped" not in names(table))
    assert {run.name for run in place.iterdir() if run.is_dir()} == {f"starter-{kind}" for kind in KINDS} - {
        "starter-stopped"
    }


async def test_a_broken_run_is_a_row_that_says_so_and_like_one_of_an_unknown_objective_not_set_up_again(
    place: Path,
) -> None:
    file = place / "starter-finished" / "config.toml"
    file.write_text(file.read_text().replace('name = "pairsupcon"', 'name = "angular"'))
    (place / "starter-stopped" / "config.toml").write_text("[train]\nlr = 'nonsense'\n")
    (place / "starter-killed" / "events.jsonl").write_bytes(b"\x00\xff not an event\n{}\n")
    async with opened(ContrastApp(place)) as (pilot, table):
        assert "▣ broken" in screen_text(pilot.app)
        at(table, "starter-finished")
        await until(pilot, lambda: "angular on starter" in screen_text(pilot.app))
        await press(pilot, "t", then=lambda: pilot.app._notifications)
        assert "install the package" in next(iter(pilot.app._notifications)).message
        at(table, "starter-stopped")
        await until(pilot, lambda: "nonsense" in screen_text(pilot.app))
        await select(pilot, table, "starter-killed", "starter-stopped")
        await until(pilot, lambda: screen_text(pilot.app).count("train.lr is 'nonsense'") == 2)
        await press(pilot, "t", then=lambda: len(pilot.app._notifications) > 1)
        assert pilot.app.current_mode == "runs"


@pytest.mark.usefixtures("read_often")
async def test_an_empty_directory_says_how_to_make_the_first_run_on_which_keys_act_at_once(tmp_path: Path) -> None:
    async with show(ContrastApp(tmp_path / "nothing"), NARROW) as pilot:
        await press(pilot, "3", shows="There is no run")
        assert "Press 1" in screen_text(pilot.app)
        assert "open" not in screen_text(pilot.app).splitlines()[-1], "there is nothing to do with no run"
        recorded(tmp_path / "nothing", "finished")
        await until(pilot, lambda: "starter-finished" in screen_text(pilot.app))
        await press(pilot, "enter", then=lambda: pilot.app.current_mode == "live")


async def test_columns_are_chosen_and_sorted_by_and_that_is_remembered(place: Path) -> None:
    recorded(place, "finished", "other", train__seed=7)
    titles = list(all_columns(read_entries(place, ())))
    at = len(columns.USUAL)  # the first that is not shown
    title = titles[at]
    async with opened(ContrastApp(place)) as (pilot, table):
        await press(pilot, "c", shows="● name")
        await pilot.press(*["down"] * at, "space", *["u"] * (at - 1), "escape")
        await until(pilot, lambda: str(table.ordered_columns[2].label) == title)
        await press(pilot, "o", "o", shows=f"by {title}")
    async with opened(ContrastApp(place)) as (pilot, table):
        assert str(table.ordered_columns[2].label) == title and f"by {title}" in screen_text(pilot.app)


async def test_a_long_name_leaves_the_columns_and_keeps_its_end(place: Path) -> None:
    for name in ("z" * 90, *("句子嵌入" * 5 + end_ for end_ in "甲乙")):
        recorded(place, "finished", name)
    async with opened(ContrastApp(place), NARROW) as (pilot, table):
        titles = [str(column.label) for column in table.ordered_columns]
        assert titles == [" ", "name", "state", "step", "best dev"]
        await until(pilot, lambda: "…zzz" in screen_text(pilot.app))
        text = screen_text(pilot.app)
        assert text.count("…") >= 3 and "甲 " in text and "乙 " in text


async def test_remembered_columns_stay_also_those_of_no_run_here_and_the_name_where_it_is_the_last(place: Path) -> None:
    app = ContrastApp(place)
    app.remembered.columns = remembered = ("state", "lambda", "step", "best dev", "size", "updated", "loss", "name")
    async with opened(app, NARROW) as (pilot, table):
        titles = [str(column.label) for column in table.ordered_columns]
        assert titles == [" ", "state", "step", "best dev", "size", "name"]
        await press(pilot, "c", shows="● state")
        await press(pilot, "escape", then=lambda: not app.screen.is_modal)
        assert app.remembered.columns == remembered


async def test_a_note_is_pasted_whole_found_by_its_words_and_stays_where_nothing_is_changed(place: Path) -> None:
    run = runs.Run(place / "starter-killed")
    run.write_note("one\ntwo")
    async with opened(ContrastApp(place)) as (pilot, table):
        at(table, run.name)
        await press(pilot, "n", shows="A note on starter-killed")
        await press(pilot, "enter", then=lambda: not pilot.app.screen.is_modal)
        assert run.note_path.read_text() == "one\ntwo\n"
        await press(pilot, "n", shows="A note on starter-killed")
        await paste(pilot, "#odd\nfour")
        await press(pilot, "enter", shows="starter-killed: #odd four")
        await press(pilot, "slash", *"#odd", then=lambda: names(table) == [run.name])
    assert run.note_path.read_text() == "#odd four\n"


async def test_n_again_waits_for_the_note_that_is_being_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(directory: Path, words: Sequence[str]) -> Finished:
        runs.Run(Path(words[-2])).write_note(words[-1])
        return Finished("")

    commands = answer_commands(monkeypatch, write)
    commands.held.clear()
    async with opened(ContrastApp(place)) as (pilot, table):
        at(table, "starter-killed")
        await press(pilot, "n", shows="A note on starter-killed")
        await press(pilot, *"mine", "enter", then=lambda: commands.calls)
        await pilot.press("n")
        await pilot.pause(0.1)
        commands.held.set()
        await until(pilot, lambda: pilot.app.screen.is_modal)
        assert pilot.app.screen.query_one(Input).value == "mine"


@pytest.mark.parametrize("error", ["", "the disk is full"])
async def test_m_in_capitals_merges_what_is_selected_with_its_backbone(
    place: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    monkeypatch.setattr("contrastcli.tui.run_screen._TELL_SECONDS", 0.05)
    commands = answer_commands(monkeypatch, Finished("α 0.4 is better than starter\nwrote out\n", error))
    commands.progress = [Progress(step=0, what="encoding", done=done, total=400) for done in (100, 200)]
    Path("out").touch()
    app = ContrastApp(place)
    told: list[str] = []
    monkeypatch.setattr(app, "notify", lambda text, **how: told.append(text))
    commands.held.clear()
    async with opened(app) as (pilot, table):
        await select(pilot, table, "starter-stopped", "starter-finished")
        await press(pilot, "M", then=lambda: "between starter and 2 runs" in " ".join(screen_text(pilot.app).split()))
        assert says(pilot, "merged/starter-stopped+1"), "not the name that one of them alone has"
        await press(pilot, "ctrl+u", *"out", "enter", shows="out is there. Replace it?")
        # As long as it works, but not over what is typed.
        await press(pilot, "r", then=lambda: sum("200 of 400" in text for text in told) > 3)
        await press(pilot, "x", shows="which new folder")
        covered = len(told)
        await pilot.pause(0.2)
        assert len(told) == covered
        commands.held.set()
        await press(pilot, "escape", then=lambda: error in told if error else says(pilot, "α 0.4 is better"))
        ended = len(told)
        await pilot.pause(0.2)
    assert told[0].startswith("measuring models between starter and 2 runs") and len(told) == ended
    paths = [str((place / name).resolve()) for name in ("starter-stopped", "starter-finished")]
    assert commands.calls == [("merge", "starter", *paths, "--out", "out", "--overwrite")]


async def test_a_long_question_or_result_is_read_to_its_end_with_keys(place: Path) -> None:
    app = ContrastApp(place)
    async with opened(app, NARROW) as (pilot, _):
        for answers in ({}, {"d": "delete"}):
            app.push_screen(Question("\n".join(f"line {n}" for n in range(60)), answers))
            await press(pilot, "pagedown", shows="line 20")
            await press(pilot, "end", shows="Esc back")
            await pilot.press("escape")


async def test_a_screenshot_says_where_it_is_or_why_it_is_not(place: Path) -> None:
    async with opened(ContrastApp(place)) as (pilot, _):
        pilot.app.deliver_screenshot()
        await until(pilot, lambda: list(Path().glob("contrast-runs-*.svg")))
        pilot.app.deliver_screenshot(path="missing")
        said = pilot.app._notifications  # on the screen a long path wraps the words
        await until(pilot, lambda: any("cannot be written" in note.message for note in said))


async def test_of_many_runs_the_first_are_compared(tmp_path: Path) -> None:
    for number in range(len(LETTERS) + 1):
        recorded(tmp_path, "empty", f"run-{number}")
    async with opened(ContrastApp(tmp_path)) as (pilot, _):
        await press(pilot, "a", shows="Differences, 26 of 27 runs")
        table = pilot.app.screen.query_one(RunsTable)
        assert [str(table.get_row_at(row)[0]) for row in range(27)] == [*LETTERS, "●"], "no letter is given twice"


async def test_b_tests_two_selected_runs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tested = {"data": "own.csv", "pairs": 967, "metric": "ndcg@10", "runs": ["b", "a"], "scores": [80.07, 80.32]}
    tested |= {"difference": 0.25, "low": -0.3, "high": 0.78, "p": 0.352, "resamples": 10_000}
    commands = answer_commands(monkeypatch, Finished(json.dumps({"bootstrap": [tested]})))
    async with opened(ContrastApp(place), NARROW) as (pilot, _):
        await pilot.press("b")
        assert not commands.calls, "one run cannot be tested"
        await press(pilot, "space", "down", "space", shows=("/ filter · b test · ", " · n note · D delete"))
        await pilot.press("b")
        words = "a is not different from b: nDCG@10 80.07 → 80.32 (+0.25, 95 % -0.30 … +0.78)"
        await until(pilot, lambda: says(pilot, words))
        commands.answer = lambda directory, words: Finished("", "no dev pairs")
        await press(pilot, "escape", "b", shows="no dev pairs")
    newest, newer = (str(run.path.resolve()) for run in runs.list_runs(place)[:2])
    asked = ("compare", newer, newest, "--bootstrap", "--json")
    assert commands.calls == [asked, asked], "the earlier run is the first"
