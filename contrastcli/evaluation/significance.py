"""Is one method better than another? Welch's t-test over seeds, and a paired bootstrap over pairs or queries.

Tests of several pairs of methods are corrected by Holm's procedure (Holm 1979).
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean

import numpy as np
from msgspec import structs

from contrastcli.data.batching import Indices
from contrastcli.data.dev_data import DevData
from contrastcli.data.downloads import OnProgress
from contrastcli.data.examples import ScoredPairs
from contrastcli.evaluation import ranking
from contrastcli.evaluation.evaluate import load_subject
from contrastcli.evaluation.procedure import Vectors, by_kind, finite
from contrastcli.model.metrics import Floats, cosine
from contrastcli.runs.results import Bootstrap, Welch

RESAMPLES = 1000
"""Bootstrap samples."""
_SEED = 0
_SAMPLES_AT_ONCE = 50
"""Bounds memory on large test sets."""

Ranks = Callable[[Indices], Floats]
"""Ranks, less their mean, in samples that hold each pair so many times: (B, P) → (B, P)."""


def welch(first: Sequence[float], second: Sequence[float]) -> Welch:
    """Welch's t-test of two samples of two values or more, whose variances may differ."""
    from scipy.stats import ttest_ind

    difference = fmean(second) - fmean(first)
    if len(set(first)) == 1 == len(set(second)):
        return Welch(difference, difference, difference, None, None, None)
    with warnings.catch_warnings(action="ignore"):
        # scipy warns of a sample that hardly varies.
        test = ttest_ind(second, first, equal_var=False)
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


def resampled(values: Floats, gold: Floats | None = None) -> Floats:
    """A model's score on P pairs or queries, then on RESAMPLES samples of them with replacement: (1 + RESAMPLES,).

    The samples are the same for all models, whose values may stand side by side, (P, models). With `gold` (P,) the
    score is the rank correlation of `values` (P,) with it, which are cosines then, else their mean; NaN where it is
    undefined.
    """
    size, generator = len(values), np.random.Generator(np.random.PCG64(_SEED))
    ranked = None if gold is None else (_ranks(values), _ranks(gold))

    def score(counts: Indices) -> Floats:
        means: Floats = counts @ values / size if ranked is None else _spearman(counts, *ranked)
        return means

    scores = [score(np.ones((1, size), np.int64))]
    places = size * np.arange(_SAMPLES_AT_ONCE)[:, None]
    for _ in range(RESAMPLES // _SAMPLES_AT_ONCE):
        rows = generator.integers(size, size=(_SAMPLES_AT_ONCE, size)) + places
        scores.append(score(np.bincount(rows.ravel(), minlength=places.size * size).reshape(-1, size)))
    return np.concatenate(scores)


def _ranks(values: Floats) -> Ranks:
    """The ranks of values (P,), which are sorted once; equal values share theirs."""
    _, places = np.unique(values, return_inverse=True)  # among the G distinct ones
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))  # (G,)

    def ranks(counts: Indices) -> Floats:
        drawn = np.add.reduceat(counts[:, order], starts, axis=1)  # (B, G)
        centred: Floats = drawn.cumsum(axis=1) - (drawn + len(places)) / 2
        return centred[:, places]

    return ranks


def _spearman(counts: Indices, first: Ranks, second: Ranks) -> Floats:
    """Rank correlation in samples that hold each pair so many times (B, P): (B,); NaN where it is undefined."""
    a, b = first(counts), second(counts)
    lengths = np.sqrt((counts * a * a).sum(axis=1) * (counts * b * b).sum(axis=1))
    correlations: Floats = np.full(len(counts), math.nan)
    np.divide((counts * a * b).sum(axis=1), lengths, out=correlations, where=lengths > 0)
    return correlations


def interval(differences: Floats, most: Floats | None = None) -> tuple[float, float]:
    """The 95 % interval of a difference of two `resampled` scores (1 + RESAMPLES,); NaN without a sample.

    With `most` (RESAMPLES,) one of the two is the best of several models, which one of them is by chance too. These
    are the largest deviations of their samples from their own differences, and the lower end allows for as much
    (White 2000, "A Reality Check for Data Snooping").
    """
    # A sample of few pairs may hold one score only.
    drawn = differences[1:][np.isfinite(differences[1:])]
    if not len(drawn):
        return math.nan, math.nan
    low, high = map(float, np.quantile(drawn, [0.025, 0.975]))
    return low if most is None else min(low, float(differences[0] - np.nanquantile(most, 0.975))), high


def bootstrap(first: Floats, second: Floats, gold: Floats | None = None) -> Bootstrap:
    """The paired bootstrap of two models, from the arrays (P,) that `resampled` takes.

    The two-sided p is never 0, as the sample at hand counts as one of those drawn. The result has no names yet.
    """
    scores = 100 * np.array([resampled(values, gold) for values in (first, second)])  # (2, 1 + RESAMPLES)
    differences = scores[1] - scores[0]
    drawn = differences[1:][np.isfinite(differences[1:])]
    p = math.nan
    if len(drawn):
        tail = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
        p = min(1.0, 2 * (tail + 1) / (len(drawn) + 1))
    one, other, difference, low, high, tail_p = map(finite, (*scores[:, 0], differences[0], *interval(differences), p))
    test = Bootstrap(("", ""), "", "", len(first), (one, other), difference, low, high, tail_p)
    return structs.replace(test, judgement=test.change.judgement)


def judge(vectors: Vectors, data: DevData) -> Floats:
    """What a model's vectors make of dev data, as `values_of` has it. Raises DataError."""
    for kind, texts in by_kind(data).items():
        vectors.add(texts, kind)
    return values_of(data, *map(vectors, data.columns, data.kinds))[0]


def values_of(data: DevData, first: Floats, second: Floats) -> tuple[Floats, Indices | None]:
    """Given vectors of both columns, the cosines of scored pairs (P,), else each query's metric (Q,) and ranks (J,)."""
    if isinstance(data, ScoredPairs):
        return cosine(first, second), None
    ranks = ranking.ranks(data.judged, first, second)
    return ranking.measure(data, ranks, first, second), ranks


def compare_models(
    models: Iterable[tuple[str, str]], data: DevData, on_progress: OnProgress = lambda what, done, total: None
) -> tuple[Bootstrap, ...]:
    """The paired bootstrap of each two models on dev data; each has a label and a name. Raises DataError.

    Of several tests the judgement is by Holm's p.
    """
    judged = [(label, judge(load_subject(name, None, on_progress).vectors(), data)) for label, name in models]
    gold = np.asarray(data.scores) if isinstance(data, ScoredPairs) else None
    named = partial(structs.replace, data=data.source, metric=data.metric)
    pairs = combinations(judged, 2)
    tests = [named(bootstrap(x, y, gold), runs=(first, second)) for (first, x), (second, y) in pairs]
    corrected = holm([test.p for test in tests])
    # One of many tests is below 5 % by chance.
    is_sure = [len(tests) == 1 or (p is not None and p <= 0.05) for p in corrected]
    return tuple(
        structs.replace(test, holm=p, judgement=test.judgement if sure else "not different")
        for test, p, sure in zip(tests, corrected, is_sure, strict=True)
    )
