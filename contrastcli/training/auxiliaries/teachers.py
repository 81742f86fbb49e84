"""Teachers: models whose view of the sentences an objective distils. They encode each sentence once, untrained."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast, get_args

import numpy as np
import torch
from torch import Tensor

from contrastcli.data.batching import Indices
from contrastcli.errors import UsageError
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.vectors import cached_vectors
from contrastcli.objectives.functional import to_device
from contrastcli.objectives.infonce import GUIDE
from contrastcli.objectives.rows import Rows
from contrastcli.objectives.similarity import unit
from contrastcli.settings.sections import Pooling
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext

_MOST_PROJECTED = 20_000
"""Texts that a projection is made from."""


@dataclass(frozen=True)
class Teacher:
    """A model by its name (a folder, a run or a hub name), its weight, and a pooling other than its own."""

    name: str
    weight: float
    pooling: Pooling | None

    def __str__(self) -> str:
        return f"{self.name}{f':{self.pooling}' if self.pooling else ''}={self.weight}"


def read_teachers(words: str, setting: str = "teachers", runs_dir: Path = Path()) -> list[Teacher]:
    """The teachers of a list of `NAME[:POOLING][=WEIGHT]` with commas between. Raises UsageError."""
    if not words.strip():
        what = "the objective learns from a teacher, and objective.teachers names none"
        raise UsageError(what, "name one or more models: --teachers FOLDER|RUN|NAME; rankcse with --gamma 0 needs none")
    return [_read_teacher(word.strip(), setting, runs_dir) for word in words.split(",")]


def _read_teacher(word: str, setting: str, runs_dir: Path) -> Teacher:
    # The runs of a sweep are named so: NAME-tau=0.05.
    is_name = "=" not in word or os.path.isdir(os.path.expanduser(word)) or os.path.isdir(runs_dir / word)
    model, _, number = (word, "", "1") if is_name else word.rpartition("=")
    name, pooling = model.strip(), None
    before, colon, last = name.rpartition(":")
    # The name `last` alone is that of the newest run.
    if colon and last in get_args(Pooling):
        name, pooling = before, cast(Pooling, last)
    try:
        weight = float(number)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        what = f"objective.{setting}: '{number}' of '{word}' is not a weight"
        raise UsageError(what, "give a number above 0: NAME=0.33")
    if not name:
        raise UsageError(f"objective.{setting} has an empty name", "write NAME[:POOLING][=WEIGHT], with commas between")
    return Teacher(name, weight, pooling)


def _load(teacher: Teacher) -> SentenceEncoder:
    return load_encoder(resolve(teacher.name).folder(), teacher.pooling)


def with_paths(words: str, setting: str, path: Callable[[str], str], runs_dir: Path) -> str:
    """A list of teachers with what a function makes of each name, of a run there too. Raises UsageError."""
    teachers = read_teachers(words, setting, runs_dir)
    changed = [replace(teacher, name=path(teacher.name)) for teacher in teachers]
    return words if changed == teachers else ",".join(map(str, changed))


class Teachers(Auxiliary):
    """The teachers' embeddings of a corpus' distinct texts, as views of a batch."""

    name = "teachers"
    prefix = "teacher_"
    """Before the names of its views."""

    def __init__(self, teachers: str) -> None:
        """Raises UsageError where the words name no teachers."""
        self.teachers = read_teachers(teachers, self.name)
        self.models = tuple(teacher.name for teacher in self.teachers)

    def load(self, context: AuxiliaryContext) -> None:
        """Encode the texts with each teacher, with its own tokenizer, pooling and length.

        The vectors, (T, d_k) of each, are mapped from the cache. Raises DataError.
        """
        self.vectors = []
        for teacher in self.teachers:
            encoder = _load(teacher).to(context.encoder.device)
            advance = partial(context.session.loading, "encoding by a teacher")
            self.vectors.append(cached_vectors(encoder, context.inputs.read.all_texts, advance))

    def views(self, rows: Rows, device: torch.device) -> dict[str, Tensor]:
        """A view `teacher_anchor`, `teacher_positive` … for each, (N, Σ d_k), with the teachers' weighted mean cosines.

        Each teacher's unit vectors, scaled by the root of its share of all weights, stand next to the others'.
        """
        return {self.prefix + name: self.embeddings(texts.numpy(), device) for name, texts in rows.ids.items()}

    def embeddings(self, texts: Indices, device: torch.device) -> Tensor:
        """What a view has of some texts: (N,) → (N, Σ d_k)."""
        total = sum(teacher.weight for teacher in self.teachers)
        vectors = [to_device(torch.from_numpy(np.asarray(v[texts])), device) for v in self.vectors]
        shares = [(teacher.weight / total) ** 0.5 for teacher in self.teachers]
        return torch.cat([share * unit(v) for share, v in zip(shares, vectors, strict=True)], dim=1)


class Guide(Teachers):
    """Teachers that say which negatives are closer to an anchor than its positive, and so are none (GISTEmbed)."""

    name = "guide"
    prefix = GUIDE


class Targets(Teachers):
    """Teachers whose embeddings a student's are to equal, along as many directions as it has numbers.

    The projection is a part of the checkpoints: another machine would round it in another way.
    """

    def load(self, context: AuxiliaryContext) -> None:
        """Raises UsageError where the student is wider, before any text is encoded."""
        width, given = context.encoder.width, sum(_load(teacher).width for teacher in self.teachers)
        if given < width:
            what = f"the teacher's embeddings have {given} numbers, and the student's {width}"
            raise UsageError(what, "name a wider teacher, or distil its scores: contrast mine --score-with")
        super().load(context)
        if given > width:
            count = len(context.inputs.read.all_texts)
            some = np.arange(0, count, -(-count // _MOST_PROJECTED))
            sample = super().embeddings(some, torch.device("cpu")).double()
            # PCA without subtracting the mean, which would change cosines: products change least. The longest are last.
            directions = torch.linalg.eigh(sample.T @ sample).eigenvectors.flip(1)[:, :width]
            self.state = {"teacher_projection": directions.float().contiguous()}
            context.session.world.broadcast_tensors([*self.state.values()])

    def embeddings(self, texts: Indices, device: torch.device) -> Tensor:
        vectors = super().embeddings(texts, device)
        return vectors @ to_device(self.state["teacher_projection"], device) if self.state else vectors
