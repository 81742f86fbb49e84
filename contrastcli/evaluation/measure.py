"""Measuring a suite: read the data of its tasks, score them or read their scores from the cache, average."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from contrastcli.errors import DataError
from contrastcli.evaluation.result import Encode, Floats, Options, Subject, SuiteResult, TaskScores
from contrastcli.evaluation.suites import Suite, value_at
from contrastcli.files import json_bytes, load_cached, read_json, store_cached

_VERSION = 1  # of the cached scores: raised when a suite changes what it measures


class Data(Protocol):
    """The data of a task."""

    @property
    def fingerprint(self) -> str | None:
        """Equal only for equal data; None if scores of it must not be cached."""


D = TypeVar("D", bound=Data)

Find = Callable[[Sequence[str], Path | None], Mapping[str, Callable[[], D]]]


class Vectors:
    """The embeddings of texts, each distinct text encoded once."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, Floats] = {}

    def __call__(self, texts: Sequence[str]) -> Floats:
        """(N, d), in the order of the texts. Raises DataError for a model whose vectors are not finite."""
        self.add(texts)
        return np.stack([self._known[text] for text in texts])

    def add(self, texts: Iterable[str]) -> None:
        """Encode texts in advance in one call, so that those of similar length share a chunk. Raises DataError."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            vectors = self._encode(new)
            if not np.isfinite(vectors).all():
                what = "the model's vectors are not finite numbers"
                raise DataError(what, "check how its training ended, or use another model")
            self._known.update(zip(new, vectors, strict=True))


@dataclass(frozen=True)
class Context:
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

    `find` returns a reader of the data of each of some tasks, given the folder of --data-dir. It raises DataError if
    the data of all tasks are missing, a reader if those of its task are missing or malformed. `score` measures a task,
    `protocol` describes how in words. `texts` returns the texts of a task, in a suite that knows them in advance; they
    are encoded together. `sizes` are the numbers of the data by which papers describe them.
    """

    find: Find[D]
    score: Callable[[Context, str, D], TaskScores]
    protocol: Callable[[Context, Mapping[str, TaskScores]], str]
    texts: Callable[[D], Iterable[str]] | None = None
    sizes: Callable[[D], Mapping[str, float]] | None = None


def in_folder(root: Callable[[Path | None], Path], read: Callable[[Path, str], D]) -> Find[D]:
    """The `find` of a suite whose sets are in one folder, located by `root` in --data-dir; `read` reads a task's."""

    def find(tasks: Sequence[str], data_dir: Path | None) -> Mapping[str, Callable[[], D]]:
        folder = root(data_dir)
        return {task: partial(read, folder, task) for task in tasks}

    return find


def in_words(protocol: str) -> Callable[[Context, Mapping[str, TaskScores]], str]:
    """The `protocol` of a suite that is always measured in the same way; the text has a place for the {pooling}."""
    return lambda context, scores: protocol.format(pooling=context.subject.pooling)


def measure(suite: Suite, subject: Subject, options: Options) -> SuiteResult:
    """Measure the tasks of a suite, or read their scores from the cache, where each is written once it is measured.

    Tasks whose data are missing or malformed are skipped. Raises DataError for a model whose vectors are not finite,
    and UsageError.
    """
    procedure: Procedure[Any] = resolve_name(suite.procedure or f"{__package__}.{suite.name}:PROCEDURE")
    context, tasks = Context(suite, subject, options, Vectors(subject.encode)), suite.select(options.tasks)
    data: dict[str, Any] = {}
    missing: dict[str, DataError] = {}
    readers: Mapping[str, Callable[[], Any]] = {}
    try:
        readers = procedure.find(tasks, options.data_dir)
    except DataError as error:
        missing = dict.fromkeys(tasks, error)
    for task, read in readers.items():
        try:
            data[task] = read()
        except DataError as error:
            missing[task] = error
    scores: dict[str, TaskScores] = {}
    before, absent = _earlier(suite, options.earlier)
    for _ in _score(procedure, context, data, scores, missing):
        known = {**before, **scores}
        lacking = {task: error for task, error in {**absent, **missing}.items() if task not in known}
        options.on_task(_result(procedure, context, list({**before, **data}), known, lacking))
    return _result(procedure, context, list(data), scores, missing)


