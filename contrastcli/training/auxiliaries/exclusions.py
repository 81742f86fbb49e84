"""Pairs of texts that are no negatives of each other: from a file, and added to a run while it trains."""

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from contrastcli.data.batching import Corpus
from contrastcli.data.sources import open_frame
from contrastcli.errors import DataError
from contrastcli.runs.text import LENGTH, excerpt
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext
from contrastcli.training.batch import Batch

Pairs = list[tuple[str, str]]


def read_pairs(name: str) -> Pairs:
    """The pairs of a file with the columns anchor and negative. Raises DataError."""
    try:
        columns = open_frame(name, "train").columns
        if not {"anchor", "negative"} <= columns.keys():
            raise DataError(f"{name} has no columns anchor and negative", "name them so in its first line")
    except DataError as error:
        error.key = "data.false_negatives"
        raise
    return [(str(a), str(b)) for a, b in zip(columns["anchor"], columns["negative"], strict=True)]


class Exclusions(Auxiliary):
    """Leaves the pairs of data.false_negatives, and those of the run's own file, out of the negatives of its batches.

    The main process looks at that file before each step.
    """

    name = "exclusions"

    def __init__(self, corpus: Corpus, file: str) -> None:
        """Raises DataError where the file cannot be read."""
        self._texts = corpus.texts
        self._given = read_pairs(file) if file else []
        self._added: Pairs = []
        self._seen: object = ()
        self._excluded = np.zeros((0, 2), np.int64)  # of texts, in both orders

    def load(self, context: AuxiliaryContext) -> None:
        self._session, self._file = context.session, context.run.false_negatives_path

    def before_step(self, step: int, settle: Callable[[], None]) -> None:
        world, seen = self._session.world, self._seen
        try:
            stat = os.stat(self._file)
            seen = stat.st_mtime_ns, stat.st_size, stat.st_ino
        except FileNotFoundError:
            seen = None
        # A shared disk that fails for a moment changes nothing.
        except OSError:
            pass
        if world.any(world.is_main and seen != self._seen):
            self._seen = seen
            pairs = world.broadcast(self._read(step - 1) if world.is_main else [])
            self._excluded = np.array(pairs, np.int64).reshape(-1, 2)

    def _read(self, step: int) -> list[tuple[int, int]]:
        """The pairs as numbers of texts, in both orders. Texts are equal whose beginnings are, as events have them."""
        try:
            self._added = read_pairs(str(self._file)) if self._seen else []
        except DataError as error:
            self._session.note(step, f"{error.what}; the pairs that are left out stay the same")
        pairs = [tuple(excerpt(text, LENGTH) for text in pair) for pair in [*self._given, *self._added]]
        wanted, numbers = {text for pair in pairs for text in pair}, defaultdict[str, list[int]](list)
        for number, text in enumerate(self._texts) if pairs else ():
            if (key := excerpt(text, LENGTH)) in wanted:
                numbers[key].append(number)
        found = [(a, b) for first, second in pairs for a in numbers[first] for b in numbers[second]]
        if pairs:
            missing = sum(not (numbers[first] and numbers[second]) for first, second in pairs)
            more = f"; {missing:,} with a text that the data lack" if missing else ""
            self._session.note(step, f"pairs left out of the negatives: {len(pairs) - missing:,}{more}")
        return [*found, *((b, a) for a, b in found)]

    def extend(self, batch: Batch) -> Batch:
        if not len(self._excluded):
            return batch
        present = np.unique(np.concatenate([ids.numpy() for ids in batch.rows.ids.values()]))
        here = self._excluded[np.isin(self._excluded, present).all(axis=1)]
        return replace(batch, rows=replace(batch.rows, excluded=torch.from_numpy(here)))
