"""Violated anchors, whose hardest negative is closer than their positive: again and again, it often is a false one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from contrastcli.data.batching import Corpus, Indices
from contrastcli.model.devices import on_cpu_if_full
from contrastcli.model.metrics import Floats
from contrastcli.objectives.functional import BLOCK, to_device
from contrastcli.objectives.rows import Rows, candidates
from contrastcli.runs.measured import Violated, ViolatedAnchor
from contrastcli.runs.text import LENGTH, excerpt
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext
from contrastcli.training.batch import Batch

LEAST, MOST = 3, 20
"""Violations from which on an anchor is told, and the anchors of an evaluation, at most."""
ANCHORS, LAST = 1_000, 8
"""The anchors, those violated most, of which the texts and so many of the last angles are kept."""


@torch.no_grad()
def hardest_negatives(views: Mapping[str, Tensor], rows: Rows) -> tuple[Tensor, Tensor]:
    """A batch's anchors, positives and hardest negatives as texts (P, 3), and the cosines to both (P, 2), −1 to none.

    On the device, without waiting for it, by a matrix product and some twenty operations. What is an anchor and a
    negative is as in `angles.measure`.
    """
    device, columns, count = views["anchor"].device, candidates(views), len(views["anchor"])
    anchors = to_device(rows.positives().nonzero().squeeze(1), device)
    rows = replace(rows, mask_duplicates=True, lengths={}).to(device)
    vectors = nn.functional.normalize(torch.cat([views[name].float() for name in ("anchor", *columns)]), dim=1)
    found = []
    for block in torch.split(anchors, BLOCK):
        cosine = vectors[block] @ vectors[count:].T
        found.append(cosine.masked_fill(~rows.negatives(block, columns), -1).max(dim=1))
    closest, hardest = (torch.cat(parts) for parts in zip(*found, strict=True))
    positives = (vectors[:count] * vectors[count : 2 * count]).sum(dim=1)[anchors]
    negatives = torch.cat([rows.ids[name] for name in columns])[hardest]
    texts = torch.stack([rows.ids["anchor"][anchors], rows.ids["positive"][anchors], negatives], dim=1)
    return texts, torch.stack([positives, closest], dim=1)


class Violations(Auxiliary):
    """Counts how often each anchor of a corpus is violated; an evaluation tells which were since the one before."""

    name = "violations"

    def __init__(self, corpus: Corpus) -> None:
        self._all = corpus.texts
        self._steps: list[tuple[int, Tensor, Tensor]] = []
        """Those that are not counted yet."""
        self.times = np.zeros(len(corpus.texts), np.int32)
        self.texts = np.full((ANCHORS, 3), -1)
        """Anchors, −1 for none, their positives, and their last negatives."""
        self.angles = np.zeros((ANCHORS, LAST, 2), np.float32)
        """To positive and negative, 0 where there was no violation yet."""
        self.last = np.zeros(ANCHORS, np.int64)
        """The step of the last violation."""
        named = {"times": self.times, "texts": self.texts, "angles": self.angles, "last": self.last}
        self.state = {f"violations_{name}": torch.from_numpy(array) for name, array in named.items()}

    def load(self, context: AuxiliaryContext) -> None:
        self._session, self._every = context.session, context.config.dev.every

    def after_step(self, batch: Batch, views: Mapping[str, Tensor]) -> None:
        if self._session.world.is_main:
            found = on_cpu_if_full(partial(hardest_negatives, rows=batch.rows), views)
            self._steps.append((batch.step, *found))

    def settle(self) -> None:
        for step, texts, cosines in self._steps:
            self._count(step, texts.cpu().numpy(), np.degrees(np.arccos(cosines.cpu().clamp(-1, 1).numpy())))
        self._steps.clear()

    def _count(self, step: int, texts: Indices, angles: Floats) -> None:
        """Count the violations of a step, given its texts (P, 3) and the angles to both in degrees (P, 2).

        Each by itself, so that it does not matter when they are counted.
        """
        is_violated = angles[:, 1] < angles[:, 0]
        texts, angles, least = texts[is_violated], angles[is_violated], self._kept_times.min()
        np.add.at(self.times, texts[:, 0], 1)
        # Most anchors of a large corpus are violated no more often than those that are kept.
        for row in np.flatnonzero(self.times[texts[:, 0]] > least):
            place = np.append(np.flatnonzero(self.texts[:, 0] == texts[row, 0]), self._kept_times.argmin())[0]
            if self.texts[place, 0] != texts[row, 0]:
                if self.times[texts[row, 0]] <= self._kept_times[place]:
                    continue
                self.angles[place] = 0
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
            self._session.emit(Violated(step=step, anchors=anchors, total=int((self.times >= LEAST).sum())))

    def _anchor(self, place: int, times: int) -> ViolatedAnchor:
        anchor, positive, negative = (excerpt(self._all[text], LENGTH) for text in self.texts[place])
        angles = [(round(a, 2), round(b, 2)) for a, b in self.angles[place].tolist() if a]
        return ViolatedAnchor(anchor=anchor, positive=positive, negative=negative, times=times, angles=angles)
