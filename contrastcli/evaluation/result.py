"""What a suite is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from contrastcli.model.encoder import SentenceEncoder

Floats = NDArray[np.floating]

Encode = Callable[[list[str]], Floats]
"""N texts in, their embeddings (N, d) out, float32."""

OnProgress = Callable[[str, int, int], None]
"""Gets the name of some work, how much of it is done, and how much there is."""

TaskScores = dict[str, Any]
"""The scores of one task, ready for JSON: × 100, None for what is not a number.

`partial`, where it is there, tells whether the rows are other than the published ones.
"""


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
    """How to measure: where the data are, which tasks (none: those that a suite always measures), where files go.

    `fresh` computes again what the cache knows.
    """

    data_dir: Path | None = None
    tasks: tuple[str, ...] = ()
    out: Path | None = None
    fresh: bool = False
    on_progress: OnProgress = lambda what, done, total: None


@dataclass(frozen=True)
class SkippedTask:
    """A task that was not measured since its data are absent or malformed: what is wrong, and how to get them."""

    task: str
    what: str
    hint: str


@dataclass(frozen=True)
class SuiteResult:
    """What a suite has measured.

    `protocol` says in words what was done. `averages` are None unless all their tasks are there and complete.
    `partial`: whether something keeps the result from comparing with published ones.
    """

    suite: str
    protocol: str
    tasks: Mapping[str, TaskScores]
    averages: Mapping[str, float | None]
    missing: tuple[SkippedTask, ...] = ()
    partial: bool = False

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it: a key for each task and average, and what makes them comparable."""
        return {
            **self.tasks,
            **self.averages,
            "partial": self.partial,
            "missing": {skipped.task: {"what": skipped.what, "hint": skipped.hint} for skipped in self.missing},
            "protocol": self.protocol,
        }


@dataclass(frozen=True)
class Scores:
    """What was measured of a model, suite by suite."""

    model: str
    results: tuple[SuiteResult, ...]

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it."""
        return {"model": self.model, "suites": {result.suite: result.to_json() for result in self.results}}
