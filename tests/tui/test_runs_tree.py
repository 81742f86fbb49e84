"""What the screen Runs lists: runs, filters and details, and headings for methods, sweeps and the papers' tables."""

import json
import re
import shutil
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from contrastcli.runs import directory as runs
from contrastcli.runs import sweeps
from contrastcli.runs.directory import Run
from contrastcli.runs.methods import Member
from contrastcli.runs.results import ScoreName
from contrastcli.runs.status import Status
from contrastcli.settings.sections import SEED
from contrastcli.show.format import size
from contrastcli.tui import state
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.processes import Finished
from contrastcli.tui.runs.columns import age, all_columns, matching, ordered, row_text
from contrastcli.tui.runs.heat_map import heat_map
from contrastcli.tui.runs.listing import Entry, read_entries
from contrastcli.tui.runs.overlay_panel import details, labels
from contrastcli.tui.runs.runs_table import RunsTable
from contrastcli.tui.runs.tree import TreeItem
from contrastcli.tui.widgets import PlainText
from support.commands import answer_commands
from support.recorded import Kind, append, end, recorded, stepped
from support.runs_screen import at, names, opened
from support.screens import NARROW, press, says, screen_text, until
from support.settings import preset
from support.sweeps import make_sweep

pytestmark = pytest.mark.usefixtures("without_setup")


async def test_g_shows_below_each_table_of_the_papers_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        {"paper": "simace", "item": "table-1", "runs": ["starter-finished", "starter-killed", "waiting"]},
        {"paper": "simace", "item": "table-2", "runs": ["starter-finished"]},
        {"paper": "supcon", "item": "table-1", "runs": ["waiting"]},
        {"paper": "supcon", "item": "table-2", "runs": []},
    ]
    kinds: tuple[Kind, ...] = ("finished", "killed", "stopped")
    for kind in kinds:
        recorded(tmp_path, kind)
    commands = answer_commands(monkeypatch, Finished(json.dumps(listed)))
    headings = {"▸ simace table-1  1 of 3", "▸ simace table-2  1 of 1"}
    async with opened(ContrastApp(tmp_path)) as (pilot, table):
        await pilot.press("g", "g")
        assert not commands.calls and len(names(table)) == 3
        await until(pilot, lambda: "3 runs in no sweeps" in screen_text(pilot.app))
        await press(pilot, "g", then=lambda: headings <= set(names(table)))
        assert len(names(table)) == len(headings) + 1
        for title in headings:
            at(table, title)
            await pilot.press("enter")
        assert names(table).count("  starter-finished") == 2, "a run of two tables is below both"
    assert commands.calls == [("papers", "list", "--json")]


def headed(table: RunsTable) -> list[str]:
    """The names and headings in the table, with what indents them, and the best dev scores."""
    best = [str(column.label) for column in table.ordered_columns].index("best dev")
    return [f"{row[1]} | {row[best]}" for row in map(table.get_row_at, range(table.row_count))]


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    """A sweep of τ with two seeds, of which three runs have finished and one is waiting; and a run of its own."""
    sweep = make_sweep(tmp_path, preset("starter").flat(), "objective.tau=0.05,0.1", seeds=2)
    sweeps.save(sweep, tmp_path)
    for cell, score in zip(sweep.cells(tmp_path), (0.70, 0.74, 0.60), strict=False):
        end(runs.create(cell.config, tmp_path, cell.name), score)
    end(recorded(tmp_path, "empty", "other", train__lr=3e-4), 0.80)
    return tmp_path


