"""Files of scores: what evaluation measured of one model, suite by suite."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from contrastcli.errors import DataError
from contrastcli.files import atomic_write, decoding, json_bytes, make_folder, read_json, writing_to


class _Suite(msgspec.Struct):
    missing: dict[str, dict[str, str]] = {}
    vectors: str | None = None


class _Scores(msgspec.Struct):
    """What is checked of a file of scores."""

    model: str = ""
    suites: dict[str, _Suite] = {}


def read_scores(path: Path) -> dict[str, Any]:
    """The results of evaluation in a file; empty if there is none. Raises DataError."""
    scores = read_json(path, dict[str, Any]) or {}
    with decoding(path):
        msgspec.convert(scores, _Scores)
    return scores


def add_scores(path: Path, more: Mapping[str, Any]) -> None:
    """Add what was measured to a file of scores, suite by suite. Raises DataError and RunError."""
    with _changing(path) as scores:
        suites = scores.get("suites", {}) | more.get("suites", {})
        scores |= dict(more) | ({"suites": suites} if suites else {})


def forget_suites(path: Path, vectors: str | None = None) -> None:
    """Take the suites of other weights than `vectors`, their fingerprint, out of a file of scores; without it, all.

    A malformed file stays as it is. Raises RunError.
    """
    if path.exists():
        with suppress(DataError), _changing(path) as scores:
            suites = scores.pop("suites", {})
            # Earlier versions did not record the weights.
            kept = {name: one for name, one in suites.items() if vectors and one.get("vectors", vectors) == vectors}
            scores |= {"suites": kept} if kept else {}


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, Any]]:
    """The scores of a file, which holds them as they are after the body; other processes wait meanwhile."""
    import filelock

    make_folder(path.parent)
    with writing_to(path), filelock.FileLock(path.with_name(f".{path.name}.lock")):
        scores = read_scores(path)
        before = dict(scores)
        yield scores
        if scores != before:
            atomic_write(path, json_bytes(scores))
