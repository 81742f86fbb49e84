"""Queries, documents, and which documents are relevant to which query; also made from training rows."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.batching import Indices
from contrastcli.data.examples import Examples, digest, dropped
from contrastcli.data.texts import Column, Texts
from contrastcli.errors import DataError, Use
from contrastcli.settings.metrics import DOCUMENTS, METRICS, QUERIES
from contrastcli.settings.sections import Kind


@dataclass(frozen=True)
class Retrieval:
    """Texts to rank for each query.

    `judged` (J, 3) are a query, a document and its grade, ordered by query: of a relevant document 1 or more, and 0 of
    one that is left out of the ranking, such as the query itself. A negative number is a document that no search
    finds. `triplets` (T, 3) are a query, a document that is relevant and one that is not. `metric` is what to measure,
    of `METRICS`.
    """

    queries: Sequence[str]
    documents: Sequence[str]
    judged: Indices
    triplets: Indices
    source: str
    metric: str = "ndcg@10"
    notes: tuple[str, ...] = ()

    kinds: ClassVar[tuple[Kind | None, ...]] = ("query", "document")
    """What the texts of each column are."""

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def columns(self) -> tuple[Sequence[str], Sequence[str]]:
        """Queries and documents."""
        return self.queries, self.documents

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of texts, judgements and metric, in hexadecimal."""
        judged = map(repr, chain(self.judged.tolist(), self.triplets.tolist()))
        return digest("retrieval", self.metric, columns=[*self.columns, judged])

    @property
    def texts(self) -> Iterable[str]:
        """Texts that training should not see: queries, and what is relevant to one of them alone.

        What several have in common, such as the name of a class, is known to those who ask.
        """
        documents, counts = np.unique(self.judged[self.relevant, 1], return_counts=True)
        return chain(self.queries, (self.documents[row] for row in documents[counts == 1].tolist()))

    @property
    def relevant(self) -> NDArray[np.bool_]:
        """Which of the judgements (J,) are of a document that is relevant, and there."""
        found: NDArray[np.bool_] = (self.judged[:, 2] > 0) & (self.judged[:, 1] >= 0)
        return found

    def take(self, rows: Sequence[int]) -> Self:
        """Some of the queries, in rising order, with what is judged of them."""
        queries = [self.queries[row] for row in rows]
        judged, triplets = (its[np.isin(its[:, 0], rows)] for its in (self.judged, self.triplets))
        for its in (judged, triplets):
            its[:, 0] = np.searchsorted(rows, its[:, 0])
        return replace(self, queries=queries, judged=judged, triplets=triplets)

    def __str__(self) -> str:
        return f"{METRICS[self.metric].title} of {len(self.queries):,} anchors among {len(self.documents):,} texts"


def documents_of(examples: Examples) -> Examples:
    """The texts of rows that may be ranked, as sentences: the sentences, else all but the anchors."""
    views = [texts for view, texts in examples.views.items() if view != "anchor"] or [examples.views["anchor"]]
    texts, ids = Texts.join(views), examples.ids and Column.join([examples.ids] * len(views))
    numbers = np.tile(examples.row_numbers, len(views))
    joined = Examples("sentences", {"anchor": texts}, None, examples.source, examples.notes, ids=ids, numbers=numbers)
    return joined.take(texts.sizes > 0)


def from_rows(rows: Examples, distractors: Texts | None, metric: str) -> Retrieval:
    """The anchors of pairs or triplets as queries, their positives as what is relevant, by the scores where there are.

    Equal texts are one document, and the anchor itself is none. Negatives and as many of the `distractors` as there is
    room for are ranked as well, and of more anchors than QUERIES a sample is measured; without distractors all are.
    Raises DataError where every anchor is its own positive, and for scores that are no grades of relevance.
    """
    differs = np.array([row[0] != row[1] for row in zip(*rows.views.values(), strict=True)])
    kept = list(compress(zip(*rows.views.values(), strict=True), differs))
    if not kept:
        raise DataError(f"{rows.source}: every anchor is its own positive", "give pairs of different texts")
    graded, notes = _grades(rows)
    notes += dropped(differs, "whose anchor is its own positive")
    anchors = list(dict.fromkeys(row[0] for row in kept if graded.get(row[:2], 1) > 0))
    if not graded and (repeated := len(kept) - len(anchors)):
        notes += (f"{repeated:,} of {len(kept):,} rows repeat an anchor, and are one query with it",)
    if distractors is not None and len(anchors) > QUERIES:
        anchors = random.Random(0).sample(anchors, QUERIES)
    queries = {text: n for n, text in enumerate(anchors)}
    kept = [row for row in kept if row[0] in queries]
    documents = {text: n for n, text in enumerate(dict.fromkeys(text for row in kept for text in row[1:] if text))}
    pool = Texts.join([documents_of(rows).views["anchor"], *([distractors] if distractors else [])]).distinct()[0]
    pool = pool.take(~np.isin(pool.hashes, Texts.of(documents).hashes))
    drawn = random.Random(0).sample(pool, max(0, min(len(pool), DOCUMENTS - len(documents))))
    documents |= {text: n for n, text in enumerate(drawn, len(documents))}
    grades = {(queries[text], documents[text]): 0 for text in anchors if text in documents}
    grades |= {(queries[row[0]], documents[row[1]]): grade for row in kept if (grade := graded.get(row[:2], 1)) > 0}
    triplets = [(queries[row[0]], documents[row[1]], documents[text]) for row in kept for text in row[2:] if text]
    judged = _table(sorted((*pair, grade) for pair, grade in grades.items()))
    made = Retrieval(anchors, list(documents), judged, _table(triplets), rows.source, metric)
    told = f"the dev metric is {made}" + (f", {len(drawn):,} out of {len(pool):,} others" if len(pool) else "")
    return replace(made, notes=(*rows.notes, *notes) if distractors is None else (*notes, told))


def _grades(rows: Examples) -> tuple[dict[tuple[str, ...], int], tuple[str, ...]]:
    """The grade of each scored pair, its highest, and a note on others. Raises DataError for scores that are none."""
    if rows.form != "scored" or rows.scores is None:
        return {}, ()
    if not all(map(float.is_integer, rows.scores)) or max(rows.scores) < 1:
        what = f"{rows.source}: its scores are no grades of relevance, which are whole numbers, 0 for none of it"
        # Of a training the metric is a setting.
        ways = {"--metric": "spearman", "--set": "dev.metric=spearman"}
        remedies = [Use(option, value, "take them as degrees of likeness:") for option, value in ways.items()]
        raise DataError(what, remedies, key="dev.metric")
    graded = {*zip(zip(*rows.views.values(), strict=True), map(int, rows.scores), strict=True)}
    highest = dict(sorted(graded, key=lambda pair: pair[1]))
    anchors = {row[0] for row in highest}
    without = anchors - {row[0] for row, grade in highest.items() if grade > 0}
    counts = {
        f"of {len(graded):,} grades are of pairs with a higher one": len(graded) - len(highest),
        f"of {len(anchors):,} anchors have no relevant text": len(without),
    }
    return highest, tuple(f"{count:,} {what}, and are left out" for what, count in counts.items() if count)


def _table(rows: list[tuple[int, int, int]]) -> Indices:
    return np.array(rows, dtype=np.int64).reshape(-1, 3)
