"""`contrast runs verify`: every kind of damage is named, and steps trained again give the same bits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from contrastcli.commands.verify import verify
from contrastcli.files import atomic_write
from contrastcli.runs import checksums
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Event, Saved, Step
from support.command import Answer, Contrast
from support.damage import flip_bit
from support.resuming import Killed
from support.tiny import Tiny, train

VERIFY = ("runs", "verify", "simple")
REPLAY = (*VERIFY, "--replay")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def named(answer: Answer, code: int, what: str) -> None:
    """Assert that stdout has a fault with these words, and that stderr ends in an error and a hint."""
    faults = [line for line in answer.out.splitlines() if line.startswith("✗ fault")]
    assert answer.code == code and any(what in line for line in faults), answer
    first, second = answer.err.splitlines()[-2:]
    assert first.startswith("contrast: error: ") and first.removeprefix("contrast: error: ") in faults[0]
    assert second.startswith("hint: ")


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def in_order(part: Path) -> None:
    """Give the files of a checkpoint, or of its training folder, the checksums that they have now."""
    kept = part / "training"
    if kept.is_dir():
        kept = kept.rename(part.parent / "aside")
    checksums.write(part)
    if kept.name == "aside":
        kept.rename(part / "training")


def test_a_run_in_order_has_a_line_for_each_thing(contrast: Contrast, run: Run) -> None:
    before = contents(run.path)
    text = contrast(*VERIFY)
    assert (text.code, text.err) == (0, "")
    assert all(line.startswith("✓ ok") for line in text.out.splitlines())
    checks = json.loads(contrast(*VERIFY, "--json").out)
    assert [check["what"] for check in checks] == [
        *("config.toml", "checkpoints.json", "checkpoints/000004"),
        *("events.jsonl", "environment.json", "scores.json", "other files"),
    ]
    assert all(check["ok"] for check in checks)
    assert contents(run.path) == before


@pytest.mark.parametrize("harm", ["bit", "cut", "missing"])
def test_every_file_of_a_checkpoint_is_checked(contrast: Contrast, run: Run, harm: str) -> None:
    files = [path for path in run.checkpoint().rglob("*") if path.is_file()]
    assert len(files) >= 11
    for file in files:
        data = file.read_bytes()
        if harm == "bit":
            flip_bit(file, at=len(data) // 2)
        elif harm == "cut":
            file.write_bytes(data[: len(data) // 2])
        else:
            file.unlink()
        is_list = file.name == checksums.CHECKSUMS and harm == "bit"  # whose bit makes another file look damaged
        named(contrast(*VERIFY), 3, "checkpoints/000004" if is_list else str(file))
        file.write_bytes(data)
    assert contrast(*VERIFY).code == 0


def test_all_faults_are_listed_and_the_worst_ends_the_command(contrast: Contrast, run: Run) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        flip_bit(run.checkpoint() / name)
    run.scores_path.write_text("{")
    answer = contrast(*VERIFY)
    assert answer.out.count("✗ fault") == 3 and "tokenizer.json" in answer.out and "scores.json" in answer.out
    assert "model.safetensors is damaged" in answer.err.splitlines()[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"last": "000099"}', "000099 is missing"),
        ('{"last": "000004", "best": "000003"}', "000003 is missing"),
        ('{"best": "000004"}', "does not name the last checkpoint"),
        ('{"last": "000004"}', "does not name the best step, 4"),
        ("{}", "does not name the last checkpoint"),
        ('{"last": "../x"}', "malformed"),
        ("{", "malformed"),
        (None, "does not name the last checkpoint"),
    ],
)
def test_names_that_point_nowhere(contrast: Contrast, run: Run, text: str | None, words: str) -> None:
    run.checkpoints_path.unlink() if text is None else run.checkpoints_path.write_text(text)
    named(contrast(*VERIFY), 3, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [lines[0], lines[1][:-3], *lines[2:]], "line 2: this is no event"),
        (lambda lines: [lines[0], '{"event": "step", "step": "x"}', *lines[1:]], "line 2: this is no event"),
        (lambda lines: [lines[0], "\0" * 9, *lines[1:]], "line 2: this is no event"),
        (lambda lines: lines[1:], "after no start"),
        (lambda lines: [*lines[:3], *sorted(lines[3:], reverse=True)], "after step"),
    ],
)
def test_a_line_of_the_events_that_is_damaged(
    contrast: Contrast, run: Run, change: Callable[[list[str]], list[str]], words: str
) -> None:
    edit(run.events_path, lambda text: "\n".join(change(text.splitlines())) + "\n")
    named(contrast(*VERIFY), 3, words)


def test_events_of_a_newer_version_and_an_incomplete_line_are_no_faults(contrast: Contrast, run: Run) -> None:
    edit(run.events_path, lambda text: text + '{"event": "novelty", "step": 9, "x": 1}\n{"event": "st')
    answer = contrast(*VERIFY)
    assert answer.code == 0 and "an incomplete line" in answer.out


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("config.toml", "[train]\nlr = -1\n", "train.lr"),
        ("config.toml", None, "cannot be read"),
        ("environment.json", None, "environment.json is missing"),
        ("environment.json", "[]", "malformed"),
        ("scores.json", '{"model": "x", "suites": 3}', "malformed"),
        ("scores.json", '{"model": 3, "suites": {}}', "malformed"),
        (".events.jsonl.ab12cd34.tmp", "", "left of a process that was killed"),
        ("checkpoints/.000003.tmp", "", "left of a process that was killed"),
        ("checkpoints/000009", "", "left of a process that was killed"),
    ],
)
def test_other_files_that_are_damaged(contrast: Contrast, run: Run, file: str, text: str | None, words: str) -> None:
    path = run.path / file
    path.unlink() if text is None else path.write_text(text)
    if file == "config.toml" and text is None:
        assert contrast("runs", "verify", "runs/simple").code == 3  # it is no run any more
        return
    named(contrast(*VERIFY), 3, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step": 3}, "is of step 3, its folder of step 4"),
        ({"best": 0.125}, "has the best score 0.125 at step 4"),
        ({"best_step": 2}, "at step 2"),
    ],
)
def test_a_position_that_does_not_fit(contrast: Contrast, run: Run, change: dict[str, object], words: str) -> None:
    training = run.checkpoint() / "training"
    edit(training / "position.json", lambda text: json.dumps(json.loads(text) | change))
    in_order(training)
    named(contrast(*VERIFY), 3, words)


def test_a_checkpoint_that_was_saved_before_its_evaluation_is_in_order(contrast: Contrast, run: Run) -> None:
    """A stop in an evaluation saves; a resume repeats it, and a kill may come before that is in checkpoints.json."""
    training, before = run.checkpoint() / "training", {"best": None, "best_step": None, "to_evaluate": True}
    edit(training / "position.json", lambda text: json.dumps(json.loads(text) | before))
    in_order(training)
    assert contrast(*VERIFY).code == 0
    run.checkpoints_path.write_text('{"last": "000004"}')
    assert contrast(*VERIFY).code == 0


@pytest.mark.parametrize("writes", range(4))
def test_a_kill_while_the_position_is_replaced_leaves_a_checkpoint_in_order(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    left = iter(range(writes))

    def write(path: Path, data: bytes) -> None:
        if next(left, None) is None:
            raise Killed
        atomic_write(path, data)

    training = run.checkpoint() / "training"
    replaced = (training / "position.json").read_bytes() + b"\n"
    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(checksums, "atomic_write", write)
        checksums.replace(training, "position.json", replaced)
    assert ((training / "position.json").read_bytes() == replaced) == (writes > 1)
    assert contrast(*VERIFY).code == 0


def test_numbers_that_are_not_finite(contrast: Contrast, run: Run) -> None:
    change_weight(run.checkpoint(), math.nan)
    named(contrast(*VERIFY), 3, "that are not finite")


def change_weight(folder: Path, value: float) -> None:
    """Set one number in a model, whose checksums fit afterwards."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors[sorted(tensors)[0]].view(-1)[3] = value
    save_file(tensors, file, metadata={"format": "pt"})
    in_order(folder)


