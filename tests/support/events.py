"""Events in tests."""

from typing import Any

from contrastcli.runs.events import Started
from contrastcli.runs.status import Writer

HERE = Writer("here", 1, 1.0)


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
