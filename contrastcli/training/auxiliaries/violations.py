"""Violated anchors, whose hardest negative is closer than their positive: again and again, it often is a false one."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from contrastcli.data.batching import Corpus, Indices
from contrastcli.model.metrics import Floats, degrees
from contrastcli.objectives.functional import BLOCK, to_device
from contrastcli.objectives.rows import Rows, candidates
from contrastcli.objectives.similarity import unit
from contrastcli.runs.measured import Violated, ViolatedAnchor
from contrastcli.runs.text import LENGTH, excerpt
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext
from contrastcli.training.batch import Batch

LEAST, MOST = 3, 20
"""Violations from which on an anchor is told, and the anchors of an evaluation, at most."""
ANCHORS, LAST = 1_000, 8
"""The anchors, those violated most, of which the texts and so many of the last angles are kept."""


@torch.no_grad()
def nearest(views: Mapping[str, Tensor], rows: Rows) -> tuple[Tensor, Tensor]:
    """The texts of each anchor, its positive and its hardest negative (P, 3), and the anchor's angles to both (P, 2).

    What is an anchor and a negative is as in `angles.measure`; without a negative its angle is 180°. The device of the
    views is not waited for.
    """
    device, columns = views["anchor"].device, candidates(views)
    anchors = to_device(rows.positives().nonzero().squeeze(1), device)
    is_paired = rows.label is not None or rows.score is not None
    rows = replace(rows.to(device), mask_duplicates=True)
    ids, is_positive = rows.ids["anchor"], rows.positives()
    texts = torch.cat([rows.ids[name] for name in columns])  # (M,)
    others = unit(torch.cat([views[name] for name in columns]))  # (M, d)
    found = []
    for block in torch.split(anchors, BLOCK):
        is_negative = rows.negatives(block, columns)  # (n, M)
        if is_paired:
            is_negative &= ~((ids[block, None] == ids) & is_positive)
        cosine = unit(views["anchor"][block]) @ others.T
        found.append(cosine.masked_fill(~is_negative, -1).max(dim=1))
    cosines, closest = (torch.cat(parts) for parts in zip(*found, strict=True))
    angles = degrees(views["anchor"], views["positive"])[anchors], torch.rad2deg(torch.arccos(cosines.clamp(-1, 1)))
    return torch.stack([ids[anchors], rows.ids["positive"][anchors], texts[closest]], 1), torch.stack(angles, 1)


class Violations(Auxiliary):
    """Counts how often each anchor of a corpus is violated; an evaluation tells which were since the one before."""

    name = "violations"

    def __init__(self, corpus: Corpus) -> None:
        self._all = corpus.texts
        self._steps: list[tuple[int, Tensor, Tensor]] = []
        """What `nearest` found in the steps that are not counted yet."""
        self.times = np.zeros(len(corpus.texts), np.int32)
        self.texts = np.full((ANCHORS, 3), -1)
        """Anchors, −1 for none, their positives, and their last negatives."""
        self.angles = np.full((ANCHORS, LAST, 2), np.nan, np.float32)
        self.last = np.zeros(ANCHORS, np.int64)
        """The step of the last violation."""
        named = {"times": self.times, "texts": self.texts, "angles": self.angles, "last": self.last}
        self.state = {f"violations_{name}": torch.from_numpy(array) for name, array in named.items()}

    def load(self, context: AuxiliaryContext) -> None:
        self._session, self._every = context.session, context.config.dev.every

    def after_step(self, batch: Batch, views: Mapping[str, Tensor]) -> None:
        if self._session.world.is_main:
            self._steps.append((batch.step, *nearest(views, batch.rows)))

    def settle(self) -> None:
        for step, texts, angles in self._steps:
            self._count(step, texts.cpu().numpy(), angles.cpu().numpy())
        self._steps.clear()

    def _count(self, step: int, texts: Indices, angles: Floats) -> None:
        """Count the violations of a step: each by itself, so that it does not matter when they are counted."""
        is_violated = angles[:, 1] < angles[:, 0]
        texts, angles, least = texts[is_violated], angles[is_violated], self._kept_times.min()
        np.add.at(self.times, texts[:, 0], 1)
        # Most anchors of a large corpus are violated no more often than those that are kept.
        for row in np.flatnonzero(self.times[texts[:, 0]] > least):
            place = np.append(np.flatnonzero(self.texts[:, 0] == texts[row, 0]), self._kept_times.argmin())[0]
            if self.texts[place, 0] != texts[row, 0]:
                if self.times[texts[row, 0]] <= self._kept_times[place]:
                    continue
                self.angles[place] = np.nan
            self.texts[place], self.last[place] = texts[row], step
            self.angles[place] = [*self.angles[place, 1:], angles[row]]

    @property
    def _kept_times(self) -> Indices:
        """How often the anchors that are kept were violated, 0 for free places: (ANCHORS,)."""
        return np.where(self.texts[:, 0] < 0, 0, self.times[self.texts[:, 0]])

    def after_evaluation(self, step: int) -> None:
        times, before = self._kept_times, (step - 1) // self._every * self._every
        places = np.flatnonzero((times >= LEAST) & (self.last > before))
        places = places[np.argsort(-times[places], kind="stable")][:MOST]
        if len(places):
            anchors = [self._anchor(place, int(times[place])) for place in places.tolist()]
            self._session.emit(Violated(step=step, anchors=anchors))

    def _anchor(self, place: int, times: int) -> ViolatedAnchor:
        anchor, positive, negative = (excerpt(self._all[text], LENGTH) for text in self.texts[place])
        angles = [(round(a, 2), round(b, 2)) for a, b in self.angles[place].tolist() if not np.isnan(a)]
        return ViolatedAnchor(anchor=anchor, positive=positive, negative=negative, times=times, angles=angles)
