"""What goes through the encoders in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contrastcli.data.batching import Corpus, Indices
from contrastcli.data.tokens import TokenTable
from contrastcli.objectives.rows import Rows
from contrastcli.settings.catalogue import PEER
from contrastcli.training.views import Perturber


@dataclass(frozen=True)
class Batch:
    """The texts of one step: `texts` (V·N,) indexes the table, view after view.

    The first `own` of them go through the encoder. The rest, if there are any, are the same ones once more, for a peer.
    """

    step: int
    table: TokenTable
    texts: Indices
    own: int
    views: Sequence[str]
    rows: Rows


@dataclass(frozen=True)
class Batcher:
    """Makes the batch of a step: the corpus' views of some rows, their perturbed views, and all of them for a peer."""

    corpus: Corpus
    table: TokenTable
    mask_duplicates: bool
    perturber: Perturber | None = None
    peer: bool = False

    def __call__(self, step: int, rows: Indices) -> Batch:
        """The batch of (N,) rows of the corpus."""
        texts = {view: texts[rows] for view, texts in self.corpus.views.items()}
        label = None if self.corpus.labels is None else torch.from_numpy(self.corpus.labels[rows])
        known = Rows({view: torch.from_numpy(ids) for view, ids in texts.items()}, label, self.mask_duplicates)
        names, table, places = list(texts), self.table, np.concatenate(list(texts.values()))
        if self.perturber:
            made = self.perturber(table, texts["anchor"], step)
            table = TokenTable.of([*(table[int(i)] for i in places), *made])
            names, places = [*names, *self.perturber.names], np.arange(len(table))
        own = len(places)
        if self.peer:
            names, places = [*names, *(PEER + name for name in names)], np.concatenate([places, places])
        return Batch(step, table, places, own, names, known)
