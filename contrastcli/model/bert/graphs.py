"""A pass of an encoder and its gradient as CUDA graphs: kernels that are launched at once, and not one by one.

Of BERT-base and 64 rows a GPU computes a step in a third of the time that Python takes to launch its thousand kernels.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call

from contrastcli.model.devices import is_out_of_memory
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.objectives.functional import to_device

SEEN = 2
"""Batches of a shape that run as written before it is captured: others of the shape are likely then."""
MOST_SHAPES = 64
"""Captured shapes, each of which keeps some megabytes of the GPU."""


class Captured(NamedTuple):
    """The graphs of one shape, and the tensors that they read and write at each replay."""

    ids: Tensor
    mask: Tensor
    """Both (N, T)."""
    pooled: Tensor
    gradient: Tensor
    """Of the embeddings, both (N, d)."""
    forward: torch.cuda.CUDAGraph
    backward: torch.cuda.CUDAGraph


class Graphs:
    """The graphs of one encoder in training, by shape. One shape's gradient is taken before another's embeddings.

    So all of them share the memory of their activations. Dropout follows the GPU's generator, as it does elsewhere.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self._weights = {
            f"backbone.{name}": one for name, one in encoder.backbone.named_parameters() if one.requires_grad
        }
        self._seen = Counter[object]()
        self._captured = dict[object, Captured]()
        self._gradients = dict[str, Tensor]()
        self._replayed: Captured | None = None
        self._has_room = bool(self._weights)

    def embed(self, ids: Tensor, mask: Tensor, *how: object) -> Tensor | None:
        """What the encoder makes of token ids and their mask (N, T), on the CPU: (N, d), until the next call.

        `how` is what else its `forward` is given. None where the shape is still rare, or does not fit into memory.
        """
        shape = (*ids.shape, *how)
        if shape not in self._captured and not self._capture(shape, ids, mask, *how):
            return None
        one = self._replayed = self._captured[shape]
        one.ids.copy_(ids.pin_memory(), non_blocking=True)
        one.mask.copy_(mask.pin_memory(), non_blocking=True)
        one.forward.replay()
        return one.pooled

    def backward(self, gradient: Tensor) -> None:
        """Leave the gradient of each weight in it, given that of the first (n, d) of the embeddings last returned."""
        assert self._replayed is not None
        self._replayed.gradient.zero_()[: len(gradient)] = gradient
        self._replayed.backward.replay()
        for name, total in self._gradients.items():
            self._weights[name].grad = total

    def release(self) -> None:
        """Free their memory, since it ran out, and capture no more."""
        self._has_room, self._replayed = False, None
        self._captured.clear()
        self._gradients.clear()

    @cached_property
    def _pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def _capture(self, shape: object, ids: Tensor, mask: Tensor, *how: object) -> bool:
        """Capture a shape if it is time and there is room; whether it is captured."""
        self._seen[shape] += 1
        if not self._has_room or self._seen[shape] <= SEEN or len(self._captured) == MOST_SHAPES:
            return False
        device = next(iter(self._weights.values())).device
        try:
            self._captured[shape] = self._run(to_device(ids, device), to_device(mask, device), *how)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self.release()
        return self._has_room

    def _run(self, ids: Tensor, mask: Tensor, *how: object) -> Captured:
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        # What is left of a step that failed may hold the weights' own nodes, which are bound to its stream.
        weights = {name: weight.detach().requires_grad_() for name, weight in self._weights.items()}
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            with _capturing(forward, self._pool):
                pooled = functional_call(self._encoder, weights, (ids, mask, *how))
            gradient = torch.zeros_like(pooled)
            with _capturing(backward, self._pool):
                gradients = torch.autograd.grad(pooled, list(weights.values()), gradient, allow_unused=True)
                known = {name: one for name, one in zip(weights, gradients, strict=True) if one is not None}
                kept = [self._gradients.setdefault(name, torch.empty_like(weights[name])) for name in known]
                torch._foreach_copy_(kept, list(known.values()))
        current.wait_stream(self._stream)
        return Captured(ids, mask, pooled.detach(), gradient, forward, backward)


@contextmanager
def _capturing(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Put the kernels of the body into a graph. Other threads may ask the GPU meanwhile."""
    graph.capture_begin(pool, capture_error_mode="thread_local")
    try:
        yield
    finally:
        graph.capture_end()
