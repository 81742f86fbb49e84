"""MTEB through its own package: any of its tasks and benchmarks, with its data, its metrics and its result files."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from contrastcli.errors import UsageError, nearest
from contrastcli.evaluation.procedure import Options, Procedure, Subject, SuiteContext, TaskScores, Unscored
from contrastcli.files import cache_dir
from contrastcli.model.metrics import Floats, cosine
from contrastcli.objectives.similarity import cosines
from contrastcli.settings.sections import Kind

if TYPE_CHECKING:
    from mteb import AbsTask
    from mteb.models import ModelMeta


def find(names: Sequence[str], options: Options) -> "dict[str, Callable[[], AbsTask]]":
    """Tasks, also those of benchmarks, by their own names. They read their data and cache their results themselves.

    Raises UsageError without the package, without names, for unknown ones, and for tasks of other data than texts.
    """
    if not names:
        raise UsageError("MTEB has hundreds of tasks", "say which: --task STS12,TwentyNewsgroupsClustering.v2")
    try:
        import mteb
    except ImportError:
        raise UsageError("the suite mteb needs the package mteb", 'pip install "contrastcli[mteb]"') from None
    by_name: dict[str, AbsTask] = {}
    for name in names:
        try:
            tasks = mteb.get_benchmark(name).tasks if "(" in name else [mteb.get_task(name)]
        except KeyError:
            known = [task.metadata.name for task in mteb.get_tasks()] + [one.name for one in mteb.get_benchmarks()]
            hint = nearest(name, known, "python -c 'import mteb; print(mteb.get_tasks())'")
            raise UsageError(f"MTEB has no task or benchmark '{name}'", hint) from None
        by_name |= {task.metadata.name: task for task in tasks}
    for name, task in by_name.items():
        if set(task.metadata.modalities) != {"text"}:
            raise UsageError(f"the task '{name}' does not take texts", "leave it out")
    return {name: partial(by_name.__getitem__, name) for name in by_name}


def _folder(context: SuiteContext) -> Path:
    """Where MTEB keeps its results, in its own format."""
    return (context.options.out or cache_dir()) / "mteb"


def _score(context: SuiteContext, name: str, task: "AbsTask") -> TaskScores:
    """Run a task, unless there are results for the same weights. Raises Unscored if it fails."""
    import mteb

    with logging_disabled():
        result = mteb.evaluate(
            cast(Any, Encoder(context.subject)),
            task,
            cache=mteb.ResultCache(_folder(context)),
            overwrite_strategy="always" if context.options.fresh else "only-missing",
            raise_error=False,
            show_progress_bar=False,
            co2_tracker=False,
        )
    if result.exceptions:
        message = result.exceptions[0].exception.strip() or "it failed without a message"
        raise Unscored(message.splitlines()[0], "MTEB fetches its data from the hub: check the network")
    about, (scored,) = task.metadata, result.task_results
    score, splits = 100 * scored.get_score(), list(scored.scores)
    return {"score": score, "metric": about.main_score, "type": str(about.type), "splits": splits}


@contextmanager
def logging_disabled() -> Iterator[None]:
    """Suppress log records in the body."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    import mteb

    return (
        f"mteb {mteb.__version__}, each task's main score × 100, mean over its splits and languages; cosine, pooling: "
        f"{context.subject.pooling}, no prompts but the model's own; results in {_folder(context)}"
    )


class Encoder:
    """A subject as an `EncoderProtocol` of MTEB 2."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def mteb_model_meta(self) -> "ModelMeta":
        """Name and revision, by which MTEB finds earlier results: the revision identifies the weights and their use."""
        from mteb.models import ModelMeta
        from mteb.models.model_meta import ScoringFunction

        name, revision = f"contrast/{Path(self._subject.name).name}", self._subject.fingerprint[:16]
        return ModelMeta.create_empty(
            {"name": name, "revision": revision, "similarity_fn_name": ScoringFunction.COSINE}
        )

    def encode(self, inputs: Iterable[Mapping[str, list[str]]], **context: object) -> Floats:
        """Embeddings (N, d) of the texts in batches. Of the `context` only the kind of the texts is used."""
        kind: Kind | None = getattr(context.get("prompt_type"), "value", None)
        return self._subject.vectors()([text for batch in inputs for text in batch["text"]], kind)

    def similarity(self, first: Floats, second: Floats) -> torch.Tensor:
        """The cosine of every row of (N, d) with every row of (M, d): (N, M)."""
        return cosines(torch.as_tensor(first), torch.as_tensor(second))

    def similarity_pairwise(self, first: Floats, second: Floats) -> torch.Tensor:
        """The cosine of each row of (N, d) with the same row of the other: (N,)."""
        return torch.from_numpy(cosine(np.asarray(first), np.asarray(second)))


PROCEDURE = Procedure(find, _score, _protocol)
