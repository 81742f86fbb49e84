"""The rows of each batch, and the chunks of its texts that go through the encoder together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contrastcli.errors import UsageError

if TYPE_CHECKING:
    from contrastcli.data.examples import Examples

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Corpus:
    """Examples as indices into their distinct texts, one for each row of a view: equal indices are equal texts.

    The index is −1 where a row has no text, having fewer hard negatives than others.
    """

    texts: list[str]
    views: dict[str, Indices]  # view -> (N,)
    labels: Indices | None  # (N,)
    scores: NDArray[np.float32] | None = None  # (N,) from 0, the lowest of the data, to 1

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

    def rows(self, rows: Indices) -> dict[str, list[str]]:
        """The texts of (N,) rows by view, "" for none."""
        return {view: [self.texts[i] if i >= 0 else "" for i in texts[rows]] for view, texts in self.views.items()}

    @classmethod
    def of(cls, examples: Examples) -> Corpus:
        """Number the distinct texts in order of appearance. A sentence is its own positive."""
        numbers: dict[str, int] = {}

        def number(text: str) -> int:
            return numbers.setdefault(text, len(numbers)) if text else -1

        views = {view: np.fromiter(map(number, texts), np.int64, len(texts)) for view, texts in examples.views.items()}
        if examples.form == "sentences":
            views["positive"] = views["anchor"]
        labels = None if examples.labels is None else np.asarray(examples.labels, dtype=np.int64)
        return cls(list(numbers), views, labels, None if examples.scores is None else _scaled(examples.scores))


def _scaled(scores: Sequence[float]) -> NDArray[np.float32]:
    """Scores as shares of their range."""
    values = np.asarray(scores, dtype=np.float64)
    shares: NDArray[np.float32] = ((values - values.min()) / (np.ptp(values) or 1)).astype(np.float32)
    return shares


@dataclass(frozen=True)
class BatchOrder:
    """The order of rows in every epoch, a pure function of the seed: a resumed run needs only the position in it.

    The last short batch is kept. With `groups` ((N,) numbers), rows of one number stay in one batch: groups are
    shuffled whole, and a batch is closed early when the next group does not fit (a group larger than a batch is cut).
    """

    rows: int
    batch_size: int
    seed: int
    groups: Indices | None = None

    def __post_init__(self) -> None:
        if self.batch_size > self.rows:
            raise UsageError(
                f"train.batch_size is {self.batch_size}, but the data has {self.rows} rows",
                f"use --batch-size {self.rows} or less, or more data",
            )

    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch, each the indices of its rows."""
        random = np.random.Generator(np.random.PCG64([self.seed, number]))
        if self.groups is None:
            order = random.permutation(self.rows)
            return np.split(order, range(self.batch_size, self.rows, self.batch_size))
        order = np.argsort(self.groups, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.groups[order])) + 1)
        batches: list[list[Indices]] = [[]]
        free = self.batch_size
        for group in (groups[i] for i in random.permutation(len(groups))):
            for start in range(0, len(group), self.batch_size):
                rows = group[start : start + self.batch_size]
                if len(rows) > free:
                    batches.append([])
                    free = self.batch_size
                batches[-1].append(rows)
                free -= len(rows)
        return [np.concatenate(batch) for batch in batches]

    def __len__(self) -> int:
        """The batches of an epoch; with groups those of the first epoch, since epochs differ."""
        return -(-self.rows // self.batch_size) if self.groups is None else len(self.epoch(0))


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
