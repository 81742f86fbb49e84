"""Measuring a suite: read the data of its tasks, score them or read their scores from the cache, average."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from statistics import fmean
from typing import Any

import msgspec

from contrastcli.boundary import narrate
from contrastcli.errors import DataError, UsageError, failing_as
from contrastcli.evaluation.procedure import Options, Procedure, Subject, SuiteContext, TaskScores, Unscored
from contrastcli.evaluation.suites import ENTRY_POINTS, SUITES, Suite, tasks_in, value_at
from contrastcli.files import checksum_of, json_bytes, load_cached, read_json, store_cached
from contrastcli.settings.outside import package_of

_CACHE_VERSION = 1
"""Raised when a suite changes what it measures."""


@dataclass(frozen=True)
class SuiteResult:
    """What a suite has measured.

    `protocol` describes how. `averages` are None unless all their tasks are complete. `missing` says why tasks were
    not measured: their data are missing or malformed. `partial`: whether the result cannot be compared with published
    ones. `pending` are the tasks that are still to be measured. `vectors` is the subject's fingerprint, `precision`
    that of its encoder.
    """

    suite: str
    protocol: str
    tasks: Mapping[str, TaskScores]
    averages: Mapping[str, float | None]
    missing: Mapping[str, DataError] = field(default_factory=dict)
    partial: bool = False
    pending: tuple[str, ...] = ()
    vectors: str = ""
    precision: str = "fp32"

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
            "precision": self.precision,
        }


@dataclass(frozen=True)
class Scores:
    """What was measured of a model, suite by suite; of the first `dim` numbers of its embeddings, None for all."""

    model: str
    results: tuple[SuiteResult, ...]
    dim: int | None = None

    @property
    def title(self) -> str:
        """The model, and the size of its embeddings if it is not the whole."""
        return self.model if self.dim is None else f"{self.model}@{self.dim}"

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it."""
        size = {} if self.dim is None else {"dim": self.dim}
        return {"model": self.model, **size, "suites": {result.suite: result.to_json() for result in self.results}}


def measure(
    suite: Suite,
    subject: Subject,
    options: Options,
    on_task: Callable[[SuiteResult], None] = lambda result: None,
    earlier: Mapping[str, Any] | None = None,
) -> SuiteResult:
    """Measure the tasks of a suite, or read their scores from the cache, where each is written once it is measured.

    `on_task` gets what is measured so far after each task, together with the scores of other tasks in `earlier`, the
    JSON of an earlier result. Tasks whose data are missing or malformed are skipped, and all where another package's
    suite fails as a whole.

    Raises DataError for a model whose vectors are not finite, and UsageError.
    """
    name = suite.procedure or f"{__package__}.{suite.name}:PROCEDURE"
    with failing_as(UsageError, f"the suite {suite.name} ({name}) cannot be loaded", "fix or uninstall its package"):
        procedure = resolve_name(name)
        if not isinstance(procedure, Procedure):
            raise TypeError("it is no Procedure")
    context, tasks = SuiteContext(suite, subject, options, subject.vectors()), suite.select(options.names(suite))
    data, missing, scores = dict[str, Any](), dict[str, DataError](), dict[str, TaskScores]()
    before, absent = _earlier(suite, earlier or {})
    try:
        with _blaming(suite, "failed"):
            data, missing = _read(procedure, context, tasks)
            for _ in _score(procedure, context, data, scores, missing):
                known = {**before, **scores}
                lacking = {task: error for task, error in {**absent, **missing}.items() if task not in known}
                on_task(_result(procedure, context, list({**before, **data}), known, lacking))
            return _result(procedure, context, list(data), scores, missing)
    except Unscored as error:
        missing = dict.fromkeys(data or tasks or [suite.name], error) | missing
        return SuiteResult(suite.name, "", {}, {}, missing, vectors=subject.fingerprint, precision=subject.precision)


def _read(
    procedure: Procedure[Any], context: SuiteContext, tasks: Sequence[str]
) -> tuple[dict[str, Any], dict[str, DataError]]:
    """The data of tasks, and why those of others cannot be read."""
    suite, data = context.suite, dict[str, Any]()
    missing: dict[str, DataError] = {}
    readers: Mapping[str, Callable[[], Any]] = {}
    try:
        readers = {**procedure.find(tasks, context.options)}
        if not readers:
            raise ValueError("its find returns none")
    except DataError as error:
        missing = dict.fromkeys(tasks or [suite.name], error)
    for task, read in readers.items():
        try:
            if task in SuiteResult("", "", {}, {}).to_json() or task in ("pending", *(a.key for a in suite.averages)):
                raise DataError(f"a set cannot be called '{task}'", "rename its folder")
            with _blaming(suite, f"cannot read {task}"):
                data[task] = read()
        except DataError as error:
            missing[task] = error
    return data, missing


def _earlier(suite: Suite, entries: Mapping[str, Any]) -> tuple[dict[str, TaskScores], dict[str, DataError]]:
    """The scores and the missing tasks in the JSON of a suite."""
    missing = entries.get("missing", {}).items()
    errors = {task: DataError(str(value_at(one, "what")), str(value_at(one, "hint"))) for task, one in missing}
    known = tasks_in(entries)
    return {task: known.pop(task) for task in (*suite.tasks, *suite.optional) if task in known} | known, errors


