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
    """Add what was measured to a file of scores, suite by suite; what was measured of other weights goes.

    Raises DataError and RunError.
    """
    with _changing(path) as scores:
        added = more.get("suites", {})
        # Earlier versions did not record the weights.
        weights = {None, *(suite.get("vectors") for suite in added.values())}
        known = scores.get("suites", {}).items()
        suites = {name: suite for name, suite in known if not added or suite.get("vectors") in weights} | added
        scores |= dict(more) | ({"suites": suites} if suites else {})


def forget_suites(path: Path) -> None:
    """Take the suites out of a file of scores, since its model is another now; a malformed file stays.

    Raises RunError.
    """
    with suppress(DataError):
        if "suites" in read_scores(path):
            with _changing(path) as scores:
                scores.pop("suites", None)


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, Any]]:
    """The scores of a file, which holds them as they are after the body; other processes wait meanwhile."""
    import filelock

    make_folder(path.parent)
    with writing_to(path), filelock.FileLock(path.with_name(f".{path.name}.lock")):
        scores = read_scores(path)
        yield scores
        atomic_write(path, json_bytes(scores))
