"""Random states as pure functions, so that a position in the run is all that resuming needs."""

from __future__ import annotations

import numpy as np
import torch

CHUNK, LOSS, FRESH, MASKS, MLM, PERTURB = range(6)
"""Streams of a step: an encoder chunk, the loss, fresh weights, masked tokens, a chunk of the masked-token term, and
perturbed views."""


def seed_of(run_seed: int, step: int, stream: int, chunk: int = 0) -> int:
    """A seed for one stream of one step, and of one chunk where the stream is cut into chunks.

    Both passes over a chunk draw the same dropout from it, and so does the same chunk on another process.
    """
    sequence = np.random.SeedSequence([run_seed, step, stream, chunk])
    return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def set_seed(run_seed: int, step: int, stream: int, chunk: int = 0) -> None:
    """Seed the generators of the CPU and of the accelerator in use for one stream of one step."""
    seed = seed_of(run_seed, step, stream, chunk)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a stack trace per idle backend
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
