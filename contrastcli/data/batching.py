"""Which rows go into which batch, and which texts of a batch go through the encoder together."""

from __future__ import annotations

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
    """Examples as indices into their distinct texts: a view's entry says which text stands in each row.

    Equal indices are equal texts, which is what masking duplicates and grouping premises need.
    """

    texts: list[str]
    views: dict[str, Indices]  # view -> (N,)
    labels: Indices | None  # (N,)

    def __len__(self) -> int:
        return len(self.views["anchor"])

    @classmethod
    def of(cls, examples: Examples) -> Corpus:
        """Number the distinct texts in the order in which they appear. Sentences become their own positives."""
        numbers: dict[str, int] = {}
        views = {
            view: np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), np.int64, len(texts))
            for view, texts in examples.views.items()
        }
        if examples.form == "sentences":
            views["positive"] = views["anchor"]
        labels = None if examples.labels is None else np.asarray(examples.labels, dtype=np.int64)
        return cls(list(numbers), views, labels)


@dataclass(frozen=True)
class BatchOrder:
    """The order of rows in every epoch, a pure function of the seed, so that a position is all that resuming needs.

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
        return self._grouped(self.groups, random)

    def _grouped(self, groups: Indices, random: np.random.Generator) -> list[Indices]:
        order = np.argsort(groups, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
        pieces = [
            members[g][start : start + self.batch_size]
            for g in random.permutation(len(members))
            for start in range(0, len(members[g]), self.batch_size)
        ]
        batches: list[list[Indices]] = [[]]
        filled = 0
        for piece in pieces:
            if filled + len(piece) > self.batch_size:
                batches.append([])
                filled = 0
            batches[-1].append(piece)
            filled += len(piece)
        return [np.concatenate(batch) for batch in batches]

    def __len__(self) -> int:
        """Batches of an epoch; of grouped rows, of the first one (epochs differ by how groups happen to fit)."""
        return -(-self.rows // self.batch_size) if self.groups is None else len(self.epoch(0))


def chunks(lengths: Indices, token_budget: int) -> list[Indices]:
    """Cut texts into chunks whose padded size stays within a budget of tokens.

    `lengths` (N,) counts tokens; the result holds indices into it. Texts are sorted by length, longest first, so that
    almost no padding is computed and the largest chunk comes first. A text longer than the budget is a chunk alone.
    """
    order = np.argsort(-lengths, kind="stable")
    found: list[Indices] = []
    start = 0
    while start < len(order):
        rows = max(1, token_budget // max(1, int(lengths[order[start]])))
        found.append(order[start : start + rows])
        start += rows
    return found
