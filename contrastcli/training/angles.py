"""A batch in degrees: the angles between anchors, their positives and their negatives."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import torch
from msgspec import structs
from torch import Tensor

from contrastcli.model.devices import on_cpu_if_full
from contrastcli.model.metrics import degrees, histogram
from contrastcli.model.workers import one_thread
from contrastcli.objectives.functional import BLOCK
from contrastcli.objectives.rows import Rows, candidates
from contrastcli.objectives.similarity import cosines
from contrastcli.runs.measured import HISTOGRAM_BINS, Angles, HardNegative
from contrastcli.runs.text import LENGTH, excerpt
from contrastcli.settings.config import Config
from contrastcli.settings.objective import all_other_texts, no_negatives
from contrastcli.settings.similarity import Similarity
from contrastcli.training.batch import Batch
from contrastcli.training.plan import Plan

TEXTS = 5
"""Hardest negatives of a batch that are shown as texts, at most."""
ALONE = 512
"""Anchors up to which several threads take longer than one."""
BATCHES = 200
"""Batches of a run, about, of which they are shown, so that its events stay few bytes."""


@dataclass(frozen=True)
class Scale:
    """How the objective compares: its margin with that one's unit, and its similarity, if it contrasts by one."""

    margin: float = 0.0
    unit: str = "degrees"
    similarity: Similarity | None = None
    tau: float = 1.0
    same_side: bool = False
    """Whether the other anchors are negatives too."""

    @classmethod
    def of(cls, config: Config) -> "Scale":
        settings, spec = config.objective, config.spec
        values = {name: value for name, value in settings.arguments().items() if name not in settings.inactive()}
        bounds = settings.bounds().get("margin")
        margin = (float(values["margin"]), bounds.unit) if bounds and "margin" in values else (0.0, "degrees")
        same_side = bool(values.get("same_side")) or spec.negatives is all_other_texts
        is_contrast = "tau" in values and spec.negatives is not no_negatives
        return cls(*margin, values.get("similarity") if is_contrast else None, values.get("tau", 1.0), same_side)

    def shifted(self, positive: Tensor) -> Tensor:
        """What a negative's angle must exceed: that of a positive and the margin, all in degrees."""
        if not self.margin or self.unit == "degrees":
            return (positive + self.margin).clamp(0, 180)
        cosine = torch.cos(torch.deg2rad(positive))
        if self.unit == "cosine":
            return torch.rad2deg(torch.arccos((cosine - self.margin).clamp(-1, 1)))
        distance = ((2 - 2 * cosine).clamp_min(0).sqrt() + self.margin).clamp(0, 2)
        return torch.rad2deg(torch.arccos(1 - distance**2 / 2))

    def effective(self, angle: Tensor, is_negative: Tensor) -> Tensor:
        """How many negatives pull at each anchor: e to the entropy of the softmax over them, two (n, M) → (n,)."""
        if self.similarity is None:
            return torch.empty(0)
        angle, is_negative = angle[is_negative.any(dim=1)], is_negative[is_negative.any(dim=1)]
        logits = self.similarity.from_cosine(torch.cos(torch.deg2rad(angle)), 0.0) / self.tau
        shares = logits.masked_fill(~is_negative, -torch.inf).softmax(dim=1)
        entropy: Tensor = torch.special.entr(shares).sum(dim=1)
        return entropy.exp()


def of_batch(plan: Plan, batch: Batch, views: Mapping[str, Tensor], dims: Sequence[int]) -> Angles:
    """The angles of a batch in training, with texts in some batches of a run, and those at some sizes.

    By the CPU where a GPU has no memory left for them.
    """
    with one_thread() if len(batch.rows.ids["anchor"]) <= ALONE else nullcontext():
        return on_cpu_if_full(partial(_of_batch, plan, batch, dims=dims), views)


