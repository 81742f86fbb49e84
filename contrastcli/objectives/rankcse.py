"""RankCSE: InfoNCE, consistent rankings of two dropout copies, and the ranking of a teacher.

Liu et al., 2023 (RankCSE); SimACE, Eq. 13 and 14. Each row ranks the batch by a list of similarities: its anchor to all
positives, and its positive to all anchors.
"""

import math

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, Views, mask_logits, mean_over
from contrastcli.objectives.infonce import contrast
from contrastcli.objectives.pcl import divergence
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import cosines, pairwise
from contrastcli.settings.losses import RankCSE


def rankcse(views: Views, rows: Rows, heads: nn.ModuleDict, settings: RankCSE) -> Result:
    """InfoNCE + β · consistency + γ · distillation, each a mean over the rows.

    Views: anchor and positive, (N, d), and, unless γ is 0, a teacher's of the same texts: teacher_anchor and
    teacher_positive, (N, d'). The margin, in the unit of `similarity`, is InfoNCE's; a teacher's list is of cosines.
    Texts that InfoNCE leaves out of a row's negatives are left out of its lists. No heads.
    Parts: contrast, consistency and, unless γ is 0, distillation.
    """
    loss = contrast(views, rows, settings.in_batch())
    parts = {"contrast": loss}
    similarity, tau = settings.chosen_similarity, settings.tau
    rows = rows.to(loss.device)
    all_rows = torch.arange(len(views["anchor"]), device=loss.device)

    def consistency(i: Tensor, anchor: Tensor, positive: Tensor) -> Tensor:
        """How much each row's two lists differ: (n,), two (N, d) → (n,)."""
        valid = _candidates(rows, i)
        forward = pairwise(anchor[i], positive, similarity) / tau
        backward = pairwise(positive[i], anchor, similarity) / tau
        return jensen_shannon(mask_logits(forward, valid), mask_logits(backward, valid))

    def distance(i: Tensor, anchor: Tensor, positive: Tensor) -> Tensor:
        """How far each row's list is from the teacher's: (n,), two (N, d) → (n,)."""
        student = pairwise(anchor[i], positive, similarity) / tau
        teacher = cosines(views["teacher_anchor"][i], views["teacher_positive"])
        valid = _candidates(rows, i)
        if settings.distillation == "listmle":
            return listmle(student, teacher, valid)
        return listnet(student, teacher / settings.teacher_tau, valid & (all_rows != i[:, None]))

    terms = {"consistency": (settings.beta, consistency)}
    if settings.gamma:
        terms["distillation"] = (settings.gamma, distance)
    for name, (weight, term) in terms.items():
        parts[name] = mean_over(all_rows, term, views["anchor"], views["positive"])
        loss = loss + weight * parts[name]
    return loss, parts


def jensen_shannon(a: Tensor, b: Tensor) -> Tensor:
    """The Jensen-Shannon divergence of the softmaxes of two lists of logits, 0 to log 2: two (n, N) → (n,)."""
    log_p, log_q = a.log_softmax(dim=1), b.log_softmax(dim=1)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return (divergence(log_p, log_m) + divergence(log_q, log_m)) / 2


def listnet(student: Tensor, teacher: Tensor, valid: Tensor) -> Tensor:
    """−Σ_j P_j log Q_j of the softmaxes of a teacher's and a student's valid logits: three (n, N) → (n,).

    Without a valid logit it is 0.
    """
    target = mask_logits(teacher, valid).softmax(dim=1) * valid
    return -(target * mask_logits(student, valid).log_softmax(dim=1)).sum(dim=1)


def listmle(student: Tensor, teacher: Tensor, valid: Tensor) -> Tensor:
    """−log P of the teacher's order of the valid columns, under a student's logits: three (n, N) → (n,).

    Plackett-Luce: each place in turn is drawn by softmax from the columns left; the mean over the places. Columns that
    the teacher ranks equal stay in their order, and masked ones come last.
    """
    order = mask_logits(teacher, valid).argsort(dim=1, descending=True, stable=True)
    ordered = mask_logits(student, valid).gather(1, order)
    left = ordered.flip(1).logcumsumexp(dim=1).flip(1)
    counted = valid.gather(1, order)
    return ((left - ordered) * counted).sum(dim=1) / counted.sum(dim=1).clamp_min(1)


def _candidates(rows: Rows, i: Tensor) -> Tensor:
    """A mask of the rows in the lists of rows i, which include themselves: (n,) → (n, N) bool."""
    others = rows.negatives(i, ["anchor"]) & rows.negatives(i, ["positive"])
    return others | (torch.arange(others.shape[1], device=others.device) == i[:, None])
