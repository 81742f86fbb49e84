"""Building blocks of losses: precision, masks, means over anchors, features for a classifier of pairs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Views = Mapping[str, Tensor]
"""Embeddings (N, d) by name: anchor, positive, negative, and those that an objective's auxiliaries add."""

Result = tuple[Tensor, dict[str, Tensor]]
"""The scalar to minimise, with its graph, and its terms, unweighted."""

BLOCK = 256
"""Anchors whose similarities to the whole batch are held in memory at once."""

MASKED = -1e30
"""The logit of a masked column. Finite, so that a row whose columns are all masked has a gradient: zero."""


def promoted(x: Tensor) -> Tensor:
    """`x` in float32, the precision of losses, or in float64 if it has that already."""
    return x if x.dtype == torch.float64 else x.float()


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on a device. CUDA is not waited for, as it is by `Tensor.to` and by an index on the CPU."""
    # From memory that may be swapped CUDA copies after its other work. Apple's GPU would copy what has changed by then.
    x = x.pin_memory() if device.type == "cuda" and x.device.type == "cpu" else x
    return x.to(device, non_blocking=device.type != "mps")


@contextmanager
def full_precision(views: Views) -> Iterator[dict[str, Tensor]]:
    """The views in full precision, and autocast off: it would run the matrix products in bfloat16 again."""
    device = next(iter(views.values())).device
    with torch.autocast(device.type, enabled=False):
        yield {name: promoted(view) for name, view in views.items()}


def isin(columns: Tensor, texts: Tensor) -> Tensor:
    """Whether the text of a column is among the texts of a row: (M,) and (n, k) text ids → (n, M) bool."""
    return (texts[:, :, None] == columns).any(dim=1)


def mask_logits(logits: Tensor, valid: Tensor) -> Tensor:
    """The logits with MASKED for invalid ones, which leaves them out of a log-sum-exp: two (n, M) → (n, M)."""
    return logits.masked_fill(~valid, MASKED)


def discrimination(positive: Tensor, negatives: Tensor) -> Tensor:
    """−log( e^p / (e^p + e^n) ) of logits p and n, where n is the negatives' log-sum-exp: (n,).

    As log(1 + e^(n−p)), so that a small loss keeps its digits.
    """
    return -nn.functional.logsigmoid(positive - negatives)


def mean_over(anchors: Tensor, term: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """The mean of `term(anchors, *inputs)`: (n,) indices, embeddings → (n,) values → scalar.

    Without anchors it is a zero that keeps the graph. Memory grows with the batch, not with its square: `term` gets
    at most BLOCK anchors at a time, and of several blocks each is computed again for its gradient, so that only one
    block's (BLOCK, M) matrices are in memory. The value of an anchor must not depend on the other anchors.
    """
    blocks = torch.split(anchors, BLOCK)
    value = term if len(blocks) == 1 else partial(checkpoint, term, use_reentrant=False)
    return torch.stack([value(block, *inputs).sum() for block in blocks]).sum() / max(len(anchors), 1)


def pair_features(u: Tensor, v: Tensor) -> Tensor:
    """[u, v, |u − v|], the input of SBERT's classifier of pairs: two (N, d) → (N, 3d)."""
    return torch.cat([u, v, (u - v).abs()], dim=-1)


def fresh_linear(inputs: int, outputs: int, *, bias: bool) -> nn.Linear:
    """A linear layer initialised as BERT does: weights N(0, 0.02), bias 0."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=0.02)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