async def test_g_shows_the_runs_of_a_sweep_below_a_heading_which_unfolds_and_is_remembered(swept: Path) -> None:
    async with opened(ContrastApp(swept)) as (pilot, table):
        await pilot.press("o", "g", "g")
        assert headed(table) == ["other | 80.00", "▸ s  3 of 4 | 72.00 ± 2.83"]
        assert "4 runs in sweeps, by name" in screen_text(pilot.app)
        at(table, "▸ s  3 of 4")
        told = "s: 3 finished, 1 waiting; best: tau=0.05"
        await until(pilot, lambda: told in screen_text(pilot.app))
        await pilot.press("enter", "down", "enter")
        assert headed(table) == [
            "other | 80.00",
            "▾ s  3 of 4 | 72.00 ± 2.83",
            "  ▾ tau=0.05  2 of 2 | 72.00 ± 2.83",
            "    s-tau=0.05-seed=42 | 70.00",
            "    s-tau=0.05-seed=43 | 74.00",
            "  s-tau=0.1-seed=42 | 60.00",
        ]
        await pilot.press("down", "down", "left", "enter")
        assert names(table)[table.cursor_row] == "  ▸ tau=0.05  2 of 2", "the cursor stays at what was folded"
        await press(pilot, "slash", *"tau=0.1", then=lambda: names(table) == ["▾ s  1 of 1", "  s-tau=0.1-seed=42"])
    assert state.load().grouping == "sweeps" and state.load().unfolded == {("s",)}


def test_a_heading_has_the_state_of_the_run_in_progress_and_the_time_of_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    statuses = Status(name="a", state="finished", updated=900), Status(name="b", state="starting", updated=946)
    several = [Entry(Run(Path(status.name)), status) for status in statuses]
    shown = {title: row_text(TreeItem(("s",), several, 2), column) for title, column in all_columns(several).items()}
    assert (shown["state"], shown["updated"]) == ("◌ starting", "54s ago")


@pytest.mark.parametrize(
    ("metric", "scores", "text"),
    [
        ("nDCG@10", [41.18], "41.2 nDCG@10"),
        ("nDCG@10", [100.0], "100 nDCG@10"),
        ("recall@100", [41.18], "41.2 R@100"),
        ("nDCG@10", [41.18, 41.38], "41.28 ± 0.14"),
        ("", [41.18, 41.38], "41.28 ± 0.14"),
    ],
)
def test_the_score_of_a_heading_has_its_metric_whole_or_not_at_all(metric: str, scores: list[float], text: str) -> None:
    members = [Member(str(n), {SEED: n}, "finished", {ScoreName("dev", metric): s}) for n, s in enumerate(scores)]
    item = TreeItem(("s",), [Entry(Run(Path(one.name)), member=one) for one in members], len(members))
    assert row_text(item, all_columns([])["best dev"]) == text


def cells(pilot: Pilot[None]) -> list[list[str]]:
    """The words of the table of a sweep, a list for each of its lines."""
    table = pilot.app.screen.query_one("#heat-map-text", PlainText)
    return [line.split() for line in str(table.content).splitlines() if table.parent and table.parent.display]


async def test_a_sweep_is_a_table_of_two_settings_in_which_the_cell_of_the_run_is_marked(swept: Path) -> None:
    async with opened(ContrastApp(swept)) as (pilot, _):
        await pilot.press("o", "g")
        assert cells(pilot) == []
        await pilot.press("g", "down")
        one_row = [["tau", "0.05", "0.1"], ["72.0", "±2.8◆", "60.0", "1/2"]]
        await until(pilot, lambda: cells(pilot) == one_row)
        await until(pilot, lambda: "dev Spearman · starter over 2 seeds" in screen_text(pilot.app))
        await pilot.press("enter", *["down"] * 2)
        await until(pilot, lambda: cells(pilot)[1:] == [["72.0", "±2.8◆", "▸", "60.0", "1/2"]])
        await press(pilot, "up", then=lambda: cells(pilot)[1:] == [["▸", "72.0", "±2.8◆", "60.0", "1/2"]])
        await press(pilot, "g", then=lambda: not cells(pilot))


def test_a_cell_that_has_not_finished_has_the_metric_of_the_others(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, preset("starter").flat(), "objective.tau=0.05,0.1")
    first, second = (name for name, *_ in sweep.points())
    score = {ScoreName("dev", "nDCG@10"): 50.0}
    members = {first: Member(first, {}, "finished", score), second: Member(second, {}, "running", {})}
    assert heat_map(sweep, members, {second})[0] == heat_map(sweep, members, {first})[0] == "dev nDCG@10 · starter"


def test_columns_of_a_sweep_are_below_their_values_in_any_script(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path, preset("starter").flat(), "model.backbone=語料庫,starter")
    assert len({cell_len(line) for line in str(heat_map(sweep, {}, set())[1]).splitlines()}) == 1


