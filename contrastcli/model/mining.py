"""Hard negatives: for each pair, texts near to its anchor that are not its positive, by exact search in blocks.

And the scores that a teacher gives them, which are distilled: an embedder's cosines, or a cross-encoder's logits.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.batching import Indices
from contrastcli.data.examples import Examples, text_key
from contrastcli.data.relevance import documents_of
from contrastcli.data.texts import Texts
from contrastcli.data.tokens import Advance, transformers
from contrastcli.errors import DataError, UsageError, failing_as
from contrastcli.model.backbone import load_pretrained, positions_of, read_config
from contrastcli.model.contract import read_contract
from contrastcli.model.devices import choose_device
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_model
from contrastcli.model.locate import ModelRef
from contrastcli.model.metrics import Floats, cosine
from contrastcli.model.search import top
from contrastcli.model.vectors import cached_vectors
from contrastcli.settings.sections import Kind, Precision

Scorer = Callable[[Texts, Sequence[Texts], Advance], Sequence[Floats]]
"""The scores of each row's query with its documents, which are C columns: (R,), C times (R,) → C times (R,)."""

_PAIRS, _BATCH = 10_000, 32
"""Pairs whose cosines are computed at once, and that a cross-encoder reads together."""

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
    first, dash, last = (part.strip() for part in text.partition("-"))
    if dash and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last):
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
    keys, places = _excluded(pool)
    for start in range(0, len(anchors), ANCHORS):
        some = anchors[start : start + ANCHORS]
        first, end = (np.searchsorted(keys, pool.keys[some], side) for side in ("left", "right"))
        of_some = np.concatenate([places[a:b] for a, b in zip(first, end, strict=True)])
        excluded = np.column_stack([np.repeat(np.arange(len(some)), end - first), of_some])
        cosines, texts = top(vectors, np.array(vectors[some]), rule.last, pool.candidates, excluded)
        block = rows[starts[start] : starts[start + len(some)]]
        for part in np.split(block, range(ANCHORS, len(block), ANCHORS)):
            queries = np.searchsorted(some, pool.anchors[part])
            yield _judge(vectors, pool, rule, guard, part, cosines[queries], texts[queries])


def _excluded(pool: Pool) -> tuple[Indices, Indices]:
    """Keys of anchors, in order, and with each a place in `pool.candidates` of that anchor or of a positive of it."""
    place_of = np.full(int(pool.keys.max(initial=-1)) + 1, -1)
    place_of[pool.keys[pool.candidates]] = np.arange(len(pool.candidates))
    anchors, positives = pool.keys[pool.anchors], pool.keys[pool.positives]
    keys, places = np.tile(anchors, 2), place_of[np.concatenate([anchors, positives])]
    order = np.argsort(keys, kind="stable")
    order = order[places[order] >= 0]
    return keys[order], places[order]


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


def pool_of(pairs: Examples, documents: Examples) -> tuple[Pool, Indices, Texts, Texts]:
    """The pool of pairs, the text of each of the documents that may be negatives, and all texts: documents, queries."""
    texts, numbers = Texts.join([documents.views["anchor"], pairs.views["positive"]]).distinct()
    among, positive = np.split(numbers, [len(documents)])
    queries, anchor = Texts.join([pairs.views["anchor"]]).distinct()
    return Pool.of(chain(texts, queries), len(texts) + anchor, positive, among), among, texts, queries


def embed(encoder: SentenceEncoder, documents: Texts, queries: Texts, on_progress: Advance) -> Floats:
    """The vectors of documents, then those of queries: (D + Q, d)."""
    if encoder.contract.prompt("query") == encoder.contract.prompt("document"):
        # Mapped from the cache, whatever their size.
        return cached_vectors(encoder, Texts.join([documents, queries]), on_progress, "document")
    kinds: tuple[tuple[Texts, Kind], ...] = ((documents, "document"), (queries, "query"))
    return np.concatenate([cached_vectors(encoder, texts, on_progress, kind) for texts, kind in kinds])


