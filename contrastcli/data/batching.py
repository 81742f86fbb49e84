"""The rows of each batch, and the chunks of its texts that go through the encoder together."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrastcli.data.examples import Examples
from contrastcli.data.texts import Texts, on_disk
from contrastcli.errors import UsageError, Use

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Corpus:
    """Examples as indices into their distinct texts, one for each row of a view: equal indices are equal texts.

    The index is −1 where a row has no text, having fewer hard negatives than others.
    """

    texts: Texts
    views: dict[str, Indices]  # view -> (N,)
    labels: Indices | None  # (N,)
    scores: NDArray[np.float32] | None = None  # (N,)
    """Scaled to 0..1 over the data."""
    candidate_scores: NDArray[np.float32] | None = None  # (N, C)

    def __len__(self) -> int:
        return len(self.views["anchor"])

    @property
    def texts_per_row(self) -> float:
        """The mean number of texts of a row."""
        return sum(int((texts >= 0).sum()) for texts in self.views.values()) / len(self)

    @property
    def negatives_per_row(self) -> float:
        """The mean number of hard negatives of a row."""
        return self.texts_per_row - len(self.views.keys() & {"anchor", "positive"})

    @property
    def duplicates(self) -> float:
        """The share of all pairs of rows that have one anchor, or one positive where those are more."""
        counts = [np.bincount(texts) for view, texts in self.views.items() if view in ("anchor", "positive")]
        return max(int(of @ (of - 1)) for of in counts) / max(1, len(self) * (len(self) - 1))

    def rows(self, rows: Indices) -> dict[str, list[str]]:
        """The texts of (N,) rows by view, "" for none."""
        return {view: [self.texts[i] if i >= 0 else "" for i in texts[rows]] for view, texts in self.views.items()}

    @classmethod
    def of(cls, examples: Examples, copies: bool = True) -> Self:
        """Number the distinct texts in order of appearance. With `copies` a sentence is its own positive."""
        joined = Texts.join(list(examples.views.values()))
        filled, numbers = joined.sizes > 0, np.full(len(joined), -1)
        texts, numbers[filled] = joined.take(filled).distinct()
        views = dict(zip(examples.views, np.split(on_disk(numbers), len(examples.views)), strict=True))
        if examples.form == "sentences" and copies:
            views["positive"] = views["anchor"]
        labels = None if examples.labels is None else np.asarray(examples.labels, dtype=np.int64)
        scores = None if examples.scores is None else scaled(examples.scores)
        return cls(texts, views, labels, scores, examples.candidate_scores)


def scaled(scores: ArrayLike) -> NDArray[np.float32]:
    """Scores scaled to 0 for the lowest and 1 for the highest."""
    values = np.asarray(scores, dtype=np.float64)
    shares: NDArray[np.float32] = ((values - values.min()) / (np.ptp(values) or 1)).astype(np.float32)
    return shares


@dataclass(frozen=True)
class Mix:
    """Several sets, one after the other: the rows of each, and how many of them an epoch draws.

    Rows are drawn in rounds over the whole set, so that each is used as often as any other, but for one time.
    """

    sizes: tuple[int, ...]
    drawn: tuple[int, ...]
    one_set_per_batch: bool
    """Whether each batch holds rows of one set."""

    @classmethod
    def of(cls, sizes: Sequence[int], weights: Sequence[float], temperature: float, one_set_per_batch: bool) -> Self:
        """As many rows as Σ weight · size, shared in proportion to weight · size^(1/T) (T5: Raffel et al. 2020)."""
        shares = [weight * size ** (1 / temperature) for weight, size in zip(weights, sizes, strict=True)]
        total = sum(weight * size for weight, size in zip(weights, sizes, strict=True)) / sum(shares)
        drawn = (max(size > 0, round(total * share)) for size, share in zip(sizes, shares, strict=True))
        return cls(tuple(sizes), tuple(drawn), one_set_per_batch)

    def draw(self, seed: int, epoch: int) -> list[Indices]:
        """The rows of an epoch, of each set: a pure function of seed and epoch."""
        rows, first = [], 0
        for number, (size, count) in enumerate(zip(self.sizes, self.drawn, strict=True)):
            places = np.arange(epoch * count, (epoch + 1) * count)
            rounds = np.unique(places // max(1, size))
            orders = [np.random.Generator(np.random.PCG64([seed, number, n])).permutation(size) for n in rounds]
            rows.append(first + np.concatenate([places[:0], *orders])[places - rounds[:1] * size])
            first += size
        return rows


@dataclass(frozen=True)
class BatchOrder:
    """The order of rows in every epoch, a pure function of the seed: a resumed run needs only the position in it.

    The last short batch is kept, but a single row, which has no negatives, joins the batch before. Of several sets a
    `mix` draws the rows. With `groups` ((N,) numbers), rows of one number stay in one batch: groups are shuffled whole,
    and a batch is closed early when the next group does not fit (a group larger than a batch is cut).
    """

    rows: int
    batch_size: int
    seed: int
    groups: Indices | None = None
    mix: Mix | None = None

    def __post_init__(self) -> None:
        rows = sum(self.mix.drawn) if self.mix else self.rows
        if self.batch_size > rows:
            what = f"train.batch_size is {self.batch_size}, but there are {rows} rows to train on"
            remedies = Use("--batch-size", f"{rows} or less", "use"), "more data"
            raise UsageError(what, remedies, key="train.batch_size")

    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch, each the indices of its rows."""
        random = np.random.Generator(np.random.PCG64([self.seed, number]))
        if self.groups is None:
            sets = self.mix.draw(self.seed, number) if self.mix else [np.arange(self.rows)]
            sets = sets if self.mix and self.mix.one_set_per_batch else [np.concatenate(sets)]
            ends = ([n * self.batch_size for n in range(1, self._count(len(rows)))] for rows in sets)
            cut = [np.split(random.permutation(rows), at) for rows, at in zip(sets, ends, strict=True)]
            # A set whose rows were all left out as leaks has none.
            batches = [*filter(len, chain.from_iterable(cut))]
            return batches if len(cut) == 1 else [batches[n] for n in random.permutation(len(batches))]
        order = np.argsort(self.groups, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.groups[order])) + 1)
        filled: list[list[Indices]] = [[]]
        free = self.batch_size
        for group in (groups[i] for i in random.permutation(len(groups))):
            for start in range(0, len(group), self.batch_size):
                rows = group[start : start + self.batch_size]
                if len(rows) > free:
                    filled.append([])
                    free = self.batch_size
                filled[-1].append(rows)
                free -= len(rows)
        return [np.concatenate(batch) for batch in filled]

    def __len__(self) -> int:
        """The batches of an epoch; with groups those of the first epoch, since epochs differ."""
        if self.groups is not None:
            return len(self.epoch(0))
        drawn = self.mix.drawn if self.mix else [self.rows]
        return sum(map(self._count, drawn if self.mix and self.mix.one_set_per_batch else [sum(drawn)]))

    def _count(self, rows: int) -> int:
        """The batches of so many rows."""
        whole, rest = divmod(rows, self.batch_size)
        return max(whole + (rest > 1), rows > 0)


