"""Comparison of runs: settings, results and measured scores."""

from collections.abc import Sequence

from msgspec.structs import asdict

from contrastcli.evaluation.suites import headlines
from contrastcli.runs.directory import Run
from contrastcli.runs.events import training_seconds
from contrastcli.runs.methods import Member, dev_score, group
from contrastcli.runs.results import Comparison, Result
from contrastcli.runs.status import digest
from contrastcli.settings import published


def compare(runs: Sequence[Run]) -> Comparison:
    """The settings that differ and the results, in the order of the runs. Raises DataError or UsageError."""
    members = [member(run) for run in runs]
    keys = dict.fromkeys(key for m in members for key in m.settings)
    columns = {key: tuple(m.settings.get(key) for m in members) for key in keys}
    results = []
    for run in runs:
        last = digest(run.events_path)
        dev, angles, rows = last.evaluated, last.angles, published.exact(run.config())
        result = Result(
            **asdict(run.status(last)),
            minutes=training_seconds(run.events()) / 60,
            published_minutes=next((row.values["minutes"].value for row in rows if row.table.suite == "time"), None),
            dev=dev.score if dev else None,
            alignment=dev.alignment if dev else None,
            uniformity=dev.uniformity if dev else None,
            angles={name: getattr(angles, name) for name in angles.titles} if angles else None,
            scores=run.scores(),
        )
        results.append(result)
    differing = {key: column for key, column in columns.items() if len(set(column)) > 1}
    return Comparison(differing, tuple(results), group(members))


def member(run: Run) -> Member:
    """A run of a method: its best dev score × 100 and its headline scores. Raises DataError or UsageError."""
    status = run.status()
    return Member(run.name, run.config().shown(), status.state, dev_score(status) | headlines(run.scores()))
