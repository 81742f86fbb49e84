"""An objective's loss and heads, by the names that its Spec gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, cast

from torch import nn

from contrastcli.errors import UsageError
from contrastcli.objectives.functional import HiddenInput, Result, Views, check_inputs, checked
from contrastcli.objectives.rows import Rows
from contrastcli.settings.catalogue import ObjectiveSettings, Spec

Loss = Callable[[Views, Rows, nn.ModuleDict], Result]


def make_loss(spec: Spec, settings: ObjectiveSettings) -> Loss:
    """The loss with its settings bound; settings that it does not name belong to auxiliaries.

    Called for the first time, it raises UsageError where it depends on a weight that would not be trained.
    """
    function = import_named(spec.loss)
    wanted = inspect.signature(function).parameters
    bound: Loss = partial(function, **{f: getattr(settings, f) for f in settings.__struct_fields__ if f in wanted})
    is_checked = False

    def loss(views: Views, rows: Rows, heads: nn.ModuleDict) -> Result:
        nonlocal is_checked
        if is_checked:
            return bound(views, rows, heads)
        try:
            with checked():
                value, parts = bound(views, rows, heads)
            check_inputs(value, (*views.values(), *heads.parameters()))
        except HiddenInput as hidden:
            what = f"the loss of '{spec.name}' depends on a tensor of shape {hidden.args} that it would not train"
            hint = "make weights in the objective's heads(width), and give mean_over all that its term uses as inputs"
            raise UsageError(what, hint) from None
        is_checked = True
        return value, parts

    return loss


def make_heads(spec: Spec, width: int) -> nn.ModuleDict:
    """Fresh modules that only the loss uses; none for most objectives."""
    return cast(nn.ModuleDict, import_named(spec.heads)(width)) if spec.heads else nn.ModuleDict()


def import_named(name: str) -> Callable[..., Any]:
    """The function or class of a `module:name`. Raises UsageError."""
    module, _, function = name.partition(":")
    try:
        return cast(Callable[..., Any], getattr(import_module(module), function))
    except (ImportError, AttributeError) as error:
        what = f"the objective's {name} cannot be imported: {error}"
        raise UsageError(what, "install or fix the package that it is from") from None
