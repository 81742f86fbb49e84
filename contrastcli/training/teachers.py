"""Teachers: models whose view of the sentences an objective distils. They run once a sentence and are not trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor

from contrastcli.errors import UsageError
from contrastcli.model.cache import cached_vectors
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import resolve
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import unit
from contrastcli.settings.sections import Pooling
from contrastcli.training.auxiliary import Auxiliary, Context


@dataclass(frozen=True)
class Teacher:
    """A model by its name (a folder, a run or a hub name), its share among the teachers, and a pooling of ours."""

    name: str
    weight: float
    pooling: Pooling | None

    def __str__(self) -> str:
        """As `read_teachers` reads it."""
        return f"{self.name}{f':{self.pooling}' if self.pooling else ''}={self.weight}"


def read_teachers(words: str) -> list[Teacher]:
    """The teachers of a list of `NAME[:POOLING][=WEIGHT]` with commas between. Raises UsageError."""
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


class Teachers(Auxiliary):
    """What teachers make of a corpus' distinct texts, as views of a batch."""

    name = "teachers"

    def __init__(self, teachers: str) -> None:
        """Raises UsageError where the words name no teachers."""
        self.teachers = read_teachers(teachers)
        self.models = tuple(teacher.name for teacher in self.teachers)

    def load(self, context: Context) -> None:
        """Encode the texts, by each teacher in turn with its own tokenizer, pooling contract and length.

        The vectors, (T, d_k) of each, are mapped from the cache. Raises DataError.
        """
        self.vectors = []
        for teacher in self.teachers:
            encoder = load_encoder(resolve(teacher.name).folder(), teacher.pooling).to(context.encoder.device)
            progress = context.progress("encoding by a teacher")
            self.vectors.append(cached_vectors(encoder, context.texts, progress))

    def with_models(self, path: Callable[[str], str]) -> dict[str, str]:
        """The setting `teachers` with other names, where they differ."""
        teachers = [replace(teacher, name=path(teacher.name)) for teacher in self.teachers]
        return {} if teachers == self.teachers else {"teachers": ",".join(map(str, teachers))}

    def views(self, rows: Rows, device: torch.device) -> dict[str, Tensor]:
        """The views `teacher` and `teacher_positive` of a batch, (N, Σ d_k), whose cosines are the teachers' weighted
        mean.

        Each teacher's unit vectors, scaled by the root of its share, stand next to the others'.
        """
        return {
            "teacher": self._view(rows.ids["anchor"], device),
            "teacher_positive": self._view(rows.ids["positive"], device),
        }

    def _view(self, texts: Tensor, device: torch.device) -> Tensor:
        total = sum(teacher.weight for teacher in self.teachers)
        parts = [
            (teacher.weight / total) ** 0.5 * unit(torch.from_numpy(np.asarray(vectors[texts.numpy()])).to(device))
            for teacher, vectors in zip(self.teachers, self.vectors, strict=True)
        ]
        return torch.cat(parts, dim=1)  # (N, Σ d_k)
