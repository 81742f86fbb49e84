"""Trainers before their first step, and every objective in its variants."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from contrastcli.runs.directory import Run
from contrastcli.settings import catalogue
from contrastcli.settings.objective import Spec
from contrastcli.training.batch import Batch
from contrastcli.training.loop import Trainer
from contrastcli.training.plan import make_plan
from contrastcli.training.session import Session
from contrastcli.training.setup import make_trainer
from support.tiny import Tiny

BUDGET = 500  # tokens: a batch of 16 rows takes many chunks
CPU = torch.device("cpu")

Changes = dict[str, object]
"""Settings as train__lr=1e-3."""

Case = tuple[str, str, Changes]
"""An objective, a form of rows, and settings."""


def trainer_of(tiny: Tiny, folder: Path, objective: str, form: str, **changes: object) -> Trainer:
    """A trainer before its first step, on batches of 16 rows, on the CPU or train__device."""
    device = torch.device(str(changes.get("train__device", CPU)))
    plan = make_plan(tiny.config(objective, form, dev__data="none", **{"train__batch_size": 16} | changes))
    trainer = make_trainer(Run(folder), plan, device, Session(lambda event: None))
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
    copies = {name: p.grad.to_dense().clone() if p.grad is not None else torch.zeros_like(p) for name, p in named}
    trainer.optimizer.zero_grad()
    return copies


def distance(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    """The largest error of a gradient, in its norm, or in a hundredth of that of all: key biases have but rounding."""
    assert actual.keys() == expected.keys()
    total = torch.stack([gradient.norm() for gradient in expected.values()]).norm()
    assert total > 1e-3
    errors = [(actual[name] - g).norm() / max(g.norm(), 1e-2 * total) for name, g in expected.items()]
    return float(torch.stack(errors).max())


def assert_cache_changes_nothing(trainer: Trainer) -> dict[str, Tensor]:
    """Assert that the first batch has the same gradient by the gradient cache as with kept graphs; returns it."""
    batch = first_batch(trainer)
    trainer.stepper.backward(batch, keep_graphs=True)
    kept = gradients(trainer)
    trainer.stepper.backward(batch, keep_graphs=False)
    assert distance(gradients(trainer), kept) <= 1e-5
    return kept


def variants(spec: Spec) -> Iterator[Changes]:
    """Each setting in turn at its other choices, or at 1 where it is off by default."""
    for setting in spec.describe().values():
        others: list[object] = [choice for choice in setting.choices if choice != setting.default]
        if setting.kind is bool:
            others = [not setting.default]
        elif setting.kind in (int, float) and setting.default == 0:
            others = [1]
        yield from ({f"objective__{setting.name}": other} for other in others)


def cases() -> Iterator[Case]:
    """Every objective on every form of rows that it takes; of those that share a loss the first in its variants.

    These are on the form with the most texts, with what follows the encoder: a projection that is dropped, and a dense
    layer that is part of the encoder, with several sizes of what it makes.
    """
    seen: set[str] = set()
    for spec in catalogue.built_in():
        for form in spec.needs:
            yield spec.name, form, {}
        if spec.loss not in seen:
            models: list[Changes] = [{"model__head": "train-only"}, {"model__head": "keep", "model__dims": "8=0.5,16"}]
            form = "triplets" if "triplets" in spec.needs else spec.needs[-1]
            for changes in [*variants(spec), *models]:
                yield spec.name, form, changes
            seen.add(spec.loss)


def case_id(case: Case) -> str:
    """As simcse-pairs-mlm_weight=1."""
    objective, form, changes = case
    return "-".join([objective, form, *(f"{key.split('__')[1]}={value}" for key, value in changes.items())])
