"""Is one method better than another? Welch's t-test over seeds, and a paired bootstrap over pairs or queries.

Tests of several pairs of methods are corrected by Holm's procedure (Holm 1979).
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations

import numpy as np
from msgspec import structs

from contrastcli.data.batching import Indices
from contrastcli.data.dev_data import DevData
from contrastcli.data.examples import ScoredPairs
from contrastcli.evaluation.procedure import Floats, OnProgress, by_kind
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
    with warnings.catch_warnings(action="ignore"):
        # scipy warns of a sample that hardly varies.
        test = ttest_ind(first, second, equal_var=False)
    low, high = test.confidence_interval(0.95)
    return Welch(difference, float(low), float(high), float(test.statistic), float(test.df), float(test.pvalue))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """The p-values of several tests, corrected for their number; None stays None and is no test."""
    known = sorted((p, n) for n, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    highest = 0.0
    for rank, (p, n) in enumerate(known):
        corrected[n] = highest = max(highest, min(1.0, (len(known) - rank) * p))
    return corrected


def compare_methods(methods: Iterable[tuple[str, Sequence[float]]]) -> tuple[Welch, ...]:
    """Welch's test of each two methods, which are a name and the values over seeds."""
    pairs = list(combinations(methods, 2))
    tests = [structs.replace(welch(x, y), methods=(first, second)) for (first, x), (second, y) in pairs]
    corrected = holm([test.p for test in tests])
    return tuple(structs.replace(test, holm=p) for test, p in zip(tests, corrected, strict=True))


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


def judge(model: str, data: DevData, on_progress: OnProgress = lambda what, done, total: None) -> Floats:
    """What the best checkpoint of a run, or another model, makes of dev data: a number (P,) for each pair or query.

    These are the cosines of scored pairs, else the metric of each query. Raises DataError.
    """
    import torch

    from contrastcli.evaluation import ranking
    from contrastcli.evaluation.evaluate import load_subject
    from contrastcli.model.metrics import cosine

    vectors = load_subject(model, None, on_progress).vectors()
    for kind, texts in by_kind(data.columns, data.kinds).items():
        vectors.add(texts, kind)
    first, second = map(vectors, data.columns, data.kinds)
    if isinstance(data, ScoredPairs):
        return cosine(first, second)
    queries, documents = torch.from_numpy(first), torch.from_numpy(second)
    return ranking.measure(data, ranking.ranks(data.judged, queries, documents), queries, documents)


def compare_models(
    models: Iterable[tuple[str, str]], data: DevData, on_progress: OnProgress = lambda what, done, total: None
) -> tuple[Bootstrap, ...]:
    """The paired bootstrap of each two models on dev data; each has a label and a name. Raises DataError."""
    judged = [(label, judge(name, data, on_progress)) for label, name in models]
    gold = np.asarray(data.scores) if isinstance(data, ScoredPairs) else None
    named = partial(structs.replace, data=data.source, metric=data.metric)
    pairs = combinations(judged, 2)
    tests = [named(bootstrap(x, y, gold), runs=(first, second)) for (first, x), (second, y) in pairs]
    corrected = holm([test.p for test in tests])
    return tuple(structs.replace(test, holm=p) for test, p in zip(tests, corrected, strict=True))
