"""Similarities of embeddings, with the margin of a positive.

Their formulas and sources are in `settings/similarity.py`. All of them normalise. A zero vector has the cosine 0 with
every vector, and no gradient.
"""

import torch
from torch import Tensor

from contrastcli.objectives.functional import promoted
from contrastcli.settings.similarity import Similarity

SHORTEST = 1e-12
"""Vectors of at most this length count as zero."""


def unit(x: Tensor) -> Tensor:
    """Each vector scaled to length 1, a zero vector left at zero with a zero gradient: (..., d) → (..., d)."""
    x = promoted(x)
    exponent = x.detach().abs().amax(dim=-1, keepdim=True).clamp_min(1).log2().floor().clamp_max(126)
    # Exact: the squares of numbers above 1e19 are not finite in float32.
    x = x * torch.exp2(-exponent)
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp_min(SHORTEST) * (length > SHORTEST)


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of every row of a with every row of b: (N, d), (M, d) → (N, M)."""
    return unit(a) @ unit(b).T


def pairwise(a: Tensor, b: Tensor, similarity: Similarity) -> Tensor:
    """The similarity of every row of a with every row of b: (N, d), (M, d) → (N, M)."""
    return from_cosine(cosines(a, b), similarity)


def paired(a: Tensor, b: Tensor, similarity: Similarity, margin: float = 0.0) -> Tensor:
    """The similarity of each row of a with its positive, the same row of b: two (N, d) → (N,).

    The margin is in the similarity's own unit; above 0 it makes the positive harder.
    """
    return from_cosine((unit(a) * unit(b)).sum(dim=-1), similarity, margin)


def contrasted(
    anchors: Tensor, columns: Tensor, places: Tensor, similarity: Similarity, margin: float
) -> tuple[Tensor, Tensor]:
    """As `pairwise`, and as `paired` with the columns at the positives' places, normalised once for both.

    (n, d), (M, d), (n,) → (n, M), (n,).
    """
    a, b = unit(anchors), unit(columns)
    return from_cosine(a @ b.T, similarity), from_cosine((a * b[places]).sum(dim=-1), similarity, margin)


def from_cosine(cosine: Tensor, similarity: Similarity, margin: float = 0.0) -> Tensor:
    """The similarity for cosines of any shape, with the margin of a positive (see `paired`)."""
    return similarity.from_cosine(cosine, margin)
