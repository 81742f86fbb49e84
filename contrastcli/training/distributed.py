"""Several processes as one: `torchrun` starts them, and the result equals one process with the whole batch.

Each process runs its share of a batch's chunks; the embeddings are gathered, every process takes the same loss over
the whole batch, and carries the gradient back through its own chunks. Chunk seeds depend on the chunk's number, not
on the process, so dropout is the same too.
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from contrastcli.errors import UsageError
from contrastcli.files import error_text


@dataclass(frozen=True)
class World:
    """This process among all."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes events and checkpoints."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the gradients that each process's chunks left; a parameter that has none anywhere keeps none."""
        if self.size == 1:
            return
        every = list(parameters)
        used = self.sum(torch.tensor([float(parameter.grad is not None) for parameter in every]))
        for parameter in itertools.compress(every, used.tolist()):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        return bool(self.sum(torch.tensor(float(flag))).item()) if self.size > 1 else flag

    def broadcast(self, word: str) -> str:
        """The main process's word, on every process."""
        words = [word]
        if self.size > 1:
            dist.broadcast_object_list(words)
        return words[0]

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            dist.barrier()


def world() -> World:
    """The processes that torchrun started, or just this one. Raises UsageError for variables that are not its own."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return World()
    try:
        return _join()
    except (ValueError, RuntimeError) as error:
        what = f"this process cannot join the others of WORLD_SIZE: {error_text(error)}"
        raise UsageError(what, "start all with torchrun, or unset WORLD_SIZE to train with one") from None


def _join() -> World:
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # "cuda" then means this process's own
    if not dist.is_initialized():
        # gloo carries what stays on the CPU, nccl what lives on a GPU
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(dist.destroy_process_group)  # threads that it leaves running may abort the process at its end
    return World(dist.get_rank(), dist.get_world_size())
