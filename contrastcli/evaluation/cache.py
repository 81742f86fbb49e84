"""The scores of a task in the cache: what was measured once is not measured again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from contrastcli.errors import DataError
from contrastcli.evaluation.result import TaskScores
from contrastcli.files import atomic_write, cache_dir, read_json

Key = tuple[str, str, str, str | None]
"""Suite, task, and the fingerprints of model and data; nothing is kept of data without one."""

_VERSION = 1  # of the protocols: raised when one gives other numbers than before


def read(key: Key) -> TaskScores | None:
    """The scores of a task; None where they are not kept, or not readable."""
    if None in key:
        return None
    try:
        return read_json(_path(key), TaskScores)
    except (DataError, OSError):
        return None


def keep(key: Key, scores: TaskScores) -> TaskScores:
    """The scores of a task, which `read` will find. A cache that cannot be written costs time, not the answer."""
    if None not in key:
        with contextlib.suppress(OSError):
            path = _path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, json.dumps(scores).encode())
    return scores


def _path(key: Key) -> Path:
    name = hashlib.sha256(json.dumps([_VERSION, *key]).encode()).hexdigest()
    return cache_dir() / "scores" / f"{name}.json"
