"""Views of sentences made by perturbing their tokens: PCL's, after Wu et al. 2022, Section 3.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from contrastcli.data.batching import Indices
from contrastcli.data.tokens import Ids, Tokenizer, TokenTable
from contrastcli.settings.catalogue import Perturbation
from contrastcli.training.seeds import PERTURB, seed_of

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


@dataclass(frozen=True)
class Perturber:
    """Makes a batch's perturbed views, a pure function of the run's seed and the step.

    `special` are the ids that the tokenizer puts around every text: at both ends they stay where they are. A view has
    at most `max_length` tokens.
    """

    kinds: tuple[Perturbation, ...]
    special: frozenset[int]
    max_length: int
    run_seed: int

    @classmethod
    def of(cls, kinds: tuple[Perturbation, ...], tokenizer: Tokenizer, max_length: int, run_seed: int) -> Perturber:
        """With the special tokens of an empty text."""
        return cls(kinds, frozenset(tokenizer.encode([""], max_length)[0]), max_length, run_seed)

    @property
    def names(self) -> list[str]:
        """The views, each by its kind and the number of its kind: shuffle_1, …"""
        return [f"{kind}_{self.kinds[: place + 1].count(kind)}" for place, kind in enumerate(self.kinds)]

    def __call__(self, table: TokenTable, texts: Indices, step: int) -> list[Ids]:
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
