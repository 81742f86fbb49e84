"""InfoNCE, the loss of SimCSE, ArcCon and SimACE: tell a row's positive from the rest of the batch.

SimCSE: Gao et al., 2021, https://arxiv.org/abs/2104.08821, Eq. 1 and 5. ArcCon: Zhang et al., 2022 (ArcCSE).
SimACE: Eq. 9. They differ in similarity, margin and temperature only.
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, Views, discrimination, full_precision, mask_logits, mean_over
from contrastcli.objectives.rows import Rows
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

    Views: anchor and positive, (N, d). The negatives c_j are the other rows' positives and, where there is a view
    "negative", every row's hard negative. The margin, in the unit of `similarity`, is s' − s: the positive's alone.
    It has no heads. `hard_negative_weight` is added to the logit, already divided by τ, of a row's own hard negative.
    Parts: contrast.
    """
    with full_precision(views) as full:
        rows, size = rows.to(full["anchor"].device), len(full["anchor"])
        names = [name for name in ("positive", "negative") if name in full]
        everything = torch.cat([full[name] for name in names])  # (M, d), M is N or 2N, row i's positive is column i
        places = torch.arange(len(everything), device=everything.device)  # (M,)

        def term(i: Tensor, anchor: Tensor, columns: Tensor) -> Tensor:  # (n,), (N, d), (M, d) → (n,)
            logits = pairwise(anchor[i], columns, similarity) / tau  # (n, M)
            logits = logits + hard_negative_weight * (places == size + i[:, None])
            positive = paired(anchor[i], columns[i], similarity, margin) / tau  # (n,)
            return discrimination(positive, mask_logits(logits, rows.negatives(i, names)).logsumexp(dim=1))

        loss = mean_over(places[:size], term, full["anchor"], everything)
    return loss, {"contrast": loss.detach()}
