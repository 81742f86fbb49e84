"""What every suite is given, and what it gives back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from contrastcli.model.encoder import SentenceEncoder

Floats = NDArray[np.floating]
T = TypeVar("T", bound=str)

Encode = Callable[[list[str]], Floats]
"""N texts in, their embeddings (N, d) out, float32."""

OnProgress = Callable[[str, int, int], None]
"""Gets what goes on, in words, how much of it is done, and how much there is."""


@dataclass(frozen=True)
class Subject:
    """What is measured: something that makes vectors of texts.

    `pooling` says in a word how, and `fingerprint` is equal only for subjects whose vectors are. `encoder` is the model
    itself; word vectors have none.
    """

    name: str
    encode: Encode
    pooling: str
    fingerprint: str
    encoder: SentenceEncoder | None = None

    @contextmanager
    def truncated(self, tokens: int) -> Iterator[None]:
        """In the body a text is read up to so many tokens. Word vectors read all of it."""
        if self.encoder is None:
            yield
            return
        longest = self.encoder.max_length
        self.encoder.max_length = min(tokens, longest)
        try:
            yield
        finally:
            self.encoder.max_length = longest


@dataclass(frozen=True)
class Options:
    """How to measure: where the data are, which tasks (none: all of a suite), where files go that a suite writes.

    `fresh` computes again what the cache knows.
    """

    data_dir: Path | None = None
    tasks: tuple[str, ...] = ()
    out: Path | None = None
    fresh: bool = False
    on_progress: OnProgress = lambda what, done, total: None

    def below(self, folder: Path | None) -> Options:
        """The same with another folder to write to."""
        return replace(self, out=folder)

    def chosen(self, known: Sequence[T]) -> list[T]:
        """Those tasks of a suite that are asked for, in the suite's order."""
        return [task for task in known if not self.tasks or task in self.tasks]


@dataclass(frozen=True)
class Gap:
    """A task that was not measured since its data are absent or malformed: what is wrong, and how to get them."""

    task: str
    what: str
    hint: str


@dataclass(frozen=True)
class SuiteResult:
    """What a suite has measured.

    `tasks` is ready for JSON: scores × 100, None for what is not a number, and "partial" where the rows are not the
    published ones. `protocol` says in words what was done. `columns` and `rows` are the same as a table of text, a row
    a task, named in its first cell, those that are missing and the averages included. `partial`: whether something
    keeps the averages from comparing with published ones.
    """

    suite: str
    protocol: str
    tasks: Mapping[str, Mapping[str, Any]]
    averages: Mapping[str, float | None]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    missing: tuple[Gap, ...] = ()
    partial: bool = False

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it: a key for each task and average, and what makes them comparable."""
        return {
            **self.tasks,
            **self.averages,
            "partial": self.partial,
            "missing": {gap.task: {"what": gap.what, "hint": gap.hint} for gap in self.missing},
            "protocol": self.protocol,
        }


def complete(tasks: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> bool:
    """Whether all these tasks are there, each with the published rows."""
    return all(name in tasks and not tasks[name]["partial"] for name in names)


def average(tasks: Mapping[str, Mapping[str, Any]], names: Sequence[str], key: str) -> float | None:
    """Mean of a score over tasks; None unless all are there and complete."""
    return mean([tasks[name][key] for name in names]) if complete(tasks, names) else None


def finite(value: float) -> float | None:
    """The number as JSON can hold it."""
    return float(value) if math.isfinite(value) else None


def mean(values: Sequence[float | None]) -> float | None:
    """Their mean; None unless all are numbers and there are any."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def two(value: float | None) -> str:
    """Two decimals, a dash for what is not a number."""
    return "–" if value is None else f"{value:.2f}"


def counted(count: int, expected: int) -> str:
    """How many rows there are; of how many, where that differs from the published count."""
    return str(count) if count == expected else f"{count} of {expected}, partial"
