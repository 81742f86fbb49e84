"""What a batch looks like in degrees: the angles between anchors, their positives and their negatives."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from contrastcli.events import HISTOGRAM_BINS, Angles
from contrastcli.objectives.rows import ENTAILMENT, Rows
from contrastcli.objectives.similarity import degrees, unit


@torch.no_grad()
def measure(step: int, views: Mapping[str, Tensor], rows: Rows, margin_deg: float) -> Angles:
    """Angles of a batch, as SimACE's Figures 4, 5, 7 and 8 draw them.

    Of labelled pairs, entailed ones are positives. An anchor's negatives are the second sentences of the other rows,
    but for those that it entails, and the hard negatives; texts equal to the anchor or to its positive are none,
    whatever the loss does with them. `hardest` is the mean over anchors of the smallest negative angle.
    """
    pairs = degrees(views["anchor"], views["positive"]).cpu()  # (N,)
    is_anchor = _entailed(rows, len(pairs))
    positive = pairs[is_anchor]  # (P,)
    angle, is_negative = _negatives(views, rows)  # (N, M) both
    angle, is_negative = angle[is_anchor], is_negative[is_anchor]
    hardest = angle.masked_fill(~is_negative, torch.inf).amin(dim=1)  # (P,)
    beaten = positive + margin_deg < hardest
    return Angles(
        step=step,
        positive=_mean(positive),
        negative=_mean(angle[is_negative]),
        hardest=_mean(hardest[hardest.isfinite()]),
        satisfied=_mean(beaten.float()),
        positive_histogram=_histogram(positive),
        negative_histogram=_histogram(angle[is_negative]),
    )


def _entailed(rows: Rows, count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool) if rows.label is None else rows.label.cpu() == ENTAILMENT


def _negatives(views: Mapping[str, Tensor], rows: Rows) -> tuple[Tensor, Tensor]:
    """Angles (N, M) of every anchor to every other sentence of a column, and whether it is a negative."""
    columns = [name for name in ("positive", "negative") if name in views]
    ids = {name: texts.cpu() for name, texts in rows.ids.items()}
    others = torch.cat([ids[name] for name in columns])  # (M,)
    anchors, positives = ids["anchor"][:, None], ids["positive"][:, None]
    allowed = (others != anchors) & (others != positives)  # (N, M)
    if rows.label is not None:
        allowed &= ~((anchors == ids["anchor"]) & (rows.label.cpu() == ENTAILMENT))
    cosine = unit(views["anchor"]) @ torch.cat([unit(views[name]) for name in columns]).T
    return torch.rad2deg(torch.arccos(cosine.clamp(-1, 1))).cpu(), allowed


def _mean(values: Tensor) -> float | None:
    return round(float(values.mean()), 4) if len(values) else None


def _histogram(angles: Tensor) -> list[int]:
    return torch.histc(angles.float().cpu(), HISTOGRAM_BINS, 0, 180).int().tolist()
