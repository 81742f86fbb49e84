"""Optimiser and learning rate. The rate is a function of the step, so there is no scheduler state to lose."""

import math
from collections.abc import Iterable, Sequence
from inspect import unwrap

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.optim import Adam, AdamW, Optimizer

from contrastcli.model.encoder import SentenceEncoder
from contrastcli.settings.sections import Train


def make_optimizer(settings: Train, encoders: Sequence[SentenceEncoder], extras: nn.ModuleDict) -> Optimizer:
    """Adam or AdamW with a rate for the encoders' backbones, and one for everything else, with their own heads.

    `extras` is what is dropped after training, further encoders included. Vectors (biases, norms) are not decayed.
    """
    parts = [(list(encoder.backbone.parameters()), settings.lr) for encoder in encoders]
    in_backbones = {parameter for parameters, _ in parts for parameter in parameters}
    heads = [p for p in nn.ModuleList([*encoders, extras]).parameters() if p not in in_backbones]
    groups = []
    for parameters, lr in (*parts, (heads, settings.head_lr or settings.lr)):
        for is_matrix, decay in ((True, settings.weight_decay), (False, 0.0)):
            if some := [p for p in parameters if p.requires_grad and (p.ndim > 1) == is_matrix]:
                groups.append({"params": some, "lr": lr, "peak_lr": lr, "weight_decay": decay})
    kind = AdamW if settings.optimizer == "adamw" else Adam
    optimizer = _without_compiler(kind)(groups, fused=all(p.device.type in ("cpu", "cuda") for p in in_backbones))
    optimizer.register_step_post_hook(_count_versions)
    return optimizer


def _without_compiler(kind: type[Adam]) -> type[Adam]:
    """The same, without what keeps the compiler of torch out of it: to load that takes as long as torch itself."""
    kept = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    methods = {name: unwrap(getattr(kind, name)) for name in kept} | {"step": torch.no_grad()(unwrap(kind.step))}
    return type(kind.__name__, (kind,), methods)


def allocate_state(optimizer: Optimizer) -> None:
    """Make room for the moments of every gradient. The first step would, and could run out of memory halfway."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and not optimizer.state[parameter]:
                step = torch.zeros((), device=parameter.device if group["fused"] else "cpu")
                moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                optimizer.state[parameter] = {"step": step, **moments}


def _count_versions(optimizer: Optimizer, *_: object) -> None:
    """A fused step does not tell that it changed the weights, of which layers keep copies in bf16."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            increment_version(parameter)


def set_rate(optimizer: Optimizer, settings: Train, step: int, steps: int) -> float:
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
