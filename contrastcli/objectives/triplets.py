"""MPT, MET and MAT: each positive against the hardest anchor of the batch, by cosine, by distance and by angle.

Nie et al., 2023, "On the Inadequacy of Optimizing Alignment and Uniformity in Contrastive Learning of Sentence
Representations": the minimum dot product, Euclidean distance and angle triplet losses. The extreme is taken over
anchors, as in the released code; that code gives the positive's own anchor a cosine of 0 in MPT and MAT, so that the
hardest never lies beyond 90°; here it is left out.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, Views, mask_logits, mean_over
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import cosines, paired, unit
from contrastcli.settings.losses import Triplet
from contrastcli.settings.similarity import SIMILARITIES


def mpt(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Triplet) -> Result:
    """mean_j max(0, m − cos(x_j, y_j) + max_i cos(x_i, y_j)), i ≠ j; m in cosine units. See `_triplet`."""
    return _triplet(views, rows, partial(paired, similarity=SIMILARITIES["cosine"]), settings.margin)


def met(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Triplet) -> Result:
    """mean_j max(0, m + ‖x_j − y_j‖ − min_i ‖x_i − y_j‖), i ≠ j, of unit vectors; m a distance. See `_triplet`."""
    return _triplet(views, rows, _nearness, settings.margin)


def mat(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Triplet) -> Result:
    """mean_j max(0, m + θ(x_j, y_j) − min_i θ(x_i, y_j)), i ≠ j; m in degrees, the loss in radians. See `_triplet`."""
    return _triplet(views, rows, partial(paired, similarity=SIMILARITIES["angle"]), settings.margin)


def _triplet(views: Views, rows: Rows, similarity: Callable[..., Tensor], margin: float) -> Result:
    """The mean over positives y_j of max(0, s(x_i, y_j) − s'(x_j, y_j)), x_i the hardest anchor and s' − s the margin.

    Views: anchor (x) and positive (y), (N, d). For every s the hardest anchor is that of the largest cosine. A
    positive without another anchor counts as 0. No heads. Parts: triplet.
    """
    rows, size = rows.to(views["anchor"].device), len(views["anchor"])

    def term(j: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The loss of each positive: (n,), two (N, d) → (n,)."""
        others = rows.negatives(j, ["anchor"])
        with torch.no_grad():
            hardest = mask_logits(cosines(y[j], x), others).argmax(dim=1)
        gap = similarity(x[hardest], y[j]) - similarity(x[j], y[j], margin=margin)
        return torch.where(others.any(dim=1), gap.relu(), 0)

    loss = mean_over(torch.arange(size, device=views["anchor"].device), term, views["anchor"], views["positive"])
    return loss, {"triplet": loss}


def _nearness(a: Tensor, b: Tensor, margin: float = 0.0) -> Tensor:
    """Minus the distance between unit vectors, less the margin: two (n, d) → (n,). No gradient between equal ones."""
    distance: Tensor = torch.linalg.vector_norm(unit(a) - unit(b), dim=-1)
    return -distance - margin
