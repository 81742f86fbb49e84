"""Is one method better than another? Welch's t-test over seeds, and a paired bootstrap over sentence pairs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.examples import ScoredPairs
from contrastcli.data.tokens import OnProgress
from contrastcli.errors import DataError
from contrastcli.evaluation.measure import Vectors
from contrastcli.runs.results import Bootstrap, Welch

Floats = NDArray[np.floating]

RESAMPLES = 1000
"""Bootstrap samples."""
_SEED = 0
_BLOCK = 50  # samples ranked at once: bounds memory on large test sets


def welch(first: Sequence[float], second: Sequence[float]) -> Welch:
    """Welch's t-test of two samples of two values or more, whose variances may differ."""
    from scipy.stats import ttest_ind

    difference = math.fsum(first) / len(first) - math.fsum(second) / len(second)
    if len(set(first)) == 1 == len(set(second)):
        return Welch(difference, difference, difference, None, None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of one sample that hardly varies
        test = ttest_ind(first, second, equal_var=False)
    low, high = test.confidence_interval(0.95)
    return Welch(difference, float(low), float(high), float(test.statistic), float(test.df), float(test.pvalue))


def bootstrap(
    first: Floats, second: Floats, gold: Floats, models: tuple[str, str] = ("", ""), data: str = ""
) -> Bootstrap:
    """Draw pairs with replacement, the same for both models, and correlate each sample: all three arrays are (P,).

    `models` and `data` are their names in the result. The two-sided p is never 0, as the sample at hand counts as one
    of those drawn.
    """
    whole = 100 * _spearman(np.stack([first, second]), np.stack([gold, gold]))  # (2,)
    generator = np.random.Generator(np.random.PCG64(_SEED))
    blocks = []
    for _ in range(RESAMPLES // _BLOCK):
        rows = generator.integers(len(gold), size=(_BLOCK, len(gold)))  # (_BLOCK, P)
        blocks.append(_spearman(first[rows], gold[rows]) - _spearman(second[rows], gold[rows]))
    differences = 100 * np.concatenate(blocks)  # (RESAMPLES,)
    differences = differences[np.isfinite(differences)]  # a sample of few pairs may hold one score only
    low = high = p = math.nan
    if len(differences):
        low, high = np.quantile(differences, [0.025, 0.975])
        tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
        p = min(1.0, 2 * (tail + 1) / (len(differences) + 1))
    numbers = (*whole, whole[0] - whole[1], low, high, p)
    one, other, difference, *interval_and_p = (float(x) if math.isfinite(x) else None for x in numbers)
    return Bootstrap(models, data, len(gold), (one, other), difference, *interval_and_p)


def _spearman(cosines: Floats, gold: Floats) -> Floats:
    """Rank correlation of each row of two (B, P) arrays: (B,); NaN where either is constant."""
    from scipy.stats import rankdata

    a, b = (rankdata(values, axis=1) for values in (cosines, gold))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    lengths = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    correlations: Floats = np.full(len(a), math.nan)
    np.divide((a * b).sum(axis=1), lengths, out=correlations, where=lengths > 0)
    return correlations


def cosines(model: str, pairs: ScoredPairs, on_progress: OnProgress | None = None) -> Floats:
    """The cosine (P,) of each pair by the best checkpoint of a run or another model. Raises DataError."""
    from contrastcli.model.folder import load_model  # torch is loaded only when a model is needed
    from contrastcli.model.locate import resolve
    from contrastcli.model.metrics import cosine

    vectors = Vectors(partial(load_model(resolve(model)).encode, on_progress=on_progress))
    vectors.add([*pairs.first, *pairs.second])
    return cosine(vectors(pairs.first), vectors(pairs.second))


def compare_models(first: str, second: str, data: str, on_progress: OnProgress | None = None) -> Bootstrap:
    """The paired bootstrap of two models on scored pairs, by name: a file, stsb, hf:… Raises DataError, UsageError."""
    from contrastcli.data.sources import load_scored

    pairs = load_scored(data)
    if pairs is None:
        raise DataError("there are no scored pairs to compare on", "name scored pairs: --dev FILE or --dev stsb")
    a, b = (cosines(model, pairs, on_progress) for model in (first, second))
    return bootstrap(a, b, np.asarray(pairs.scores), (first, second), data)