@dataclass(frozen=True)
class OtherPositives:
    """The positives of other anchors that are nearest to each anchor.

    `rows` (N, K) are the first rows of those texts, −1 for none, and `cosines` (N, K) theirs to the anchor. `own` (N,)
    is the cosine of anchor and positive, and `positives` (N,) that of the nearest other to the row's own positive.
    """

    rows: Indices
    cosines: Floats
    own: Floats
    positives: Floats

    def false_negatives(self) -> Iterator[tuple[int, int, float]]:
        """Rows, each with another whose positive is nearer to both sides than they are to each other, and by how much.

        As a negative it would be pushed away from an anchor that it seems to answer.
        """
        by = np.minimum(self.cosines[:, 0], self.positives) - self.own
        for row in np.flatnonzero((by >= 0) & (self.rows[:, 0] >= 0)).tolist():
            yield row, int(self.rows[row, 0]), float(by[row])


def other_positives(pairs: Examples, encoder: SentenceEncoder, on_progress: Advance, count: int) -> OtherPositives:
    """Find the `count` nearest of each row, by exact search."""
    pairs = replace(pairs, views={view: pairs.views[view] for view in ("anchor", "positive")})
    pool, among, texts, queries = pool_of(pairs, documents_of(pairs))
    vectors = embed(encoder, texts, queries, on_progress)
    first = np.unique(among, return_index=True)[1]
    shape = len(pairs), count
    found = OtherPositives(np.full(shape, -1), np.full(shape, -1.0), *np.full((2, len(pairs)), -1.0))
    for block in mine(vectors, pool, Rule(1, count, None, None, count)):
        width = slice(block.cosines.shape[1])  # few texts leave fewer
        found.rows[block.rows, width] = np.where(block.verdicts == NONE, -1, first[block.candidates])
        found.cosines[block.rows, width], found.own[block.rows] = block.cosines, block.positive
        nearest = np.array(vectors[block.candidates[:, 0]])
        found.positives[block.rows] = cosine(nearest, np.array(vectors[pool.positives[block.rows]]))
    return found


def load_scorer(ref: ModelRef, precision: Precision) -> tuple[Scorer, bool]:
    """A model by its kind, as its config.json states it, and whether its scores are logits. Raises DataError.

    Those of a cross-encoder are, and are computed in fp32.
    """
    if read_contract(ref.folder()).is_classifier:
        return _load_cross_encoder(ref), True
    encoder = load_model(ref, precision=precision)

    def score(queries: Texts, documents: Sequence[Texts], advance: Advance) -> Sequence[Floats]:
        (asked, query), (texts, document) = queries.distinct(), Texts.join(documents).distinct()
        vectors = embed(encoder, texts, asked, advance)
        both = np.stack([len(texts) + np.tile(query, len(documents)), document])
        blocks = (both[:, start : start + _PAIRS] for start in range(0, len(document), _PAIRS))
        return np.split(np.concatenate([cosine(vectors[a], vectors[b]) for a, b in blocks]), len(documents))

    return score, False


def _load_cross_encoder(ref: ModelRef) -> Scorer:
    folder, library = ref.folder(), transformers()
    with failing_as(DataError, f"transformers cannot load {folder} as a cross-encoder", "use another model"):
        model = load_pretrained(folder, read_config(folder), library.AutoModelForSequenceClassification)
        tokenizer = library.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        tokenizer.model_max_length = min(tokenizer.model_max_length, positions_of(model))
        pipeline = library.pipeline("text-classification", model, tokenizer=tokenizer, device=choose_device("auto"))
    if model.config.num_labels != 1:
        what = f"{ref.name} gives a pair {model.config.num_labels} numbers, and a teacher's score is one"
        raise DataError(what, "use a cross-encoder of one label, or an embedder")

    def score(queries: Texts, documents: Sequence[Texts], advance: Advance) -> Sequence[Floats]:
        joined, rows = Texts.join(documents), len(queries)
        # The longest first, so that the texts of a batch are alike.
        order = np.argsort(-np.tile(queries.sizes, len(documents)) - joined.sizes, kind="stable")
        pairs = ({"text": queries[place % rows], "text_pair": joined[place]} for place in order)
        scores = np.empty(len(order))
        for done, answer in enumerate(pipeline(pairs, batch_size=_BATCH, truncation=True, function_to_apply="none")):
            scores[order[done]] = answer["score"]
            advance(done + 1, len(order))
        return np.split(scores, len(documents))

    return score
