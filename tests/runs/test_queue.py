"""Runs that wait for the end of another one."""

import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest

from contrastcli.runs import process
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Done, Queued
from contrastcli.runs.process import hold, wait_behind
from contrastcli.settings.config import Config
from contrastcli.training.plan import Plan, make_plan
from support.command import Contrast, failed, train
from support.recorded import append, recorded


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "QUEUE_POLL_SECONDS", 0.02)


@pytest.fixture
def first(tmp_path: Path) -> Run:
    """A run in training."""
    return recorded(tmp_path / "runs", "running", "first")


@pytest.fixture
def second(first: Run) -> Run:
    return recorded(first.path.parent, "empty", "second")


def finish(run: Run, status: str = "finished") -> None:
    append(run, Done(step=350, status=status, code=0))
    run.alive_path.unlink()


def test_it_waits_and_says_so(first: Run, second: Run) -> None:
    seen = []

    def look() -> None:
        seen.append(second.status())
        finish(first, "diverged")

    with hold(second), closing(EventWriter(second.events_path)) as write:
        threading.Timer(0.05, look).start()
        wait_behind(first, second, write, 0)
    (status,) = seen
    assert (status.state, status.message, status.ended) == ("queued", "waits for the end of first", False)


@pytest.mark.parametrize("ended", ["finished", "killed", "failed"])
def test_it_does_not_wait_for_what_has_ended(second: Run, ended: str) -> None:
    wait_behind(recorded(second.path.parent, ended), second, lambda event: None, 0)  # type: ignore[arg-type]
    wait_behind(Run(second.path / "gone"), second, lambda event: None, 0)


def test_a_stop_takes_it_out_of_the_queue(first: Run, second: Run) -> None:
    threading.Timer(0.05, second.stop_path.touch).start()
    with pytest.raises(KeyboardInterrupt):
        wait_behind(first, second, lambda event: None, 0)


@pytest.mark.parametrize(
    ("left", "waits", "behind", "told"),
    [
        pytest.param({"second": "first"}, "third", "second", ["second", "first"], id="for the one before"),
        pytest.param({"second": "first"}, "first", "second", ["second"], id="not for itself"),
        pytest.param({"first": "second", "second": "first"}, "third", "first", ["first", "second"], id="once for each"),
    ],
)
def test_what_is_behind_a_run_that_left_the_queue_waits_for_the_one_before(
    first: Run, second: Run, left: dict[str, str], waits: str, behind: str, told: list[str]
) -> None:
    directory, lines = first.path.parent, list[str]()
    for name, other in left.items():
        append(Run(directory / name), Queued(step=0, behind=other), Done(step=0, status="stopped", code=130))
    threading.Timer(0.1, finish, [first]).start()
    wait_behind(Run(directory / behind), Run(directory / waits), lambda event: lines.append(event.line()), 0)
    assert lines == [f"queued    behind {name}" for name in told]


def test_one_that_is_preempted_is_queued_again_by_the_hint(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(Path("runs"), "running", "first")
    monkeypatch.setattr(process, "wait_for_end", lambda *_: signal.raise_signal(signal.SIGTERM))
    answer = contrast(*train("--data", "tiny/labelled.jsonl", "--name", "second", "--after", "first", "--no-ui"))
    failed(answer, 75, "preempted", "contrast train --resume second --after first")


def test_two_runs_that_are_queued_at_once_train_one_after_the_other(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is made while this one reads its data. Under torchrun a process that is alone queues, too."""
    monkeypatch.setenv("WORLD_SIZE", "1")
    recorded(Path("runs"), "running", "first")

    def meanwhile(config: Config) -> Plan:
        recorded(Path("runs"), "finished", "other")
        return make_plan(config)

    with monkeypatch.context() as patch:
        patch.setattr("contrastcli.commands.train.make_plan", meanwhile)
        answer = contrast(*train("--data", "tiny/labelled.jsonl", "--name", "second", "--after", "last", "--no-ui"))
    assert answer.code == 0 and "queued    behind other" in answer.err
    again = contrast("train", "--resume", "second", "--max-steps", "6", "--after", "last", "--no-ui")
    assert again.code == 0 and "queued    behind other" in again.err, "and not behind itself"