def test_a_run_of_an_older_version_has_no_checksums(contrast: Contrast, run: Run) -> None:
    for file in run.checkpoints_dir.rglob(checksums.CHECKSUMS):
        file.unlink()
    answer = contrast(*VERIFY)
    assert answer.code == 0 and "no checksums" in answer.out


def test_a_pruned_run_and_one_that_was_resumed_are_in_order(contrast: Contrast, run: Run) -> None:
    assert contrast("train", "--resume", "simple", "--max-steps", "6", "--no-ui").code == 0
    assert contrast(*VERIFY).code == 0
    assert contrast("runs", "prune").code == 0
    assert contrast(*VERIFY).code == 0


def test_a_run_in_training_can_be_verified(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, dev__every=4, train__keep=2)
    verified: list[bool] = []

    def look(event: Event) -> None:
        if isinstance(event, Step | Saved):
            verified.extend(check.ok for check in verify(run, None))

    train(run, look)
    assert len(verified) > 100 and all(verified)


def test_steps_trained_again_give_the_same_bits_and_leave_the_run_alone(contrast: Contrast, run: Run) -> None:
    before = contents(run.path)
    answer = contrast(*REPLAY, "9")
    assert answer.code == 0
    last = answer.out.splitlines()[-1]
    assert "steps 1 to 4 gave the same bits: 4 logged steps, 1 evaluation, 1 checkpoint" in last
    assert contents(run.path) == before


