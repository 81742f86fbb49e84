"""A whole step runs on a device that is not the CPU, without mixing devices and without waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from contrastcli.settings import catalogue
from contrastcli.training.optim import make_optimizer
from support.fake_gpu import FakeGpu, WaitsForDevice, fake_gpu, move
from support.tiny import Tiny
from support.trainers import Case, Changes, case_id, cases, first_batch, trainer_of

SETTINGS: tuple[Changes, ...] = ({"objective__mlm_weight": 1}, {"objective__positives": 1}, {"model__head": "keep"})


def chosen() -> Iterator[Case]:
    """Each objective on the first form of rows that it takes, and what adds modules or selects rows."""
    for objective, form, changes in cases():
        if form == catalogue.find(objective).needs[0] and (not changes or changes in SETTINGS):
            yield objective, form, changes


@pytest.mark.parametrize("case", list(chosen()), ids=case_id)
def test_a_step_stays_on_its_device(tiny: Tiny, tmp_path: Path, case: Case) -> None:
    objective, form, changes = case
    trainer = trainer_of(tiny, tmp_path, objective, form, **changes)
    batch, stepper = first_batch(trainer), trainer.stepper
    stepper.token_budget = 1_000_000  # few chunks: nothing is computed, but every operation costs time
    for module in (*stepper.encoders.values(), stepper.extras):
        move(module)
    trainer.optimizer = make_optimizer(trainer.config.train, list(stepper.encoders.values()), stepper.extras)
    with FakeGpu():
        assert stepper.backward(batch, keep_graphs=True).loss.device == fake_gpu()
        assert stepper.backward(batch, keep_graphs=False).loss.device == fake_gpu()
        _, norm = trainer.update(batch)
        assert norm.device == fake_gpu()


def test_what_the_device_refuses() -> None:
    with FakeGpu():
        x = torch.ones(3).to(fake_gpu())
        with pytest.raises(RuntimeError, match=r"same device|different device"):
            x + torch.ones(3)
        with pytest.raises(DynamicOutputShapeException):
            x[x > 0]
        with pytest.raises(DataDependentOutputException):
            bool(x.sum())
        with pytest.raises(WaitsForDevice):
            x.cpu()
