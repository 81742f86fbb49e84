"""The dev set while training: Spearman of cosine and score, alignment and uniformity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from contrastcli.data.batching import Indices
from contrastcli.data.examples import ScoredPairs
from contrastcli.data.tokens import TokenTable
from contrastcli.evaluation.measure import finite
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import alignment, cosine, spearman, uniformity
from contrastcli.runs.events import Evaluated


@dataclass(frozen=True)
class DevSet:
    """Scored pairs, tokenised once: `first` and `second` (P,) index the table of distinct sentences."""

    table: TokenTable
    first: Indices
    second: Indices
    scores: NDArray[np.float64]

    @classmethod
    def of(cls, pairs: ScoredPairs, encoder: SentenceEncoder) -> DevSet:
        """Tokenise up to the encoder's own limit, as evaluation does."""
        numbers = {text: n for n, text in enumerate(dict.fromkeys([*pairs.first, *pairs.second]))}
        table = TokenTable.of(encoder.tokenizer.encode(list(numbers), encoder.max_length))
        first, second = (np.array([numbers[text] for text in column]) for column in (pairs.first, pairs.second))
        return cls(table, first, second, np.asarray(pairs.scores, dtype=np.float64))

    def evaluate(self, encoder: SentenceEncoder, step: int, on_chunk: Callable[[], None] = lambda: None) -> Evaluated:
        """Measure in float32, as `contrast eval` does. Positives of the alignment are pairs above 4/5 of the scale.

        `on_chunk` is called after each chunk of sentences, and may raise.
        """
        vectors = encoder.encode_table(self.table, on_chunk=lambda texts: on_chunk())  # (S, d)
        first, second = vectors[torch.from_numpy(self.first)], vectors[torch.from_numpy(self.second)]  # (P, d)
        positive = torch.from_numpy(self.scores > (4.0 if self.scores.max() > 1 else 0.8))
        return Evaluated(
            step=step,
            spearman=finite(round(spearman(cosine(first.numpy(), second.numpy()), self.scores), 6)),
            alignment=finite(round(alignment(first[positive], second[positive]), 6)),
            uniformity=finite(round(uniformity(vectors), 6)),
            pairs=len(self.scores),
        )
