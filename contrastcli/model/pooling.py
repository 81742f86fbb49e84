"""Token vectors → one sentence vector."""

from torch import Tensor

from contrastcli.model.bert.network import Hidden
from contrastcli.settings.sections import Pooling


def pool(hidden: Hidden, mask: Tensor, pooling: Pooling) -> Tensor:
    """Pooled embeddings (B, d) in float32 of hidden states (B, T, d) under a mask (B, T) of real tokens."""
    if pooling == "cls":
        return hidden.last[:, 0].float()
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
