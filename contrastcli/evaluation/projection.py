"""Embeddings in two dimensions, for pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrastcli.evaluation.result import Floats
from contrastcli.model.metrics import unit_rows

_SEED = 0
_PERPLEXITY = 30.0


@dataclass(frozen=True)
class Projection:
    """`points` (N, 2), and the share of the variance that each of the two axes explains."""

    points: NDArray[np.float64]
    explained: tuple[float, float]


def pca(vectors: Floats) -> Projection:
    """The first two principal components of the unit vectors of (N, d), about their mean.

    Each axis points to where its largest coordinate is, so that the same vectors make the same picture everywhere.
    Where the vectors span fewer dimensions, the rest is zero.
    """
    unit = unit_rows(vectors)
    places, sizes, _ = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)  # (N, r), (r,)
    points = np.pad(places * sizes, ((0, 0), (0, 1)))[:, :2]  # (N, 2)
    points *= np.sign(points[np.abs(points).argmax(axis=0), [0, 1]])
    first, second = np.pad(sizes**2, (0, 1))[:2] / max(float((sizes**2).sum()), np.finfo(float).tiny)
    return Projection(points, (float(first), float(second)))


def tsne(vectors: Floats) -> NDArray[np.float64]:
    """t-SNE (van der Maaten and Hinton 2008) of the unit vectors of (N, d), N ≥ 3: (N, 2).

    scikit-learn's: perplexity 30, or a third of the other points where these are few; started from the PCA, seed 0.
    """
    from sklearn.manifold import TSNE

    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    points: NDArray[np.float64] = TSNE(perplexity=perplexity, init="pca", random_state=_SEED).fit_transform(
        unit_rows(vectors).astype(np.float32)
    )
    return points


def sample(count: int, limit: int) -> NDArray[np.intp]:
    """A fixed random sample of at most `limit` of `count` rows: their numbers, in order."""
    if count <= limit:
        return np.arange(count)
    return np.sort(np.random.default_rng(_SEED).choice(count, limit, replace=False))
