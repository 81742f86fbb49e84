"""Comparison of runs and models: settings, results and measured scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from contrastcli.evaluation.suites import headlines
from contrastcli.model.locate import ModelRef
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Started, training_seconds
from contrastcli.runs.measured import Step
from contrastcli.runs.methods import Member, dev_score, differing, group, told_apart
from contrastcli.runs.results import Comparison, Result
from contrastcli.runs.scores import read_scores
from contrastcli.runs.status import digest
from contrastcli.settings import published


def compare(models: Sequence[Run | ModelRef]) -> Comparison:
    """The settings that differ and the results, in the order of the models. Raises DataError or UsageError."""
    results = [_result(model) for model in models]
    scores = [result.scores for result in results]
    members = [
        member(model, scores) if isinstance(model, Run) else Member(model.name, {}, "finished", headlines(own, scores))
        for model, own in zip(models, scores, strict=True)
    ]
    members = told_apart(members)
    keys = differing([m.settings for m in members if m.settings])
    columns = {key: tuple(m.settings.get(key) for m in members) for key in keys}
    return Comparison(columns, tuple(results), group(members))


def _result(run: Run | ModelRef) -> Result:
    if isinstance(run, ModelRef):
        return Result(name=run.name, state="finished", scores=read_scores(run.scores_path()), is_run=False)
    last = digest(run.events_path)
    dev, angles, rows = last.evaluated, last.angles, published.exact(run.config())
    return Result(
        **asdict(run.status(last)) | {"name": run.title},
        minutes=training_seconds(run.latest(Step, Started)) / 60,
        published_minutes=next((row.values["minutes"].value for row in rows if row.table.suite == "time"), None),
        dev=dev.score if dev else None,
        alignment=dev.alignment if dev else None,
        uniformity=dev.uniformity if dev else None,
        angles={name: getattr(angles, name) for name in angles.titles} if angles else None,
        scores=run.scores(),
    )


def member(run: Run, beside: Sequence[Mapping[str, Any]] = ()) -> Member:
    """A run of a method: its best dev score × 100 and its headline scores, as next to the scores `beside` them.

    Raises DataError or UsageError.
    """
    status = run.status()
    numbers = dev_score(status) | headlines(run.scores(), beside)
    return Member(run.title, run.config().shown(), status.state, numbers, run.rows())
