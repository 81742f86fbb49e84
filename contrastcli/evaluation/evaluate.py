"""Measure models by name, and write their scores to the directory of a run and to a folder."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from contrastcli.boundary import narrate
from contrastcli.data.downloads import OnProgress
from contrastcli.errors import RunError
from contrastcli.evaluation import glove
from contrastcli.evaluation.measure import Scores, SuiteResult, measure
from contrastcli.evaluation.procedure import Options, Subject
from contrastcli.evaluation.suites import Suite
from contrastcli.files import make_folder
from contrastcli.model.folder import load_model
from contrastcli.model.locate import is_word_vectors, resolve
from contrastcli.model.prompts import PROMPT_NAMES
from contrastcli.model.vectors import fingerprint
from contrastcli.runs.scores import add_scores, forget_suites, read_scores
from contrastcli.settings.sections import Pooling, Precision


def evaluate(
    model: str,
    suites: Sequence[Suite],
    options: Options,
    pooling: Pooling | None = None,
    precision: Precision = "fp32",
    dim: int | None = None,
) -> Scores:
    """Measure a model by its name: a run, a folder or a hub name; `pooling` replaces the model's own.

    With `dim` the first numbers of its embeddings are measured.

    The scores of each task are written as soon as it is measured, next to those of other suites and, if only some tasks
    are asked for, of its other tasks: in fp32 to `ModelRef.scores_path`, where that can be written; and to
    `options.out`. Raises DataError if the model cannot be loaded, RunError if scores cannot be written.
    """
    subject = load_subject(model, pooling, options.on_progress, precision, dim)
    results = []
    path = resolve(model).scores_path(pooling, dim)
    paths = [*([options.out / "scores.json"] if options.out else []), *([path] if precision == "fp32" else [])]
    keep = partial(_keep, paths, path)
    keep(lambda place: make_folder(place.parent))
    keep(partial(forget_suites, vectors=subject.fingerprint))

    def write(result: SuiteResult) -> None:
        if result.tasks:
            keep(partial(add_scores, more=Scores(model, (result,), dim).to_json()))

    for suite in suites:
        if suite.tasks and not suite.select(options.tasks):
            continue
        # Where any task may be asked for, an average is of those that were.
        adds = options.names(suite) and (suite.tasks or not suite.averages)
        known = read_scores(path).get("suites", {}).get(suite.name, {}) if adds else {}
        same = known.get("vectors") == subject.fingerprint
        results.append(measure(suite, subject, options, write, known if same else {}))
    return Scores(model, tuple(results), dim)


def _keep(paths: list[Path], own: Path, change: Callable[[Path], None]) -> None:
    """Change files of scores. Raises RunError; the model's `own` is given up with a note."""
    for path in [*paths]:
        try:
            change(path)
        except RunError as error:
            if path != own:
                raise
            paths.remove(own)
            narrate(f"note: {error.what}, so that no scores are kept there; --out DIR keeps them")


def check_model(name: str, runs_dir: Path | None = None) -> None:
    """Raises DataError, which names a similar run, if there is no model with this name. The model is not loaded."""
    if not is_word_vectors(name):
        resolve(name, runs_dir).folder()


def load_subject(
    model: str,
    pooling: Pooling | None,
    on_progress: OnProgress,
    precision: Precision = "fp32",
    dim: int | None = None,
) -> Subject:
    """The model or the file of word vectors with this name.

    Raises DataError if it cannot be loaded, and UsageError for a pooling, a size or a precision that it does not have.
    """
    if is_word_vectors(model):
        return glove.load_subject(model, pooling, dim, precision)
    encoder = load_model(resolve(model), pooling=pooling, precision=precision, dim=dim)
    encode = partial(encoder.encode, on_progress=partial(on_progress, "encoding"))
    contract = encoder.contract
    pooled = (pooling or contract.pooling) + (f", the first {dim} numbers" if dim else "")
    kinds = [kind for kind in PROMPT_NAMES if contract.prompt(kind) != contract.prompt()]
    return Subject(model, encode, pooled, fingerprint(encoder), encoder, precision, kinds=kinds)
