"""PairSupCon: classify entailment and contradiction, and contrast each entailed pair with the rest of the batch.

Zhang et al., 2021, "Pairwise Supervised Contrastive Learning of Sentence Representations", Eq. 1-5. Where the paper
and its released code differ, the code is followed: both directions and the cross-entropy are averaged.
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import (
    Result,
    Views,
    discrimination,
    fresh_linear,
    mask_logits,
    mean_over,
    pair_features,
    to_device,
)
from contrastcli.objectives.rows import ENTAILMENT, Rows
from contrastcli.objectives.similarity import contrasted
from contrastcli.settings.losses import HardNegatives, PairSupCon

PROJECTION_WIDTH = 128


def heads(width: int) -> nn.ModuleDict:
    """The pair classifier f and the projection h for instance discrimination, all without biases."""
    first, second = fresh_linear(width, width, bias=False), fresh_linear(width, PROJECTION_WIDTH, bias=False)
    projection = nn.Sequential(first, nn.ReLU(), second)
    return nn.ModuleDict({"classifier": fresh_linear(3 * width, 2, bias=False), "projection": projection})


def pairsupcon(views: Views, rows: Rows, heads: nn.ModuleDict, settings: PairSupCon) -> Result:
    """CE(f([u, u', |u − u'|]), y) + β · L_ID (Eq. 5); without `classification`, L_ID alone and no β.

    Views: anchor (premise) and positive (hypothesis), (N, d). Labels: entailment (y = 1) or contradiction (y = 0);
    neutral rows must have been dropped. The margin, in the unit of `similarity`, applies to positives only.
    L_ID takes both sentences of every entailed pair as anchors in turn and averages over the anchors; the negatives
    are all sentences but the pair itself. Without an entailed pair it is 0. `hard_negatives` is the weighting of
    negatives: see `negative_mass`.
    Parts: contrast (L_ID) and, with `classification`, classification.
    """
    similarity, tau = settings.chosen_similarity, settings.tau
    z = heads["projection"](torch.cat([views["anchor"], views["positive"]]))  # (2N, 128), j's partner at j+N
    size = len(views["anchor"])
    here = rows.to(z.device)
    places = torch.arange(len(z), device=z.device)

    def term(anchors: Tensor, z: Tensor) -> Tensor:
        """The loss of each anchor: (n,), (2N, 128) → (n,)."""
        partners = (anchors + size) % len(z)
        s, of_partner = contrasted(z[anchors], z, partners, similarity, settings.margin)  # (n, 2N), (n,)
        of_other_rows = (places - anchors[:, None]) % size != 0
        valid = here.negatives(anchors % size, ["anchor", "positive"]) & of_other_rows
        return discrimination(of_partner / tau, negative_mass(s / tau, valid, settings.hard_negatives))

    entailed = to_device(rows.entailed(), z.device)
    contrast = mean_over(torch.cat([entailed, entailed + size]), term, z)
    if not settings.classification:
        return contrast, {"contrast": contrast}
    y = to_device((rows.labels() == ENTAILMENT).long(), z.device)
    logits = heads["classifier"](pair_features(views["anchor"], views["positive"]))  # (N, 2)
    cross_entropy = nn.functional.cross_entropy(logits, y)
    return cross_entropy + settings.beta * contrast, {"contrast": contrast, "classification": cross_entropy}


def negative_mass(logits: Tensor, valid: Tensor, hard_negatives: HardNegatives) -> Tensor:
    """The log of the weighted sum over the negatives of each anchor: (n, M) s/τ, (n, M) valid → (n,).

    With α_j = e^(s_j/τ) / mean_k e^(s_k/τ), the importance of a negative among an anchor's K negatives:

    - importance: log Σ α_j e^(s_j/τ) = LSE(2s/τ) − LSE(s/τ) + log K, as in the released code;
    - exponent:   log Σ e^(α_j s_j/τ), Eq. 3 as printed;
    - uniform:    log Σ e^(s_j/τ), Eq. 1.

    The gradient goes through α.
    """
    negatives = mask_logits(logits, valid)
    total, count = negatives.logsumexp(dim=1), valid.sum(dim=1, dtype=logits.dtype)
    if hard_negatives == "uniform":
        return total
    if hard_negatives == "importance":
        return (2 * negatives).logsumexp(dim=1) - total + count.clamp_min(1).log()
    importance = count[:, None] * (negatives - total[:, None]).exp()
    return mask_logits(importance * logits, valid).logsumexp(dim=1)