def sizes(suite: Suite, task: str, data_dir: Path) -> Mapping[str, float]:
    """The numbers of the data of a task; none, and a note, if they are missing or malformed."""
    procedure: Procedure[Any] = resolve_name(suite.procedure or f"{__package__}.{suite.name}:PROCEDURE")
    try:
        data = procedure.find([task], Options(data_dir))[task]()
    except DataError as error:
        narrate(f"note: {task} is not counted: {error.what}")
        return {}
    return procedure.sizes(data) if procedure.sizes else {}


def _result(
    procedure: Procedure[Any],
    context: SuiteContext,
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
    subject = context.subject
    encoded = "" if subject.precision == "fp32" else f"vectors computed in {subject.precision}; "
    protocol = encoded + procedure.protocol(context, scores)
    return SuiteResult(
        suite.name, protocol, scores, averages, missing, partial, pending, subject.fingerprint, subject.precision
    )


def _score(
    procedure: Procedure[Any],
    context: SuiteContext,
    data: Mapping[str, Any],
    scores: dict[str, TaskScores],
    missing: dict[str, DataError],
) -> Iterator[None]:
    """Add the scores of tasks, the cached ones first, and to `missing` those that cannot be scored; yields at each."""
    name, options = context.suite.name, context.options
    read = partial(read_json, kind=TaskScores)
    code = _code(context.suite)
    names = {task: _cache_name(context, task, data[task], code) for task in data}
    known = {task: load_cached(name, read) if name and not options.fresh else None for task, name in names.items()}
    if data:
        options.on_progress(name, 0, len(data))
    if procedure.texts:
        texts = (procedure.texts(data[task]) for task in data if not known[task])
        context.subject.prepare(chain.from_iterable(some for by_kind in texts for some in by_kind.values()))
    for done, task in enumerate(sorted(names, key=lambda task: not known[task]), 1):
        try:
            scores[task] = known[task] or _measured(procedure, context, task, data[task])
            if (cache := names[task]) and not known[task]:
                store_cached(cache, partial(Path.write_bytes, data=json_bytes(scores[task])))
        except Unscored as error:
            missing[task] = error
        options.on_progress(name, done, len(data))
        yield


def _measured(procedure: Procedure[Any], context: SuiteContext, task: str, data: Any) -> TaskScores:
    """The scores of a task, to the same bits whatever was measured before: it shares no chunk with other tasks."""
    context = replace(context, vectors=context.subject.vectors())
    with _blaming(context.suite, f"failed on {task}"):
        if procedure.texts:
            for kind, texts in procedure.texts(data).items():
                context.vectors.add(texts, kind)
        # As JSON has them: numbers of NumPy and torch as Python's, and None for NaN and infinity.
        measured = procedure.score(context, task, data)
        scores = msgspec.json.decode(msgspec.json.encode(measured, enc_hook=lambda number: number.item()))
        if not isinstance(scores, dict):
            raise TypeError("its scores are no dict")
        if type(value_at(scores, context.suite.headline)) not in (float, int, type(None)):
            raise TypeError(f"its {context.suite.headline} is no number")
    return scores


def _blaming(suite: Suite, what: str) -> AbstractContextManager[None]:
    """Turn an error of another package's suite in the body into one that names it."""
    hint = "fix its package: see contrast help suites"
    return failing_as(Unscored, f"the suite {suite.name} {what}", hint) if suite.procedure else nullcontext()


def _code(suite: Suite) -> Sequence[object]:
    """What tells the code of another package's suite from that of another version: this, and its files' checksums."""
    if suite.name in SUITES:
        return ()
    package = import_module(re.split("[.:]", suite.procedure)[0])
    files = [file for folder in getattr(package, "__path__", ()) for file in Path(folder).rglob("*.py")]
    sums = [checksum_of(file) for file in files or [Path(str(package.__file__))] if file.is_file()]
    return package_of(ENTRY_POINTS, suite.procedure), *sorted(sums)


def _cache_name(context: SuiteContext, task: str, data: Any, code: Sequence[object]) -> str | None:
    """The cached scores of a task, by the fingerprints of model and data, by what is said of these, and by the code.

    None for data without a fingerprint.
    """
    fingerprint = getattr(data, "fingerprint", None)
    notes = getattr(data, "notes", ())
    key = (_CACHE_VERSION, context.suite.name, task, context.subject.fingerprint, fingerprint, *notes, *code)
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    return None if fingerprint is None else f"scores/{name}.json"


def _average(scores: Mapping[str, TaskScores], tasks: Sequence[str], path: str) -> float | None:
    """Mean of a score over tasks; None without tasks, or unless each has it over the published rows."""
    complete = [task for task in tasks if task in scores and not scores[task].get("partial")]
    values = [value_at(scores[task], path) for task in complete]
    return fmean(values) if values and len(values) == len(tasks) and None not in values else None