def test_a_sweep_and_the_curve_below_it_name_the_dev_set_alike(tmp_path: Path) -> None:
    settings = {**preset("starter").flat(), "data.train": "corpora/qa.jsonl", "dev.data": "auto"}
    sweep = make_sweep(tmp_path, settings, "objective.tau=0.05,0.1")
    name, *_ = next(iter(sweep.points()))
    members = {name: Member(name, {**settings, "dev.data": "split:5%"}, "running", {})}
    assert heat_map(sweep, members, {name})[0] == "dev Spearman · 5% of qa.jsonl"


async def test_a_sweep_of_many_values_scrolls_to_the_cell_of_the_run(tmp_path: Path) -> None:
    """Forty learning rates go downwards; of the third setting only the value of the run is shown."""
    rates = ",".join(f"{n}e-5" for n in range(1, 41))
    grid = ("objective.tau=0.05,0.1", f"train.lr={rates}", "train.warmup=0.0,0.1")
    sweep = make_sweep(tmp_path, preset("starter").flat(), *grid)
    sweeps.save(sweep, tmp_path)
    last = sweep.cells(tmp_path)[-1]
    end(runs.create(last.config, tmp_path, last.name), 0.5)
    async with opened(ContrastApp(tmp_path), NARROW) as (pilot, _):
        await press(pilot, "g", "g", "enter", "down", then=lambda: len(cells(pilot)) == 41)
        assert cells(pilot)[0] == ["lr", "╲", "tau", "0.05", "0.1"]
        await until(pilot, lambda: cells(pilot)[40] == ["0.0004", "0/1", "▸", "50.0◆"])
        await until(pilot, lambda: says(pilot, "dev Spearman · starter, warmup=0.1", "▸ 50.0◆"))


async def test_a_method_is_named_whole_in_80_columns_by_what_sets_it_apart_alone(tmp_path: Path) -> None:
    changes: tuple[dict[str, object], ...] = (
        {"objective__name": "simcse"},
        {},
        {"train__batch_size": 32},
        {"train__batch_size": 32, "train__lr": 3e-4},
    )
    for number, some in enumerate(changes):
        for seed in (1, 2):
            end(recorded(tmp_path, "empty", f"{number}-{seed}", train__seed=seed, **some), 0.7)
    titles = ["batch_size=32 lr=0.0003", "batch_size=32 lr=5e-05", "batch_size=64"]
    async with opened(ContrastApp(tmp_path), NARROW) as (pilot, table):
        await pilot.press("g")
        expected = [*(f"▸ pairsupcon {title}  2 of 2" for title in titles), "▸ simcse  2 of 2"]
        await until(pilot, lambda: names(table) == expected)


