"""What goes through the encoders in one step, as texts and as chunks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contrastcli.data.batching import Corpus, Indices
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


@dataclass(frozen=True)
class Batcher:
    """Makes the batch of a step from rows of the corpus; each function of `extend` may add views to it."""

    corpus: Corpus
    table: TokenTable
    mask_duplicates: bool
    extend: Sequence[Callable[[Batch], Batch]] = ()

    def __call__(self, step: int, rows: Indices) -> Batch:
        """The batch of (N,) rows of the corpus."""
        texts = {view: texts[rows] for view, texts in self.corpus.views.items()}
        label = None if self.corpus.labels is None else torch.from_numpy(self.corpus.labels[rows])
        known = Rows({view: torch.from_numpy(ids) for view, ids in texts.items()}, label, self.mask_duplicates)
        batch = Batch(step, self.table, np.concatenate(list(texts.values())), tuple(texts), known)
        for extend in self.extend:
            batch = extend(batch)
        return batch
