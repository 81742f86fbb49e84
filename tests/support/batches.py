"""Batches of embeddings for the losses, and the comparison of a loss with plain loops, in value and gradient."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, full_precision
from contrastcli.objectives.rows import Rows
from contrastcli.settings import catalogue
from contrastcli.training.auxiliaries.auxiliary import import_named
from support.by_loops import Vector

KINDS = ("cosine", "angle", "arc", "rbf")
MARGINS = [("cosine", 0.1), ("angle", -10.0), ("arc", 10.0), ("rbf", 0.0)]
NO_HEADS = nn.ModuleDict()


class Objective:
    """The loss of an objective with some of its settings, in full precision as in training; a call may change them."""

    def __init__(self, name: str, **settings: Any) -> None:
        self._spec, self._settings = catalogue.find_objective(name), settings
        self._loss: Callable[..., Result] = import_named(self._spec.loss)

    def heads(self, width: int) -> nn.ModuleDict:
        """Fresh heads, none for a loss without."""
        return cast(nn.ModuleDict, import_named(self._spec.heads)(width)) if self._spec.heads else nn.ModuleDict()

    def __call__(
        self, views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict = NO_HEADS, **changes: Any
    ) -> Result:
        settings = self._spec.settings(**self._settings | changes)
        with full_precision(views) as full:
            return self._loss(full, rows, heads, settings=settings)


def batch(*names: str, rows: int, width: int = 2, seed: int = 0) -> dict[str, Tensor]:
    """Random embeddings; with width 2 they lie at random angles, at random distances from the origin."""
    generator = torch.Generator().manual_seed(seed)
    views = {name: torch.randn(rows, width, generator=generator, dtype=torch.float64) for name in names}
    return {name: view.requires_grad_() for name, view in views.items()}


def distinct(views: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Ids that say all texts differ."""
    return {name: torch.arange(len(view)) + 100 * place for place, (name, view) in enumerate(views.items())}


def heavy(heads: nn.ModuleDict) -> nn.ModuleDict:
    """Heads in float64 with weights and biases large enough that every term of the loss matters."""
    generator = torch.Generator().manual_seed(0)
    heads = heads.double()
    for parameter in heads.parameters():
        parameter.data.normal_(generator=generator).mul_(0.5)
    return heads


def vectors(views: Mapping[str, Tensor]) -> dict[str, list[Vector]]:
    """Embeddings as lists, for the loops."""
    return {name: view.tolist() for name, view in views.items()}


def numbers(ids: Mapping[str, Tensor]) -> dict[str, list[int]]:
    """Ids as lists, for the loops."""
    return {name: texts.tolist() for name, texts in ids.items()}


def gradient(x: Tensor) -> Tensor:
    """What a backward pass left in `x`."""
    assert x.grad is not None
    return x.grad


def differences(by_loops: Callable[[], float], x: Tensor, entries: int) -> Tensor:
    """The central differences of `by_loops` in the first entries of x."""
    flat, step, slopes = x.detach().view(-1), 1e-6, []
    for k in range(entries):
        value = flat[k].item()
        flat[k] = value + step
        above = by_loops()
        flat[k] = value - step
        slopes.append((above - by_loops()) / (2 * step))
        flat[k] = value
    return torch.tensor(slopes, dtype=torch.float64)


def check(
    loss: Tensor, by_loops: Callable[[], float], views: Mapping[str, Tensor], heads: nn.Module = NO_HEADS
) -> None:
    """The loss and its gradient in each view and weight (its first 12 entries) are those of the loops."""
    assert loss.item() == pytest.approx(by_loops(), rel=1e-9)
    torch.autograd.backward(loss)
    for x in (x for x in (*views.values(), *heads.parameters()) if x.requires_grad):
        entries = min(12, x.numel())
        torch.testing.assert_close(
            gradient(x).view(-1)[:entries], differences(by_loops, x, entries), rtol=1e-5, atol=1e-8
        )


def on_the_circle(*degrees: float) -> Tensor:
    """Unit vectors at these angles, (N, 2)."""
    angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack([angle.cos(), angle.sin()], dim=1)
