"""A batch in degrees: the angles between anchors, their positives and their negatives."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import torch
from msgspec import structs
from torch import Tensor

from contrastcli.model.metrics import degrees, histogram
from contrastcli.objectives.functional import BLOCK
from contrastcli.objectives.rows import Rows, candidates
from contrastcli.objectives.similarity import cosines
from contrastcli.runs.measured import HISTOGRAM_BINS, Angles, HardNegative
from contrastcli.runs.text import excerpt
from contrastcli.settings.config import Config
from contrastcli.training.batch import Batch
from contrastcli.training.plan import Plan

TEXTS, LENGTH = 5, 200
"""Hardest negatives of a batch that are shown as texts, and the characters of each text, at most."""
BATCHES = 200
"""Batches of a run, about, of which they are shown, so that its events stay few bytes."""


def of_batch(plan: Plan, batch: Batch, views: Mapping[str, Tensor], dims: Sequence[int]) -> Angles:
    """The angles of a batch in training, with texts in some batches of a run, and those at some sizes."""
    logged, step, margin = plan.config.train.log_every, batch.step, _margin_deg(plan.config)
    every = logged * ceil(plan.steps / (logged * BATCHES))
    texts = plan.corpus.texts if step in (1, plan.steps) or step % every == 0 else ()
    shorter = {}
    for dim in dims:
        one = measure(step, {name: view[:, :dim] for name, view in views.items()}, batch.rows, margin)
        shorter[dim] = {name: getattr(one, name) for name in Angles.titles}
    return structs.replace(measure(step, views, batch.rows, margin, texts), shorter=shorter)


def _margin_deg(config: Config) -> float:
    """The objective's margin; 0 where it has none, or one in another unit."""
    bounds = config.objective.bounds().get("margin")
    return float(config.flat()["objective.margin"]) if bounds and bounds.unit == "degrees" else 0.0


@torch.no_grad()
def measure(step: int, views: Mapping[str, Tensor], rows: Rows, margin_deg: float, texts: Sequence[str] = ()) -> Angles:
    """Angles of a batch, as SimACE's Figures 4, 5, 7 and 8 draw them.

    Of labelled pairs, entailed ones are positives, of scored pairs those above 0.8 of the scale. An anchor's negatives
    are the second sentences of the other rows, except its own positives, and the hard negatives; texts equal to the
    anchor or to its positive are never negatives, whatever the loss does with them. `hardest` is the mean over anchors
    of the smallest negative angle. With the `texts` that the rows' ids index, the event tells a few of these negatives.
    """
    rows = replace(rows.to(torch.device("cpu")), mask_duplicates=True)
    ids, is_positive = rows.ids["anchor"], rows.positives()
    anchors = is_positive.nonzero().squeeze(1)  # (P,)
    columns = candidates(views)
    others = torch.cat([views[name] for name in columns])  # (M, d)
    positive = degrees(views["anchor"], views["positive"]).cpu()[anchors]  # (P,)
    total, counts = 0.0, torch.zeros(HISTOGRAM_BINS, dtype=torch.float64)
    hardest, closest = torch.full_like(positive, torch.inf), torch.zeros(len(anchors), dtype=torch.long)
    # In blocks, a batch of any size fits.
    for start in range(0, len(anchors), BLOCK):
        block = anchors[start : start + BLOCK]
        is_negative = rows.negatives(block, columns)  # (n, M)
        # Labelled and scored rows have one column of others.
        if not (rows.label is None and rows.score is None):
            is_negative &= ~((ids[block, None] == ids) & is_positive)
        cosine = cosines(views["anchor"][block], others)
        angle = torch.rad2deg(torch.arccos(cosine.clamp(-1, 1))).cpu()
        part = slice(start, start + BLOCK)
        hardest[part], closest[part] = angle.masked_fill(~is_negative, torch.inf).min(dim=1)
        total += float(angle[is_negative].double().sum())
        counts += histogram(angle[is_negative])
    count = float(counts.sum())
    negatives = torch.cat([rows.ids[name] for name in columns])[closest]
    ids_of = torch.stack([ids[anchors], negatives, rows.ids["positive"][anchors]], dim=1)  # (P, 3)
    return Angles(
        step=step,
        positive=_mean(positive),
        negative=round(total / count, 4) if count else None,
        hardest=_mean(hardest[hardest.isfinite()]),
        satisfied=_mean((positive + margin_deg < hardest).float()),
        positive_histogram=histogram(positive).int().tolist(),
        negative_histogram=counts.int().tolist(),
        closest=_closest(ids_of, hardest, positive, texts) if texts else [],
    )


def _closest(ids: Tensor, negative_deg: Tensor, positive_deg: Tensor, texts: Sequence[str]) -> list[HardNegative]:
    """The hardest of the (P, 3) anchors, negatives and positives, with their (P,) angles; each two texts once."""
    chosen: dict[frozenset[int], HardNegative] = {}
    for row in negative_deg.argsort().tolist():
        if len(chosen) == TEXTS or not negative_deg[row].isfinite():
            break
        anchor, negative, positive = ids[row].tolist()
        if (pair := frozenset((anchor, negative))) not in chosen:
            chosen[pair] = HardNegative(
                anchor=excerpt(texts[anchor], LENGTH),
                negative=excerpt(texts[negative], LENGTH),
                positive=excerpt(texts[positive], LENGTH),
                negative_deg=round(float(negative_deg[row]), 2),
                positive_deg=round(float(positive_deg[row]), 2),
            )
    return list(chosen.values())


def _mean(values: Tensor) -> float | None:
    return round(float(values.mean()), 4) if len(values) else None
