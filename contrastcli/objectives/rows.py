"""The rows of a batch for a loss: which texts are equal or no negatives of each other, and the labels of pairs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from contrastcli.objectives.functional import to_device

ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)
ALIKE = 0.8
"""Pairs that score more than this share of the scale are positives, where angles and alignment are measured."""


def candidates(views: Iterable[str]) -> list[str]:
    """The views that hold positives and hard negatives: positive, negative, negative_2 …, as far as there are any."""
    return [view for view in views if view == "positive" or view.startswith("negative")]


@dataclass(frozen=True)
class Rows:
    """The rows of a batch without their embeddings.

    The tensors may stay on the CPU: selecting rows by their label then does not wait for the device.
    """

    ids: Mapping[str, Tensor]
    """View → (N,) integers, equal exactly where the texts are equal, also across views; −1 where there is no text."""

    label: Tensor | None = None
    """(N,) 0 entailment, 1 neutral, 2 contradiction."""

    mask_duplicates: bool = False
    """Leave texts equal to the anchor or to its positive out of the negatives."""

    score: Tensor | None = None
    """(N,) the score of each pair, from 0 to 1."""

    lengths: Mapping[str, Tensor] = field(default_factory=dict)
    """View → (N,) tokens of each text, special ones included."""

    excluded: Tensor = field(default_factory=lambda: torch.zeros(0, 2, dtype=torch.long))
    """(K, 2) pairs of texts that are no negatives of each other, each in both orders."""

    candidate_score: Tensor | None = None
    """(N, C) a teacher's score of each of the row's `candidates`."""

    def to(self, device: torch.device) -> "Rows":
        """The same rows with their tensors on `device`."""
        moved: dict[str, Any] = {n: to_device(x, device) for n, x in vars(self).items() if isinstance(x, Tensor)}
        ids, lengths = ({view: to_device(of, device) for view, of in by.items()} for by in (self.ids, self.lengths))
        return replace(self, **moved, ids=ids, lengths=lengths)

    def labels(self) -> Tensor:
        """The (N,) labels, for a loss that needs them. Raises ValueError if there are none."""
        if self.label is None:
            raise ValueError("this objective needs labelled pairs, and these rows have no labels")
        return self.label

    def scores(self) -> Tensor:
        """The (N,) scores, for a loss that needs them. Raises ValueError if there are none."""
        if self.score is None:
            raise ValueError("this objective needs scored pairs, and these rows have no scores")
        return self.score

    def candidate_scores(self) -> Tensor:
        """The (N, C) scores of a teacher, for a loss that needs them. Raises ValueError if there are none."""
        if self.candidate_score is None:
            raise ValueError("this objective needs scored triplets, and these rows have no scores of a teacher")
        return self.candidate_score

    def positives(self) -> Tensor:
        """A mask of the rows whose pair is a positive one: entailed, scored above 0.8, or all without either: (N,)."""
        if self.label is not None:
            return self.label == ENTAILMENT
        return torch.ones_like(self.ids["anchor"], dtype=torch.bool) if self.score is None else self.score > ALIKE

    def entailed(self) -> Tensor:
        """The indices of the rows labelled entailment: (E,)."""
        return (self.labels() == ENTAILMENT).nonzero().squeeze(1)

    def negatives(self, rows: Tensor, columns: Sequence[str]) -> Tensor:
        """A mask of each row's negatives among the texts of the columns: (n,) indices → (n, M) bool, M texts in all.

        All texts but the row's own in the first column, those `left_out` for its anchor or its positive, and with
        `mask_duplicates` those of positive pairs that share a text with the row's.
        """
        texts = torch.cat([self.ids[column] for column in columns])  # (M,)
        valid = (torch.arange(len(texts), device=texts.device) != rows[:, None]) & (texts >= 0)
        anchors, positives = (self.ids[view][rows] for view in ("anchor", "positive"))
        valid &= ~self.left_out(anchors, texts) & ~self.left_out(positives, texts)
        if self.mask_duplicates:
            # Pairs that share a text, as two answers to a question do.
            same = (anchors[:, None] == self.ids["anchor"]) | (positives[:, None] == self.ids["positive"])  # (n, N)
            alike = same & self.positives()
            none = torch.zeros_like(alike)
            valid &= ~torch.cat([alike if one in ("anchor", "positive") else none for one in columns], dim=1)
        return valid

    def left_out(self, own: Tensor, texts: Tensor) -> Tensor:
        """Which texts are no negatives of texts of their own: with `mask_duplicates` equal ones, and excluded pairs.

        (n,), (M,) → (n, M) bool.
        """
        left_out = own[:, None] == texts if self.mask_duplicates else torch.zeros_like(own[:, None] == texts)
        if len(self.excluded):
            first, second = self.excluded.T
            pairs = (own[:, None] == first).float() @ (second[:, None] == texts).float()  # (n, K) @ (K, M)
            left_out = left_out | (pairs > 0)
        return left_out
