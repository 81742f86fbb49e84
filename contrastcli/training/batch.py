"""What goes through the encoders in one step, as texts and as chunks of them, and the seeds of their dropout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contrastcli.data.batching import Corpus, Indices
from contrastcli.data.tokens import TokenTable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.workers import generator
from contrastcli.objectives.rows import Rows
from contrastcli.training.inputs import Inputs

CHUNK, LOSS, FRESH, MASKS, MLM, PERTURB = range(6)
"""Streams of a step: an encoder chunk, the loss, fresh weights, masked tokens, a chunk of the masked-token term, and
perturbed views."""


@dataclass(frozen=True)
class Batch:
    """The texts of one step: `texts` (V·N,) indexes the table, view after view, −1 for none. Every encoder gets all.

    With `templates` (V·N,) further texts follow: the place in `texts` of each one's template.
    """

    step: int
    table: TokenTable
    texts: Indices
    views: Sequence[str]
    rows: Rows
    templates: Indices | None = None

    @classmethod
    def of(cls, corpus: Corpus, inputs: Inputs, step: int, rows: Indices, mask_duplicates: bool) -> "Batch":
        """The batch of (N,) rows of a corpus."""
        texts = {view: column[rows] for view, column in corpus.views.items()}
        columns = (corpus.labels, corpus.scores, corpus.candidate_scores)
        label, score, taught = (None if column is None else torch.from_numpy(column[rows]) for column in columns)
        ids = {view: torch.from_numpy(column) for view, column in texts.items()}
        read = {view: inputs.rows[view][column] for view, column in texts.items()}
        lengths = {view: torch.from_numpy(inputs.table.lengths[column]) for view, column in read.items()}
        known = Rows(ids, label, mask_duplicates, score, lengths, candidate_score=taught)
        return cls(step, inputs.table, np.concatenate(list(read.values())), tuple(texts), known)

    @property
    def count(self) -> int:
        """The texts of all views, without templates: V·N."""
        return len(self.texts if self.templates is None else self.templates)

    def view(self, name: str) -> Indices:
        """The texts of one view: (N,)."""
        return np.split(self.texts[: self.count], len(self.views))[self.views.index(name)]


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


def seed_of(run_seed: int, step: int, stream: int, chunk: int = 0) -> int:
    """A seed for one stream of one step, and of one chunk where the stream is cut into chunks.

    Random states are functions of the position in the run, so that a position is all that resuming needs; both passes
    over a chunk draw the same dropout, and so does the same chunk on another process.
    """
    sequence = np.random.SeedSequence([run_seed, step, stream, chunk])
    return int(sequence.generate_state(1, np.uint64)[0]) >> 1


def set_seed(run_seed: int, step: int, stream: int, chunk: int = 0) -> None:
    """Seed the generators of this thread and of the accelerator in use for one stream of one step."""
    seed = seed_of(run_seed, step, stream, chunk)
    # torch.manual_seed formats a stack trace per idle backend.
    generator().manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
