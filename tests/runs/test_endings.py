"""How a run ends other than well: signals, divergence, errors; and what it leaves."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file

from contrastcli.commands import train as start
from contrastcli.errors import ContrastError, DivergedError, InterruptedEarly, Preempted, RunError
from contrastcli.runs.directory import Run, create
from contrastcli.runs.events import Done, Note, Progress, Started
from contrastcli.runs.measured import Step
from contrastcli.runs.process import handle_signals
from contrastcli.settings.sections import Train
from contrastcli.training import angles, loop, optim, setup
from contrastcli.training.auxiliaries.auxiliary import AuxiliaryContext
from support.command import LABELLED, Contrast, refused
from support.command import train as train_command
from support.disks import full_disk
from support.tiny import Tiny, on_step, told, train
from support.waiting import wait_until

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@pytest.mark.parametrize(
    ("code", "numbers"),
    [
        (0, []),
        (0, [signal.SIGINT]),
        (75, [signal.SIGTERM]),
        (75, [signal.SIGUSR1]),
        # A scheduler repeats its signals, and a first interrupt after them is no second one.
        (75, [signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM, signal.SIGINT]),
    ],
)
def test_a_request_or_signal_ends_the_step_saves_and_stops_and_watch_tells_a_preemption(
    tiny: Tiny, tmp_path: Path, contrast: Contrast, code: int, numbers: list[signal.Signals]
) -> None:
    def stop() -> None:
        for number in numbers:
            signal.raise_signal(number)
        if not numbers:
            run.stop_path.touch()

    before = [*map(signal.getsignal, HANDLED)]
    run = tiny.run(tmp_path / "one", train__max_steps=9)
    assert train(run, on_step(7, stop)) == Done(step=7, status="stopped", code=code)
    assert run.checkpoints()["last"] == "000007" and not run.stop_path.exists()
    assert (run.status().state, run.status().code) == ("stopped", code)
    assert [*map(signal.getsignal, HANDLED)] == before

    answer = contrast("watch", str(run.path))
    assert answer.code == code and "stopped   step 7\n" in answer.err
    assert len(re.findall("^step ", answer.err, re.M)) == 1  # the last, not all that was shown while it trained
    assert f"to continue: contrast train --resume {run.path}" in answer.err
    assert train(run) == Done(step=9, status="finished", code=0)


def test_the_command_line_outlives_its_terminal_and_stops_cleanly_on_a_signal(tiny: Tiny, tmp_path: Path) -> None:
    settings = tiny.config(train__epochs=500, dev__every=1000)
    (tmp_path / "run.toml").write_text(settings.to_toml())
    command = [sys.executable, "-m", "contrastcli", "--runs-dir", str(tmp_path), "train", "--name", "one", "--no-ui"]
    process = subprocess.Popen([*command, "--config", str(tmp_path / "run.toml")], stderr=subprocess.PIPE, text=True)
    run = Run(tmp_path / "one")
    try:
        for number in (signal.SIGHUP, signal.SIGTERM):
            steps = len(told(run, Step))
            wait_until(lambda: len(told(run, Step)) > steps or process.poll() is not None)  # noqa: B023
            os.kill(process.pid, number)
        _, narration = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 75
    assert told(run, Done)[-1].status == run.status().state == "stopped"
    assert int(run.checkpoints()["last"]) == told(run, Done)[-1].step > 1
    assert f"contrast --runs-dir {tmp_path} train --resume one" in narration


@pytest.mark.parametrize(
    ("number", "kind", "code", "what"),
    [(signal.SIGINT, InterruptedEarly, 130, "interrupted"), (signal.SIGUSR1, Preempted, 75, "preempted")],
)
def test_a_signal_before_the_loop_says_that_nothing_was_saved(
    tiny: Tiny, place: Path, number: signal.Signals, kind: type[ContrastError], code: int, what: str
) -> None:
    run = tiny.run(place, train__max_steps=2)
    with pytest.raises(kind) as raised:
        train(run, lambda event: signal.raise_signal(number) if isinstance(event, Started) else None)
    done = told(run, Done)[-1]
    assert (done.status, raised.value.code, done.code, done.message) == ("stopped", code, code, what)
    assert (run.status().state, run.status().code) == ("stopped", code)
    assert "no step had been saved" in done.hint and f"contrast train --resume {run.name}" in done.hint
    assert train(run).status == "finished"


def test_a_signal_that_was_ignored_before_stays_ignored() -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with handle_signals(caught.append):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        assert (caught, signal.getsignal(signal.SIGINT)) == ([signal.SIGTERM], signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGINT, before)


def swallowed(*_: object) -> None:
    with contextlib.suppress(BaseException):
        signal.raise_signal(signal.SIGTERM)


def tried_again(*_: object) -> None:
    """What comes of a module that was interrupted while it was imported."""
    swallowed()
    raise AttributeError("module 'numpy' has no attribute 'nonzero'")


def interrupted_import(*_: object) -> None:
    """What Python makes of a Ctrl-C while a class is made."""
    raise RuntimeError("Error calling __set_name__ on 'cached_property' instance") from KeyboardInterrupt()


def made_and_signalled(*words: Any, **more: Any) -> None:
    create(*words, **more)
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("function", "library", "code", "what"),
    [
        ("make_plan", lambda *_: signal.raise_signal(signal.SIGTERM), 75, "preempted"),
        ("make_plan", swallowed, 75, "preempted"),
        ("make_plan", tried_again, 75, "preempted"),
        ("supervise", tried_again, 75, "preempted"),
        ("supervise", interrupted_import, 130, "interrupted"),
        ("create", made_and_signalled, 75, "preempted"),
    ],
)
def test_a_signal_before_training_is_one_whatever_a_library_makes_of_it_and_leaves_no_run(
    contrast: Contrast,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    library: Callable[..., object],
    code: int,
    what: str,
) -> None:
    monkeypatch.setattr(start, function, library)
    refused(contrast(*train_command(*LABELLED)), code, what, "nothing was changed")
    assert set(os.listdir("runs") if Path("runs").exists() else ()) <= {".gitignore"}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_start_in_the_background_leaves_a_run_in_progress_that_is_told_of_or_none(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    def launch(run: Run, words: Sequence[str]) -> None:
        if not is_late:
            raise RunError("no process can be started", "end some")
        run.alive_path.touch()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(start, "launch", launch)
    answer = contrast(*train_command(*LABELLED, "--detach", "--name", "one"))
    if is_late:
        assert (answer.code, answer.out) == (0, "runs/one\n")
        assert "training in the background: contrast watch one" in answer.err
    else:
        refused(answer, 1, "no process can be started")
    assert Path("runs/one").exists() == is_late


def test_a_signal_that_a_library_swallows_before_the_loop_stops_it_there(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place)
    done = train(run, lambda event: swallowed() if isinstance(event, Started) else None)
    assert (done.status, done.code, run.checkpoints()["last"]) == ("stopped", 75, "000000")


def test_a_preemption_while_torch_loads_is_one(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    class Preempt:
        def find_spec(self, name: str, *more: object) -> None:
            if name == "contrastcli.commands.train":
                tried_again()

    monkeypatch.delitem(sys.modules, "contrastcli.commands.train")
    monkeypatch.delattr("contrastcli.commands.train")
    monkeypatch.setattr(sys, "meta_path", [Preempt(), *sys.meta_path])
    refused(contrast(*train_command(*LABELLED)), 75, "preempted", "nothing was changed")


def test_an_interrupt_while_the_command_line_loads_has_no_traceback() -> None:
    program = (
        "import runpy, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'contrastcli.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "runpy.run_module('contrastcli', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "contrast: error: interrupted\nhint: nothing was changed\n")


@pytest.mark.parametrize(
    ("interrupted", "kind", "what"),
    [
        (lambda: signal.raise_signal(signal.SIGINT), InterruptedEarly, "interrupted"),
        (tried_again, Preempted, "preempted"),
    ],
)
def test_a_resumed_run_loads_and_is_interrupted_at_its_last_step(
    tiny: Tiny,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    interrupted: Callable[[], None],
    kind: type[ContrastError],
    what: str,
) -> None:
    def load(plan: object, context: AuxiliaryContext) -> None:
        context.session.loading("loading", 1, 2)
        interrupted()

    run = tiny.run(place)
    train(run, on_step(3, run.stop_path.touch))
    monkeypatch.setattr(setup, "_make_stepper", load)
    with pytest.raises(kind) as raised:
        train(run)
    assert (raised.value.what, raised.value.hint) == (what, f"contrast train --resume {run.word}")
    assert [told(run, kind)[-1].step for kind in (Progress, Done)] == [3, 3] and run.status().step == 3


@pytest.mark.parametrize(("step", "code"), [(3, 130), (7, 1)])
def test_a_second_interrupt_ends_it_at_once(tiny: Tiny, place: Path, step: int, code: int) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    run = tiny.run(place, dev__every=5, train__max_steps=8)
    with pytest.raises(ContrastError) as raised:
        train(run, on_step(step, twice))
    done = told(run, Done)[-1]
    assert (raised.value.code, done.code, done.status, done.step) == (code, code, "stopped", step)
    assert run.checkpoints() == ({} if code == 130 else {"last": "000005", "best": "000005"})
    assert train(run).status == "finished"


def test_an_unexpected_error_is_recorded_and_raised(tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(angles, "measure", Mock(side_effect=ZeroDivisionError("division by zero")))
    run = tiny.run(place)
    with pytest.raises(ContrastError) as raised:
        train(run)
    done, error = told(run, Done)[-1], raised.value
    assert (done.status, done.code, done.message) == ("failed", 1, "ZeroDivisionError: division by zero")
    assert (error.code, error.what, error.hint) == (done.code, done.message, done.hint)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert run.status().state == "failed"


@pytest.fixture
def explosive(monkeypatch: pytest.MonkeyPatch) -> None:
    """From step 7 on, the learning rate is enormous."""

    def set_rate(optimizer: torch.optim.Optimizer, settings: Train, step: int, steps: int) -> float:
        lr = optim.set_rate(optimizer, settings, step, steps)
        for group in optimizer.param_groups if step >= 7 else ():
            group["lr"] = 1e30
        return lr

    monkeypatch.setattr(loop, "set_rate", set_rate)


def finite(file: Path) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in load_file(file).values())


@pytest.mark.usefixtures("explosive")
@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_diverging_run_stops_with_its_batch_written_down(tiny: Tiny, place: Path, clip: float) -> None:
    run = tiny.run(place, train__save_every=2, train__log_every=100, train__clip=clip, dev__every=2)
    with pytest.raises(DivergedError, match="step 8") as raised:
        train(run)
    done = told(run, Done)[-1]
    assert raised.value.code == done.code == 4
    assert (done.status, run.status().state) == ("diverged", "diverged")
    assert f"contrast train --config {run.config_path} --lr 0.0001" in done.hint
    last = run.checkpoint("last")
    assert last.name == "000006"
    assert finite(last / "model.safetensors") and finite(last / "training" / "optimizer.safetensors")

    written = json.loads((run.path / "diverged.json").read_text())
    rows = [json.loads(line) for line in tiny.data["labelled"].read_text().splitlines()]
    assert written["step"] == 8
    assert len(written["rows"]) == 8
    assert written["anchor"] == [rows[row]["premise"] for row in written["rows"]]
    assert written["positive"] == [rows[row]["hypothesis"] for row in written["rows"]]


@pytest.mark.usefixtures("explosive")
def test_a_diverging_run_ends_before_the_negatives_of_its_batch_are_replaced(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, "simcse", "pairs", data__mine_every=8, train__log_every=100, dev__every=100)
    with pytest.raises(DivergedError, match="step 8"):
        train(run)
    assert [note.step for note in told(run, Note) if "mined" in note.text] == [0]


@pytest.mark.usefixtures("explosive")
def test_a_run_that_diverges_on_a_full_disk_says_both_and_how_to_go_on(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny.run(place.parent / "my runs" / "one")
    monkeypatch.setattr(loop, "atomic_write", full_disk)
    with pytest.raises(DivergedError, match="its batch could not be written: No space left") as raised:
        train(run)
    assert f"contrast train --config '{run.config_path}' --lr 0.0001" in raised.value.hint
    assert run.status().state == "diverged"
