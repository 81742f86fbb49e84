"""Token vectors → one sentence vector, and the layers that may follow."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastcli.model.bert.network import Hidden
from contrastcli.objectives.functional import fresh_linear, to_device
from contrastcli.settings.sections import Pooling


class Dense(nn.Module):
    """Linear with an activation: SimCSE's head is Linear(d, d) + Tanh, fresh, N(0, 0.02) and bias 0."""

    def __init__(self, width: int, out: int, bias: bool = True, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.linear = fresh_linear(width, out, bias=bias)
        self.activation = activation or nn.Tanh()

    def forward(self, pooled: Tensor) -> Tensor:
        """(N, d) → (N, out)."""
        vectors: Tensor = self.activation(self.linear(pooled))
        return vectors


class Normalize(nn.Module):
    """Scales sentence vectors to unit length."""

    def forward(self, pooled: Tensor) -> Tensor:
        """(N, d) → (N, d)."""
        return nn.functional.normalize(pooled, dim=1)


def in_words(module: nn.Module) -> str:
    """A layer after the pooling."""
    if isinstance(module, Dense):
        sizes = f"{module.linear.in_features} to {module.linear.out_features}"
        return f"dense {sizes} with {type(module.activation).__name__}"
    return "unit length" if isinstance(module, Normalize) else "layer norm"


def width_after(modules: nn.Sequential, width: int) -> int:
    """The width of embeddings, given that of the pooled ones."""
    return next((m.linear.out_features for m in reversed(modules) if isinstance(m, Dense)), width)


def pool(hidden: Hidden, mask: Tensor, pooling: Pooling, skipped: NDArray[np.int64] | None = None) -> Tensor:
    """Pooled embeddings (B, d) in float32 of hidden states (B, T, d) under a mask (B, T) of real tokens.

    For `mask` pooling it is a mask of mask tokens. Of the first texts so many first tokens are `skipped` (b,), those of
    prompts.
    """
    if skipped is not None:
        first = to_device(torch.from_numpy(skipped), mask.device)
        mask = mask.clone()
        mask[: len(first)] &= torch.arange(mask.shape[1], device=mask.device) >= first[:, None]
    if pooling == "cls":
        return hidden.last[:, 0].float()
    if pooling == "last":
        last = mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1)  # (B,)
        # Of the shape, since the trace of an export takes len for a constant.
        return hidden.last[torch.arange(last.shape[0], device=last.device), last].float()
    if pooling == "first-last":
        return (_mean(hidden.first, mask) + _mean(hidden.last, mask)) / 2
    if pooling == "last-mean":
        return (_mean(hidden.penultimate, mask) + _mean(hidden.last, mask)) / 2
    if pooling == "mean-no-cls":
        mask = mask.clone()
        mask[:, 0] = False
    return _mean(hidden.last, mask)


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    weights = mask.float()  # (B, T)
    weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
    return (weights.unsqueeze(1) @ states.float()).squeeze(1)  # (B, d)
