"""`contrast eval`: which suites there are, and where their scores go."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from contrastcli.config import Pooling
from contrastcli.errors import UsageError, nearest
from contrastcli.evaluation.sts import StsResult, evaluate_sts
from contrastcli.files import atomic_write, read_json, writing_to
from contrastcli.query import load_model

SUITES = ("sts",)


@dataclass(frozen=True)
class Scores:
    """What was measured of a model; `sts` is that suite's result."""

    model: str
    sts: StsResult

    def to_json(self) -> dict[str, Any]:
        """As `contrast eval --json` prints it."""
        return {"model": self.model, "suites": {"sts": self.sts.to_json()}}


def check_suites(names: str) -> None:
    """Raises UsageError for a suite that does not exist."""
    for name in names.split(","):
        if name not in SUITES:
            raise UsageError(f"there is no suite '{name}'", nearest(name, SUITES))


def evaluate(
    model: str, data_dir: Path | None, pooling: Pooling | None, on_progress: Callable[[int, int], None]
) -> Scores:
    """Measure a model by its name: a run, a folder or a hub name. Raises DataError where it cannot be loaded."""
    encoder = load_model(model, pooling=pooling)
    encode = partial(encoder.encode, on_progress=on_progress)
    return Scores(model, evaluate_sts(encode, data_dir, pooling=encoder.pooling))


def store(scores: Scores, run: str | None, folder: Path | None) -> None:
    """Keep the scores in a run's directory and in a folder, beside what other suites measured. Raises RunError."""
    if run and (Path(run) / "checkpoints.json").is_file():
        _merge(scores, Path(run) / "scores.json")
    if folder:
        _merge(scores, folder / "scores.json")


def _merge(scores: Scores, path: Path) -> None:
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        before = read_json(path, dict[str, Any]) or {}
        found = scores.to_json()
        merged = found | {"suites": before.get("suites", {}) | found["suites"]}
        atomic_write(path, (json.dumps(merged, indent=2, ensure_ascii=False) + "\n").encode())
