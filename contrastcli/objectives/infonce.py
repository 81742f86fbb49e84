"""InfoNCE, the loss of SimCSE, ArcCon and SimACE, and its decoupled form: a row's positive against the batch.

SimCSE: Gao et al., 2021, https://arxiv.org/abs/2104.08821, Eq. 1 and 5. ArcCon: Zhang et al., 2022 (ArcCSE).
SimACE: Eq. 9. They differ in similarity, margin and temperature only.
DCL: Yeh et al., 2022, https://arxiv.org/abs/2110.06848; for sentences Nie et al., 2023, "On the Inadequacy of
Optimizing Alignment and Uniformity in Contrastive Learning of Sentence Representations".
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import (
    MASKED,
    Result,
    Views,
    discrimination,
    full_precision,
    mask_logits,
    mean_over,
)
from contrastcli.objectives.rows import Rows, candidates
from contrastcli.objectives.similarity import paired, pairwise


def infonce(
    views: Views,
    rows: Rows,
    heads: nn.ModuleDict,
    *,
    similarity: str,
    margin: float,
    tau: float,
    hard_negative_weight: float = 0.0,
) -> Result:
    """mean_i −log( e^(s'(a_i, p_i)/τ) / (e^(s'(a_i, p_i)/τ) + Σ_j e^(s(a_i, c_j)/τ)) ), anchors to columns only.

    Views: anchor and positive, (N, d). The negatives c_j are the other rows' positives and, of the views negative,
    negative_2 …, if there are any, every row's hard negatives. The margin s' − s, in the unit of `similarity`, applies
    to positives only. `hard_negative_weight` is added to the logits, already divided by τ, of a row's own hard
    negatives. No heads. Parts: contrast.
    """
    return _contrast(views, rows, similarity, margin, tau, discrimination, hard_negative_weight)


def dcl(views: Views, rows: Rows, heads: nn.ModuleDict, *, similarity: str, margin: float, tau: float) -> Result:
    """mean_i ( −s'(a_i, p_i)/τ + log Σ_j e^(s(a_i, c_j)/τ) ): InfoNCE without the positive in its denominator.

    Views, negatives and margin as in `infonce`; an anchor without negatives counts as 0. The loss has no lower bound:
    it keeps pulling a positive that is already the nearest. Hence the margin adds a constant under `cosine` and
    `angle`, and has an effect under `arc` alone. No heads. Parts: contrast.
    """

    def difference(positive: Tensor, negatives: Tensor) -> Tensor:
        return torch.where(negatives > MASKED / 2, negatives - positive, 0)

    return _contrast(views, rows, similarity, margin, tau, difference)


def _contrast(
    views: Views,
    rows: Rows,
    similarity: str,
    margin: float,
    tau: float,
    loss: Callable[[Tensor, Tensor], Tensor],
    hard_negative_weight: float = 0.0,
) -> Result:
    """The mean over anchors of `loss`, of the positive's logit and the log-sum-exp of the negatives': two (n,)."""
    with full_precision(views) as full:
        rows, size = rows.to(full["anchor"].device), len(full["anchor"])
        names = candidates(full)  # the positive first
        everything = torch.cat([full[name] for name in names])  # (M, d), M is N, 2N …: row i's positive is column i
        places = torch.arange(len(everything), device=everything.device)  # (M,)

        def term(i: Tensor, anchor: Tensor, columns: Tensor) -> Tensor:  # (n,), (N, d), (M, d) → (n,)
            logits = pairwise(anchor[i], columns, similarity) / tau  # (n, M)
            if hard_negative_weight:
                logits = logits + hard_negative_weight * ((places >= size) & (places % size == i[:, None]))
            positive = paired(anchor[i], columns[i], similarity, margin) / tau  # (n,)
            return loss(positive, mask_logits(logits, rows.negatives(i, names)).logsumexp(dim=1))

        value = mean_over(places[:size], term, full["anchor"], everything)
    return value, {"contrast": value.detach()}
