"""Augment, a baseline of SupCon: the pairs that it would contrast as further rows of its classification.

Liao, 2021, "Sentence Embeddings using Supervised Contrastive Learning", Table 2: 3p3n- and allpalln-Augment. The labels
of the further rows are unpublished; here a hypothesis of the same premise keeps its gold label, and every other
contradicts.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from contrastcli.objectives.functional import Result, Views, full_precision, mean_over, pair_features
from contrastcli.objectives.rows import CONTRADICTION, Rows
from contrastcli.objectives.supcon import drawn, neighbours


def augment(views: Views, rows: Rows, heads: nn.ModuleDict, *, positives: int, negatives: int) -> Result:
    """CE(f([u, v, |u − v|]), label), mean over the batch's rows and the further ones.

    Views: anchor (premise) and positive (hypothesis), (N, d), with labels of three classes; the heads are SupCon's.
    Each entailed row's premise is paired with the hypotheses that it entails in the batch and with all others;
    `positives` and `negatives` cap either, drawn in each step without replacement from torch's global CPU generator;
    0 takes all. Parts: classification.
    """
    with full_precision(views) as full:
        device = full["anchor"].device
        premise, hypothesis, label = (x.to(device) for x in _pairs(rows, positives, negatives))  # (R,)
        names, weights = zip(*heads["classifier"].named_parameters(), strict=True)

        def term(i: Tensor, u: Tensor, v: Tensor, *weights: Tensor) -> Tensor:  # (n,) of R pairs, two (N, d) → (n,)
            features = pair_features(u[premise[i]], v[hypothesis[i]])  # (n, 3d)
            logits = functional_call(heads["classifier"], dict(zip(names, weights, strict=True)), (features,))  # (n, 3)
            return nn.functional.cross_entropy(logits, label[i], reduction="none")

        pairs = torch.arange(len(label), device=device)
        loss = mean_over(pairs, term, full["anchor"], full["positive"], *weights)
    return loss, {"classification": loss.detach()}


def _pairs(rows: Rows, positives: int, negatives: int) -> tuple[Tensor, Tensor, Tensor]:
    """The R pairs to classify, the batch's rows first: three (R,), premises and hypotheses by row, and labels."""
    gold, premise = rows.labels(), rows.ids["anchor"]
    anchors = rows.entailed()  # (A,)
    positive, negative = neighbours(rows, anchors)  # (A, N)
    further = drawn(positive, positives) | drawn(negative, negatives)
    anchor, hypotheses = further.nonzero(as_tuple=True)
    premises = anchors[anchor]
    labels = torch.where(premise[premises] == premise[hypotheses], gold[hypotheses], CONTRADICTION)
    own = torch.arange(len(gold), device=gold.device)
    return torch.cat([own, premises]), torch.cat([own, hypotheses]), torch.cat([gold, labels])
