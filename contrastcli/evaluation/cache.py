"""What was measured once is not measured again: the scores of a task, in the cache, and vectors within a suite."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from contrastcli.errors import DataError
from contrastcli.evaluation.result import Encode, Floats, Gap, Options, Subject
from contrastcli.files import atomic_write, cache_dir, read_json

Task = dict[str, Any]
"""The scores of one task, ready for JSON."""

_VERSION = 1  # of the protocols: raised when one gives other numbers than before


class Data(Protocol):
    """The data of a task; `fingerprint` is equal only where they are."""

    @property
    def fingerprint(self) -> str: ...


D = TypeVar("D", bound=Data)
T = TypeVar("T", bound=str)


def measure_each(
    suite: str,
    tasks: Sequence[T],
    subject: Subject,
    options: Options,
    root: Callable[[Path | None], Path],
    read: Callable[[Path, T], D],
    score: Callable[[T, D], Task],
    prepare: Callable[[Sequence[D]], None] = lambda data: None,
) -> tuple[dict[str, Task], tuple[Gap, ...]]:
    """Score the tasks one after another: from the cache, else by `score`, which the cache then keeps.

    So an interrupted evaluation goes on where it stopped, and a repeated one costs the reading of the data. `root`
    finds the folder of the data, `read` those of a task there; where they raise DataError, the task is a gap and the
    others go on. `prepare` gets the data of all tasks that will be scored, before the first is.
    """
    try:
        folder = root(options.data_dir)
    except DataError as error:
        return {}, tuple(Gap(task, error.what, error.hint) for task in tasks)
    there, gaps = _read_each(tasks, folder, read)
    paths = {task: _path(suite, task, subject.fingerprint, data.fingerprint) for task, data in there.items()}
    known = {task: None if options.fresh else _stored(path) for task, path in paths.items()}
    found: dict[str, Task] = {}
    options.on_progress(suite, 0, len(there))
    prepare([data for task, data in there.items() if known[task] is None])
    for task, data in there.items():
        found[task] = known[task] or _kept(score(task, data), paths[task])
        options.on_progress(suite, len(found), len(there))
    return found, gaps


def _read_each(tasks: Sequence[T], folder: Path, read: Callable[[Path, T], D]) -> tuple[dict[T, D], tuple[Gap, ...]]:
    there: dict[T, D] = {}
    gaps: list[Gap] = []
    for task in tasks:
        try:
            there[task] = read(folder, task)
        except DataError as error:
            gaps.append(Gap(task, error.what, error.hint))
    return there, tuple(gaps)


def _path(*key: str) -> Path:
    name = hashlib.sha256(json.dumps([_VERSION, *key]).encode()).hexdigest()
    return cache_dir() / "scores" / f"{name}.json"


def _stored(path: Path) -> Task | None:
    try:
        return read_json(path, Task)
    except (DataError, OSError):
        return None


def _kept(scores: Task, path: Path) -> Task:
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, not the answer
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps(scores).encode())
    return scores


class Vectors:
    """The embeddings of texts; each distinct one is encoded once, however many tasks have it."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, Floats] = {}

    def __call__(self, texts: Sequence[str]) -> Floats:
        """(N, d), in the order of the texts. Raises DataError for a model whose vectors are no numbers."""
        self.add(texts)
        return np.stack([self._known[text] for text in texts])

    def add(self, texts: Sequence[str]) -> None:
        """Encode what will be asked for, in one call, so that texts of like length share a batch. Raises DataError."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            found = self._encode(new)
            if not np.isfinite(found).all():
                what = "the model's vectors are not finite numbers"
                raise DataError(what, "see how its training ended, or take another")
            self._known.update(zip(new, found, strict=True))
