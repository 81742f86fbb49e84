"""A device that is not the CPU and needs no hardware: its tensors have shapes and no values.

An operation that mixes devices raises, and so does one for which a GPU would be waited for: one that needs a value, a
copy to the device that is not said to be non-blocking, and an index that lies on the CPU.
Autograd must not have run before the device is registered, so this is a program: `python -m support.fake_gpu` prints
the outcome of each case as a line of JSON.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from contrastcli.settings import catalogue
from contrastcli.training.distributed import World
from contrastcli.training.optim import make_optimizer
from support.tiny import Tiny, write_tiny
from support.trainers import Case, case_id, cases, first_batch, trainer_of

NAME = "fakegpu"


class WaitsForDevice(Exception):
    """An operation for which the device must have finished its work."""


class _Backend(_DummyBackendModule):
    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]


@cache
def fake_gpu() -> torch.device:
    """The device, which is registered at the first call."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
    return torch.device(NAME, 0)


class FakeGpu(FakeTensorMode):  # type: ignore[no-untyped-call]
    """In the body, operations on the fake device compute shapes; all others run as usual, on the CPU."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = tree_leaves((args, kwargs))
        to_device = any(isinstance(one, torch.device) and one.type == NAME for one in given)
        if not to_device and not any(isinstance(one, FakeTensor) for one in given):
            return func(*args, **(kwargs or {}))
        on_device = any(_is_on_device(one) for one in given)
        if _waits(func, args, kwargs or {}):
            raise WaitsForDevice(str(func))
        if not on_device:  # a copy to the device; of real tensors the mode would run it
            args = tree_map_only(torch.Tensor, self.from_tensor, args)
        result = super().__torch_dispatch__(func, types, args, kwargs or {})
        if on_device and any(isinstance(one, torch.Tensor) and one.device.type == "cpu" for one in tree_leaves(result)):
            raise WaitsForDevice(str(func))
        return result


def _is_on_device(one: object) -> bool:
    return isinstance(one, torch.Tensor) and one.device.type == NAME


def _waits(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation copies from the CPU to the device, and the CPU waits for the copy. Single numbers may."""
    name = func.overloadpacket.__name__
    if name in ("_to_copy", "copy_"):
        source, to = (args[0], kwargs.get("device")) if name == "_to_copy" else (args[1], args[0].device)
        non_blocking = kwargs.get("non_blocking") or (name == "copy_" and args[2:] == (True,))
        is_sent = to is not None and torch.device(to).type == NAME and source.device.type == "cpu"
        return is_sent and source.dim() > 0 and not non_blocking
    indices = tree_leaves(args[1]) if name in ("index", "index_put", "index_put_", "_index_put_impl_") else []
    return any(isinstance(one, torch.Tensor) and not _is_on_device(one) for one in indices) and _is_on_device(args[0])


def move(module: nn.Module) -> None:
    """Replace every parameter by one on the fake device."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            with FakeGpu():
                tensor = torch.empty_like(parameter, device=fake_gpu())
            part.register_parameter(name, nn.Parameter(tensor, parameter.requires_grad))


def chosen() -> Iterator[Case]:
    """Each loss on the first form of rows that it takes, and what adds modules or selects rows."""
    losses: set[str] = set()
    for objective, form, changes in cases():
        spec = catalogue.find_objective(objective)
        is_new = not changes and spec.loss not in losses
        adds = {"objective__mlm_weight", "objective__positives"} & changes.keys()
        if is_new or adds:
            losses.add(spec.loss)
            yield objective, form, changes


REFUSED: Mapping[str, Callable[[torch.Tensor], object]] = {
    "mixed devices": lambda x: x + torch.ones(3),
    "a mask": lambda x: x[x > 0],
    "a value": lambda x: bool(x.sum()),
    "a copy to the CPU": lambda x: x.cpu(),
    "a copy from the CPU": lambda x: torch.ones(3).to(x.device),
    "a copy into it": lambda x: x.copy_(torch.ones(3)),
    "an index of the CPU": lambda x: x[torch.arange(2)],
    "a place of the CPU": lambda x: x.index_put_((torch.arange(2),), x[:2]),
}


def take_step(tiny: Tiny, folder: Path, case: Case) -> None:
    """A step on the device with an excluded pair, its graphs kept; some with the gradient cache too."""
    objective, form, changes = case
    trainer = trainer_of(tiny, folder, objective, form, **changes)
    batch, stepper = first_batch(trainer), trainer.stepper
    pair = batch.rows.ids["anchor"][:2]
    batch = replace(batch, rows=replace(batch.rows, excluded=torch.stack([pair, pair.flip(0)])))
    stepper.token_budget = 1_000_000  # few chunks: nothing is computed, but every operation costs time
    for module in (*stepper.encoders.values(), stepper.extras):
        move(module)
    trainer.optimizer = make_optimizer(trainer.config.train, list(stepper.encoders.values()), stepper.extras)
    with FakeGpu():
        if trainer.config.objective.auxiliaries() or objective == "simcse":  # the losses are the same without graphs
            assert stepper.backward(batch, keep_graphs=False).loss.device == fake_gpu()
        outcome, norm = trainer.update(batch)  # keeps graphs: the batch fits
        assert outcome.loss.device == norm.device == fake_gpu()
        for auxiliary in stepper.auxiliaries:
            auxiliary.after_step(batch, outcome.views)


def cut_for_several(tiny: Tiny, folder: Path) -> None:
    """A batch of one chunk on one device is one for each of several, of alike sizes."""
    trainer = trainer_of(tiny, folder, "simcse", "triplets")
    batch, stepper = first_batch(trainer), trainer.stepper
    move(stepper.encoder)
    stepper.token_budget = 1_000_000
    assert len(stepper.cut(batch)[0]) == 1
    stepper.world = World(rank=0, size=4)
    chunks, fits = stepper.cut(batch)
    tokens = [int(batch.table.lengths[chunk.texts].sum()) for chunk in chunks]
    assert len(chunks) == 4
    assert fits
    assert max(tokens) < 2 * min(tokens), tokens
    stepper.token_budget = int(batch.table.lengths[batch.texts].sum()) // 2  # of which each has half
    assert stepper.cut(batch)[1]


def refused(operation: Callable[[torch.Tensor], object]) -> None:
    with FakeGpu():
        operation(torch.ones(3).to(fake_gpu(), non_blocking=True))


def main() -> None:
    fake_gpu()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny = write_tiny(folder)
        jobs = {case_id(case): partial(take_step, tiny, folder, case) for case in chosen()}
        jobs |= {name: partial(refused, operation) for name, operation in REFUSED.items()}
        jobs["several devices"] = partial(cut_for_several, tiny, folder)
        for name, job in jobs.items():
            try:
                job()
            except Exception as error:
                print(json.dumps([name, f"{type(error).__name__}: {error}"]))
            else:
                print(json.dumps([name, ""]))


if __name__ == "__main__":
    main()
