"""Runs side by side, with what was measured of each."""

from __future__ import annotations

from collections.abc import Sequence

from contrastcli.evaluation.suites import headlines
from contrastcli.runs.directory import Comparison, Result, Run
from contrastcli.runs.methods import Member, group
from contrastcli.runs.status import digest


def compare(runs: Sequence[Run]) -> Comparison:
    """The settings that differ and the results, in the order of the runs. Raises DataError or UsageError."""
    members = [member(run) for run in runs]
    keys = dict.fromkeys(key for m in members for key in m.settings)
    columns = {key: tuple(m.settings.get(key) for m in members) for key in keys}
    differing = {key: column for key, column in columns.items() if len(set(column)) > 1}
    return Comparison(differing, tuple(_result(run) for run in runs), group(members))


def member(run: Run) -> Member:
    """A run as one of a group: its best dev Spearman × 100 and what was measured. Raises DataError or UsageError."""
    status = run.status()
    dev = {} if status.best is None else {"dev": 100 * status.best}
    return Member(run.name, run.config().flat(), status.state, dev | headlines(run.scores()))


def _result(run: Run) -> Result:
    last = digest(run.events_path)
    return Result(run.name, run.status(), last.evaluated, last.angles, run.scores())
