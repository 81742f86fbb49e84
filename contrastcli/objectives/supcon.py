"""Supervised contrastive learning on NLI: a premise between the hypotheses that it entails and all others.

Liao, 2021, "Sentence Embeddings using Supervised Contrastive Learning". The contrastive term is Khosla et al.'s,
https://arxiv.org/abs/2004.11362, with premises as anchors and hypotheses as everything else.
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import (
    Result,
    Views,
    fresh_linear,
    full_precision,
    isin,
    mask_logits,
    mean_over,
    pair_features,
)
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import cosines, from_cosine


def heads(width: int) -> nn.ModuleDict:
    """The pair classifier of the released code: two linear layers with biases and nothing between them."""
    hidden = 3 * width // 2
    layers = nn.Sequential(fresh_linear(3 * width, hidden, bias=True), fresh_linear(hidden, 3, bias=True))
    return nn.ModuleDict({"classifier": layers})


def supcon(
    views: Views,
    rows: Rows,
    heads: nn.ModuleDict,
    *,
    lambda_: float,
    tau: float,
    normalize: bool,
    similarity: str,
    margin: float,
    positives: int,
    negatives: int,
) -> Result:
    """(1 − λ) · CE(f([u, v, |u − v|]), label) + λ · SCL.

    Views: anchor (premise) and positive (hypothesis), (N, d), with labels of three classes. SCL averages over the
    entailed rows' premises x  −1/|P| Σ_p log( e^(x·p/τ) / Σ_(k in P and N) e^(x·k/τ) ):  P are the batch's hypotheses
    that this premise entails, N all others. Without an entailed row it is 0.
    `positives` and `negatives` cap |P| and |N|, drawn in each step without replacement from torch's global CPU
    generator; 0 takes all. Without `normalize` the products are plain and `similarity` and `margin` are not used; with
    it they are similarities, every member of P with the margin, above and below the fraction line.
    Parts: contrast (SCL) and classification.
    """
    with full_precision(views) as full:
        premises, hypotheses = full["anchor"], full["positive"]  # (N, d)
        logits = heads["classifier"](pair_features(premises, hypotheses))  # (N, 3)
        cross_entropy = nn.functional.cross_entropy(logits, rows.labels().to(logits.device))

        anchors = rows.entailed().to(premises.device)  # (A,)
        positive, negative = neighbours(rows.to(premises.device), anchors)  # (A, N)
        positive, negative = drawn(positive, positives), drawn(negative, negatives)
        compared_by = similarity if normalize else None

        def term(i: Tensor, u: Tensor, v: Tensor) -> Tensor:  # (n,) of the A anchors, (N, d), (N, d) → (n,)
            logits = _products(u[anchors[i]], v, positive[i], compared_by, margin) / tau  # (n, N)
            own = torch.where(positive[i], logits, 0).sum(dim=1) / positive[i].sum(dim=1)  # (n,)
            return mask_logits(logits, positive[i] | negative[i]).logsumexp(dim=1) - own

        contrast = mean_over(torch.arange(len(anchors), device=anchors.device), term, premises, hypotheses)
    loss = (1 - lambda_) * cross_entropy + lambda_ * contrast
    return loss, {"contrast": contrast.detach(), "classification": cross_entropy.detach()}


def drawn(members: Tensor, count: int) -> Tensor:
    """At most `count` of each row's members, drawn without replacement; all where count is 0: (A, N) bool → (A, N)."""
    if count == 0 or not len(members):
        return members
    order = torch.stack([torch.randperm(members.shape[1]) for _ in members]).to(members.device)  # (A, N)
    shuffled = members.gather(1, order)
    return torch.zeros_like(members).scatter(1, order, shuffled & (shuffled.cumsum(dim=1) <= count))


def neighbours(rows: Rows, anchors: Tensor) -> tuple[Tensor, Tensor]:
    """Which hypotheses are positives and which are negatives of each anchor's premise: (A,) → two (A, N) bool."""
    premise, hypothesis = rows.ids["anchor"], rows.ids["positive"]  # (N,)
    entailed = torch.zeros_like(premise, dtype=torch.bool).index_fill(0, anchors, True)  # (N,)
    positive = (premise[anchors, None] == premise) & entailed
    negative = ~positive
    if rows.mask_duplicates:
        same_text = hypothesis[:, None] == hypothesis  # (N, N)
        as_positive = (positive.float() @ same_text.float()) > 0
        negative &= ~as_positive & ~isin(hypothesis, premise[anchors, None])
    return positive, negative


def _products(a: Tensor, b: Tensor, positive: Tensor, similarity: str | None, margin: float) -> Tensor:
    """Each row of a compared with each of b, positives with the margin: (n, d), (N, d) → (n, N).

    By dot products where there is no similarity.
    """
    if similarity is None:
        return a @ b.T
    cosine = cosines(a, b)
    return torch.where(positive, from_cosine(cosine, similarity, margin), from_cosine(cosine, similarity))
