"""Runs as text or JSON: all of a directory, and one in detail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import asdict

from contrastcli.evaluation.suites import headlines, summary
from contrastcli.runs.directory import Run
from contrastcli.runs.text import duration, fixed, score
from contrastcli.show.format import as_json, names_and_values, size, table
from contrastcli.show.settings import value_text


def run_list(runs: Sequence[Run], directory: Path, to_json: bool) -> str:
    """Runs, the newest first."""
    statuses = [(run, run.status()) for run in runs]
    if to_json:
        return as_json([{"name": run.name, "path": str(run.path), **asdict(status)} for run, status in statuses])
    if not runs:
        return f"no runs in {directory}; make one: contrast train --preset starter --no-ui"
    rows = []
    for run, s in statuses:
        ago = f"{duration(max(0.0, time.time() - s.updated))} ago"
        rows.append((run.name, s.state, f"{s.step:,}/{s.steps:,}", score(s.best), ago, size(run.size_bytes())))
    return table(("run", "state", "step", "best dev", "updated", "size"), rows)


def run_details(run: Run, to_json: bool) -> str:
    """One run: status, checkpoints, scores and settings."""
    status, checkpoints, config = run.status(), run.checkpoints(), run.config()
    paths = {which: str(run.checkpoints_dir / name) for which, name in checkpoints.items()}
    if to_json:
        details = {"name": run.name, "path": str(run.path), **asdict(status), "checkpoints": paths}
        return as_json(details | {"settings": config.flat(), "scores": run.scores()})
    best = f"{score(status.best)} at step {status.best_step:,}" if status.best_step is not None else None
    measured = headlines(run.scores())
    facts = [
        ("run", run.path),
        ("state", status.state + (f": {status.message}" if status.message else "")),
        ("step", f"{status.step:,} of {status.steps:,}"),
        ("loss", fixed(status.loss, 4)),
        ("best dev Spearman", best),
        *((name, fixed(measured[name], 2)) for name in summary(measured)),
        *((f"{which} checkpoint", path) for which, path in paths.items()),
        ("size", size(run.size_bytes())),
    ]
    flat = table(("setting", "value"), [(key, value_text(value)) for key, value in config.flat().items()])
    return f"{names_and_values(facts)}\n\n{flat}"
