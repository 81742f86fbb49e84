"""Further views of sentences, PCL's: by perturbing their tokens, and by a second encoder (Wu et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.random import Generator

from contrastcli.data.batching import Indices
from contrastcli.data.tokens import Ids, TokenTable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.objectives.pcl import PEER
from contrastcli.training.auxiliary import Auxiliary, Context
from contrastcli.training.batch import Batch
from contrastcli.training.seeds import PERTURB, seed_of

Perturbation = Literal["shuffle", "reverse", "delete", "repeat"]

SHARE = 0.2
"""Of a sentence's tokens, how many are deleted or repeated."""


def shuffle(ids: Ids, random: Generator) -> Ids:
    """The tokens in any order."""
    return random.permutation(ids)


def reverse(ids: Ids, random: Generator) -> Ids:
    """The tokens from the last to the first."""
    return ids[::-1]


def delete(ids: Ids, random: Generator) -> Ids:
    """Without a fifth of the tokens, wherever they stand."""
    return np.delete(ids, random.choice(len(ids), round(SHARE * len(ids)), replace=False))


def repeat(ids: Ids, random: Generator) -> Ids:
    """With a fifth of the tokens once more, anywhere in between."""
    count = round(SHARE * len(ids))
    again = ids[random.choice(len(ids), count, replace=False)]
    return np.insert(ids, random.integers(0, len(ids) + 1, count), again)


PERTURBATIONS: Mapping[Perturbation, Callable[[Ids, Generator], Ids]] = {
    "shuffle": shuffle,
    "reverse": reverse,
    "delete": delete,
    "repeat": repeat,
}


class PerturbedViews(Auxiliary):
    """A further view of the anchors for each kind, named by the kind and the number of its kind: shuffle_1, …

    They are a pure function of the run's seed and the step. The special tokens that the tokenizer puts around every
    text stay where they are, and a view has no more tokens than training reads.
    """

    name = "perturbed"

    def __init__(self, kinds: Sequence[Perturbation]) -> None:
        self.kinds = kinds
        self.views_added = tuple(f"{kind}_{kinds[: place + 1].count(kind)}" for place, kind in enumerate(kinds))

    def load(self, context: Context) -> None:
        """Get the special tokens: those of an empty text."""
        self.max_length = context.max_length
        self.run_seed = context.config.train.seed
        self.special = frozenset(context.encoder.tokenizer.encode([""], self.max_length)[0])

    def extend(self, batch: Batch) -> Batch:
        """The batch with the perturbed anchors, all texts in a table of their own."""
        perturbed = self.perturb(batch.table, batch.view("anchor"), batch.step)
        table = TokenTable.of([*(batch.table[int(i)] for i in batch.texts), *perturbed])
        return replace(batch, table=table, texts=np.arange(len(table)), views=(*batch.views, *self.views_added))

    def perturb(self, table: TokenTable, texts: Indices, step: int) -> list[Ids]:
        """Token ids of K views of N texts of a table, view after view: (N,) → K·N arrays."""
        random = np.random.default_rng(seed_of(self.run_seed, step, PERTURB))
        split = [self._split(table[int(text)]) for text in texts]
        return [
            np.concatenate([head, PERTURBATIONS[kind](inside, random)[: self.max_length - len(head) - len(tail)], tail])
            for kind in self.kinds
            for head, inside, tail in split
        ]

    def _split(self, ids: Ids) -> Sequence[Ids]:
        """The special tokens before a text, its own, and those after it."""
        own = [place for place, token in enumerate(ids.tolist()) if token not in self.special]
        return np.split(ids, [own[0], own[-1] + 1] if own else [len(ids), len(ids)])


class Peer(Auxiliary):
    """A second encoder, which begins as the first one's backbone; both share one projection."""

    name = "peer"
    module: SentenceEncoder

    def load(self, context: Context) -> None:
        """Copy the backbone."""
        encoder = context.encoder
        self.module = SentenceEncoder(deepcopy(encoder.backbone), encoder.tokenizer, encoder.pooling).train()

    def encoders(self) -> dict[str, SentenceEncoder]:
        """The peer, whose views have the names of the encoder's after a prefix."""
        return {PEER: self.module}
