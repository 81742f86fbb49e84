"""`contrast runs log`: the numbers of a run to a tracker, after its end or as they come. It only reads the run."""

import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from contrastcli.boundary import narrate
from contrastcli.errors import ContrastError, RunError, UsageError, error_text
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import current_from_end

Log = Callable[[int, float, Mapping[str, float]], object]
"""Gets a step, its time in seconds since the epoch, and numbers by name."""

_PROJECT = "contrast"


def track(run: Run, to: str, follow: bool) -> None:
    """Log a run to a tracker as a new record; with `follow` until the run ends.

    Raises UsageError without the tracker's package, RunError for an error of the tracker, and DataError.
    """
    new_record, remedy = TRACKERS[to]
    try:
        # What trackers print is no result.
        with redirect_stdout(sys.stderr), new_record(run) as log:
            narrate(f"logging {run.name} to {to}, as a new record")
            for event in _events(run, follow):
                numbers = {f"{event.kind()}/{name}": x for name, x in event.numbers().items() if x is not None}
                if numbers:
                    log(event.step, event.time, numbers)
    except ImportError:
        raise _not_installed(to) from None
    except ContrastError:
        raise
    # They raise whatever the libraries below them do.
    except Exception as error:
        raise RunError(f"{to}: {error_text(error)}", remedy) from None


def check_installed(to: str) -> None:
    """Raises UsageError for a tracker whose package is missing."""
    if to != "none" and find_spec(to) is None:
        raise _not_installed(to)


def _not_installed(to: str) -> UsageError:
    return UsageError(f"{to} is not installed here", f'pip install "contrastcli[{to}]"', key="track.to")


def _events(run: Run, follow: bool) -> Iterator[Event]:
    """Its events, with `follow` also those to come, without those that a resume has voided by now."""
    read: list[Event] = []
    for event in chain(run.follow() if follow else run.events(), [None]):
        if event is not None:
            read.append(event)
        else:
            yield from [*current_from_end(reversed(read))][::-1]
            read.clear()


@contextmanager
def _tensorboard(run: Run) -> Iterator[Log]:
    from torch.utils.tensorboard import SummaryWriter

    folder = os.environ.get("TENSORBOARD_LOGGING_DIR", "tensorboard")
    with SummaryWriter(Path(folder, run.name, time.strftime("%Y-%m-%d-%H%M%S")), flush_secs=10) as writer:
        writer.add_text("settings", "\n".join(f"    {key} = {value!r}" for key, value in run.config().shown().items()))

        def log(step: int, at: float, numbers: Mapping[str, float]) -> None:
            for name, value in numbers.items():
                writer.add_scalar(name, value, step, at)

        yield log
    narrate(f"next: tensorboard --logdir {shlex.quote(folder)}")


@contextmanager
def _trackio(run: Run) -> Iterator[Log]:
    # It is typed in part.
    trackio: Any = import_module("trackio")
    project, config = os.environ.get("TRACKIO_PROJECT", _PROJECT), run.config().shown()
    with warnings.catch_warnings(category=UserWarning, action="always", record=True) as problems:
        trackio.init(project, run.name, config=config, embed=False, auto_log_cpu=False, auto_log_gpu=False)
        try:
            yield lambda step, at, numbers: trackio.log(dict(numbers), step)
        finally:
            trackio.finish()
    # It warns of numbers that it could not keep.
    if problems:
        raise RuntimeError(str(problems[0].message))
    narrate(f"next: trackio show --project {shlex.quote(project)}")


@contextmanager
def _wandb(run: Run) -> Iterator[Log]:
    import wandb

    project, config = os.environ.get("WANDB_PROJECT", _PROJECT), run.config().shown()
    settings = wandb.Settings(console="off", x_disable_stats=True)
    with wandb.init(project=project, name=run.name, config=config, settings=settings) as record:
        yield lambda step, at, numbers: record.log(dict(numbers), step=step)


@contextmanager
def _mlflow(run: Run) -> Iterator[Log]:
    import mlflow

    mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT))
    with mlflow.start_run(run_name=run.name):
        mlflow.log_params(run.config().shown())

        def log(step: int, at: float, numbers: Mapping[str, float]) -> None:
            # Its names have no other characters.
            named = {re.sub(r"[^/\w.\- :]", "_", name)[:250]: value for name, value in numbers.items()}
            mlflow.log_metrics(named, step, timestamp=int(1000 * at))

        yield log
    narrate("next: mlflow ui")


TRACKERS: Mapping[str, tuple[Callable[[Run], AbstractContextManager[Log]], str]] = {
    "tensorboard": (_tensorboard, "choose another folder: TENSORBOARD_LOGGING_DIR=DIR"),
    "trackio": (_trackio, "choose another folder: TRACKIO_DIR=DIR"),
    "wandb": (_wandb, "log in: wandb login, or without an account: WANDB_MODE=offline"),
    "mlflow": (_mlflow, "choose another store: MLFLOW_TRACKING_URI=sqlite:///FILE"),
}
"""By name: what opens a new record of a run, and what helps where that fails."""
