"""Hard negatives: for each pair, texts near to its anchor that are not its positive, by exact search in blocks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.batching import Indices
from contrastcli.data.examples import text_key
from contrastcli.data.texts import Texts
from contrastcli.errors import UsageError
from contrastcli.model.metrics import Floats, cosine
from contrastcli.model.search import top

ANCHORS = 512
"""Anchors that are searched for at once."""

KEPT, RANK, CLOSE, GUARDED, SPARE, NONE = range(6)
VERDICTS = ("kept", "rank", "too close", "guard", "spare", "none")
"""What became of a candidate, by number: a negative; nearer than the first rank; too close to the anchor; closer than
the positive to the guard; not needed, since enough were kept; no candidate at all."""


@dataclass(frozen=True)
class Rule:
    """Which of an anchor's candidates become its negatives: the nearest `count` of those that are left.

    The ranks `first` to `last` count from 1, at the nearest candidate. A negative's cosine to the anchor is at most
    `below` times that of the positive (TopK-PercPos of NV-Retriever, Moreira et al. 2024) and at most that less
    `margin`.
    """

    first: int = 1
    last: int = 1000
    below: float | None = 0.95
    margin: float | None = None
    count: int = 1

    def limit(self, positive: Floats) -> Floats:
        """The largest cosine of a negative, given that of the positive: (R,) → (R,)."""
        limit = np.full_like(positive, np.inf)
        if self.below is not None:
            # Where the positive's cosine is below 0, it is the limit itself.
            limit = np.minimum(positive, self.below * positive)
        return limit if self.margin is None else np.minimum(limit, positive - self.margin)


def read_ranks(text: str, key: str) -> tuple[int, int]:
    """The first and the last rank of "10-60", counted from 1. Raises UsageError, which names the setting."""
    first, dash, last = text.partition("-")
    if dash and first.strip().isdecimal() and last.strip().isdecimal() and 1 <= int(first) <= int(last):
        return int(first), int(last)
    raise UsageError(f"{key} is '{text}'", "write the nearest and the farthest rank as 10-60; the nearest text has 1")


@dataclass(frozen=True)
class Pool:
    """Pairs, and the texts that their negatives are chosen from, all as indices into T texts.

    `anchors` and `positives` are (N,), `candidates` (C,), one for each key. Equal `keys` (T,) mean equal texts, but for
    case and white space. No negative is equal to its anchor, nor to any positive of that anchor.
    """

    anchors: Indices
    positives: Indices
    candidates: Indices
    keys: Indices

    @classmethod
    def of(cls, texts: Iterable[str], anchors: Indices, positives: Indices, candidates: Indices) -> Self:
        """The pool of these texts; of candidates that are equal, the first one stays."""
        keys = Texts.of(map(text_key, texts)).distinct()[1]
        first = np.unique(keys[candidates], return_index=True)[1]
        return cls(anchors, positives, candidates[np.sort(first)], keys)


@dataclass(frozen=True)
class JudgedBlock:
    """The candidates of some `rows` (R,), the nearest first, and what became of each.

    `positive` (R,) is the cosine of anchor and positive. `candidates` are texts, `cosines` theirs to the anchor, and
    `verdicts` numbers of VERDICTS: three (R, K).
    """

    rows: Indices
    positive: Floats
    candidates: Indices
    cosines: Floats
    verdicts: NDArray[np.int8]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The fields of each row."""
        return zip(self.rows, self.positive, self.candidates, self.cosines, self.verdicts, strict=True)

    def negatives(self, count: int) -> Indices:
        """The texts that were kept, the nearest first, −1 where there are fewer: (R, count)."""
        kept = self.verdicts == KEPT
        first = np.argsort(~kept, axis=1, kind="stable")[:, :count]
        texts = np.take_along_axis(np.where(kept, self.candidates, -1), first, axis=1)
        return np.pad(texts, ((0, 0), (0, count - texts.shape[1])), constant_values=-1)


def mine(
    vectors: Floats, pool: Pool, rule: Rule, guard: Floats | None = None, only: Indices | None = None
) -> Iterator[JudgedBlock]:
    """Judge the candidates of all rows, or `only` of some, in blocks of rows of neighbouring anchors.

    `vectors` and those of the `guard` are (T, d); memory does not grow with the number of rows or candidates.
    """
    rows = np.arange(len(pool.anchors)) if only is None else only
    rows = rows[np.argsort(pool.anchors[rows], kind="stable")]
    anchors, starts = np.unique(pool.anchors[rows], return_index=True)
    starts = np.append(starts, len(rows))
    excluded = _Excluded(pool)
    for start in range(0, len(anchors), ANCHORS):
        some = anchors[start : start + ANCHORS]
        cosines, texts = top(vectors, np.array(vectors[some]), rule.last, pool.candidates, excluded.of(some))
        block = rows[starts[start] : starts[start + len(some)]]
        for part in np.split(block, range(ANCHORS, len(block), ANCHORS)):
            queries = np.searchsorted(some, pool.anchors[part])
            yield _judge(vectors, pool, rule, guard, part, cosines[queries], texts[queries])


class _Excluded:
    """The places in `pool.candidates` that no anchor may get: itself and its positives."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._places = np.full(int(pool.keys.max(initial=-1)) + 1, -1)
        self._places[pool.keys[pool.candidates]] = np.arange(len(pool.candidates))
        keys = pool.keys[pool.anchors]
        self._order = np.argsort(keys, kind="stable")  # equal anchors together
        self._sorted = keys[self._order]

    def of(self, anchors: Indices) -> Indices:
        """The pairs (E, 2) of an anchor's number in (A,) texts and a place."""
        keys = self._pool.keys[anchors]
        first, end = (np.searchsorted(self._sorted, keys, side) for side in ("left", "right"))
        rows = [self._order[a:b] for a, b in zip(first, end, strict=True)]
        numbers = np.arange(len(anchors))
        queries = np.concatenate([np.repeat(numbers, end - first), numbers])
        texts = np.concatenate([*(self._pool.positives[some] for some in rows), anchors])
        pairs = np.stack([queries, self._places[self._pool.keys[texts]]], axis=1)
        return pairs[pairs[:, 1] >= 0]


def _judge(
    vectors: Floats, pool: Pool, rule: Rule, guard: Floats | None, rows: Indices, cosines: Floats, texts: Indices
) -> JudgedBlock:
    anchors, positives = pool.anchors[rows], pool.positives[rows]
    positive = cosine(vectors[anchors], vectors[positives])
    verdicts = np.zeros(cosines.shape, np.int8)
    verdicts[:, : rule.first - 1] = RANK
    verdicts[cosines > rule.limit(positive)[:, None]] = CLOSE
    if guard is not None:
        for row, (anchor, own) in enumerate(zip(anchors, positives, strict=True)):
            closeness = cosine(guard[[own, *texts[row]]], guard[anchor][None])  # (1 + K,)
            verdicts[row, (closeness[1:] >= closeness[0]) & (verdicts[row] == KEPT)] = GUARDED
    verdicts[np.isneginf(cosines)] = NONE
    kept = verdicts == KEPT
    verdicts[kept & (kept.cumsum(axis=1) > rule.count)] = SPARE
    return JudgedBlock(rows, positive, texts, cosines, verdicts)
