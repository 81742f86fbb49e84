"""InfoNCE, the loss of SimCSE, ArcCon and SimACE, and its decoupled form: a row's positive against the batch.

SimCSE: Gao et al., 2021, https://arxiv.org/abs/2104.08821, Eq. 1 and 5. ArcCon: Zhang et al., 2022 (ArcCSE).
SimACE: Eq. 9. They differ in similarity, margin and temperature only.
DCL: Yeh et al., 2022, https://arxiv.org/abs/2110.06848; for sentences Nie et al., 2023, "On the Inadequacy of
Optimizing Alignment and Uniformity in Contrastive Learning of Sentence Representations".

Settings of both: a guide, as in GISTEmbed (Solatorio, 2024, https://arxiv.org/abs/2402.16829); hardness, as in LLaVE
(Lan et al., 2025, https://arxiv.org/abs/2503.04812, Eq. 5); both directions and negatives of the same side, as in GTE
(Li et al., 2023, https://arxiv.org/abs/2308.03281, Eq. 2-3); and the global orthogonal regulariser (Zhang et al., 2017,
https://arxiv.org/abs/1708.06320, Eq. 6).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from contrastcli.objectives import functional
from contrastcli.objectives.functional import MASKED, Result, Views, discrimination, mask_logits, mean_over, to_device
from contrastcli.objectives.rows import Rows, candidates
from contrastcli.objectives.similarity import contrasted, cosines
from contrastcli.settings.losses import InBatch, SimCSE

GUIDE = "guide_"
"""The prefix of the names of a guide's views."""

Discriminate = Callable[[Tensor, Tensor], Tensor]
"""The loss of each anchor, given its positive's logit and the log-sum-exp of its negatives' logits: two (n,) → (n,)."""


def infonce(views: Views, rows: Rows, heads: nn.ModuleDict, settings: SimCSE) -> Result:
    """mean_i −log( e^(s'(a_i, p_i)/τ) / (e^(s'(a_i, p_i)/τ) + Σ_j e^(s(a_i, c_j)/τ)) ), anchors to columns only.

    Views: anchor and positive, (N, d). The negatives c_j are the other rows' positives and, of the views negative,
    negative_2 …, if there are any, every row's hard negatives. The margin is s' − s. For the other settings see
    `contrast`; `orthogonal` is the weight of `spread`. No heads. Parts: contrast and, with a weight, orthogonality.
    """
    return _with_spread(contrast(views, rows, settings), views, rows, settings.orthogonal)


def dcl(views: Views, rows: Rows, heads: nn.ModuleDict, settings: InBatch) -> Result:
    """mean_i ( −s'(a_i, p_i)/τ + log Σ_j e^(s(a_i, c_j)/τ) ): InfoNCE without the positive in its denominator.

    Views, negatives, margin and settings as in `infonce`; an anchor without negatives counts as 0. The loss has no
    lower bound: it keeps pulling a positive that is already the nearest. Hence the margin adds a constant under
    `cosine` and `angle`, and has an effect under `arc` alone. No heads. Parts as in `infonce`.
    """

    def difference(positive: Tensor, negatives: Tensor) -> Tensor:
        return torch.where(negatives > MASKED / 2, negatives - positive, 0)

    return _with_spread(contrast(views, rows, settings, difference), views, rows, settings.orthogonal)


