"""Trainers before their first step."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from contrastcli.runs.directory import Run
from contrastcli.training.batch import Batch
from contrastcli.training.distributed import World
from contrastcli.training.loop import Trainer
from contrastcli.training.plan import make_plan
from contrastcli.training.setup import make_trainer
from support.tiny import Tiny

BUDGET = 240  # tokens: a batch of 16 rows takes many chunks
CPU = torch.device("cpu")


def trainer_of(tiny: Tiny, folder: Path, objective: str, form: str, **changes: object) -> Trainer:
    """A trainer before its first step, on batches of 16 rows."""
    plan = make_plan(tiny.config(objective, form, dev__data="none", **{"train__batch_size": 16} | changes))
    trainer = make_trainer(Run(folder), plan, CPU, lambda event: None, lambda: False, World())
    trainer.encoder.train()
    trainer.stepper.token_budget = BUDGET
    return trainer


def first_batch(trainer: Trainer) -> Batch:
    step, _, rows = next(trainer.plan.batches(0))
    return trainer.make_batch(step, rows)


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of every parameter's gradient, which is then cleared; the tied language-model head is in the encoder."""
    modules = {"encoder": trainer.encoder, "extras": trainer.stepper.extras}
    named = [one for prefix, module in modules.items() for one in module.named_parameters(prefix=prefix)]
    copies = {name: p.grad.clone() if p.grad is not None else torch.zeros_like(p) for name, p in named}
    trainer.optimizer.zero_grad()
    return copies
