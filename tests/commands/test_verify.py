"""`contrast runs verify`: every kind of damage is named."""

import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from contrastcli.commands.verify import verify
from contrastcli.files import atomic_write
from contrastcli.runs import checksums
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Saved
from contrastcli.runs.measured import Step
from support.command import Answer, Contrast, refused
from support.damage import flip_bit
from support.kills import contents
from support.resuming import Killed
from support.tiny import Tiny, train

VERIFY = ("runs", "verify", "simple")


def named(answer: Answer, code: int, what: str) -> None:
    """Assert that stdout has a fault with these words, and that stderr ends in an error and a hint."""
    faults = [line for line in answer.out.splitlines() if line.startswith("✗ fault")]
    assert answer.code == code and any(what in line for line in faults), answer
    first, second = answer.err.splitlines()[-2:]
    assert first.startswith("contrast: error: ") and first.removeprefix("contrast: error: ") in faults[0]
    assert second.startswith("hint: ")


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def test_a_run_in_order_has_a_line_for_each_thing(contrast: Contrast, run: Run) -> None:
    before = contents([run.path])
    text = contrast(*VERIFY)
    assert (text.code, text.err) == (0, "")
    assert all(line.startswith("✓ ok") for line in text.out.splitlines())
    checks = json.loads(contrast(*VERIFY, "--json").out)
    parts = ["settings", "checkpoints.json", "checkpoints/000004", "events.jsonl", "scores.json"]
    assert [check["what"] for check in checks] == parts
    assert all(check["ok"] for check in checks)
    assert contents([run.path]) == before


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
    flip_bit(run.checkpoint() / "model.safetensors")
    run.scores_path.write_text("{")
    answer = contrast(*VERIFY)
    assert answer.out.count("✗ fault") == 2 and "scores.json" in answer.out
    assert "model.safetensors is damaged" in answer.err.splitlines()[0]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("checkpoints.json", '{"last": "000099"}', "000099 is missing"),
        ("checkpoints.json", '{"last": "000004", "best": "000003"}', "000003 is missing"),
        ("checkpoints.json", '{"last": "../other/checkpoints/000004"}', "malformed"),
        ("checkpoints.json", "{", "malformed"),
        ("config.toml", "[train]\nlr = -1\n", "train.lr"),
        ("environment.json", "", "malformed"),
        ("scores.json", '{"model": "x", "suites": 3}', "malformed"),
        ("scores.json", '{"model": 3, "suites": {}}', "malformed"),
        ("environment.json", None, "environment.json is missing, and there are checkpoints"),
        ("events.jsonl", "", "events.jsonl has no events, and there are checkpoints"),
        ("events.jsonl", "garbage", "events.jsonl has no events, and there are checkpoints"),
    ],
)
def test_a_file_with_another_content_is_named(
    contrast: Contrast, run: Run, file: str, text: str | None, words: str
) -> None:
    (run.path / file).unlink()
    if text is not None:
        (run.path / file).write_text(text)
    named(contrast(*VERIFY), 3, words)


def test_without_names_the_folders_tell_which_checkpoint_is_the_last(contrast: Contrast, run: Run) -> None:
    run.checkpoints_path.unlink()
    answer = contrast(*VERIFY)
    assert answer.code == 0 and "last 000004, best 000004" in answer.out
    shutil.rmtree(run.checkpoint() / "training")
    named(contrast(*VERIFY), 3, "does not name the last checkpoint")


@pytest.mark.parametrize("line", ['{"event": "step", "step"', '{"event": "step", "step": "x"}', "\0" * 9])
def test_a_line_of_the_events_that_is_damaged(contrast: Contrast, run: Run, line: str) -> None:
    edit(run.events_path, lambda text: text.replace("\n", f"\n{line}\n", 1))
    named(contrast(*VERIFY), 3, "line 2: this is no event")


def test_an_unknown_event_and_an_incomplete_last_line_are_no_damage(contrast: Contrast, run: Run) -> None:
    edit(run.events_path, lambda text: text.replace("\n", '\n{"event": "later", "step": 1}\n', 1) + '{"event": "st')
    answer = contrast(*VERIFY)
    assert answer.code == 0 and " events" in answer.out and "an incomplete line" in answer.out


def test_settings_that_were_edited_are_a_fault_and_keep_a_run_from_resuming(contrast: Contrast, run: Run) -> None:
    whole = run.config_path.read_text()
    # They are cut off too.
    for text in (whole.partition("[train]")[0], re.sub("(?m)^(lr|log_every) = .*", r"\1 = 1", whole)):
        run.config_path.write_text(text)
        named(contrast(*VERIFY), 3, "config.toml was edited: the run began with train.")
    again = contrast("train", "--resume", "simple", "--max-steps", "6", "--no-ui")
    refused(again, 3, "config.toml was edited", "contrast train --config runs/simple/config.toml --max-steps 6")


def test_a_run_whose_backbone_was_moved_goes_on_with_the_path_that_is_edited(contrast: Contrast, run: Run) -> None:
    shutil.copytree("tiny/backbone", "moved")
    edit(run.config_path, lambda text: re.sub("(?m)^backbone = .*", 'backbone = "moved"', text))
    assert contrast("train", "--resume", "simple", "--max-steps", "6", "--no-ui").code == 0


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


def test_a_pruned_run_and_one_that_was_resumed_are_in_order(contrast: Contrast, run: Run) -> None:
    assert contrast("train", "--resume", "simple", "--max-steps", "6", "--no-ui").code == 0
    assert contrast(*VERIFY).code == 0
    assert contrast("runs", "prune").code == 0
    assert contrast(*VERIFY).code == 0


def test_a_run_in_training_can_be_verified(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, dev__every=2, train__keep=2, train__max_steps=6)
    verified: list[bool] = []

    def look(event: Event) -> None:
        if isinstance(event, Step | Saved):
            verified.extend(check.ok for check in verify(run))

    train(run, look)
    assert len(verified) > 30 and all(verified)
