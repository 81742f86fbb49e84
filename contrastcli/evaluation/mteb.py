"""MTEB through its own package: any of its tasks and benchmarks, with its data, its metrics and its result files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from contrastcli.errors import UsageError
from contrastcli.evaluation.result import Floats, Gap, Options, Subject, SuiteResult, finite, mean, two
from contrastcli.evaluation.silence import unlogged
from contrastcli.files import cache_dir
from contrastcli.objectives.similarity import cosines, unit

if TYPE_CHECKING:
    from mteb import AbsTask
    from mteb.models import ModelMeta

TASKS: tuple[str, ...] = ()
"""Any name that the package knows will do."""

_HOW = "MTEB fetches its data from the hub: check the network"


def measure(subject: Subject, options: Options) -> SuiteResult:
    """Run tasks and benchmarks by their names in the package, which `options.tasks` must give.

    Raises UsageError without the package, without a name, or for one that it does not know.
    """
    names = _names(options.tasks)
    if not names:
        raise UsageError("MTEB has hundreds of tasks", "say which: --task STS12,TwentyNewsgroupsClustering.v2")
    return run(subject, find(names), options)


def _names(words: Sequence[str]) -> list[str]:
    """The names in a list that was split at commas, such as that in `MTEB(eng, v1)`."""
    return [name.strip() for name in re.split(r",(?![^()]*\))", ", ".join(words)) if name.strip()]


def find(names: Sequence[str]) -> list[AbsTask]:
    """The tasks of those names, and of benchmarks of those names, each once.

    Raises UsageError for names that mean nothing, and tasks of more than texts.
    """
    try:
        import mteb
    except ImportError:
        raise UsageError("the suite mteb needs the package mteb", 'pip install "contrastcli[mteb]"') from None
    found: dict[str, AbsTask] = {}
    for name in names:
        try:
            tasks = mteb.get_benchmark(name).tasks if "(" in name else [mteb.get_task(name)]
        except KeyError as error:
            raise UsageError(f"MTEB has no task or benchmark '{name}'", _near(str(error.args[0]))) from None
        found |= {task.metadata.name: task for task in tasks}
    for name, task in found.items():
        if set(task.metadata.modalities) != {"text"}:
            raise UsageError(f"the task '{name}' is not of texts alone", "leave it out")
    return list(found.values())


def _near(words: str) -> str:
    """The names that the package proposes in its own words, or where all of them are listed."""
    _, meant, close = words.rpartition("Did you mean")
    return f"did you mean{close}" if meant else "its tasks: mteb.get_tasks(), or its documentation"


def run(subject: Subject, tasks: Sequence[AbsTask], options: Options) -> SuiteResult:
    """Run tasks one after another; one that fails does not keep the others from being run.

    Results are files in MTEB's own format, in the folder `mteb` of `options.out` or else of the cache. A task whose
    results for the same weights are there is not run again.
    """
    import mteb

    folder = (options.out or cache_dir()) / "mteb"
    cache, encoder = mteb.ResultCache(folder), cast(Any, Encoder(subject))  # which it knows by its methods
    found: dict[str, dict[str, Any]] = {}
    gaps: list[Gap] = []
    for number, task in enumerate(tasks):
        options.on_progress("MTEB", number, len(tasks))
        with unlogged():  # what fails is told as a gap
            result = mteb.evaluate(
                encoder,
                task,
                cache=cache,
                overwrite_strategy="always" if options.fresh else "only-missing",
                raise_error=False,
                show_progress_bar=False,
                co2_tracker=False,
            )
        gaps += [Gap(error.task_name, _first_line(error.exception), _HOW) for error in result.exceptions or ()]
        found |= {one.task_name: _scores(task, one.get_score(), list(one.scores)) for one in result.task_results}
    options.on_progress("MTEB", len(tasks), len(tasks))
    return _result(subject, folder, found, gaps)


def _scores(task: AbsTask, score: float, splits: Sequence[str]) -> dict[str, Any]:
    about = task.metadata
    return {"score": finite(100 * score), "metric": about.main_score, "type": str(about.type), "splits": splits}


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["it failed without a word"])[0]


def _result(subject: Subject, folder: Path, found: Mapping[str, Mapping[str, Any]], gaps: Sequence[Gap]) -> SuiteResult:
    import mteb

    average = None if gaps else mean([task["score"] for task in found.values()])
    rows = (
        *((name, task["type"], task["metric"], two(task["score"])) for name, task in found.items()),
        *((gap.task, "failed", "–", "–") for gap in gaps),
        ("Avg.", "", "", two(average)),
    )
    protocol = (
        f"mteb {mteb.__version__}, each task's main score × 100, mean over its splits and languages; cosine, pooling: "
        f"{subject.pooling}, no prompts but the model's own; results in {folder}"
    )
    columns = ("Task", "Type", "Metric", "Score")
    return SuiteResult("mteb", protocol, found, {"average": average}, columns, rows, tuple(gaps), bool(gaps))


class Encoder:
    """A subject as MTEB 2 sees it: its `EncoderProtocol`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """By its name and revision MTEB knows results again: the revision is that of the weights and their use."""
        from mteb.models import ModelMeta
        from mteb.models.model_meta import ScoringFunction

        name, revision = f"contrast/{Path(self._subject.name).name}", self._subject.fingerprint[:16]
        return ModelMeta.create_empty(
            {"name": name, "revision": revision, "similarity_fn_name": ScoringFunction.COSINE}
        )

    def encode(self, inputs: Iterable[Mapping[str, list[str]]], **asked: object) -> Floats:
        """Embeddings (N, d) of the texts in batches, each distinct one encoded once.

        `asked` is who asks, and for what: no model of ours needs to know.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        vectors = self._subject.encode(list(numbers))  # (distinct, d)
        return vectors[[numbers[text] for text in texts]]

    def similarity(self, first: Floats, second: Floats) -> torch.Tensor:
        """The cosine of every row of (N, d) with every row of (M, d): (N, M)."""
        return cosines(torch.as_tensor(first), torch.as_tensor(second))

    def similarity_pairwise(self, first: Floats, second: Floats) -> torch.Tensor:
        """The cosine of each row of (N, d) with the same row of the other: (N,)."""
        return (unit(torch.as_tensor(first)) * unit(torch.as_tensor(second))).sum(dim=1)
