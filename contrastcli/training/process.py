"""The process that trains a run: lock and heartbeat, signals, the first and the last event."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from contrastcli.errors import ContrastError, DivergedError, InterruptedEarly
from contrastcli.files import writing_to
from contrastcli.model.devices import choose_device, choose_precision
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Done, Event, Note, Started
from contrastcli.runs.process import handle_signals, hold, stop_requested
from contrastcli.runs.status import Writer
from contrastcli.training import checkpoint
from contrastcli.training.distributed import World
from contrastcli.training.environment import check_data, write_environment
from contrastcli.training.loop import Emit
from contrastcli.training.plan import Plan
from contrastcli.training.setup import make_trainer

Watch = Callable[[Event, bytes], None]
"""Called with each event and its line as written."""


class Interrupts:
    """The first Ctrl-C or SIGTERM asks the loop to end its step; the second, and one before the loop, interrupts."""

    def __init__(self) -> None:
        self.in_loop = False
        self.asked = False

    def __call__(self) -> None:
        """Handle a signal."""
        if self.asked or not self.in_loop:
            raise KeyboardInterrupt
        self.asked = True


def train(run: Run, plan: Plan, watch: Watch, world: World) -> Done:
    """Train a run to its end, from its last checkpoint where there is one, and return the last event.

    Raises ContrastError; the last event says so too.
    """
    interrupts = Interrupts()
    with handle_signals(interrupts):
        if not world.is_main:
            return _train(run, plan, lambda event: None, world, None, interrupts)
        with hold(run) as writer, _events(run, watch) as emit:
            return _train_and_report(run, plan, emit, world, writer, interrupts)


@contextlib.contextmanager
def _events(run: Run, watch: Watch) -> Iterator[Emit]:
    """A function that writes an event to the run and shows it."""
    with writing_to(run.events_path):
        write = EventWriter(run.events_path)

    def emit(event: Event) -> None:
        with writing_to(run.events_path):
            line = write(event)
        watch(event, line)

    try:
        yield emit
    finally:
        write.close()


def _train_and_report(run: Run, plan: Plan, emit: Emit, world: World, writer: Writer, interrupts: Interrupts) -> Done:
    """Train; whatever happens, the last event reports the end."""
    step = 0

    def emit_step(event: Event) -> None:
        nonlocal step
        step = event.step
        emit(event)

    try:
        return _train(run, plan, emit_step, world, writer, interrupts)
    except KeyboardInterrupt:
        saved = checkpoint.pointers(run.path)
        error: ContrastError = InterruptedEarly("interrupted", "no step had been saved yet; start again")
        if saved:
            error = ContrastError("interrupted while a step was under way", f"contrast train --resume {run.name}")
        emit(Done(step=step, status="stopped", code=error.code, message=error.what, hint=error.hint))
        raise error from None
    except ContrastError as error:
        status = "diverged" if isinstance(error, DivergedError) else "failed"
        emit(Done(step=step, status=status, code=error.code, message=error.what, hint=error.hint))
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        emit(Done(step=step, status="failed", code=1, message=what, hint=f"contrast --debug train --resume {run.name}"))
        raise


def _train(run: Run, plan: Plan, emit: Emit, world: World, writer: Writer | None, interrupts: Interrupts) -> Done:
    device = choose_device(plan.config.train.device)
    last = checkpoint.pointers(run.path).get("last")
    resumed_from = int(last) if last else 0 if run.events() else None
    if writer is not None:
        emit(_started(plan, device, writer, resumed_from))
        precision = choose_precision(plan.config.train.precision, device)
        check_data(run.environment_path, plan)
        write_environment(run.environment_path, plan, device, precision, world.size)
        for text in (*plan.config.notes, *plan.examples.notes):
            emit(Note(step=resumed_from or 0, text=text))
    trainer = make_trainer(run.path, plan, device, emit, lambda: interrupts.asked or stop_requested(run), world)
    interrupts.in_loop = True
    status = trainer.train()
    done = Done(step=trainer.position.step, status=status, code=0)
    emit(done)
    return done


def _started(plan: Plan, device: torch.device, writer: Writer, resumed_from: int | None) -> Started:
    config = plan.config
    return Started(
        step=resumed_from or 0,
        host=writer.host,
        pid=writer.pid,
        process_start=writer.process_start,
        steps=plan.steps,
        steps_per_epoch=plan.steps_per_epoch,
        batch_size=plan.order.batch_size,
        sentences_per_step=plan.sentences_per_step,
        negatives_per_anchor=plan.negatives_per_anchor,
        objective=config.spec.name,
        backbone=config.model.backbone,
        device=str(device),
        precision=choose_precision(config.train.precision, device),
        resumed_from=resumed_from,
    )
