"""What the file of a suite consists of: what is measured and how, and the `Procedure` that measures it."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from contrastcli.data.dev_data import DevData
from contrastcli.data.downloads import OnProgress
from contrastcli.errors import DataError
from contrastcli.evaluation.suites import OWN, Suite
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import Floats, require_finite
from contrastcli.settings.sections import Blank, Kind, Precision

Encode = Callable[[list[str], Kind | None], Floats]
"""From N texts, which are of a kind if one is given, to their embeddings (N, d), float32."""

TaskScores = dict[str, Any]
"""The scores of one task, × 100; NaN is None once kept. `partial`: whether its rows differ from the published ones."""


@dataclass(frozen=True)
class Subject:
    """What is measured: a model or word vectors.

    `pooling` describes how texts are pooled. `fingerprint` is equal only for subjects with equal vectors. `encoder` is
    the model, None for word vectors, and `precision` that in which it computes. `prepare` is told of texts to come.
    Texts of one of the `kinds` have other vectors than others.
    """

    name: str
    encode: Encode
    pooling: str
    fingerprint: str
    encoder: SentenceEncoder | None = None
    precision: Precision = "fp32"
    prepare: Callable[[Iterable[str]], None] = lambda texts: None
    kinds: Collection[Kind] = ()

    def vectors(self) -> "Vectors":
        """The embeddings of texts, none of which is encoded yet."""
        return Vectors(self.encode, self.kinds)

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

    `fresh`: measure again even if the scores are in the cache. `files` are the data of the suite `own`, and `columns`,
    `labels`, `metric` and `blank` say what is in them and what to measure.
    """

    data_dir: Path | None = None
    tasks: tuple[str, ...] = ()
    out: Path | None = None
    fresh: bool = False
    on_progress: OnProgress = lambda what, done, total: None
    files: tuple[str, ...] = ()
    columns: str = ""
    labels: str = ""
    metric: str = "auto"
    blank: Blank = "error"

    def names(self, suite: Suite) -> tuple[str, ...]:
        """The tasks of a suite that are asked for by name."""
        return self.files if suite is OWN else self.tasks


D = TypeVar("D")
"""The data of a task. Scores of data with a `fingerprint`, which only equal data share, are cached."""

Find = Callable[[Sequence[str], Options], Mapping[str, Callable[[], D]]]


def by_kind(data: DevData) -> dict[Kind | None, list[str]]:
    """The texts of both columns, joined where they are of one kind."""
    joined: dict[Kind | None, list[str]] = {}
    for kind, texts in zip(data.kinds, data.columns, strict=True):
        joined.setdefault(kind, []).extend(texts)
    return joined


class Vectors:
    """The embeddings of texts, each distinct text encoded once, and once more for each of the `kinds` that it has."""

    def __init__(self, encode: Encode, kinds: Collection[Kind] = ()) -> None:
        self._encode, self._kinds = encode, kinds
        self._known: dict[tuple[str, Kind | None], Floats] = {}

    def __call__(self, texts: Sequence[str], kind: Kind | None = None) -> Floats:
        """(N, d), in the order of the texts. Raises DataError for a model whose vectors are not finite."""
        kind = kind if kind in self._kinds else None
        self.add(texts, kind)
        return np.stack([self._known[text, kind] for text in texts])

    def add(self, texts: Iterable[str], kind: Kind | None = None) -> None:
        """Encode texts in advance in one call, so that those of similar length share a chunk. Raises DataError."""
        if isinstance(texts, str):
            raise TypeError("vectors takes a list of texts, not one text")
        kind = kind if kind in self._kinds else None
        new = [text for text in dict.fromkeys(texts) if (text, kind) not in self._known]
        if new:
            vectors = self._encode(new, kind)
            require_finite(vectors, new, "the model")
            self._known.update({(text, kind): vector for text, vector in zip(new, vectors, strict=True)})


@dataclass(frozen=True)
class SuiteContext:
    """A suite to measure on a subject; `vectors` encodes the texts of a task."""

    suite: Suite
    subject: Subject
    options: Options
    vectors: Vectors


class Unscored(DataError):
    """A task cannot be scored although its data are there; the others are still scored."""


@dataclass(frozen=True)
class Procedure(Generic[D]):
    """How a suite is measured.

    `find` returns a reader of the data of each of some tasks, given the options. It raises DataError if the data of
    all tasks are missing, a reader if those of its task are missing or malformed. `score` measures a task,
    `protocol` describes how in words. `texts` returns the texts of a task by their kind, in a suite that knows them in
    advance; they are encoded together. `sizes` are the numbers of the data by which papers describe them.
    """

    find: Find[D]
    score: Callable[[SuiteContext, str, D], TaskScores]
    protocol: Callable[[SuiteContext, Mapping[str, TaskScores]], str]
    texts: Callable[[D], Mapping[Kind | None, Iterable[str]]] | None = None
    sizes: Callable[[D], Mapping[str, float]] | None = None


def in_folder(root: Callable[[Path | None], Path], read: Callable[[Path, str], D]) -> Find[D]:
    """The `find` of a suite whose sets are in one folder, located by `root` in --data-dir; `read` reads a task's."""

    def find(tasks: Sequence[str], options: Options) -> Mapping[str, Callable[[], D]]:
        folder = root(options.data_dir)
        return {task: partial(read, folder, task) for task in tasks}

    return find


def in_words(protocol: str) -> Callable[[SuiteContext, Mapping[str, TaskScores]], str]:
    """The `protocol` of a suite that is always measured in the same way; the text has a place for the {pooling}."""
    return lambda context, scores: protocol.format(pooling=context.subject.pooling)


def finite(value: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON lacks."""
    return float(value) if math.isfinite(value) else None