def _earlier(suite: Suite, entries: Mapping[str, Any]) -> tuple[dict[str, TaskScores], dict[str, DataError]]:
    """The scores and the missing tasks in the JSON of a suite."""
    missing = entries.get("missing", {}).items()
    errors = {task: DataError(str(value_at(one, "what")), str(value_at(one, "hint"))) for task, one in missing}
    return {task: entries[task] for task in (*suite.tasks, *suite.optional) if task in entries}, errors


def sizes(suite: Suite, task: str, data_dir: Path) -> Mapping[str, float]:
    """The numbers of the data of a task; none if they are missing or malformed."""
    procedure: Procedure[Any] = resolve_name(suite.procedure or f"{__package__}.{suite.name}:PROCEDURE")
    try:
        data = procedure.find([task], data_dir)[task]()
    except DataError:
        return {}
    return procedure.sizes(data) if procedure.sizes else {}


def _result(
    procedure: Procedure[D],
    context: Context,
    tasks: Sequence[str],
    scores: Mapping[str, TaskScores],
    missing: Mapping[str, DataError],
) -> SuiteResult:
    """What is measured so far of tasks that have data."""
    suite, pending = context.suite, tuple(task for task in tasks if task not in scores and task not in missing)
    scores = {task: scores[task] for task in tasks if task in scores}
    averaged = [*((suite.averages and suite.tasks) or tasks), *missing]
    averages = {a.key: _average(scores, a.tasks or averaged, suite.headline) for a in suite.averages_over(scores)}
    partial = any(scores.get(task, {"partial": True}).get("partial") for task in averaged)
    protocol, vectors = procedure.protocol(context, scores), context.subject.fingerprint
    return SuiteResult(suite.name, protocol, scores, averages, missing, partial, pending, vectors)


def _score(
    procedure: Procedure[D],
    context: Context,
    data: Mapping[str, D],
    scores: dict[str, TaskScores],
    missing: dict[str, DataError],
) -> Iterator[None]:
    """Add the scores of tasks, the cached ones first, and to `missing` those that cannot be scored; yields at each."""
    name, options = context.suite.name, context.options
    names = {task: _cache_name(context, task, data[task]) for task in data}
    read = partial(read_json, kind=TaskScores)
    known = {task: load_cached(name, read) if name and not options.fresh else None for task, name in names.items()}
    if data:
        options.on_progress(name, 0, len(data))
    if procedure.texts:
        context.subject.prepare(text for task in data if not known[task] for text in procedure.texts(data[task]))
    for done, task in enumerate(sorted(names, key=lambda task: not known[task]), 1):
        try:
            scores[task] = known[task] or _measured(procedure, context, task, data[task])
            if (cache := names[task]) and not known[task]:
                store_cached(cache, partial(Path.write_bytes, data=json_bytes(scores[task])))
        except Unscored as error:
            missing[task] = error
        options.on_progress(name, done, len(data))
        yield


def _measured(procedure: Procedure[D], context: Context, task: str, data: D) -> TaskScores:
    """The scores of a task, to the same bits whatever was measured before: it shares no chunk with other tasks."""
    context = replace(context, vectors=Vectors(context.subject.encode))
    if procedure.texts:
        context.vectors.add(procedure.texts(data))
    return procedure.score(context, task, data)


def _cache_name(context: Context, task: str, data: Data) -> str | None:
    """The cached scores of a task, by the fingerprints of model and data; None if they must not be cached."""
    key = (_VERSION, context.suite.name, task, context.subject.fingerprint, data.fingerprint)
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    return None if data.fingerprint is None else f"scores/{name}.json"


def _average(scores: Mapping[str, TaskScores], tasks: Sequence[str], path: str) -> float | None:
    """Mean of a score over tasks; None without tasks, or unless each has it over the published rows."""
    complete = [task for task in tasks if task in scores and not scores[task].get("partial")]
    values = [value_at(scores[task], path) for task in complete]
    return math.fsum(values) / len(values) if values and len(values) == len(tasks) and None not in values else None


def finite(value: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON lacks."""
    return float(value) if math.isfinite(value) else None
