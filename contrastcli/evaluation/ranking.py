"""Ranking metrics: nDCG, MRR, recall, MAP, and the accuracy of triplets, as trec_eval defines them.

All follow from the ranks of the relevant documents, which are counted, block by block: there is no matrix of all
similarities. Ties count against the model: of documents with equal cosines, the relevant ones come last, so that a
model that gives all texts one vector scores next to nothing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.batching import Indices
from contrastcli.data.relevance import Retrieval
from contrastcli.model.metrics import Floats, unit_rows
from contrastcli.settings.metrics import RANKINGS

TIE = 1e-9
"""Cosines in float64 that differ by less are equal: more than rounding, less than vectors in float32 resolve."""

_NOT_FOUND = 1 << 60
_BLOCK = 1 << 22
"""Cosines that are computed at once, but of 64 queries at least: all documents are read for them."""


def measure(data: Retrieval, ranks: Indices, queries: Floats, documents: Floats) -> Floats:
    """The metric of dev data for each query (Q,), `accuracy` for each triplet (T,), from vectors (Q, d) and (N, d)."""
    if data.metric == "accuracy":
        return accuracy(data.triplets, queries, documents)
    return score(data.metric, data.judged, ranks, len(data.queries))


def means(data: Retrieval, queries: Floats, documents: Floats) -> dict[str, float]:
    """Every metric × 100, the accuracy where there are triplets, and of how many; vectors (Q, d) and (N, d)."""
    places = ranks(data.judged, queries, documents)
    values = {name: score(name, data.judged, places, len(data)) for name in RANKINGS}
    if len(data.triplets):
        values["accuracy"] = accuracy(data.triplets, queries, documents)
    sizes = {"queries": len(data.queries), "documents": len(data.documents), "triplets": len(data.triplets)}
    return {name: 100 * float(each.mean()) for name, each in values.items()} | {k: n for k, n in sizes.items() if n}


def accuracy(triplets: Indices, queries: Floats, documents: Floats) -> Floats:
    """For each triplet (T,), 1 if the query is nearer to the relevant document, and 0 if not or as near to both."""
    anchor, positive, negative = triplets.T
    a, p, n = map(unit_rows, (queries[anchor], documents[positive], documents[negative]))
    nearer: Floats = ((a * p).sum(axis=1) > (a * n).sum(axis=1) + TIE).astype(np.float64)
    return nearer


def ranks(judged: Indices, queries: Floats, documents: Floats) -> Indices:
    """The rank of each judged document among all (J,), from 1; 0 for those of grade 0, which are left out.

    A document that no search finds has a rank beyond all, as trec_eval counts it.
    """
    is_found = judged[:, 1] >= 0
    found, places = judged[is_found], np.full(len(judged), _NOT_FOUND)
    queries, documents = unit_rows(queries), unit_rows(documents)  # (Q, d), (N, d)
    size, ranked = max(64, _BLOCK // max(1, len(documents))), np.zeros(len(found), dtype=np.int64)
    for start in range(0, len(queries), size):
        block = queries[start : start + size] @ documents.T  # (B, N)
        ends = np.searchsorted(found[:, 0], np.arange(start, start + len(block) + 1))
        for cosines, rows in zip(block, map(slice, ends, ends[1:]), strict=True):
            ranked[rows] = _places(cosines, *found[rows, 1:].T)
    places[is_found] = ranked
    return places


def _places(cosines: Floats, documents: Indices, grades: Indices) -> Indices:
    """Ranks of a query's judged documents, given the cosines of all (N,)."""
    own = cosines[documents]
    # The nearest first, of equal ones the least relevant.
    order = np.lexsort((grades, -own))
    order = order[grades[order] > 0]
    above = np.array([np.count_nonzero(cosines > least) for least in own[order] - TIE])
    judged_above = len(own) - np.searchsorted(np.sort(own), own[order] - TIE, side="right")
    places = np.zeros(len(own), dtype=np.int64)
    places[order] = above - judged_above + np.arange(1, len(order) + 1)
    return places


def score(metric: str, judged: Indices, ranks: Indices, count: int) -> Floats:
    """A metric, `ndcg@K`, `mrr@K`, `recall@K` or `map`, of each of `count` queries; 0 without a relevant document.

    nDCG has the grades as gains, as in trec_eval.
    """
    name, _, cutoff = metric.partition("@")
    k = int(cutoff or (len(ranks) and ranks.max()))
    relevant = judged[:, 2] > 0
    query, grade, rank = judged[relevant, 0], judged[relevant, 2], ranks[relevant]

    def total(values: NDArray[Any]) -> Floats:
        return np.bincount(query, values, count).astype(np.float64)

    hits = np.where(rank <= k, 1.0, 0.0)
    if name == "mrr":
        best = np.full(count, np.inf)
        np.minimum.at(best, query, rank)
        return np.where(best <= k, 1 / best, 0.0)
    if name == "ndcg":
        ideal = _position(query, -grade)
        value, most = total(hits * grade / np.log2(rank + 1)), total((ideal <= k) * grade / np.log2(ideal + 1))
    elif name == "map":
        value, most = total(_position(query, rank) / rank), total(np.ones(len(query)))
    else:
        value, most = total(hits), total(np.ones(len(query)))
    return np.divide(value, most, out=np.zeros(count), where=most > 0)


def _position(query: Indices, key: Indices) -> Indices:
    """The place of each document, from 1, among those of its query in the order of a key."""
    order = np.lexsort((key, query))
    starts = np.searchsorted(query[order], query[order])
    position = np.empty(len(query), dtype=np.int64)
    position[order] = np.arange(len(query)) - starts + 1
    return position