def chunks(lengths: Indices, token_budget: int) -> list[Indices]:
    """Cut texts into chunks whose padded size stays within a budget of tokens.

    `lengths` (N,) counts tokens; the result holds indices into it. Texts are sorted by length, longest first, so that
    almost no padding is computed and the largest chunk comes first. A text longer than the budget is a chunk alone.
    """
    order = np.argsort(-lengths, kind="stable")
    cut: list[Indices] = []
    start = 0
    while start < len(order):
        size = max(1, token_budget // max(1, int(lengths[order[start]])))
        cut.append(order[start : start + size])
        start += size
    return cut


def even_chunks(lengths: Indices, token_budget: int, parts: int, least: int) -> list[Indices]:
    """Cut as `chunks` does, but into alike sizes and a multiple of `parts`, so that as many threads do the same work.

    Where they would have fewer than `least` tokens, a multiple of half as many parts is enough, and so on.
    """
    needed = len(chunks(lengths, token_budget))
    while parts > 1 and lengths.sum() < least * -(-needed // parts) * parts:
        parts //= 2
    count = -(-needed // parts) * parts
    budgets = range(1, token_budget + 1)
    smallest = bisect_left(budgets, True, key=lambda budget: len(chunks(lengths, budget)) <= count)
    return chunks(lengths, budgets[smallest])
