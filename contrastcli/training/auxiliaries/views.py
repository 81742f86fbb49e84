"""Further views of sentences, PCL's: by perturbing their tokens, and by a second encoder (Wu et al. 2022)."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.random import Generator
from torch import nn

from contrastcli.data.batching import Indices
from contrastcli.data.tokens import Ids, TokenTable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.objectives.pcl import PEER
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext
from contrastcli.training.batch import PERTURB, Batch, seed_of

Perturbation = Literal["shuffle", "reverse", "delete", "repeat"]


def perturb(kind: Perturbation, ids: Ids, random: Generator) -> Ids:
    """Tokens shuffled, reversed, without a fifth of them, or with a fifth of them repeated at random places."""
    if kind == "shuffle":
        return ids[random.permutation(len(ids))]
    if kind == "reverse":
        return ids[::-1]
    chosen = random.choice(len(ids), round(0.2 * len(ids)), replace=False)
    if kind == "delete":
        return np.delete(ids, chosen)
    return np.insert(ids, random.integers(0, len(ids) + 1, len(chosen)), ids[chosen])


class PerturbedViews(Auxiliary):
    """A further view of the anchors for each kind, with a name like shuffle_1: the first view of that kind.

    They are a pure function of the run's seed and the step. The special tokens and the prompt that stand before every
    anchor stay in place, and what follows it too; a view has no more tokens than training reads.
    """

    name = "perturbed"

    def __init__(self, kinds: Sequence[Perturbation]) -> None:
        self.kinds = kinds
        self.views_added = tuple(f"{kind}_{kinds[: place + 1].count(kind)}" for place, kind in enumerate(kinds))

    def load(self, context: AuxiliaryContext) -> None:
        self.max_length = context.inputs.max_length
        self.run_seed = context.config.train.seed
        tokenizer = context.encoder.tokenizer
        self.ending = tokenizer.ending
        self.head = len(tokenizer.encode([context.inputs.prompts["anchor"]], self.max_length)[0]) - self.ending

    def extend(self, batch: Batch) -> Batch:
        """The batch with the perturbed anchors, all its texts in a new table."""
        perturbed = self.perturb_texts(batch.table, batch.view("anchor"), batch.step)
        table = TokenTable.of([*(batch.table[int(i)] for i in batch.texts), *perturbed])
        if batch.table.prompts is not None:
            prompts = [batch.table.prompts[batch.texts], *[batch.table.prompts[batch.view("anchor")]] * len(self.kinds)]
            table = replace(table, prompts=np.concatenate(prompts))
        return replace(batch, table=table, texts=np.arange(len(table)), views=(*batch.views, *self.views_added))

    def perturb_texts(self, table: TokenTable, texts: Indices, step: int) -> list[Ids]:
        """Token ids of K views of N texts of a table, view after view: (N,) → K·N arrays."""
        random = np.random.default_rng(seed_of(self.run_seed, step, PERTURB))
        # Each text as what stands before it, its own tokens, and what follows.
        split: list[Sequence[Ids]] = []
        for ids in (table[int(text)] for text in texts):
            end = len(ids) - self.ending
            split.append(np.split(ids, [min(self.head, end), end]))
        return [
            np.concatenate([head, perturb(kind, inside, random)[: self.max_length - len(head) - len(tail)], tail])
            for kind in self.kinds
            for head, inside, tail in split
        ]


class Peer(Auxiliary):
    """A second encoder, which begins as the first one's backbone; both share one projection."""

    name = "peer"
    module: SentenceEncoder

    def load(self, context: AuxiliaryContext) -> None:
        encoder = context.encoder
        # The layers after the pooling are the projection that both share.
        contract = replace(encoder.contract, after=nn.Sequential())
        self.module = SentenceEncoder(deepcopy(encoder.backbone), encoder.tokenizer, contract).train()

    def encoders(self) -> dict[str, SentenceEncoder]:
        return {PEER: self.module}
