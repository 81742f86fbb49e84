"""What is trained or computed next to the encoder: further encoders, views and terms of the loss.

An objective's settings declare its auxiliaries (`ObjectiveSettings.auxiliaries`). The plan, the batches, the step, the
optimiser and the checkpoints know no more of them than this interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from contrastcli.model.encoder import Precision, SentenceEncoder
from contrastcli.objectives.rows import Rows
from contrastcli.settings.catalogue import ObjectiveSettings
from contrastcli.settings.config import Config
from contrastcli.training.batch import Batch, Chunk
from contrastcli.training.objective import import_named

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Context:
    """What an auxiliary is loaded with. `texts` are the corpus'; `progress` shows the progress of some work."""

    config: Config
    encoder: SentenceEncoder
    precision: Precision
    texts: Sequence[str]
    progress: Callable[[str], OnProgress]

    @property
    def max_length(self) -> int:
        """Tokens that training reads of a text."""
        return min(self.config.model.max_length, self.encoder.backbone.max_length)


class Term(Protocol):
    """A term of the loss with a backward pass of its own, chunk by chunk. `loss` is what its chunks add up to."""

    weight: float
    loss: Tensor

    def backward(self, chunk: Chunk) -> None:
        """Add a chunk's part of the term to `loss` and to the gradients."""


class Auxiliary:
    """Something next to the encoder. It is made from its settings, without weights, and loaded before training.

    Each attribute and method adds nothing by default.
    """

    name: ClassVar[str]
    """The name of its module in a checkpoint, and of its term among the parts of the loss."""
    models: tuple[str, ...] = ()
    """Models that it reads, by name."""
    module: nn.Module | None = None
    """What it trains, chunk by chunk: its encoders, or what its term needs. None before it is loaded, or at all."""

    def load(self, context: Context) -> None:
        """Get weights and vectors; the heads of the loss are made before. Raises DataError."""

    def with_models(self, path: Callable[[str], str]) -> Mapping[str, object]:
        """The settings of the objective that name its models, with what a function makes of each name."""
        return {}

    def extend(self, batch: Batch) -> Batch:
        """The batch with further views."""
        return batch

    def encoders(self) -> Mapping[str, SentenceEncoder]:
        """Further encoders, by what the names of their views begin with."""
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