def test_a_replay_begins_at_the_checkpoint_before_the_last(contrast: Contrast, tiny: Tiny) -> None:
    train(tiny.run(Path("runs/simple"), train__max_steps=10, train__save_every=4, train__keep=2))
    assert "steps 9 to 10 gave the same bits: 2 logged steps, 1 evaluation, 1 checkpoint" in contrast(*REPLAY, "5").out
    assert "steps 9 to 9 gave the same bits: 1 logged step, 0 evaluations, 0 checkpoints" in contrast(*REPLAY, "1").out


def test_a_replay_knows_that_a_resume_changed_the_number_of_steps(contrast: Contrast, run: Run) -> None:
    """The learning rate depends on it."""
    assert contrast("train", "--resume", "simple", "--max-steps", "6", "--no-ui").code == 0
    assert "steps 1 to 4 gave the same bits: 4 logged steps" in contrast(*REPLAY, "6").out


def test_an_edited_loss_is_found_with_the_difference_of_environments(contrast: Contrast, run: Run) -> None:
    loss = next(event.loss for event in run.events() if isinstance(event, Step) and event.step == 3)
    assert loss is not None
    edit(run.events_path, lambda text: text.replace(f'"loss":{loss}', f'"loss":{loss + 0.5}'))
    assert contrast(*VERIFY).code == 0
    answer = contrast(*REPLAY, "4")
    named(answer, 1, f"step 3: the loss is {loss}, and {loss + 0.5} is recorded")
    assert "the environment is the same" in answer.err
    edit(run.environment_path, lambda text: json.dumps(json.loads(text) | {"threads": 77, "device": "cuda"}))
    answer = contrast(*REPLAY, "4")
    assert answer.code == 1 and "threads 77 → " in answer.err and "device cuda → cpu" in answer.err


def test_an_event_that_did_not_happen_is_found(contrast: Contrast, run: Run) -> None:
    def plant(text: str) -> str:
        lines = [line for line in text.splitlines() if '"step":4' in line]
        evaluated = next(line for line in lines if '"evaluated"' in line).replace('"best":true', '"best":false')
        return text.replace(lines[0], evaluated.replace('"step":4', '"step":3') + "\n" + lines[0])

    edit(run.events_path, plant)
    named(contrast(*REPLAY, "4"), 1, "step 3: evaluated is recorded, and did not happen again")


def test_a_changed_weight_is_found_although_its_checksum_is_right(contrast: Contrast, run: Run) -> None:
    change_weight(run.checkpoint(), 0.75)
    assert contrast(*VERIFY).code == 0
    named(contrast(*REPLAY, "4"), 1, "differs by up to")


def test_a_replay_needs_the_rows_of_the_run(contrast: Contrast, run: Run) -> None:
    edit(run.environment_path, lambda text: text.replace('"fingerprint": "', '"fingerprint": "0'))
    answer = contrast(*REPLAY, "4")
    assert answer.code == 1 and "are not those that the run began with" in answer.err
