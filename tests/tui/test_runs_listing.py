"""What the screen Runs shows of runs, without the screen: its listing, columns, filters and details."""

import shutil
from pathlib import Path

import pytest

from contrastcli.runs import directory as runs
from contrastcli.runs.status import Status
from contrastcli.show.format import size
from contrastcli.tui.runs.columns import age, all_columns, matching, ordered
from contrastcli.tui.runs.listing import read_entries
from contrastcli.tui.runs.overlay_panel import details, labels
from support.recorded import append, end, recorded, stepped


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
    lines = str(details(pair)).splitlines()[:2]
    assert [line[-8:] for line in lines] == ["a-seed=1", "a-seed=2"] and max(map(len, lines)) < 45


def test_details_name_the_run_that_is_gone(tmp_path: Path) -> None:
    gone = recorded(tmp_path, "finished", "one")
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    assert "cannot be read" in details([gone, gone])


def test_details_shorten_the_paths_of_the_run_and_no_path_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = recorded(Path("runs"), "finished")
    batch = f"its batch is in {run.path.resolve()}/diverged.json"
    end(run, 0.7, "diverged", code=4, message=batch)
    shown = details([run])
    assert not isinstance(shown, str)
    facts, settings = (dict(fields) for fields in shown)
    assert facts["state"] == f"diverged: {batch}" and facts["best checkpoint"] == "checkpoints/000300"
    assert settings["train.seed"] == "42"


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
