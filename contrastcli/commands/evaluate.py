"""`contrast eval`: the scores of models, and pictures of what the suite geometry measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contrastcli.errors import DataError, InterruptedEarly
from contrastcli.evaluation.suites import GEOMETRY, Suite, check_suites, check_tasks
from contrastcli.files import make_folder
from contrastcli.model.locate import resolve
from contrastcli.settings.sections import Pooling
from contrastcli.show import console, pictures, plots

if TYPE_CHECKING:
    from contrastcli.evaluation.result import OnProgress, Scores
    from contrastcli.show.pictures import Picture


@dataclass(frozen=True)
class Measuring:
    """What an evaluation is asked for, as typed."""

    suites: str
    tasks: str | None
    data_dir: Path | None
    pooling: Pooling | None
    folder: Path | None
    fresh: bool


def measure(asked: Measuring, models: Sequence[str], directory: Path) -> tuple[list[Scores], list[Picture]]:
    """The scores of each model, by default the newest run's, and pictures of them.

    Several models have a folder each below `asked.folder`. Raises UsageError, DataError and RunError, before long work
    where that can be; InterruptedEarly for Ctrl-C, which loses none of the tasks that are done.
    """
    suites = check_suites(asked.suites)
    tasks = check_tasks(asked.tasks, suites) if asked.tasks is not None else ()
    names = _models(models, directory)
    if asked.folder:
        (plots.check if GEOMETRY in suites else make_folder)(asked.folder)
    try:
        with console.progress() as advance:
            scores = _scores(names, suites, tasks, asked, advance)
            return scores, _draw(scores, asked.pooling, advance) if GEOMETRY in suites else []
    except KeyboardInterrupt:
        raise InterruptedEarly("interrupted", "what was measured is kept: the same command continues there") from None


def _models(words: Sequence[str], directory: Path) -> list[str]:
    """The models that are meant, each once. Raises DataError where one is not there."""
    from contrastcli.evaluation.evaluate import check_model  # torch is loaded only when a model is needed

    names = list(dict.fromkeys(resolve(word, directory).name for word in words or (None,)))
    for name in names:
        check_model(name)
    return names


def _scores(
    names: Sequence[str], suites: Sequence[Suite], tasks: tuple[str, ...], asked: Measuring, advance: OnProgress
) -> list[Scores]:
    from contrastcli.evaluation.evaluate import evaluate  # torch is loaded only when a model is needed
    from contrastcli.evaluation.result import Options

    folders: Mapping[str, Path | None] = dict.fromkeys(names, asked.folder)
    if asked.folder and len(names) > 1:
        folders = {name: asked.folder / label for name, label in pictures.labels(names, None).items()}
    how = {name: Options(asked.data_dir, tasks, folder, asked.fresh, advance) for name, folder in folders.items()}
    return [evaluate(name, suites, how[name], asked.pooling) for name in names]


def _draw(scores: Sequence[Scores], pooling: Pooling | None, advance: OnProgress) -> list[Picture]:
    """What the suite geometry measured; and where the first is a run, its training sentences under each model."""
    from contrastcli.evaluation.evaluate import load_subject  # torch is loaded only when a model is needed
    from contrastcli.evaluation.geometry import training_sentences
    from contrastcli.evaluation.projection import pca

    labels = pictures.labels([one.model for one in scores])
    drawn = pictures.of_models({labels[one.model]: _all_scores(one) for one in scores})
    run = resolve(scores[0].model).run
    if drawn and run:
        data = run.config().data
        texts = training_sentences(data)
        subjects = {labels[one.model]: load_subject(one.model, pooling, advance) for one in scores}
        planes = {label: pca(subject.encode(texts)).points.tolist() for label, subject in subjects.items()}
        drawn.append(pictures.of_sentences(planes, Path(data.train).name))
    return drawn


def _all_scores(scores: Scores) -> dict[str, Mapping[str, float]]:
    """The suites measured now, and of a run those that were measured before."""
    run = resolve(scores.model).run
    before = run.scores().get("suites", {}) if run else {}
    return {**before, **scores.to_json()["suites"]}


def check_measured(scores: Sequence[Scores]) -> None:
    """Raises DataError where the data of a task were missing or malformed."""
    missing = [skipped for one in scores for result in one.results for skipped in result.missing]
    if missing:
        names = ", ".join(skipped.task for skipped in missing)
        raise DataError(f"not measured: {names}: {missing[0].what}", missing[0].hint)
