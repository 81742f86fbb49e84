"""Teachers: models whose view of the sentences an objective distils. They run once a sentence and are not trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor

from contrastcli.errors import UsageError
from contrastcli.model.cache import Vectors, cached_vectors
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import resolve
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import unit
from contrastcli.settings.catalogue import ObjectiveSettings
from contrastcli.settings.sections import Pooling

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Teacher:
    """A model by its name (a folder, a run or a hub name), its share among the teachers, and a pooling of ours."""

    name: str
    weight: float
    pooling: Pooling | None

    def __str__(self) -> str:
        """As `named_teachers` reads it."""
        return f"{self.name}{f':{self.pooling}' if self.pooling else ''}={self.weight}"


def named_teachers(objective: ObjectiveSettings) -> list[Teacher]:
    """The teachers of an objective that has a setting `teachers`, where the other settings leave it active.

    Raises UsageError where there are none to learn from, or for what is not a list of `NAME[:POOLING][=WEIGHT]`.
    """
    words: str | None = getattr(objective, "teachers", None)
    if words is None or "teachers" in objective.inactive():
        return []
    if not words.strip():
        what = "the objective learns from a teacher, and objective.teachers names none"
        raise UsageError(what, "name one or more models: --teachers FOLDER|RUN|NAME; rankcse with --gamma 0 needs none")
    return [_teacher(word.strip()) for word in words.split(",")]


def _teacher(word: str) -> Teacher:
    named, equals, last = word.rpartition("=")
    name, weight = (named.strip(), _weight(last, word)) if equals else (word, 1.0)
    rest, _, last = name.rpartition(":")
    if last in get_args(Pooling):
        return Teacher(rest, weight, cast(Pooling, last))
    if not name:
        raise UsageError("objective.teachers has an empty name", "write NAME[:POOLING][=WEIGHT], with commas between")
    return Teacher(name, weight, None)


def _weight(text: str, word: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UsageError(f"objective.teachers: '{text}' of '{word}' is no weight", "give a number above 0: NAME=0.33")
    return weight


@dataclass(frozen=True)
class Teachers:
    """What teachers make of a corpus' distinct texts: `vectors` (T, d_k), mapped from the cache, and their shares."""

    vectors: Sequence[Vectors]
    shares: Sequence[float]

    @classmethod
    def of(
        cls, teachers: Sequence[Teacher], texts: Sequence[str], device: torch.device, on_progress: OnProgress
    ) -> Teachers:
        """Load each in turn, with its own tokenizer, pooling contract and length, and encode the texts with it.

        Raises DataError.
        """
        total = sum(teacher.weight for teacher in teachers)
        vectors = []
        for teacher in teachers:
            encoder = load_encoder(resolve(teacher.name).folder(), teacher.pooling).to(device)
            vectors.append(cached_vectors(encoder, texts, on_progress))
        return cls(vectors, [teacher.weight / total for teacher in teachers])

    def views(self, rows: Rows, device: torch.device) -> dict[str, Tensor]:
        """The views `teacher` and `teacher_positive` of a batch, (N, Σ d_k), whose cosines are the teachers' weighted
        mean.

        Each teacher's unit vectors, scaled by the root of its share, stand beside the others'.
        """
        return {
            "teacher": self._view(rows.ids["anchor"], device),
            "teacher_positive": self._view(rows.ids["positive"], device),
        }

    def _view(self, texts: Tensor, device: torch.device) -> Tensor:
        parts = [
            share**0.5 * unit(torch.from_numpy(np.asarray(vectors[texts.numpy()])).to(device))
            for vectors, share in zip(self.vectors, self.shares, strict=True)
        ]
        return torch.cat(parts, dim=1)  # (N, Σ d_k)
