"""A loss at several sizes of the embeddings: Kusupati et al., 2022, https://arxiv.org/abs/2205.13147, Eq. 1."""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, Views
from contrastcli.objectives.rows import Rows

Loss = Callable[[Views, Rows, nn.ModuleDict], Result]


def at_sizes(loss: Loss, weights: Mapping[int, float], truncate: Callable[[Tensor, int], Tensor]) -> Loss:
    """The weighted sum of a loss over embeddings that are truncated to each size.

    `weights` is by size, that of the whole embeddings first. `truncate` cuts (N, d) embeddings to (N, size), as the
    model does. A teacher's and a guide's embeddings, which alone have no gradient, stay whole. Every size has heads of
    its own, under its digits, as in the paper.
    Parts: those of the whole embeddings, and of each other size k its loss, as `loss@k`.
    """

    def total(views: Views, rows: Rows, heads: nn.ModuleDict) -> Result:
        values: list[Tensor] = []
        parts: dict[str, Tensor] = {}
        for size, weight in weights.items():
            cut = {name: truncate(view, size) if view.requires_grad else view for name, view in views.items()}
            value, own = loss(cut, rows, cast(nn.ModuleDict, heads[str(size)]))
            parts |= {f"loss@{size}": value.detach()} if values else own
            values.append(weight * value)
        return torch.stack(values).sum(), parts

    return total
