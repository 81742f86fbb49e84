"""What is trained or computed next to the encoder: further encoders, views and terms of the loss.

An objective's settings declare its auxiliaries (`ObjectiveSettings.auxiliaries`). The plan, the batches, the step, the
optimiser and the checkpoints use them through this interface alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from contrastcli.errors import UsageError, error_text
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.objectives.rows import Rows
from contrastcli.runs.directory import Run
from contrastcli.settings.config import Config
from contrastcli.settings.objective import ObjectiveSettings
from contrastcli.settings.sections import Model, Precision
from contrastcli.training.batch import Batch, Chunk
from contrastcli.training.inputs import Inputs
from contrastcli.training.session import Session

Term = Callable[[Chunk], Tensor]
"""A term of a batch's loss, chunk by chunk: adds a chunk's weighted gradient and returns its unweighted value."""


@dataclass(frozen=True)
class AuxiliaryContext:
    """What an auxiliary is loaded with."""

    run: Run
    config: Config
    encoder: SentenceEncoder
    precision: Precision
    inputs: Inputs
    session: Session


class Auxiliary:
    """Something next to the encoder, made from its settings and loaded before training. By default it adds nothing."""

    name: ClassVar[str]
    """The name of its module in a checkpoint, and of its term among the parts of the loss."""
    models: tuple[str, ...] = ()
    """Models that it reads, by name."""
    module: nn.Module | None = None
    """What it trains, chunk by chunk: its encoders, or what its term needs. None before it is loaded, or at all."""
    state: Mapping[str, Tensor] = {}
    """Further tensors of the checkpoints, on the CPU, which a resume restores in place."""
    weight: float = 0.0
    """The weight of its term in the loss."""

    def check(self, model: Model, encoder: SentenceEncoder) -> None:
        """Called before a run is made. Raises DataError for an encoder without what it needs."""

    def load(self, context: AuxiliaryContext) -> None:
        """Get weights and vectors; the heads of the loss are made before. Raises DataError."""

    def before_step(self, step: int, settle: Callable[[], None]) -> None:
        """Called before the batch of each step, from 1, is made. Its time is not counted as the step's.

        Before it replaces rows it has to call `settle`, which raises where an earlier batch of them diverged.
        """

    def after_step(self, batch: Batch, views: Mapping[str, Tensor]) -> None:
        """Called after each update with the embeddings of its batch. May not wait for the device."""

    def settle(self) -> None:
        """Called once the device was waited for: at logged steps, before evaluations and before the state is saved."""

    def after_evaluation(self, step: int) -> None:
        """Called at the end of each evaluation, which no stop interrupts any more. May emit an event."""

    def extend(self, batch: Batch) -> Batch:
        """The batch with further views."""
        return batch

    def encoders(self) -> Mapping[str, SentenceEncoder]:
        """Further encoders, by the prefix of their views' names."""
        return {}

    def views(self, rows: Rows, device: torch.device) -> Mapping[str, Tensor]:
        """Views for the loss that no encoder in training makes: (N, d') each."""
        return {}

    def term(self, batch: Batch, chunks: Sequence[Chunk]) -> Term | None:
        """Its term of the loss of a batch."""
        return None


def make_auxiliaries(objective: ObjectiveSettings) -> list[Auxiliary]:
    """The auxiliaries that the settings declare, not loaded. Raises UsageError."""
    return [import_named(spec.make)(**spec.settings) for spec in objective.auxiliaries()]


def import_named(name: str) -> Any:
    """The function or class of a `module:name`. Raises UsageError."""
    try:
        return resolve_name(name)
    except (Exception, SystemExit) as error:
        what = f"the objective's {name} cannot be imported: {error_text(error)}"
        raise UsageError(what, "install or fix the package that it is from") from None
