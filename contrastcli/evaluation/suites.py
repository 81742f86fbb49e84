"""`contrast eval`: which suites there are, what they are asked to measure, and where their scores go."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from contrastcli.errors import UsageError, nearest
from contrastcli.evaluation import glove
from contrastcli.evaluation.result import OnProgress, Options, Subject, SuiteResult
from contrastcli.files import atomic_write, read_json, writing_to
from contrastcli.model.cache import fingerprint
from contrastcli.model.folder import load_model
from contrastcli.model.locate import resolve
from contrastcli.settings.sections import Pooling

SUITES = ("sts", "transfer", "fewshot", "clustering", "geometry", "mteb")
"""Each is the module of that name, imported when it is asked for."""


class Suite(Protocol):
    """What the module of a suite has. `TASKS` are the names of what it measures; empty: any name will do."""

    TASKS: Sequence[str]

    def measure(self, subject: Subject, options: Options) -> SuiteResult: ...


@dataclass(frozen=True)
class Scores:
    """What was measured of a model, suite by suite."""

    model: str
    results: tuple[SuiteResult, ...]

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it."""
        return {"model": self.model, "suites": {result.suite: result.to_json() for result in self.results}}


def suite(name: str) -> Suite:
    """The module of a suite."""
    return cast(Suite, importlib.import_module(f"contrastcli.evaluation.{name}"))


def check_suites(words: str) -> tuple[str, ...]:
    """The suites of a list with commas. Raises UsageError for one that does not exist."""
    names = _listed(words)
    for name in names:
        if name not in SUITES:
            raise UsageError(f"there is no suite '{name}'", nearest(name, SUITES))
    return names


def check_tasks(words: str, suites: Sequence[str]) -> tuple[str, ...]:
    """The tasks of a list with commas. Raises UsageError for one that none of these suites knows."""
    names, known = _listed(words), {name: suite(name).TASKS for name in suites}
    every = [task for tasks in known.values() for task in tasks]
    for name in names:
        if name not in every and all(known.values()):  # a suite that names none takes any
            raise UsageError(f"there is no task '{name}' in {', '.join(suites)}", nearest(name, every))
    return names


def _listed(words: str) -> tuple[str, ...]:
    """The words between commas; those of `MTEB(eng, v1)` are part of its name."""
    return tuple(dict.fromkeys(word.strip() for word in re.split(r",(?![^()]*\))", words)))


def evaluate(model: str, suites: Sequence[str], options: Options, pooling: Pooling | None = None) -> Scores:
    """Measure a model by its name: a run, a folder or a hub name; `pooling` in place of the model's own.

    A suite's scores are kept as soon as they are there: in the run's directory, if it is a run under its own pooling,
    and in `options.out`, beside what other suites have measured. Raises DataError where the model cannot be loaded,
    RunError where scores cannot be written.
    """
    subject = load_subject(model, pooling, options.on_progress)
    results = []
    for name in suites:
        module = suite(name)
        if module.TASKS and not options.chosen(module.TASKS):
            continue
        result = module.measure(subject, options)
        whole = pooling is None and (not options.tasks or not module.TASKS)
        if result.tasks:
            _keep(Scores(model, (result,)), model if whole else None, options.out)
        results.append(result)
    return Scores(model, tuple(results))


def check_model(name: str) -> None:
    """Look for a model without loading it. Raises DataError where there is none."""
    if not glove.is_word_vectors(name):
        resolve(name).folder()


def load_subject(model: str, pooling: Pooling | None, on_progress: OnProgress) -> Subject:
    """What a name stands for: a model, or a file of word vectors. Raises DataError where it cannot be loaded."""
    if glove.is_word_vectors(model):
        return glove.load_subject(model, pooling)
    encoder = load_model(resolve(model), pooling=pooling)
    encode = partial(encoder.encode, on_progress=partial(on_progress, "encoding"))
    return Subject(model, encode, encoder.pooling, fingerprint(encoder), encoder)


def _keep(scores: Scores, run: str | None, folder: Path | None) -> None:
    if run and (known := resolve(run).run):
        _merge(scores, known.scores_path)
    if folder:
        _merge(scores, folder / "scores.json")


def _merge(scores: Scores, path: Path) -> None:
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        before = read_json(path, dict[str, Any]) or {}
        found = scores.to_json()
        merged = found | {"suites": before.get("suites", {}) | found["suites"]}
        atomic_write(path, (json.dumps(merged, indent=2, ensure_ascii=False) + "\n").encode())
