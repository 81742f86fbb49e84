"""What a loss may know of the texts behind the embeddings: which are equal, and how a pair is labelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from contrastcli.objectives.functional import isin

ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)


@dataclass(frozen=True)
class Rows:
    """What a loss may know of a batch's rows besides their embeddings.

    The tensors may stay on the CPU: a loss that picks rows by their label then need not wait for the device.
    """

    ids: Mapping[str, Tensor]
    """View → (N,) integers, equal exactly where the texts are equal, also across views."""

    label: Tensor | None = None
    """(N,) 0 entailment, 1 neutral, 2 contradiction."""

    mask_duplicates: bool = False
    """Leave texts equal to the anchor or to its positive out of the negatives."""

    def to(self, device: torch.device) -> "Rows":
        """The same rows with their tensors on `device`."""
        ids = {view: texts.to(device) for view, texts in self.ids.items()}
        return replace(self, ids=ids, label=None if self.label is None else self.label.to(device))

    def labels(self) -> Tensor:
        """The (N,) labels, for a loss that cannot do without. Raises ValueError where there are none."""
        if self.label is None:
            raise ValueError("this objective learns from labelled pairs, and these rows have no label")
        return self.label

    def entailed(self) -> Tensor:
        """(E,) the indices of the rows labelled entailment."""
        return (self.labels() == ENTAILMENT).nonzero().squeeze(1)

    def negatives(self, rows: Tensor, columns: Sequence[str]) -> Tensor:
        """Which texts of some columns are negatives of each row: (n,) indices → (n, M) bool, columns in a line.

        All but the one at the row's own place in the first column and, with `mask_duplicates`, those equal to the
        row's anchor or to its positive.
        """
        texts = torch.cat([self.ids[column] for column in columns])  # (M,)
        valid = torch.arange(len(texts), device=texts.device) != rows[:, None]
        if self.mask_duplicates:
            own = torch.stack([self.ids["anchor"][rows], self.ids["positive"][rows]], dim=1)  # (n, 2)
            valid &= ~isin(texts, own)
        return valid
