"""`contrast eval`: the scores of models, and pictures of what the suite geometry measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastcli.boundary import narrate
from contrastcli.data.downloads import OnProgress
from contrastcli.errors import DataError, InterruptedEarly, UsageError
from contrastcli.evaluation.suites import GEOMETRY, OWN, STS, all_suites, check_suites, check_tasks
from contrastcli.model.locate import resolve
from contrastcli.runs.scores import read_scores
from contrastcli.settings import sections
from contrastcli.settings.sections import Pooling, Precision
from contrastcli.show import console, pictures, plots
from contrastcli.show.pictures import Picture

if TYPE_CHECKING:
    from contrastcli.evaluation.measure import Scores


def measure(
    models: Sequence[str],
    directory: Path,
    *,
    suites: Sequence[str],
    tasks: Sequence[str],
    files: tuple[str, ...],
    pooling: Pooling | None,
    precision: Precision,
    dims: Sequence[int],
    folder: Path | None,
    **how: Any,
) -> "tuple[list[Scores], list[Picture]]":
    """The scores of each model, by default of the newest run, and pictures of them; `how` are fields of `Options`.

    With `dims`, of the first numbers of its embeddings, so many each time. If there are several models or sizes, each
    has its own folder in `folder`. Raises UsageError, DataError and RunError, if possible before long work;
    InterruptedEarly for Ctrl-C, after which completed tasks are not measured again.
    """
    from contrastcli.evaluation.evaluate import check_model, evaluate  # loads torch
    from contrastcli.evaluation.measure import Scores
    from contrastcli.evaluation.procedure import Options

    chosen = check_suites(",".join(suites)) if suites else () if files else (STS,)
    chosen += (OWN,) if files and OWN not in chosen else ()
    named = check_tasks(",".join(tasks), chosen) if tasks else ()
    options = Options(tasks=named, files=files, **how)
    if not files and (options.columns or options.labels or options.metric != "auto"):
        what = "--columns, --labels and --metric say what is in the files of --data, and there are none"
        raise UsageError(what, "name your data: --data FILE")
    names = _names(models, directory, suites)
    for name in names:
        check_model(name, directory)
    wanted = [Scores(name, (), dim) for name in names for dim in dict.fromkeys(dims or (None,))]
    if folder:
        plots.check(folder, draws=GEOMETRY in chosen)
    own = pictures.labels([one.title for one in wanted], None) if folder and len(wanted) > 1 else {}
    scores = []
    try:
        with console.progress() as advance:
            for one in wanted:
                of_model = replace(options, out=folder and folder / own.get(one.title, ""), on_progress=advance)
                scores.append(evaluate(one.model, chosen, of_model, pooling, precision, one.dim))
            return scores, _draw(scores, pooling, advance) if GEOMETRY in chosen else []
    except KeyboardInterrupt:
        hint = "the same command continues after the last completed task"
        raise InterruptedEarly("interrupted", hint) from None


def _names(models: Sequence[str], directory: Path, suites: Sequence[str]) -> list[str]:
    """The models by name, by default the newest run. Raises DataError, and UsageError for a suite among them."""
    if suites and (more := [word for word in models if word in all_suites() and not Path(word).exists()]):
        raise UsageError(f"'{more[0]}' is a suite, and no model", f"use --suite {','.join([*suites, *more])}")
    return list(dict.fromkeys(resolve(word, directory).name for word in models or (None,)))


def _draw(scores: "Sequence[Scores]", pooling: Pooling | None, advance: OnProgress) -> list[Picture]:
    """Pictures of the suite geometry and, if a model is a run, of the first run's training sentences under each."""
    labels = pictures.labels([one.title for one in scores])
    suites: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for one in scores:
        measured = one.to_json()["suites"]
        before = read_scores(resolve(one.model).scores_path(pooling, one.dim)).get("suites", {})
        # What was measured of the same vectors before is drawn too.
        vectors = {suite["vectors"] for suite in measured.values()}
        before = {name: suite for name, suite in before.items() if suite.get("vectors") in vectors}
        suites[labels[one.title]] = {**before, **measured}
    drawn = pictures.of_models(suites)
    runs = [run for one in scores if (run := resolve(one.model).run)]
    if drawn and runs:
        models = {labels[one.title]: (one.model, pooling, one.dim) for one in scores}
        # As of a run from another machine.
        try:
            drawn.append(draw_sentences(models, runs[0].config().data, advance))
        except DataError as error:
            narrate(f"note: training sentences are not drawn: {error.what}")
    return drawn


def draw_sentences(
    models: Mapping[str, tuple[str, Pooling | None, int | None]], data: sections.Data, advance: OnProgress
) -> Picture:
    """A picture of training sentences under models, by label the name, pooling and size of each. Raises DataError."""
    from contrastcli.evaluation.evaluate import load_subject  # loads torch
    from contrastcli.evaluation.geometry import pca, training_sentences

    texts = training_sentences(data)
    subjects = {label: load_subject(name, pooling, advance, dim=dim) for label, (name, pooling, dim) in models.items()}
    planes = {label: pca(subject.encode(texts, None))[0].tolist() for label, subject in subjects.items()}
    return pictures.of_sentences(planes, Path(data.train).name)


def check_measured(scores: "Sequence[Scores]") -> None:
    """Raises DataError if the data of a task were missing or malformed."""
    missing = [(of.suite, *item) for one in scores for of in one.results for item in of.missing.items()]
    if missing:
        names = dict.fromkeys(task for _, task, _ in missing)
        # An error in a file of the user's names it.
        listed = f"{', '.join(names)}: " if len(names) > 1 or missing[0][0] != "own" else ""
        # Of those that one hint solves, such as missing files, the first.
        causes = [*{error.hint: error for *_, error in reversed(missing)}.values()][::-1]
        remedies = dict.fromkeys(chain.from_iterable(error.remedies for error in causes))
        raise DataError(f"not measured: {listed}{'; '.join(error.what for error in causes)}", [*remedies])
