"""Random states as pure functions, so that a position in the run is all that resuming needs."""

from __future__ import annotations

import numpy as np
import torch

LOSS, HEADS, MASKS = -1, -2, -3
"""Streams beside the chunks of a step."""


def seed_of(run_seed: int, step: int, stream: int) -> int:
    """A seed for one stream of one step: a chunk's number, or one of the names above.

    Both passes over a chunk draw the same dropout from it, and so does the same chunk on another process.
    """
    sequence = np.random.SeedSequence([run_seed, step, stream + 8])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def set_seed(run_seed: int, step: int, stream: int) -> None:
    """Seed every device's generator for one stream of one step."""
    torch.manual_seed(seed_of(run_seed, step, stream))
