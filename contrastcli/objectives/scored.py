"""Losses on scored pairs: CoSENT, AoE, and SBERT's regressions, of similarities against scores.

CoSENT: Su, 2022, https://kexue.fm/archives/8847. AoE (AnglE): Li and Li, 2024, https://arxiv.org/abs/2309.12871,
Section 3. Mean squared error: Reimers and Gurevych, 2019 (SBERT), Section 3. The scores of `rows` are scaled to 0-1.
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import MASKED, Result, Views, to_device
from contrastcli.objectives.infonce import contrast
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import paired, unit
from contrastcli.settings.losses import AoE, Compared, InBatch, Ordered, Regression
from contrastcli.settings.similarity import SIMILARITIES

LEAST_SPREAD = 1e-6
"""Similarities of a smaller standard deviation are equal but for rounding, and have no correlation."""


def cosent(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Ordered) -> Result:
    """log(1 + Σ e^((s_j − s_i)/τ)) over the pairs of rows i and j of which i scores more.

    Views: anchor and positive, (N, d); s_i is the similarity of row i's. Without rows of different scores it is 0.
    No heads. Parts: order.
    """
    s = paired(views["anchor"], views["positive"], settings.chosen_similarity)
    loss = order_loss(s / settings.tau, rows.scores())
    return loss, {"order": loss}


def aoe(views: Views, rows: Rows, heads: nn.ModuleDict, settings: AoE) -> Result:
    """CoSENT + InfoNCE + CoSENT of the angle in the complex plane (see `complex_angle`), each with its weight.

    InfoNCE contrasts, in both directions, each pair that scores at least `positive_from` with all other texts of the
    batch; its sum is divided by all N rows. As in the released code, other pairs are negatives and have no term. The
    temperatures are τ, τ and `angle_tau`. Views and heads as in `cosent`. Parts: order, contrast, angle.
    """
    both_ways = InBatch(
        similarity=settings.similarity, sigma=settings.sigma, tau=settings.tau, symmetric=True, same_side=True
    )
    u, v, scores = views["anchor"], views["positive"], rows.scores()
    positives = (scores >= settings.positive_from).nonzero().squeeze(1)
    parts = {
        "order": order_loss(paired(u, v, settings.chosen_similarity) / settings.tau, scores),
        "contrast": contrast(views, rows, both_ways, anchors=positives) * (len(positives) / len(scores)),
        "angle": order_loss(complex_angle(u, v) / settings.angle_tau, scores),
    }
    weights = (settings.order_weight, settings.contrast_weight, settings.angle_weight)
    loss = torch.stack([weight * part for weight, part in zip(weights, parts.values(), strict=True)]).sum()
    return loss, parts


def pearson(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Compared) -> Result:
    """1 − r, the correlation of similarities and scores over the batch.

    Views as in `cosent`. Where the scores are all equal it is 0, where the similarities are it is 1. No heads.
    Parts: correlation (1 − r).
    """
    s = paired(views["anchor"], views["positive"], settings.chosen_similarity)
    scores = to_device(rows.scores(), s.device).to(s.dtype)
    x, y = s - s.mean(), unit(scores - scores.mean())
    length = torch.linalg.vector_norm(x).clamp_min(LEAST_SPREAD * len(x) ** 0.5)
    loss = (1 - (x * y).sum() / length) * (scores.max() > scores.min())
    return loss, {"correlation": loss}


def mse(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Regression) -> Result:
    """mean_i (cos(a_i, p_i) − t_i)²: t is 1 for the highest score of the data, `lowest` for the lowest one.

    Views as in `cosent`. No heads. Parts: regression.
    """
    cosine = paired(views["anchor"], views["positive"], SIMILARITIES["cosine"])
    target = settings.lowest + (1 - settings.lowest) * to_device(rows.scores(), cosine.device).to(cosine.dtype)
    loss = (cosine - target).square().mean()
    return loss, {"regression": loss}


def order_loss(s: Tensor, scores: Tensor) -> Tensor:
    """log(1 + Σ e^(s_j − s_i)) over the pairs of which i scores more than j: (N,) logits, (N,) scores → scalar.

    Sorted by score, the rows that score less than i are the first `below[i]`: memory grows with N, not with its square.
    """
    ordered, order = to_device(scores, s.device).sort()
    s = s[order]
    below = torch.searchsorted(ordered, ordered)
    of_lower = s.logcumsumexp(dim=0)[below - 1]
    total = torch.where(below > 0, of_lower - s, MASKED).logsumexp(dim=0)
    return -nn.functional.logsigmoid(-total)


def complex_angle(a: Tensor, b: Tensor) -> Tensor:
    """|Σ Re(z/w) + Σ Im(z/w)| of unit embeddings as complex vectors z and w: two (N, d) → (N,). AnglE, Eq. 5-7.

    The first half of an embedding is its real part, the second its imaginary part; of an odd size the last number is
    left out. As in the released code the quotient is z·w̄, divided once by the lengths of both vectors and not, as
    Eq. 5 has it, component by component.
    """
    half = a.shape[-1] // 2
    (x, y), (z, w) = ((u[..., :half], u[..., half : 2 * half]) for u in (unit(a), unit(b)))
    return ((x * z + y * w) + (y * z - x * w)).sum(dim=-1).abs()
