"""Data of one's own: scored pairs, pairs and triplets, measured as the dev set of a training is."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from contrastcli.data import folders
from contrastcli.data.dev_data import DevData, read_dev
from contrastcli.data.examples import ScoredPairs
from contrastcli.errors import UsageError
from contrastcli.evaluation import ranking
from contrastcli.evaluation.procedure import Options, Procedure, SuiteContext, TaskScores, by_kind
from contrastcli.model.locate import resolve
from contrastcli.model.metrics import cosine, pearson, spearman
from contrastcli.runs.directory import Run
from contrastcli.runs.status import Environment

_PROTOCOL = (
    "cosine, pooling: {pooling}, truncated at the model's own limit; correlations over all pairs; rankings of all "
    "anchors among the texts of the file, of equal cosines the relevant text last; all × 100"
)


def _find(files: Sequence[str], options: Options) -> Mapping[str, Callable[[], DevData]]:
    if not files:
        raise UsageError("the suite own measures data of yours", "say which: --data FILE")
    how = (options.columns, options.labels, options.metric, options.blank)
    return {file: partial(read_dev, file, *how) for file in files}


def _score(context: SuiteContext, task: str, rows: DevData) -> TaskScores:
    first, second = map(context.vectors, rows.columns, rows.kinds)
    if isinstance(rows, ScoredPairs):
        words = cosine(first, second), np.asarray(rows.scores)
        scores: TaskScores = {"spearman": 100 * spearman(*words), "pearson": 100 * pearson(*words)}
        scores |= {"pairs": len(rows), "fingerprint": rows.fingerprint}
    else:
        scores = {**ranking.means(rows, first, second)}
        # The same rows may be measured by several metrics.
        scores["fingerprint"] = replace(rows, metric="").fingerprint
    note = "; ".join([f"{task}: {rows}", *rows.notes])
    return {"metric": rows.metric, "score": scores[rows.metric], **scores, "note": note, "partial": False}


def seen_by(run: Run | None, files: Iterable[str], title: str) -> list[str]:
    """A warning of each file that a run was trained on, but for folders with a split to judge by."""
    trained = Environment.read(run.environment_path).data.get("files", []) if run else []
    places = {file: Path(os.path.expanduser(file)).resolve() for file in files}
    trained_on = {file: place for file, place in places.items() if str(place) in trained}
    seen = [file for file, place in trained_on.items() if not {"test", "validation"} & folders.judged_splits(place)]
    return [f"{file}: {title} was trained on it, so that its score says little of other texts" for file in seen]


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    protocol = _PROTOCOL.format(pooling=context.subject.pooling)
    warnings = seen_by(resolve(context.subject.name).run, scores, "the model")
    return "\n".join([protocol, *(entry["note"] for entry in scores.values()), *warnings])


PROCEDURE = Procedure(_find, _score, _protocol, by_kind)
