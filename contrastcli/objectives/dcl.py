"""DCL, the decoupled contrastive loss: InfoNCE whose positive is not among what it is told from.

Yeh et al., 2022, https://arxiv.org/abs/2110.06848; for sentences Nie et al., 2023, "On the Inadequacy of Optimizing
Alignment and Uniformity in Contrastive Learning of Sentence Representations".
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, Views, full_precision, mask_logits, mean_over
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import paired, pairwise


def dcl(views: Views, rows: Rows, heads: nn.ModuleDict, *, similarity: str, margin: float, tau: float) -> Result:
    """mean_i ( −s'(a_i, p_i)/τ + log Σ_j e^(s(a_i, c_j)/τ) ), anchors to columns only.

    Views: anchor and positive, (N, d). The negatives c_j are the other rows' positives and, where there is a view
    "negative", every row's hard negative; an anchor without any counts as 0. The loss has no lower bound: it keeps
    pulling a positive that is already the nearest. Hence a margin, s' − s, adds a constant to it under `cosine` and
    `angle`, and is felt under `arc` alone. It has no heads. Parts: contrast.
    """
    with full_precision(views) as full:
        rows, size = rows.to(full["anchor"].device), len(full["anchor"])
        names = [name for name in ("positive", "negative") if name in full]
        everything = torch.cat([full[name] for name in names])  # (M, d), M is N or 2N, row i's positive is column i

        def term(i: Tensor, anchor: Tensor, columns: Tensor) -> Tensor:  # (n,), (N, d), (M, d) → (n,)
            valid = rows.negatives(i, names)
            logits = mask_logits(pairwise(anchor[i], columns, similarity) / tau, valid)  # (n, M)
            positive = paired(anchor[i], columns[i], similarity, margin) / tau  # (n,)
            return torch.where(valid.any(dim=1), logits.logsumexp(dim=1) - positive, 0)

        loss = mean_over(torch.arange(size, device=everything.device), term, full["anchor"], everything)
    return loss, {"contrast": loss.detach()}
