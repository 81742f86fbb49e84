"""The pictures of several runs or models at once, for a terminal and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contrastcli.evaluation import geometry
from contrastcli.evaluation.projection import pca
from contrastcli.evaluation.result import Options
from contrastcli.evaluation.suites import Scores, check_model, evaluate, load_subject
from contrastcli.model.locate import resolve
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Pooling
from contrastcli.show import pictures
from contrastcli.show import plots as draw
from contrastcli.show.pictures import Picture

_LETTERS = 40  # of a name in a legend


def evaluate_each(
    models: Sequence[str], suites: Sequence[str], options: Options, pooling: Pooling | None
) -> list[Scores]:
    """Measure several models; each has a folder of its own below `options.out`. Raises as `evaluate` does."""
    for model in models:
        check_model(model)
    if len(models) == 1:
        return [evaluate(models[0], suites, options, pooling)]
    apart = names(models, whole=True)
    folders = {model: options.out / apart[model] if options.out else None for model in models}
    return [evaluate(model, suites, options.below(folders[model]), pooling) for model in models]


def of_models(scores: Sequence[Scores], options: Options, pooling: Pooling | None) -> list[Picture]:
    """What the geometry suite found; and where the first is a run, its training sentences under each model."""
    apart = names([one.model for one in scores])
    drawn = pictures.of_models({apart[one.model]: _known(one) for one in scores})
    run = resolve(scores[0].model).run
    if drawn and run is not None:
        data = run.config().data
        texts = geometry.training_sentences(data)
        subjects = {apart[one.model]: load_subject(one.model, pooling, options.on_progress) for one in scores}
        planes = {name: pca(subject.encode(texts)).points.tolist() for name, subject in subjects.items()}
        drawn.append(pictures.of_sentences(planes, Path(data.train).name))
    return drawn


def of_runs(runs: Sequence[Run]) -> list[Picture]:
    """What the runs said while they trained."""
    apart = names([str(run.path) for run in runs])
    return pictures.of_runs({apart[str(run.path)]: run.events() for run in runs})


def save(drawn: Sequence[Picture], folder: Path) -> list[Path]:
    """Each as PNG and SVG. Raises UsageError without matplotlib, RunError where the folder cannot be written."""
    return [path for picture in drawn for path in draw.save(picture, folder)]


def names(paths: Sequence[str], whole: bool = False) -> dict[str, str]:
    """A name for each model or run, short unless `whole`; those that would be called alike are numbered."""
    last = [Path(path).name or path for path in paths]
    if not whole:
        last = [name[-_LETTERS:].lstrip("-") for name in last]
    return {
        path: name if last.count(name) == 1 else f"{name}-{number}"
        for number, (path, name) in enumerate(zip(paths, last, strict=True), 1)
    }


def _known(scores: Scores) -> Mapping[str, Any]:
    """Its suites, with those that were measured before where it is a run."""
    run = resolve(scores.model).run
    before: Mapping[str, Any] = run.scores().get("suites", {}) if run else {}
    return {**before, **scores.to_json()["suites"]}