async def test_the_keys_for_several_runs_take_all_of_a_heading(swept: Path) -> None:
    async with opened(ContrastApp(swept)) as (pilot, table):
        await pilot.press("o", "g")
        assert names(table) == ["other", "▸ tau=0.05 lr=5e-05  2 of 2", "s-tau=0.1-seed=42"]
        await press(pilot, "down", shows="B s-tau=0.05-seed=43")
        footer = screen_text(pilot.app).splitlines()[-1]
        assert "evaluate" not in footer and "resume" not in footer, "they take one run"
        await pilot.press("space", "up")
        assert [str(table.get_row_at(row)[0]) for row in range(3)] == [" ", "●", " "]
        await press(pilot, "D", shows="Delete 2 runs (s-tau=0.05-seed=42, s-tau=0.05-seed=43)?")
        await press(pilot, "d", then=lambda: names(table) == ["other", "s-tau=0.1-seed=42"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s ago"), (59, "59s ago"), (61, "1m ago"), (3600, "1h ago"), (47 * 3600, "47h ago"), (49 * 3600, "2d ago")],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (999_949, "999.9 KB"), (999_950, "1.0 MB"), (10**15, "1000.0 TB")]
)
def test_a_size_is_told_in_its_largest_unit(count: int, text: str) -> None:
    assert size(count) == text


def test_long_names_of_runs_keep_the_ends_in_which_they_differ(tmp_path: Path) -> None:
    pair = [recorded(tmp_path, "finished", f"{'a' * 60}-seed={n}") for n in (1, 2)]
    lines = details(pair)[0].splitlines()[:2]
    assert [line[-8:] for line in lines] == ["a-seed=1", "a-seed=2"] and max(map(len, lines)) < 45


def test_details_name_the_run_that_is_gone(tmp_path: Path) -> None:
    gone = recorded(tmp_path, "finished", "one")
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    assert "cannot be read" in details([gone, gone])[0]


def test_details_shorten_the_paths_of_the_run_and_no_path_in_words(cwd: Path) -> None:
    run = recorded(Path("runs"), "finished")
    batch = f"its batch is in {run.path.resolve()}/diverged.json"
    end(run, 0.7, "diverged", code=4, message=batch)
    told = dict(re.findall(r"^(\S.*?)  +(.*\S)", details([run])[0], re.MULTILINE))
    assert told["state"] == f"diverged: {batch}" and told["best checkpoint"] == "checkpoints/000300"
    assert told["train.seed"] == "42"


def test_a_legend_has_names_only_where_there_is_room_for_all() -> None:
    pair = ["2026-11-20-1432-simace", "2026-11-20-1433-simcse"]
    assert labels(pair, 120) == [f"A {pair[0]}", f"B {pair[1]}"]
    assert labels(pair, 40) == ["A", "B"]
    assert labels(pair[:1], 10) == pair[:1]


def test_what_has_ended_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("finished", "running"):
        recorded(tmp_path, kind)
    first = read_entries(tmp_path, ())
    read: list[str] = []
    usual = runs.Run.status

    def status(run: runs.Run) -> Status:
        read.append(run.name)
        return usual(run)

    monkeypatch.setattr(runs.Run, "status", status)
    (tmp_path / "starter-finished" / "scores.json").write_bytes(b"x" * 1000)
    again = {entry.name: entry for entry in read_entries(tmp_path, first)}
    assert read == ["starter-running"]
    before = {entry.name: entry for entry in first}["starter-finished"].size
    assert again["starter-finished"].size == before + 1000
    append(runs.Run(tmp_path / "starter-finished"), stepped(601))
    read_entries(tmp_path, [*again.values()])
    assert read[1:] == ["starter-running", "starter-finished"] or read[1:] == ["starter-finished", "starter-running"]


def test_a_run_that_lost_its_checkpoints_is_not_saved_any_more(tmp_path: Path) -> None:
    run = recorded(tmp_path, "finished")
    before = read_entries(tmp_path, ())
    assert [entry.is_saved for entry in before] == [True]
    shutil.rmtree(run.checkpoints_dir)
    run.checkpoints_path.unlink()
    assert [entry.is_saved for entry in read_entries(tmp_path, before)] == [False]


def test_orders_and_filters(tmp_path: Path) -> None:
    recorded(tmp_path, "finished", "a", objective__name="simcse", train__lr=3e-5)
    recorded(tmp_path, "empty", "b")
    recorded(tmp_path, "stopped", "c").note_path.write_text("#paper the best so far\n")
    entries = read_entries(tmp_path, ())
    known = all_columns(entries)

    def matched(typed: str) -> list[str]:
        return sorted(entry.name for entry in matching(entries, known, typed))

    assert [entry.name for entry in ordered(entries, known, "best dev")][-1] == "b", "a run without a score comes last"
    assert [entry.name for entry in ordered(entries, known, "name")] == ["a", "b", "c"]
    assert [entry.name for entry in ordered(entries, known, "lr")] == ["a", "b", "c"]
    assert [entry.name for entry in ordered(entries, known, "newest")] == [entry.name for entry in entries]
    assert matched("SIMCSE finished") == ["a"] and matched("#paper") == ["c"]
    assert matched("lr=3e-5") == ["a"] == matched("lr<4e-5") and matched("lr!=0.00003") == ["b", "c"]
    assert matched("train.lr=3e-5 objective.name=simcse") == ["a"]
    assert matched("dev>60") == ["a", "c"] and matched("dev>60 state=stopped") == ["c"] and matched("dev>99") == []
    assert matched("batch-size>=64 objective=pairsupcon") == ["b", "c"] and matched("unknown=1") == []
