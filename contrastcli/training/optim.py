"""Optimiser and learning rate. The rate is a function of the step, so there is no scheduler state to lose."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from contrastcli.model.encoder import SentenceEncoder
from contrastcli.settings.sections import Train


def make_optimizer(settings: Train, encoder: SentenceEncoder, extras: nn.ModuleDict) -> torch.optim.Optimizer:
    """Adam or AdamW with a rate for the backbone and a peer's, and one for heads, the encoder's own among them.

    Vectors (biases, norms) are not decayed.
    """
    heads = list(encoder.dense.parameters()) if encoder.dense is not None else []
    heads += [p for name, module in extras.items() if name != "peer" for p in module.parameters()]
    peer = extras["peer"].parameters() if "peer" in extras else ()
    groups = [
        *_groups(encoder.backbone.parameters(), settings.lr, settings.weight_decay),
        *_groups(peer, settings.lr, settings.weight_decay),
        *_groups(heads, settings.head_lr or settings.lr, settings.weight_decay),
    ]
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, fused=all(p.device.type in ("cpu", "cuda") for p in encoder.parameters()))


def _groups(parameters: Iterable[nn.Parameter], lr: float, decay: float) -> list[dict[str, object]]:
    trained = [p for p in parameters if p.requires_grad]
    matrices = [p for p in trained if p.ndim > 1]
    vectors = [p for p in trained if p.ndim <= 1]
    return [
        {"params": some, "lr": lr, "peak_lr": lr, "weight_decay": weight_decay}
        for some, weight_decay in ((matrices, decay), (vectors, 0.0))
        if some
    ]


def set_rate(optimizer: torch.optim.Optimizer, settings: Train, step: int, steps: int) -> float:
    """Set every group's rate for a step (from 1) and return the backbone's."""
    share = rate(settings, step, steps)
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * share
    return float(optimizer.param_groups[0]["lr"])


def rate(settings: Train, step: int, steps: int) -> float:
    """The learning rate of a step (from 1) as a share of its peak: warm-up, then the schedule."""
    done = step - 1
    warmup = round(settings.warmup * steps)
    if done < warmup:
        return (done + 1) / warmup
    if settings.schedule == "constant":
        return 1.0
    left = (steps - done) / max(1, steps - warmup)
    return left if settings.schedule == "linear" else 0.5 * (1 - math.cos(math.pi * left))


def gradient_norm(parameters: Iterable[nn.Parameter], clip: float) -> Tensor:
    """The norm of all gradients together, which are scaled down to `clip` where it is above 0."""
    trained = [p for p in parameters if p.grad is not None]
    if clip:
        return nn.utils.clip_grad_norm_(trained, clip)
    return nn.utils.get_total_norm([p.grad for p in trained if p.grad is not None])
