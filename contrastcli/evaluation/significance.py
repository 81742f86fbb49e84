"""Is one method better than another? Welch's t-test over seeds, and a paired bootstrap over pairs or queries."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import chain

import numpy as np
from msgspec import structs

from contrastcli.data.batching import Indices
from contrastcli.data.dev_data import DevData
from contrastcli.data.examples import ScoredPairs
from contrastcli.data.tokens import OnProgress
from contrastcli.evaluation.procedure import Floats, Vectors
from contrastcli.runs.results import Bootstrap, Welch

RESAMPLES = 1000
"""Bootstrap samples."""
_SEED = 0
_SAMPLES_AT_ONCE = 50
"""Bounds memory on large test sets."""


def welch(first: Sequence[float], second: Sequence[float]) -> Welch:
    """Welch's t-test of two samples of two values or more, whose variances may differ."""
    from scipy.stats import ttest_ind

    difference = math.fsum(first) / len(first) - math.fsum(second) / len(second)
    if len(set(first)) == 1 == len(set(second)):
        return Welch(difference, difference, difference, None, None, None)
    with warnings.catch_warnings():
        # scipy warns of a sample that hardly varies.
        warnings.simplefilter("ignore")
        test = ttest_ind(first, second, equal_var=False)
    low, high = test.confidence_interval(0.95)
    return Welch(difference, float(low), float(high), float(test.statistic), float(test.df), float(test.pvalue))


def bootstrap(first: Floats, second: Floats, gold: Floats | None = None) -> Bootstrap:
    """Draw pairs with replacement, the same for both models, and score each sample; all arrays are (P,).

    With `gold` the score is the correlation of cosines with it, else the mean of what is measured of each query. The
    two-sided p is never 0, as the sample at hand counts as one of those drawn. The result has no names yet.
    """

    def score(values: Floats, rows: Indices) -> Floats:
        means: Floats = values[rows].mean(axis=1)
        return means if gold is None else _spearman(values[rows], gold[rows])

    everything = np.arange(len(first))[None]
    whole = 100 * np.concatenate([score(first, everything), score(second, everything)])  # (2,)
    generator = np.random.Generator(np.random.PCG64(_SEED))
    blocks = []
    for _ in range(RESAMPLES // _SAMPLES_AT_ONCE):
        rows = generator.integers(len(first), size=(_SAMPLES_AT_ONCE, len(first)))  # (_SAMPLES_AT_ONCE, P)
        blocks.append(score(first, rows) - score(second, rows))
    differences = 100 * np.concatenate(blocks)  # (RESAMPLES,)
    # A sample of few pairs may hold one score only.
    differences = differences[np.isfinite(differences)]
    low = high = p = math.nan
    if len(differences):
        low, high = np.quantile(differences, [0.025, 0.975])
        tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
        p = min(1.0, 2 * (tail + 1) / (len(differences) + 1))
    numbers = (*whole, whole[0] - whole[1], low, high, p)
    one, other, difference, *interval_and_p = (float(x) if math.isfinite(x) else None for x in numbers)
    return Bootstrap(("", ""), "", "", len(first), (one, other), difference, *interval_and_p)


def _spearman(cosines: Floats, gold: Floats) -> Floats:
    """Rank correlation of each row of two (B, P) arrays: (B,); NaN where either is constant."""
    from scipy.stats import rankdata

    a, b = (rankdata(values, axis=1) for values in (cosines, gold))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    lengths = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    correlations: Floats = np.full(len(a), math.nan)
    np.divide((a * b).sum(axis=1), lengths, out=correlations, where=lengths > 0)
    return correlations


def judge(model: str, data: DevData, on_progress: OnProgress | None = None) -> Floats:
    """What the best checkpoint of a run, or another model, makes of dev data: a number (P,) for each pair or query.

    These are the cosines of scored pairs, else the metric of each query. Raises DataError.
    """
    import torch

    from contrastcli.evaluation import ranking
    from contrastcli.model.folder import load_model
    from contrastcli.model.locate import resolve
    from contrastcli.model.metrics import cosine

    vectors = Vectors(partial(load_model(resolve(model)).encode, on_progress=on_progress))
    vectors.add(chain.from_iterable(data.columns))
    first, second = map(vectors, data.columns)
    if isinstance(data, ScoredPairs):
        return cosine(first, second)
    queries, documents = torch.from_numpy(first), torch.from_numpy(second)
    return ranking.measure(data, ranking.ranks(data.judged, queries, documents), queries, documents)


def compare_models(first: str, second: str, data: DevData, on_progress: OnProgress | None = None) -> Bootstrap:
    """The paired bootstrap of two models, by name, on dev data. Raises DataError."""
    a, b = (judge(model, data, on_progress) for model in (first, second))
    tested = bootstrap(a, b, np.asarray(data.scores) if isinstance(data, ScoredPairs) else None)
    return structs.replace(tested, runs=(first, second), data=data.source, metric=data.metric)
