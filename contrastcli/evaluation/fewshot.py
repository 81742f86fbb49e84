"""Few-shot transfer: 16 labelled rows a class, five training sets (PairSupCon's Table 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from contrastcli.evaluation import senteval
from contrastcli.evaluation.cache import Task, Vectors, measure_each
from contrastcli.evaluation.result import Options, Subject, SuiteResult, average, complete, counted, two
from contrastcli.evaluation.senteval import Labelled, Splits, TransferTask
from contrastcli.evaluation.transfer import EXPECTED, SEVEN, features, fit

TASKS: tuple[TransferTask, ...] = SEVEN
SHOTS = 16
SETS = 5

_C = 1.0
_PROTOCOL = (
    f"{SHOTS} labelled rows a class, {SETS} training sets (seeds 0-{SETS - 1}), tested on the test split or, where "
    "there is none, on all other rows; frozen embeddings, pooling: {pooling}; scikit-learn's logistic regression, "
    "C = 1; MRPC features [|u−v|, u∗v]; mean and standard deviation (n−1) of accuracy × 100"
)
_COLUMNS = ("Task", "Rows", "Mean", "SD")


def measure(subject: Subject, options: Options) -> SuiteResult:
    """Score the seven tasks of SentEval's folder, or of its archive on the hub, as the protocol says.

    Only sentences that are drawn or tested on are encoded, each distinct one once. A set that is missing or malformed
    does not keep the others from being scored.
    """
    vectors = Vectors(subject.encode)

    def score(task: TransferTask, data: Splits) -> Task:
        return _score(task, data, vectors)

    chosen = options.chosen(TASKS)
    read = senteval.read_transfer
    scores, missing = measure_each("fewshot", chosen, subject, options, senteval.root, read, score)
    mean = average(scores, TASKS, "mean")
    rows = (*(_row(task, scores.get(task)) for task in chosen), ("Avg.", "", two(mean), ""))
    protocol = _PROTOCOL.format(pooling=subject.pooling)
    partial = not complete(scores, TASKS)
    return SuiteResult("fewshot", protocol, scores, {"average": mean}, _COLUMNS, rows, missing, partial)


def _row(task: str, score: Task | None) -> tuple[str, ...]:
    if score is None:
        return (task, "missing", "–", "–")
    return (task, counted(score["rows"], score["expected"]), two(score["mean"]), two(score["sd"]))


def _score(task: TransferTask, data: Splits, vectors: Vectors) -> Task:
    accuracies = [_accuracy(*_split(data, seed), vectors) for seed in range(SETS)]
    counts, expected = data.counts, EXPECTED[task]
    return {
        "mean": float(np.mean(accuracies)),
        "sd": float(np.std(accuracies, ddof=1)),
        "accuracies": accuracies,
        "rows": sum(counts),
        "expected": sum(expected),
        "partial": counts != expected,
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
