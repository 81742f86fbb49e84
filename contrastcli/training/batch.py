"""What goes through the encoders in one step, as texts and as chunks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrastcli.data.batching import Indices
from contrastcli.data.tokens import TokenTable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.objectives.rows import Rows


@dataclass(frozen=True)
class Batch:
    """The texts of one step: `texts` (V·N,) indexes the table, view after view. Every encoder gets all of them."""

    step: int
    table: TokenTable
    texts: Indices
    views: Sequence[str]
    rows: Rows

    def view(self, name: str) -> Indices:
        """The texts of one view: (N,)."""
        return np.split(self.texts, len(self.views))[self.views.index(name)]


@dataclass(frozen=True)
class Chunk:
    """Texts that go through one encoder together.

    `number` counts the chunks of a batch, those of all encoders. `texts` (B,) indexes the table, and `places` (B,) the
    embeddings of the batch.
    """

    number: int
    encoder: SentenceEncoder
    texts: Indices
    places: Indices
