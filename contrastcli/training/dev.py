"""The dev set while training: Spearman of cosine and score, alignment and uniformity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from contrastcli.runs.events import DevPair, Evaluated
from contrastcli.runs.text import excerpt
from contrastcli.training.angles import LENGTH, TEXTS


@dataclass(frozen=True)
class DevSet:
    """Scored pairs, tokenised once: `first` and `second` (P,) index the distinct sentences and their table."""

    texts: Sequence[str]
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
        return cls(list(numbers), table, first, second, np.asarray(pairs.scores, dtype=np.float64))

    def evaluate(self, encoder: SentenceEncoder, step: int, on_chunk: Callable[[], None] = lambda: None) -> Evaluated:
        """Measure in float32, as `contrast eval` does. Positives of the alignment are pairs above 4/5 of the scale.

        `on_chunk` is called after each chunk of sentences, and may raise.
        """
        vectors = encoder.encode_table(self.table, on_chunk=lambda texts: on_chunk())  # (S, d)
        first, second = vectors[torch.from_numpy(self.first)], vectors[torch.from_numpy(self.second)]  # (P, d)
        cosines = cosine(first.numpy(), second.numpy())  # (P,)
        positive = torch.from_numpy(self.scores > (4.0 if self.scores.max() > 1 else 0.8))
        return Evaluated(
            step=step,
            spearman=finite(round(spearman(cosines, self.scores), 6)),
            alignment=finite(round(alignment(first[positive], second[positive]), 6)),
            uniformity=finite(round(uniformity(vectors), 6)),
            pairs=len(self.scores),
            worst=self._worst(cosines),
        )

    def _worst(self, cosines: NDArray[np.floating]) -> list[DevPair]:
        """The pairs whose rank by (P,) cosines is farthest from that by score; equal values share their mean rank."""
        from scipy.stats import rankdata  # as for Spearman

        ranks = [rankdata(-values) for values in (self.scores, cosines)]
        rows = np.argsort(-abs(ranks[0] - ranks[1]), kind="stable")[:TEXTS] if np.isfinite(cosines).all() else ()
        return [
            DevPair(
                first=excerpt(self.texts[self.first[row]], LENGTH),
                second=excerpt(self.texts[self.second[row]], LENGTH),
                score=float(self.scores[row]),
                cosine=round(float(cosines[row]), 4),
                score_rank=round(ranks[0][row]),
                cosine_rank=round(ranks[1][row]),
            )
            for row in rows
        ]
