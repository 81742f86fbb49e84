"""Data of one's own: scored pairs, pairs and triplets, measured as the dev set of a training is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from contrastcli.data.dev_data import DevData, read_dev
from contrastcli.data.examples import ScoredPairs
from contrastcli.errors import UsageError
from contrastcli.evaluation import ranking
from contrastcli.evaluation.procedure import Options, Procedure, SuiteContext, TaskScores, by_kind, finite
from contrastcli.model.locate import resolve
from contrastcli.model.metrics import cosine, pearson, spearman

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
        scores = {"spearman": finite(100 * spearman(*words)), "pearson": finite(100 * pearson(*words))}
        scores["pairs"] = len(rows)
    else:
        scores = {**ranking.means(rows, torch.from_numpy(first), torch.from_numpy(second))}
    note = "; ".join([f"{task}: {rows}", *_trained_on(context.subject.name, task), *rows.notes])
    return {"metric": rows.metric, "score": scores[rows.metric], **scores, "note": note, "partial": False}


def _trained_on(model: str, file: str) -> Iterator[str]:
    """A warning, where the model is a run that was trained on the file."""
    run = resolve(model).run
    if run and Path(run.config().data.train).resolve() == Path(file).resolve():
        yield "the model was trained on this file, so that it is no measure of other texts"


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    protocol = _PROTOCOL.format(pooling=context.subject.pooling)
    return "\n".join([protocol, *(entry["note"] for entry in scores.values())])


PROCEDURE = Procedure(_find, _score, _protocol, lambda rows: by_kind(rows.columns, rows.kinds))
