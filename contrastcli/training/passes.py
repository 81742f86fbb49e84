"""The two passes of a batch's chunks through their encoders, on a CPU several chunks side by side."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from contrastcli.model.bert.graphs import Graphs
from contrastcli.model.encoder import autocast, padded
from contrastcli.model.workers import count_workers, side_by_side
from contrastcli.objectives.functional import to_device
from contrastcli.settings.sections import Precision
from contrastcli.training.batch import CHUNK, Batch, Chunk, set_seed

PARTS = 4
"""Threads or processes that share the chunks. A constant, since the chunks decide the dropout."""

_Sums = dict[nn.Parameter, Tensor]


@dataclass
class Passes:
    """The passes of the chunks that this process runs. `before_chunk` is called before what it does at a time."""

    batch: Batch
    chunks: Sequence[Chunk]
    device: torch.device
    precision: Precision
    run_seed: int
    keep_graphs: bool
    before_chunk: Callable[[], None]
    cuda_graphs: Graphs | None = None
    """What takes the passes of a single chunk on a GPU."""
    _is_replayed: bool = False
    _graphs: dict[int, Tensor] = field(default_factory=dict)

    def forward(self) -> dict[int, Tensor]:
        """The pooled embeddings (B, d) of each chunk, by its number, detached."""
        if (replayed := self._replay()) is not None:
            return replayed
        self._graphs = dict(ChainMap(*side_by_side(self._embed_all, self._shares(), PARTS)))
        return {number: pooled.detach() for number, pooled in self._graphs.items()}

    def backward(self, gradient: Tensor) -> None:
        """Leave the gradients of the parameters, given that of the whole batch's embeddings (E·V·N, d)."""
        if self.cuda_graphs is not None and self._is_replayed:
            self.before_chunk()
            return self.cuda_graphs.backward(gradient[to_device(torch.from_numpy(self.chunks[0].places), self.device)])
        shares, sums = self._shares(), _Sums()
        for some in side_by_side(partial(self._carry, gradient, alone=len(shares) == 1), shares, PARTS):
            _add(sums, some.items())
        for parameter, total in sums.items():
            parameter.grad = total

    def _replay(self) -> dict[int, Tensor] | None:
        """The pooled embeddings of a single chunk by CUDA graphs; None where there are none for it."""
        if self.cuda_graphs is None or len(self.chunks) != 1 or not self.keep_graphs:
            return None
        (chunk,) = self.chunks
        if self.batch.table.skipped(chunk.texts) is not None:
            return None
        self.before_chunk()
        encoder = chunk.encoder
        first_token = encoder.needs_first_token(self.batch.table, chunk.texts)
        set_seed(self.run_seed, self.batch.step, CHUNK, chunk.number)
        pooled = self.cuda_graphs.embed(*padded(encoder, self.batch.table, chunk.texts), first_token, self.precision)
        self._is_replayed = pooled is not None
        return None if pooled is None else {chunk.number: pooled[: len(chunk.texts)]}

    def _carry(self, gradient: Tensor, share: Sequence[Chunk], alone: bool) -> _Sums:
        """The sum of the gradients of a share's chunks; one that is alone leaves it in the parameters."""
        sums = _Sums()
        all_weights = dict.fromkeys(weight for chunk in share for weight in chunk.encoder.backbone.parameters())
        weights = [weight for weight in all_weights if weight.requires_grad]
        # Around all chunks of a pass, so that their weights are cast to bf16 once.
        with autocast(self.device, self.precision):
            for some in [share] if self.keep_graphs else [[chunk] for chunk in share]:
                self.before_chunk()
                pooled = [self._graphs.pop(chunk.number) if self.keep_graphs else self._embed(chunk) for chunk in some]
                at = [gradient[to_device(torch.from_numpy(chunk.places), self.device)] for chunk in some]
                # Autocast would round the gradients of what was computed in fp32.
                with autocast(self.device, "fp32"):
                    # Its gradient is `at`. Given that itself, torch would load sympy, which takes a second.
                    carried = [(one * each).sum() for one, each in zip(pooled, at, strict=True)]
                    if alone:
                        torch.autograd.backward(carried)
                        for weight in weights:
                            weight.grad = None if weight.grad is None else _short(weight.grad)
                    else:
                        gradients = torch.autograd.grad(carried, weights, allow_unused=True)
                        _add(sums, zip(weights, gradients, strict=True))
        return sums

    def _shares(self) -> list[Sequence[Chunk]]:
        """The chunks of each thread: always the same, since the order in which gradients are added decides the bits."""
        backbones = {chunk.encoder.backbone for chunk in self.chunks}
        is_parallel = self.device.type == "cpu" and all(backbone.takes_threads for backbone in backbones)
        workers = min(count_workers(PARTS), max(1, len(self.chunks))) if is_parallel else 1
        return [self.chunks[first::workers] for first in range(workers)]

    def _embed_all(self, share: Sequence[Chunk]) -> dict[int, Tensor]:
        # Without gradients a GPU may choose another attention, which draws other dropout than that of the second pass.
        takes_gradients = self.keep_graphs or self.device.type != "cpu"
        with torch.set_grad_enabled(takes_gradients), autocast(self.device, self.precision):
            pooled = {}
            for chunk in share:
                self.before_chunk()
                pooled[chunk.number] = self._embed(chunk) if self.keep_graphs else self._embed(chunk).detach()
            return pooled

    def _embed(self, chunk: Chunk) -> Tensor:
        # The same dropout in both passes over a chunk.
        set_seed(self.run_seed, self.batch.step, CHUNK, chunk.number)
        return chunk.encoder.pooled(self.batch.table, chunk.texts, self.precision)  # (B, d)


def _add(sums: _Sums, gradients: Iterable[tuple[nn.Parameter, Tensor | None]]) -> None:
    """Add gradients to sums. Not in place: torch may have one tensor for the gradients of two parameters."""
    for parameter, gradient in gradients:
        if gradient is not None:
            sums[parameter] = _short(sums[parameter] + gradient) if parameter in sums else gradient


def _short(gradient: Tensor) -> Tensor:
    """A sum of sparse gradients, which torch puts one after another, added up where it would outgrow a dense one."""
    is_long = gradient.is_sparse and gradient._nnz() > len(gradient)
    return gradient.coalesce() if is_long else gradient
