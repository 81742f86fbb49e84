"""Few-shot transfer: 16 labelled rows a class, five training sets (PairSupCon's Table 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contrastcli.evaluation import senteval
from contrastcli.evaluation.measure import Context, Procedure, Vectors, in_folder, in_words
from contrastcli.evaluation.result import TaskScores
from contrastcli.evaluation.senteval import Labelled, Splits
from contrastcli.evaluation.transfer import counted, features, fit

SHOTS = 16
SETS = 5

_C = 1.0
_PROTOCOL = (
    f"{SHOTS} labelled rows a class, {SETS} training sets (seeds 0-{SETS - 1}), tested on the test split or, where "
    "there is none, on all other rows; frozen embeddings, pooling: {pooling}; scikit-learn's logistic regression, "
    "C = 1; MRPC features [|u−v|, u∗v]; mean and standard deviation (n−1) of accuracy × 100"
)


def _score(context: Context, task: str, data: Splits) -> TaskScores:
    accuracies = [_accuracy(*_split(data, seed), context.vectors) for seed in range(SETS)]
    return {
        "mean": float(np.mean(accuracies)),
        "sd": float(np.std(accuracies, ddof=1)),
        "accuracies": accuracies,
        **counted(context, task, data),
    }


def _accuracy(train: Labelled, test: Labelled, vectors: Vectors) -> float:
    model = fit(features(train, vectors), train.labels, _C)
    return 100 * float(model.score(features(test, vectors), test.labels))


def _split(data: Splits, seed: int) -> tuple[Labelled, Labelled]:
    """What to train on and what to test on."""
    drawn = _draw(data.train.labels, np.random.default_rng(seed))
    if data.test is not None:
        return data.train.take(drawn), data.test
    rest = np.setdiff1d(np.arange(len(data.train)), drawn)
    return data.train.take(drawn), data.train.take(rest)


def _draw(labels: Sequence[int], generator: np.random.Generator) -> NDArray[np.int64]:
    """16 rows of each class, without replacement."""
    classes = np.array(labels)
    drawn = [generator.choice(np.flatnonzero(classes == c), SHOTS, replace=False) for c in np.unique(classes)]
    return np.concatenate(drawn)


PROCEDURE = Procedure(in_folder(senteval.root, senteval.read_transfer), _score, in_words(_PROTOCOL))
"""Only sentences that are drawn or tested on are encoded."""
