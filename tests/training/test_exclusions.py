"""Pairs that are no negatives of each other: from a file, and added to a run while it trains."""

import json
from pathlib import Path

import pytest
import torch

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Note
from contrastcli.runs.measured import Step, Violated
from contrastcli.runs.process import exclude, left_out
from contrastcli.training.batch import Batch
from contrastcli.training.step import Outcome, Stepper
from support.command import Contrast, failed
from support.command import train as words
from support.resuming import assert_same, state, train_with_a_kill
from support.tiny import Tiny, on_step, told, train


def rows_of(tiny: Tiny) -> list[dict[str, str]]:
    return [json.loads(line) for line in tiny.data["triplets"].read_text().splitlines()]


def one_batch(tiny: Tiny, folder: Path, **settings: object) -> Run:
    """A run of 6 steps, each on the same 8 triplets."""
    usual = {"data__limit": 8, "train__epochs": 9, "train__max_steps": 6, "dev__every": 3, "dev__data": "none"}
    return tiny.run(folder, "simcse", "triplets", **usual | settings)


def notes(run: Run) -> list[tuple[int, str]]:
    return [(note.step, note.text) for note in told(run, Note) if "left out" in note.text]


@pytest.fixture
def excluded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs each step's loss leaves out, in both orders."""
    counts: list[int] = []
    backward = Stepper._loss

    def count(self: Stepper, batch: Batch, leaf: torch.Tensor) -> tuple[Outcome, torch.Tensor]:
        counts.append(len(batch.rows.excluded))
        return backward(self, batch, leaf)

    monkeypatch.setattr(Stepper, "_loss", count)
    return counts


def test_a_pair_that_is_added_while_a_run_trains_is_left_out_from_the_next_step_on(
    tiny: Tiny, tmp_path: Path, excluded: list[int]
) -> None:
    rows = rows_of(tiny)
    plain, run = one_batch(tiny, tmp_path / "plain"), one_batch(tiny, tmp_path / "run")
    train(plain)
    excluded.clear()
    train(run, on_step(2, lambda: exclude(run, rows[0]["anchor"], rows[3]["negative"])))
    assert excluded == [0, 0, 2, 2, 2, 2]
    losses = [[event.loss for event in told(one, Step)] for one in (plain, run)]
    assert losses[0][:2] == losses[1][:2] and losses[0][2] != losses[1][2]
    assert notes(run) == [(2, "pairs left out of the negatives: 1")]


def test_a_file_of_pairs_does_the_same_as_the_run_has_and_a_kill_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    rows = rows_of(tiny)
    table = tmp_path / "pairs.csv"
    pairs = [(rows[0]["anchor"], rows[3]["negative"]), (rows[5]["positive"], rows[1]["anchor"]), ("unknown", "text")]
    table.write_text("times,negative,anchor\n" + "".join(f"3,{b},  {a}\n" for a, b in pairs))
    given, added = (
        one_batch(tiny, tmp_path / name, **file)
        for name, file in (("given", {"data__false_negatives": str(table)}), ("added", {}))
    )
    train(given)
    for a, b in pairs:
        exclude(added, a, b)
    killed = train_with_a_kill(added, 4)
    assert_same(added, given)
    text = "pairs left out of the negatives: 2; 1 with a text that the data lack"
    assert notes(given) == notes(added) == [(0, text)] and notes(killed) == [(0, text), (3, text)]
    reused = one_batch(tiny, tmp_path / "reused", data__false_negatives=str(added.false_negatives_path))
    train(reused)
    assert state(reused) == state(given), "the run's own file is such a file too"


def test_an_excluded_negative_violates_nothing_any_more(tiny: Tiny, tmp_path: Path) -> None:
    run = one_batch(tiny, tmp_path / "run", train__max_steps=9)
    train(run, on_step(3, run.stop_path.touch))
    [event] = told(run, Violated)
    for one in event.anchors:
        exclude(run, one.anchor, one.negative)
    train(run)
    before = {(one.anchor, one.negative) for one in event.anchors}
    later = {(one.anchor, one.negative) for event in told(run, Violated)[1:] for one in event.anchors}
    assert before and not before & later


def test_a_damaged_file_of_a_run_leaves_the_pairs_as_they_are(tiny: Tiny, tmp_path: Path, excluded: list[int]) -> None:
    rows = rows_of(tiny)
    run = one_batch(tiny, tmp_path / "run")
    exclude(run, rows[0]["anchor"], rows[3]["negative"])
    train(run, on_step(3, lambda: run.false_negatives_path.write_text('{"anchor": "a')))
    assert excluded == [2] * 6
    assert any("false-negatives.jsonl" in text and "stay the same" in text for step, text in notes(run) if step == 3)


def test_texts_are_compared_by_their_beginnings_as_events_have_them(
    tiny: Tiny, tmp_path: Path, excluded: list[int]
) -> None:
    long = "ba " * 100
    data = tmp_path / "rows.jsonl"
    pairs = [("da", "den"), (f"{long}", "do"), ("fa", "fen"), ("ga", "gen")]
    data.write_text("".join(json.dumps({"anchor": a, "positive": b}) + "\n" for a, b in pairs))
    run = one_batch(tiny, tmp_path / "run", data__train=str(data), train__batch_size=4, train__max_steps=2)
    exclude(run, f"{long[:199]}…", " den")
    train(run)
    assert excluded == [2, 2]


def test_pairs_that_have_no_effect_are_told_before_training(tiny: Tiny, contrast: Contrast, tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("anchor,negative\nx,y\n")
    mse = words("--objective", "mse", "--data", "tiny/scored.jsonl", "--dev", "none", "--dry-run")
    note = "without negatives there is no effect of data.false_negatives"
    assert note in contrast(*mse, "--false-negatives", table).out


def test_the_command_adds_a_pair_once_and_refuses_what_makes_no_sense(
    tiny: Tiny, contrast: Contrast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTRAST_RUNS", str(tmp_path))
    run = one_batch(tiny, tmp_path / "mine")
    for _ in range(2):
        answer = contrast("runs", "exclude", "mine", "--", "a [b]", "- c\nd")
        assert answer.code == 0
        assert answer.err == "no negatives of each other in mine from its next step on, where its data have both\n"
    written = run.false_negatives_path.read_text()
    assert written == '{"anchor":"a [b]","negative":"- c\\nd"}\n'
    # As an editor or a program may leave it.
    run.false_negatives_path.write_text(written.rstrip())
    assert contrast("runs", "exclude", "mine", "c", "d").code == 0
    assert left_out(run) == {("a [b]", "- c\nd"), ("c", "d")}
    answer = contrast("runs", "exclude", "--undo", "mine", "--", "a [b]", "- c\nd")
    assert answer.err == "negatives of each other in mine from its next step on, where its data have both\n"
    assert left_out(run) == {("c", "d")}
    failed(contrast("runs", "exclude", "--undo", "mine", "a", "d"), 2, "these two were not left out in mine", "jsonl")
    assert contrast("runs", "exclude", "--undo", "mine", "c", "d").code == 0 and not run.false_negatives_path.exists()
    assert contrast("runs", "exclude", "mine", "c", "d").code == 0
    tiny.run(tmp_path / "scored", "mse", "scored")
    failed(contrast("runs", "exclude", "scored", "e", "f"), 2, "'mse', the objective of scored, has no negatives")
