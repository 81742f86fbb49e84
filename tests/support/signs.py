"""Signs of life of a run in tests: what its process writes, and processes that have ended."""

import os
import socket
import time
from typing import Any

import msgspec

from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Started
from contrastcli.runs.measured import Evaluated, Step
from contrastcli.runs.status import Writer

HERE = Writer("here", 1, 1.0)
ELSEWHERE = Writer("another-host.example", 1, 1.0)
DEAD = Writer(socket.gethostname(), 1 << 30, 1.0)
"""A process that has ended: no system gives such a pid."""


def started(writer: Writer = HERE, **changes: Any) -> Started:
    """The start of a run of 500 steps by a process, with changes."""
    usual: dict[str, Any] = {
        "step": 0,
        "steps": 500,
        "steps_per_epoch": 100,
        "batch_size": 64,
        "sentences_per_step": 128,
        "negatives_per_anchor": 126,
        "objective": "simcse",
        "backbone": "starter",
        "device": "cpu",
        "precision": "fp32",
    }
    usual |= {"host": writer.host, "pid": writer.pid, "process_start": writer.process_start}
    return Started(**(usual | changes))


def step_at(step: int, loss: float = 1.0) -> Step:
    return Step(step=step, loss=loss, lr=3e-5, epoch=0.1)


def evaluated(step: int, spearman: float | None, best: bool = False) -> Evaluated:
    return Evaluated(step=step, score=spearman, alignment=0.2, uniformity=-2.0, pairs=10, best=best)


def say(run: Run, *events: Event) -> None:
    writer = EventWriter(run.events_path)
    for event in events:
        writer(event)
    writer.close()


def beat(run: Run, writer: Writer, seconds_ago: float = 0.0) -> None:
    run.alive_path.write_bytes(msgspec.json.encode(writer))
    os.utime(run.alive_path, (time.time() - seconds_ago,) * 2)


def age(run: Run, seconds: float) -> None:
    os.utime(run.config_path, (time.time() - seconds,) * 2)
