"""The scores of tasks that were measured before."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from contrastcli.errors import DataError
from contrastcli.evaluation.result import TaskScores
from contrastcli.files import atomic_write, cache_dir, read_json

Key = tuple[str, str, str, str | None]
"""Suite, task, and the fingerprints of model and data; scores of data without one are not kept."""

_VERSION = 1  # of the protocols: raised when one gives other numbers than before


def read(key: Key) -> TaskScores | None:
    """The scores of a task; None if they are not in the cache, or not readable."""
    try:
        return None if None in key else read_json(_path(key), TaskScores)
    except (DataError, OSError):
        return None


def write(key: Key, scores: TaskScores) -> None:
    """Keep the scores of a task for `read`. If the cache cannot be written, they are measured again next time."""
    with contextlib.suppress(OSError):
        if None not in key:
            _path(key).parent.mkdir(parents=True, exist_ok=True)
            atomic_write(_path(key), json.dumps(scores).encode())


def _path(key: Key) -> Path:
    name = hashlib.sha256(json.dumps([_VERSION, *key]).encode()).hexdigest()
    return cache_dir() / "scores" / f"{name}.json"
