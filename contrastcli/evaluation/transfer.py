"""Transfer: SentEval's eight tasks by logistic regression on frozen embeddings (Conneau and Kiela 2018).

Few-shot transfer: seven of them with 16 labelled rows a class, and five training sets (PairSupCon's Table 6).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from contrastcli.data.batching import Indices
from contrastcli.evaluation import senteval
from contrastcli.evaluation.procedure import Procedure, SuiteContext, TaskScores, Vectors, in_folder, in_words
from contrastcli.evaluation.senteval import Labelled, Parts
from contrastcli.model.metrics import Floats

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Split = tuple[Floats, Indices]
"""Features (N, d) and classes (N,)."""

FOLDS = 10
GRID = tuple(2.0**power for power in range(-2, 4))
TEST_GRID = tuple(2.0**power for power in range(-1, 6))
"""SentEval's values of C; the second for tasks with a test set whose C is chosen by folds of the training set."""
SHOTS = 16
SETS = 5

_FEWSHOT_C = 1.0
_SENTEVAL_SEED = 1111
_GRADIENT_TOLERANCE = 1e-5
"""Accuracies then agree with those of a second-order solver."""
_STEPS = 1000

_PROTOCOL = (
    "SentEval's splits, frozen embeddings, pooling: {pooling}, truncated at the model's own limit; scikit-learn's "
    "logistic regression (lbfgs, L2); MR, CR, SUBJ, MPQA: nested stratified 10-fold; TREC, MRPC: 10-fold on train to "
    "choose C, then test; SST: C by dev, then test; C = 2^-2 … 2^3, for TREC and MRPC 2^-1 … 2^5; MRPC features "
    "[|u−v|, u∗v]; accuracy × 100; Avg.: seven tasks without SST5, Avg. of 8: with it"
)
_FEWSHOT_PROTOCOL = (
    f"{SHOTS} labelled rows a class, {SETS} training sets (seeds 0-{SETS - 1}), tested on the test split or, where "
    "there is none, on all other rows; frozen embeddings, pooling: {pooling}; scikit-learn's logistic regression, "
    "C = 1; MRPC features [|u−v|, u∗v]; mean and standard deviation (n−1) of accuracy × 100"
)


def _score(context: SuiteContext, task: str, data: Parts[Labelled]) -> TaskScores:
    from sklearn.metrics import f1_score

    dev, test = data.get("valid"), data.get("test")
    mean = features(data["train"], context.vectors).mean(axis=0)  # (d,)

    # This changes the intercept only; lbfgs needs it.
    def centred(rows: Labelled) -> Split:
        return features(rows, context.vectors) - mean, np.array(rows.labels)

    grid = GRID if test is None or dev is not None else TEST_GRID
    total = len(grid) * (FOLDS * FOLDS if test is None else FOLDS if dev is None else 1)
    fits = count(1)

    def advance() -> None:
        context.options.on_progress(f"classifying {task}", next(fits), total)

    train, scores = centred(data["train"]), _counted(context, task, data)
    if test is None:
        accuracies = []
        for outer, held in _folds(*train):
            c = _best_c(_folds(*outer), grid, advance)
            accuracies.append(float(fit(*outer, c).score(*held)))
        return {"accuracy": 100 * float(np.mean(accuracies)), **scores}
    c = _best_c(_folds(*train) if dev is None else [(train, centred(dev))], grid, advance)
    x, labels = centred(test)
    predicted = fit(*train, c).predict(x)
    if test.second:
        scores = {"f1": 100 * float(f1_score(labels, predicted, zero_division=0.0)), **scores}
    return {"accuracy": 100 * float(np.mean(predicted == labels)), **scores}


def _score_fewshot(context: SuiteContext, task: str, data: Parts[Labelled]) -> TaskScores:
    accuracies = []
    for seed in range(SETS):
        train, test = _draw(data, seed)
        model = fit(features(train, context.vectors), train.labels, _FEWSHOT_C)
        accuracies.append(100 * float(model.score(features(test, context.vectors), test.labels)))
    mean, sd = float(np.mean(accuracies)), float(np.std(accuracies, ddof=1))
    return {"mean": mean, "sd": sd, "accuracies": accuracies, **_counted(context, task, data)}


def _draw(data: Parts[Labelled], seed: int) -> tuple[Labelled, Labelled]:
    """Draw 16 rows of each class to train on, without replacement; return them and the rows to test on."""
    train = data["train"]
    generator, labels = np.random.default_rng(seed), np.array(train.labels)
    of_classes = [generator.choice(np.flatnonzero(labels == c), SHOTS, replace=False) for c in np.unique(labels)]
    drawn = np.concatenate(of_classes)
    rest = np.setdiff1d(np.arange(len(labels)), drawn)
    return train.take(drawn), data.get("test") or train.take(rest)


def _counted(context: SuiteContext, task: str, data: Parts[Labelled]) -> TaskScores:
    expected, sizes = context.suite.tasks[task], tuple(data.sizes.values())
    return {"rows": sum(sizes), "expected": sum(expected), "partial": sizes != expected}


def features(rows: Labelled, vectors: Vectors) -> Floats:
    """Embeddings (N, d) of texts; of pairs [|u−v|, u∗v], (N, 2d)."""
    if not rows.second:
        return vectors(rows.first)
    both = vectors([*rows.first, *rows.second])  # (2N, d)
    u, v = both[: len(rows)], both[len(rows) :]
    return np.hstack([np.abs(u - v), u * v])


def _folds(x: Floats, y: Indices) -> Iterator[tuple[Split, Split]]:
    """The rows to train on and those to test on, ten times; each class has its share of every fold."""
    from sklearn.model_selection import StratifiedKFold

    for train, held in StratifiedKFold(FOLDS, shuffle=True, random_state=_SENTEVAL_SEED).split(y, y):
        yield (x[train], y[train]), (x[held], y[held])


def _best_c(splits: Iterable[tuple[Split, Split]], grid: Sequence[float], advance: Callable[[], None]) -> float:
    """The C of the best mean accuracy on held-out rows, to a hundredth of a percent; the smallest of equal ones."""
    accuracies = []
    for train, held in splits:
        model, path = None, []
        for c in grid:
            model = fit(*train, c, model)
            path.append(float(model.score(*held)))
            advance()
        accuracies.append(path)
    return grid[int(np.argmax(np.mean(accuracies, axis=0).round(4)))]


def fit(
    x: Floats, y: Indices | Sequence[int], c: float, start: "LogisticRegression | None" = None
) -> "LogisticRegression":
    """Logistic regression of (N, d) and N classes with inverse regularisation `c`; `start` is a fit to continue."""
    from sklearn.linear_model import LogisticRegression

    model = start or LogisticRegression(tol=_GRADIENT_TOLERANCE, max_iter=_STEPS, warm_start=True)
    with warnings.catch_warnings(action="ignore"):
        # float32 may not reach the tolerance, at the same accuracy.
        return model.set_params(C=c).fit(x, y)


_find = in_folder(senteval.root, senteval.read_transfer)

PROCEDURE = Procedure(_find, _score, in_words(_PROTOCOL), sizes=lambda data: data.sizes)
FEWSHOT = Procedure(_find, _score_fewshot, in_words(_FEWSHOT_PROTOCOL))
"""Only sentences that are drawn or tested on are encoded."""
