"""What tests start as another process: trains or resumes the runs in the folders that are its arguments.

In the process whose RANK is OUT_OF_MEMORY_RANK memory runs out once in either pass of a step. Processes give signs of
life each BEAT_SECONDS, and mining by the main process takes MINING_SECONDS more.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from contrastcli.runs.directory import Run
from contrastcli.training import distributed
from contrastcli.training.auxiliaries import mining
from contrastcli.training.distributed import world
from contrastcli.training.passes import Passes
from contrastcli.training.plan import make_plan
from contrastcli.training.process import supervise


def run_out_of_memory() -> None:
    """Let memory run out in the first pass of step 2 and in the second pass of step 3, once each."""
    failed: set[int] = set()
    for step, name in ((2, "forward"), (3, "backward")):
        original = getattr(Passes, name)

        def limited(self: Passes, *words: Any, step: int = step, original: Any = original) -> Any:
            if self.batch.step == step and step not in failed:
                failed.add(step)
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return original(self, *words)

        setattr(Passes, name, limited)


def mine_slowly(seconds: float) -> None:
    """Let each mining take that much longer."""
    original = vars(mining)["mine"]

    def slow(*words: Any) -> Any:
        time.sleep(seconds)
        return original(*words)

    vars(mining)["mine"] = slow


if __name__ == "__main__":
    distributed.BEAT_SECONDS = float(os.environ.get("BEAT_SECONDS", distributed.BEAT_SECONDS))
    mine_slowly(float(os.environ.get("MINING_SECONDS", 0)))
    if os.environ.get("OUT_OF_MEMORY_RANK", "none") == os.environ.get("RANK", "0"):
        run_out_of_memory()
    for folder in sys.argv[1:]:
        run = Run(Path(folder))
        supervise(run, make_plan(run.config()), lambda event: None, world())
