"""Distillation: a teacher's scores of a row's positive and hard negatives, or its embeddings.

Margin-MSE: Hofstätter et al., 2020, https://arxiv.org/abs/2010.02666. KL: Ren et al., 2021 (RocketQAv2),
https://arxiv.org/abs/2110.07367. Embeddings: Reimers and Gurevych, 2020, https://arxiv.org/abs/2004.09813.
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import Result, Views, to_device
from contrastcli.objectives.pcl import divergence
from contrastcli.objectives.rows import Rows, candidates
from contrastcli.objectives.similarity import paired, unit
from contrastcli.settings.losses import Embed, Taught


def margin_mse(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Taught) -> Result:
    """The mean over rows i and their negatives n of ((s(a_i, p_i) − s(a_i, n))/τ − (t(a_i, p_i) − t(a_i, n))/τ2)².

    Views: anchor, positive, negative, negative_2 …, (N, d); t are the rows' scores. As published s are products of
    embeddings of any length, and τ and τ2 are 1. No heads. Parts: regression.
    """
    student, teacher = (logits[:, :1] - logits[:, 1:] for logits in _logits(views, rows, settings))  # (N, C − 1)
    loss = (student - teacher).square().mean()
    return loss, {"regression": loss}


def kl(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Taught) -> Result:
    """mean_i KL(softmax_c t(a_i, c)/τ2 ‖ softmax_c s(a_i, c)/τ) over each row's candidates c.

    Views and scores as in `margin_mse`; candidates are positive and negatives. No heads. Parts: divergence.
    """
    student, teacher = _logits(views, rows, settings)
    loss = divergence(teacher.log_softmax(dim=1), student.log_softmax(dim=1)).mean()
    return loss, {"divergence": loss}


def embed(views: Views, rows: Rows, heads: nn.ModuleDict, settings: Embed) -> Result:
    """mean_i ‖u_i − v_i‖² = 2 − 2 cos(u_i, v_i), of unit embeddings u of the student and v of a teacher.

    Views: anchor, (N, d), and teacher_anchor, (N, d') with d' ≥ d, of which the first d numbers count. No heads. Parts:
    distance.
    """
    student, teacher = views["anchor"], views["teacher_anchor"]
    loss = (unit(student) - unit(teacher[:, : student.shape[1]])).square().sum(dim=1).mean()
    return loss, {"distance": loss}


def _logits(views: Views, rows: Rows, settings: Taught) -> tuple[Tensor, Tensor]:
    """The student's and the teacher's logits of each row's candidates: (N, C) each."""
    anchor, similarity = views["anchor"], settings.chosen_similarity
    s = torch.stack([paired(anchor, views[name], similarity) for name in candidates(views)], dim=1)
    t = to_device(rows.candidate_scores(), s.device).to(s.dtype)
    return s / settings.tau, t / settings.teacher_tau
