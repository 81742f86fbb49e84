"""An objective's loss and heads, found by the names that its Spec gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, cast

from torch import Tensor, nn

from contrastcli.errors import UsageError
from contrastcli.objectives.rows import Rows
from contrastcli.settings.catalogue import ObjectiveSettings, Spec

Loss = Callable[[Mapping[str, Tensor], Rows, nn.ModuleDict], tuple[Tensor, dict[str, Tensor]]]


def make_loss(spec: Spec, settings: ObjectiveSettings) -> Loss:
    """The loss with its settings bound; settings that it does not name belong to the loop (the MLM term)."""
    function = _named(spec.loss)
    wanted = inspect.signature(function).parameters
    bound = {field: getattr(settings, field) for field in settings.__struct_fields__ if field in wanted}
    return cast(Loss, partial(function, **bound))


def make_heads(spec: Spec, width: int) -> nn.ModuleDict:
    """Fresh modules that only the loss uses; none for most objectives."""
    return cast(nn.ModuleDict, _named(spec.heads)(width)) if spec.heads else nn.ModuleDict()


def _named(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    try:
        return cast(Callable[..., Any], getattr(import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the objective's {name} cannot be imported: {error}", "install or mend its package") from None
