"""The dev set while training: its score by the metric that fits it, alignment and uniformity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastcli.data.batching import Indices
from contrastcli.data.dev_data import DevData
from contrastcli.data.examples import ScoredPairs
from contrastcli.data.relevance import Retrieval
from contrastcli.data.tokens import TokenTable
from contrastcli.evaluation import ranking
from contrastcli.evaluation.procedure import finite
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import alignment, cosine, spearman, uniformity
from contrastcli.runs.events import DevPair, Evaluated
from contrastcli.runs.text import excerpt
from contrastcli.training.angles import LENGTH, TEXTS


@dataclass(frozen=True)
class DevSet:
    """Dev data, tokenised once: `first` and `second` index the table of its distinct texts.

    They are both texts of scored pairs (P,), or queries (Q,) and documents (N,).
    """

    data: DevData
    table: TokenTable
    first: Indices
    second: Indices

    @classmethod
    def of(cls, data: DevData, encoder: SentenceEncoder) -> DevSet:
        """Tokenise up to the encoder's own limit, as evaluation does."""
        prompts = [encoder.contract.prompt(kind) for kind in data.kinds]
        columns = [[(prompt, text) for text in texts] for prompt, texts in zip(prompts, data.columns, strict=True)]
        numbers = {text: n for n, text in enumerate(dict.fromkeys(chain.from_iterable(columns)))}
        table = TokenTable.of(encoder.tokenizer.encode(["".join(text) for text in numbers], encoder.max_length))
        table = encoder.with_prompts(table, prompts, np.array([prompts.index(prompt) for prompt, _ in numbers]))
        first, second = (np.array([numbers[text] for text in column]) for column in columns)
        return cls(data, table, first, second)

    def evaluate(self, encoder: SentenceEncoder, step: int, on_chunk: Callable[[int], None] | None = None) -> Evaluated:
        """Measure in float32, as `contrast eval` does. `on_chunk` gets the size of each chunk of texts, and may raise.

        Positives of the alignment are relevant documents, or scored pairs above 4/5 of the scale. The uniformity is
        that of all texts of scored pairs, and without distractors of queries and what is relevant to them.
        """
        vectors = encoder.encode_table(self.table, on_chunk=on_chunk)  # (S, d)
        first, second = vectors[torch.from_numpy(self.first)], vectors[torch.from_numpy(self.second)]
        judged = self._judge(first, second)
        shorter = {k: self._judge(first[:, :k], second[:, :k]).rounded for k in encoder.contract.dims}
        texts = np.union1d(self.first[judged.first], self.second[judged.second])
        similar = judged.first[judged.similar], judged.second[judged.similar]
        return Evaluated(
            step=step,
            metric=self.data.metric,
            score=judged.rounded,
            shorter=shorter,
            alignment=finite(round(alignment(first[similar[0]], second[similar[1]]), 6)),
            uniformity=finite(round(uniformity(vectors[texts]), 6)),
            pairs=len(self.data),
            worst=self._worst(judged),
        )

    def _judge(self, first: Tensor, second: Tensor) -> _Judged:
        data = self.data
        return _correlated(data, first, second) if isinstance(data, ScoredPairs) else _ranked(data, first, second)

    def _worst(self, judged: _Judged) -> list[DevPair]:
        """The pairs whose rank by cosine is farthest from that by score."""
        rows = np.argsort(-abs(judged.score_ranks - judged.cosine_ranks), kind="stable")[:TEXTS]
        first, second = self.data.columns
        return [
            DevPair(
                first=excerpt(first[judged.first[row]], LENGTH),
                second=excerpt(second[judged.second[row]], LENGTH),
                score=float(judged.scores[row]),
                cosine=round(float(judged.cosines[row]), 4),
                score_rank=round(judged.score_ranks[row]),
                cosine_rank=round(judged.cosine_ranks[row]),
            )
            for row in (rows if np.isfinite(judged.cosines).all() else ())
        ]


@dataclass(frozen=True)
class _Judged:
    """The score, and pairs (P,) of the two columns of dev data: which are similar, their scores, cosines and ranks."""

    score: float
    first: Indices
    second: Indices
    similar: NDArray[np.bool_]
    scores: NDArray[np.floating]
    cosines: NDArray[np.floating]
    score_ranks: NDArray[Any]
    cosine_ranks: NDArray[Any]

    @property
    def rounded(self) -> float | None:
        """The score as events have it."""
        return finite(round(self.score, 6))


def _correlated(data: ScoredPairs, first: Tensor, second: Tensor) -> _Judged:
    """All scored pairs, ranked from the most similar; equal values share their mean rank."""
    from scipy.stats import rankdata  # heavy

    rows, scores = np.arange(len(data)), np.asarray(data.scores, dtype=np.float64)
    cosines = cosine(first.numpy(), second.numpy())
    similar = scores > (4.0 if scores.max() > 1 else 0.8)
    ranks = rankdata(-scores), rankdata(-cosines)
    return _Judged(spearman(cosines, scores), rows, rows, similar, scores, cosines, *ranks)


def _ranked(data: Retrieval, queries: Tensor, documents: Tensor) -> _Judged:
    """The relevant documents of each query, which all should be its first."""
    ranks = ranking.ranks(data.judged, queries, documents)
    score = ranking.measure(data, ranks, queries, documents).mean()
    relevant = data.judged[:, 2] > 0
    first, second, grades = data.judged[relevant].T
    cosines = cosine(queries[first].numpy(), documents[second].numpy())
    ones = np.ones(len(grades))
    return _Judged(float(score), first, second, grades > 0, grades.astype(float), cosines, ones, ranks[relevant])