def contrast(
    views: Views, rows: Rows, settings: InBatch, loss: Discriminate = discrimination, anchors: Tensor | None = None
) -> Tensor:
    """The mean of `loss` over the anchors, which are rows (n,), by default all: scalar.

    The margin, in the unit of the similarity, applies to positives only. `hard_negative_weight` is added to the logits,
    already divided by τ, of a row's own hard negatives. With a `guide`, whose views have the names of the others after
    GUIDE, a negative that it finds closer to the anchor than the positive does not count. With `hardness` β a
    negative's logit grows by β times its similarity, as a constant, so that its weight is e^(β·s). `symmetric` takes
    the mean of this and of the other direction, where each positive looks at all anchors. With `same_side` the other
    anchors are negatives too and, in the other direction, the other positives.
    """
    rows = rows.to(views["anchor"].device)
    all_rows = torch.arange(len(views["anchor"]), device=views["anchor"].device)
    chosen = all_rows if anchors is None else to_device(anchors, all_rows.device)
    value = direction_loss(views, rows, settings, loss, chosen, "anchor", candidates(views))
    if settings.symmetric:
        value = (value + direction_loss(views, rows, settings, loss, chosen, "positive", ["anchor"])) / 2
    return value


def direction_loss(
    views: Views, rows: Rows, settings: InBatch, loss: Discriminate, anchors: Tensor, of: str, names: list[str]
) -> Tensor:
    """The contrast of the anchors' vectors in one view with the columns of others, of which the first is the target."""
    size, targets = len(views[of]), len(names)
    names = [*names, of] if settings.same_side else names
    everything = torch.cat([views[name] for name in names])  # (M, d), i's positive at i
    guides = torch.cat([views[GUIDE + name] for name in names]) if settings.guide else everything
    places = torch.arange(len(everything), device=everything.device)
    row_of, view_of = places % size, places // size

    def negatives(i: Tensor) -> Tensor:
        """A mask of the columns: (n,) → (n, M)."""
        valid = rows.negatives(i, names)
        if settings.same_side:
            valid &= (view_of < targets) | (row_of != i[:, None])
        if settings.guide:
            seen = cosines(views[GUIDE + of][i], guides)
            valid &= seen <= seen.gather(1, i[:, None])
        return valid

    def term(i: Tensor, anchor: Tensor, columns: Tensor) -> Tensor:
        """The loss of each anchor: (n,), (N, d), (M, d) → (n,)."""
        s, of_positive = contrasted(anchor[i], columns, i, settings.chosen_similarity, settings.margin)
        logits = s / settings.tau
        if settings.hard_negative_weight:
            own = (view_of > 0) & (view_of < targets) & (row_of == i[:, None])
            logits = logits + settings.hard_negative_weight * own
        if settings.hardness:
            logits = logits + settings.hardness * s.detach()
        return loss(of_positive / settings.tau, mask_logits(logits, negatives(i)).logsumexp(dim=1))

    return mean_over(anchors, term, views[of], everything)


def _with_spread(value: Tensor, views: Views, rows: Rows, weight: float) -> Result:
    """A loss with the weighted regulariser, where that has a weight, and both as parts."""
    if not weight:
        return value, {"contrast": value}
    regulariser = spread(views, rows)
    return value + weight * regulariser, {"contrast": value, "orthogonality": regulariser}


def spread(views: Views, rows: Rows) -> Tensor:
    """M₁² + max(0, M₂ − 1/d), M₁ and M₂ the means of cosine and squared cosine over all anchors and their negatives.

    Of points spread evenly over the sphere the mean is 0 and that of squares 1/d. Without negatives it is 0.
    """
    rows, names = rows.to(views["anchor"].device), candidates(views)
    everything = torch.cat([views[name] for name in names])
    anchors = torch.arange(len(views["anchor"]), device=everything.device)

    def mean(values: Callable[[Tensor], Tensor]) -> Tensor:
        def term(i: Tensor, anchor: Tensor, columns: Tensor) -> Tensor:
            return (values(cosines(anchor[i], columns)) * rows.negatives(i, names)).sum(dim=1)

        return mean_over(anchors, term, views["anchor"], everything) * (len(anchors) / count)

    of_blocks = [rows.negatives(block, names).sum() for block in torch.split(anchors, functional.BLOCK)]
    count = torch.stack(of_blocks).sum().clamp_min(1)
    return mean(lambda cosine: cosine) ** 2 + (mean(torch.square) - 1 / everything.shape[1]).relu()
