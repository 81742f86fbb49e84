"""A device that is not the CPU and needs no hardware: its tensors have shapes and no values.

An operation that mixes devices raises, and so does one that needs a value: on a GPU it would wait for the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

NAME = "fakegpu"


class WaitsForDevice(Exception):
    """A value of the device is copied to the CPU, for which it must have finished its work."""


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
        on_device = any(isinstance(one, FakeTensor) and one.device.type == NAME for one in given)
        if not on_device:  # a copy to the device; of real tensors the mode would run it
            args = tree_map_only(torch.Tensor, self.from_tensor, args)
        result = super().__torch_dispatch__(func, types, args, kwargs or {})
        if on_device and any(isinstance(one, torch.Tensor) and one.device.type == "cpu" for one in tree_leaves(result)):
            raise WaitsForDevice(str(func))
        return result


def move(module: nn.Module) -> None:
    """Replace every parameter by one on the fake device."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            with FakeGpu():
                tensor = torch.empty_like(parameter, device=fake_gpu())
            part.register_parameter(name, nn.Parameter(tensor, parameter.requires_grad))
