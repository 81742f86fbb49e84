"""Supervised contrastive learning on NLI: a premise against the hypotheses that it entails and all others.

Liao, 2021, "Sentence Embeddings using Supervised Contrastive Learning". The contrastive term is Khosla et al.'s,
https://arxiv.org/abs/2004.11362, with premises as anchors and hypotheses as positives and negatives. Augment is its
baseline, Table 2: 3p3n- and allpalln-Augment.
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
from contrastcli.objectives.rows import CONTRADICTION, Rows
from contrastcli.objectives.similarity import cosines, from_cosine
from contrastcli.settings.losses import Augment, SupCon


def heads(width: int) -> nn.ModuleDict:
    """The pair classifier of the released code: two linear layers with biases and nothing between them."""
    hidden = 3 * width // 2
    layers = nn.Sequential(fresh_linear(3 * width, hidden, bias=True), fresh_linear(hidden, 3, bias=True))
    return nn.ModuleDict({"classifier": layers})


def supcon(views: Views, rows: Rows, heads: nn.ModuleDict, settings: SupCon) -> Result:
    """(1 − λ) · CE(f([u, v, |u − v|]), label) + λ · SCL.

    Views: anchor (premise) and positive (hypothesis), (N, d), with labels of three classes. SCL averages over the
    entailed rows' premises x  −1/|P| Σ_p log( e^(x·p/τ) / Σ_(k in P and N) e^(x·k/τ) ):  P are the batch's hypotheses
    that this premise entails, N all others. Without an entailed row it is 0. `positives` and `negatives` limit |P| and
    |N| (0: no limit), which are drawn in each step without replacement from torch's global CPU generator. Without
    `normalize` the products are dot products; with it they are similarities, with the margin for every member of P,
    in numerator and denominator. For `padded_length` see `shortened`.
    Parts: contrast (SCL) and classification.
    """
    similarity, tau = settings.chosen_similarity, settings.tau
    views = shortened(views, rows) if settings.padded_length else views
    premises, hypotheses = views["anchor"], views["positive"]
    logits = heads["classifier"](pair_features(premises, hypotheses))
    cross_entropy = nn.functional.cross_entropy(logits, to_device(rows.labels(), logits.device))

    anchors = to_device(rows.entailed(), premises.device)
    positive, negative = neighbours(rows.to(premises.device), anchors, settings)

    def term(i: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """The contrast of each anchor: (n,) of the A anchors, two (N, d) → (n,)."""
        if settings.normalize:
            cosine = cosines(u[anchors[i]], v)
            with_margin = from_cosine(cosine, similarity, settings.margin)
            logits = torch.where(positive[i], with_margin, from_cosine(cosine, similarity)) / tau
        else:
            logits = u[anchors[i]] @ v.T / tau
        count = positive[i].sum(dim=1)
        mean = torch.where(positive[i], logits, 0).sum(dim=1) / count
        against = mask_logits(logits, negative[i]).logsumexp(dim=1)
        among = mask_logits(logits, positive[i] | negative[i]).logsumexp(dim=1)
        # Of one positive, `discrimination` keeps the digits that the difference would cancel.
        return torch.where(count == 1, discrimination(mean, against), among - mean)

    contrast = mean_over(torch.arange(len(anchors), device=anchors.device), term, premises, hypotheses)
    loss = (1 - settings.lambda_) * cross_entropy + settings.lambda_ * contrast
    return loss, {"contrast": contrast, "classification": cross_entropy}


def augment(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Augment) -> Result:
    """CE(f([u, v, |u − v|]), label), mean over the batch's rows and the pairs that SCL would contrast.

    Views, heads and settings as in `supcon`. The labels of the further pairs are unpublished: here a
    hypothesis of the same premise keeps its gold label, and every other contradicts. Parts: classification.
    """
    views = shortened(views, rows) if settings.padded_length else views
    device = views["anchor"].device
    gold, ids = rows.labels(), rows.ids["anchor"]
    anchors = rows.entailed()
    positive, negative = neighbours(rows, anchors, settings)
    anchor, further = (positive | negative).nonzero(as_tuple=True)
    premises = anchors[anchor]
    labels = torch.where(ids[premises] == ids[further], gold[further], CONTRADICTION)
    all_rows = torch.arange(len(gold), device=gold.device)
    premise = to_device(torch.cat([all_rows, premises]), device)  # (R,) pairs
    hypothesis = to_device(torch.cat([all_rows, further]), device)
    label = to_device(torch.cat([gold, labels]), device)

    def term(i: Tensor, u: Tensor, v: Tensor) -> Tensor:
        """The cross-entropy of each pair: (n,) of the R pairs, two (N, d) → (n,)."""
        logits = heads["classifier"](pair_features(u[premise[i]], v[hypothesis[i]]))
        return nn.functional.cross_entropy(logits, label[i], reduction="none")

    pairs = torch.arange(len(label), device=device)
    loss = mean_over(pairs, term, views["anchor"], views["positive"])
    return loss, {"classification": loss}


def shortened(views: Views, rows: Rows) -> dict[str, Tensor]:
    """The views as the released code pools them: means over the longest text of the view in the batch, without CLS.

    It divides the sum over a text's own n tokens by those T of the longest, padding included, so that of pooling by
    mean-no-cls its vectors are (n − 1)/(T − 1).
    """
    scaled = {}
    for name, view in views.items():
        tokens = (to_device(rows.lengths[name], view.device) - 1).to(view.dtype)
        scaled[name] = view * (tokens / tokens.max().clamp_min(1))[:, None]
    return scaled


def neighbours(rows: Rows, anchors: Tensor, settings: SupCon | Augment) -> tuple[Tensor, Tensor]:
    """Masks of the hypotheses that are positives and negatives of each anchor's premise: (A,) → two (A, N) bool.

    At most `positives` and `negatives` of them, drawn without replacement; 0 takes all.
    """
    premise, hypothesis = rows.ids["anchor"], rows.ids["positive"]
    entailed = torch.zeros_like(premise, dtype=torch.bool).index_fill(0, anchors, True)
    positive = (premise[anchors, None] == premise) & entailed
    as_positive = positive.float() @ rows.left_out(hypothesis, hypothesis).float() > 0
    negative = ~positive & ~as_positive & ~rows.left_out(premise[anchors], hypothesis)
    return _draw(positive, settings.positives), _draw(negative, settings.negatives)


def _draw(members: Tensor, count: int) -> Tensor:
    """At most `count` of each row's members (0: all): (A, N) bool → (A, N)."""
    if count == 0 or not len(members):
        return members
    order = to_device(torch.stack([torch.randperm(members.shape[1]) for _ in members]), members.device)
    shuffled = members.gather(1, order)
    return torch.zeros_like(members).scatter(1, order, shuffled & (shuffled.cumsum(dim=1) <= count))
