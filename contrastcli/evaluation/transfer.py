"""Transfer: SentEval's eight tasks by logistic regression on frozen embeddings (Conneau and Kiela 2018)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contrastcli.evaluation import senteval
from contrastcli.evaluation.measure import Context, Procedure, Vectors, in_folder, in_words
from contrastcli.evaluation.result import Floats, TaskScores
from contrastcli.evaluation.senteval import Labelled, Splits

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Ints = NDArray[np.int64]
Split = tuple[Floats, Ints]
"""Features (N, d) and classes (N,)."""
Advance = Callable[[], None]

FOLDS = 10
GRID = tuple(2.0**power for power in range(-2, 4))
TEST_GRID = tuple(2.0**power for power in range(-1, 6))
"""SentEval's values of C; the second for tasks with a test set whose C is chosen by folds of the training set."""

_SEED = 1111  # SentEval's
_TOLERANCE = 1e-5  # of the mean gradient: accuracies then agree with those of a second-order solver
_STEPS = 1000

_PROTOCOL = (
    "SentEval's splits, frozen embeddings, pooling: {pooling}, truncated at the model's own limit; scikit-learn's "
    "logistic regression (lbfgs, L2); MR, CR, SUBJ, MPQA: nested stratified 10-fold; TREC, MRPC: 10-fold on train to "
    "choose C, then test; SST: C by dev, then test; C = 2^-2 … 2^3, for TREC and MRPC 2^-1 … 2^5; MRPC features "
    "[|u−v|, u∗v]; accuracy × 100; Avg.: seven tasks without SST5, Avg. of 8: with it"
)


def _score(context: Context, task: str, data: Splits) -> TaskScores:
    middle = features(data.train, context.vectors).mean(axis=0)  # (d,)

    def read(rows: Labelled) -> Split:
        return features(rows, context.vectors) - middle, np.array(
            rows.labels
        )  # changes the intercept only; lbfgs needs it

    train, advance = read(data.train), _counter(f"classifying {task}", _fits(data), context)
    scores: TaskScores = {}
    if data.test is None:
        scores["accuracy"] = 100 * float(np.mean(list(_nested(*train, advance))))
    else:
        c = _by_folds(*train, TEST_GRID, advance) if data.dev is None else _by_dev(train, read(data.dev), advance)
        x, labels = read(data.test)
        predicted = fit(*train, c).predict(x)
        scores["accuracy"] = 100 * float(np.mean(predicted == labels))
        if data.test.second:
            scores["f1"] = 100 * _f1(predicted, labels)
    return scores | counted(context, task, data)


def counted(context: Context, task: str, data: Splits) -> TaskScores:
    """How many rows there are, and how many there should be."""
    expected = context.suite.tasks[task]
    return {"rows": sum(data.counts), "expected": sum(expected), "partial": data.counts != expected}


def _fits(data: Splits) -> int:
    """How many classifiers are fitted to choose C."""
    if data.test is None:
        return FOLDS * FOLDS * len(GRID)
    return FOLDS * len(TEST_GRID) if data.dev is None else len(GRID)


def _counter(what: str, total: int, context: Context) -> Advance:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        context.options.on_progress(what, done, total)

    return advance


def features(rows: Labelled, vectors: Vectors) -> Floats:
    """Embeddings (N, d) of texts; of pairs [|u−v|, u∗v], (N, 2d)."""
    if not rows.second:
        return vectors(rows.first)
    both = vectors([*rows.first, *rows.second])  # (2N, d)
    u, v = both[: len(rows)], both[len(rows) :]
    return np.hstack([np.abs(u - v), u * v])


def _nested(x: Floats, y: Ints, advance: Advance) -> Iterator[float]:
    """The accuracy of each outer fold, with the C that inner folds of its training rows chose."""
    for train, test in _folds(y):
        c = _by_folds(x[train], y[train], GRID, advance)
        yield float(fit(x[train], y[train], c).score(x[test], y[test]))


def _by_folds(x: Floats, y: Ints, grid: Sequence[float], advance: Advance) -> float:
    """The C that is best on the folds of the rows."""
    paths = [_path((x[train], y[train]), (x[test], y[test]), grid, advance) for train, test in _folds(y)]
    return _best(np.mean(paths, axis=0), grid)


def _by_dev(train: Split, dev: Split, advance: Advance) -> float:
    """The C that is best on the dev split."""
    return _best(np.array(_path(train, dev, GRID, advance)), GRID)


def _best(accuracies: Floats, grid: Sequence[float]) -> float:
    """The C of the best accuracy, to a hundredth of a percent; the smallest where several are as good."""
    return grid[int(np.argmax(accuracies.round(4)))]


def _path(train: Split, held: Split, grid: Sequence[float], advance: Advance) -> list[float]:
    """The accuracy on held-out rows for each C, the smallest first: each fit starts at the previous solution."""
    model, accuracies = None, []
    for c in grid:
        model = fit(*train, c, model)
        accuracies.append(float(model.score(*held)))
        advance()
    return accuracies


def _folds(y: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The rows to train on and those to test on, ten times; each class has its share of every fold."""
    from sklearn.model_selection import StratifiedKFold

    yield from StratifiedKFold(FOLDS, shuffle=True, random_state=_SEED).split(y, y)


def fit(x: Floats, y: Ints | Sequence[int], c: float, start: LogisticRegression | None = None) -> LogisticRegression:
    """Logistic regression of (N, d) and N classes with inverse regularisation `c`; `start` is a fit to continue."""
    from sklearn.linear_model import LogisticRegression

    model = start or LogisticRegression(tol=_TOLERANCE, max_iter=_STEPS, warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # float32 may not reach the tolerance, at the same accuracy
        return model.set_params(C=c).fit(x, y)


def _f1(predicted: Ints, labels: Ints) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted, zero_division=0.0))


PROCEDURE = Procedure(in_folder(senteval.root, senteval.read_transfer), _score, in_words(_PROTOCOL))