def _of_batch(plan: Plan, batch: Batch, views: Mapping[str, Tensor], dims: Sequence[int]) -> Angles:
    logged, step, scale = plan.config.train.log_every, batch.step, Scale.of(plan.config)
    every = logged * ceil(plan.steps / (logged * BATCHES))
    texts = plan.corpus.texts if step in (1, plan.steps) or step % every == 0 else ()
    cut = {dim: {name: view[:, :dim] for name, view in views.items()} for dim in dims}
    shorter = {dim: measure(step, shorter_views, batch.rows, scale) for dim, shorter_views in cut.items()}
    numbers = {dim: {name: getattr(one, name) for name in Angles.titles} for dim, one in shorter.items()}
    return structs.replace(measure(step, views, batch.rows, scale, texts), shorter=numbers)


@torch.no_grad()
def measure(step: int, views: Mapping[str, Tensor], rows: Rows, scale: Scale, texts: Sequence[str] = ()) -> Angles:
    """Angles of a batch, as SimACE's Figures 4, 5, 7 and 8 draw them.

    Of labelled pairs, entailed ones are positives, of scored pairs those above 0.8 of the scale. An anchor's negatives
    are the second sentences of the other rows, except its own positives, and the hard negatives; texts equal to the
    anchor or to its positive are never negatives, whatever the loss does with them. `hardest` is the mean over anchors
    of the smallest negative angle. With the `texts` that the rows' ids index, the event tells a few of these negatives.
    """
    # A sentence without a copy is an anchor alone, whose angle to itself says nothing.
    is_paired = "positive" in views
    views, texts_of = ({"positive": by_view["anchor"], **by_view} for by_view in (views, rows.ids))
    rows = replace(rows, ids=texts_of, mask_duplicates=True).to(torch.device("cpu"))
    ids, columns = rows.ids, candidates(views)
    anchors = rows.positives().nonzero().squeeze(1)  # (P,)
    positive = degrees(views["anchor"], views["positive"]).cpu()[anchors]  # (P,)
    total, given, counts, effective = 0.0, 0, torch.zeros(HISTOGRAM_BINS, dtype=torch.float64), [torch.empty(0)]
    hardest, closest = torch.full_like(positive, torch.inf), torch.zeros(len(anchors), dtype=torch.long)
    # In blocks, a batch of any size fits.
    for part, angle, is_negative, is_any in _blocks(views, rows, scale, anchors):
        effective.append(scale.effective(angle, is_any))
        given += int(is_any.sum())
        angle = angle[:, : is_negative.shape[1]]
        hardest[part], closest[part] = angle.masked_fill(~is_negative, torch.inf).min(dim=1)
        total += float(angle[is_negative].double().sum())
        counts += histogram(angle[is_negative])
    count, shifted = float(counts.sum()), scale.shifted(positive)
    negatives = torch.cat([ids[name] for name in columns])[closest]
    compared = positive if is_paired else positive[:0]
    ids_of = torch.stack([ids["anchor"][anchors], negatives, ids["positive"][anchors]], dim=1)  # (P, 3)
    return Angles(
        step=step,
        positive=_mean(compared),
        negative=round(total / count, 4) if count else None,
        hardest=_mean(hardest[hardest.isfinite()]),
        with_margin=_mean(shifted) if scale.margin else None,
        satisfied=_mean((shifted < hardest).float()) if is_paired else None,
        negatives=round(given / len(anchors), 2) if len(anchors) else None,
        effective=_mean(torch.cat(effective)),
        positive_histogram=histogram(compared).int().tolist(),
        negative_histogram=counts.int().tolist(),
        closest=_closest(ids_of, hardest, positive, texts) if texts and is_paired else [],
    )


def _blocks(
    views: Mapping[str, Tensor], rows: Rows, scale: Scale, anchors: Tensor
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """For some of the anchors at a time their angles to all texts (n, M), and which of those are negatives.

    These are (n, L) of the second sentences and hard negatives, which come first, and (n, M) of all.
    """
    columns = candidates(views)
    others = sum(len(views[name]) for name in columns)
    compared = [*columns, "anchor"] if scale.same_side else columns
    everything = torch.cat([views[name] for name in compared])  # (M, d)
    for start in range(0, len(anchors), BLOCK):
        block = anchors[start : start + BLOCK]
        is_negative = rows.negatives(block, compared)
        angle = torch.rad2deg(torch.arccos(cosines(views["anchor"][block], everything).clamp(-1, 1))).cpu()
        yield slice(start, start + BLOCK), angle, is_negative[:, :others], is_negative


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
