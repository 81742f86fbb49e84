"""What a suite measures and how, and its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrastcli.errors import DataError

if TYPE_CHECKING:
    from contrastcli.model.encoder import SentenceEncoder

Floats = NDArray[np.floating]

Encode = Callable[[list[str]], Floats]
"""From N texts to their embeddings (N, d), float32."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a task, the amount done, and the total."""

TaskScores = dict[str, Any]
"""The scores of one task for JSON: × 100, None for NaN. `partial`: whether its rows differ from the published ones."""


@dataclass(frozen=True)
class Subject:
    """What is measured: a model or word vectors.

    `pooling` describes how texts are pooled. `fingerprint` is equal only for subjects with equal vectors. `encoder` is
    the model, None for word vectors. `prepare` is told of texts to come.
    """

    name: str
    encode: Encode
    pooling: str
    fingerprint: str
    encoder: SentenceEncoder | None = None
    prepare: Callable[[Iterable[str]], None] = lambda texts: None

    @contextmanager
    def truncated(self, tokens: int) -> Iterator[None]:
        """In the body, texts are truncated at this many tokens. This has no effect on word vectors."""
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
    """How to measure: the folder of the data, the tasks (none: all but the optional ones), the folder for results.

    `fresh`: measure again even if the scores are in the cache. `on_task` gets what is measured so far after each task,
    with what `earlier` JSON of the suite has of other tasks.
    """

    data_dir: Path | None = None
    tasks: tuple[str, ...] = ()
    out: Path | None = None
    fresh: bool = False
    on_progress: OnProgress = lambda what, done, total: None
    on_task: Callable[[SuiteResult], None] = lambda result: None
    earlier: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SuiteResult:
    """What a suite has measured.

    `protocol` describes how. `averages` are None unless all their tasks are complete. `missing` says why tasks were
    not measured: their data are missing or malformed. `partial`: whether the result cannot be compared with published
    ones. `pending` are the tasks that are still to be measured. `vectors` is the subject's fingerprint.
    """

    suite: str
    protocol: str
    tasks: Mapping[str, TaskScores]
    averages: Mapping[str, float | None]
    missing: Mapping[str, DataError] = field(default_factory=dict)
    partial: bool = False
    pending: tuple[str, ...] = ()
    vectors: str = ""

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it: a key for each task and average, what is missing, and the protocol."""
        return {
            **self.tasks,
            **self.averages,
            "partial": self.partial,
            "missing": {task: {"what": error.what, "hint": error.hint} for task, error in self.missing.items()},
            **({"pending": self.pending} if self.pending else {}),
            "protocol": self.protocol,
            "vectors": self.vectors,
        }


@dataclass(frozen=True)
class Scores:
    """What was measured of a model, suite by suite."""

    model: str
    results: tuple[SuiteResult, ...]

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it."""
        return {"model": self.model, "suites": {result.suite: result.to_json() for result in self.results}}
