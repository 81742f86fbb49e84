"""Semantic textual similarity: the seven test sets, Spearman and Pearson of cosine and human score."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.examples import ScoredPairs
from contrastcli.evaluation import senteval
from contrastcli.evaluation.cache import Task, Vectors, measure_each
from contrastcli.evaluation.result import Floats, Options, Subject, SuiteResult, complete, counted, finite, mean, two
from contrastcli.evaluation.senteval import StsTask

EXPECTED: Mapping[StsTask, int] = {
    "STS12": 3108,
    "STS13": 1500,
    "STS14": 3750,
    "STS15": 3000,
    "STS16": 1186,
    "STS-B": 1379,
    "SICK-R": 4927,
}
"""Scored pairs of each published test set, in the order of the papers' tables (PairSupCon's ends SICK-R, STS-B)."""

TASKS: tuple[StsTask, ...] = tuple(EXPECTED)

_PROTOCOL = (
    "test splits as SentEval's, STS13 without SMT: {pairs:,} pairs; cosine, pooling: {pooling}, truncated at the "
    "model's own limit; correlations × 100, `all` over the concatenated subsets, `mean` and `wmean` (by pairs) over "
    "the subsets"
)
_COLUMNS = ("Set", "Pairs", "Spearman", "Pearson", "Mean", "Weighted")


@dataclass(frozen=True)
class _Subsets:
    """The scored pairs of one task, by subset."""

    parts: Mapping[str, ScoredPairs]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(repr([part.fingerprint for part in self.parts.values()]).encode()).hexdigest()


def measure(subject: Subject, options: Options) -> SuiteResult:
    """Score the STS test sets, of SentEval's folder or of its archive on the hub.

    Each distinct sentence of all sets is encoded once, all together. A set that is missing or malformed does not keep
    the others from being scored. The average is of the seven `all` Spearman, None unless all are there and complete.
    """
    vectors = Vectors(subject.encode)

    def read(folder: Path, task: StsTask) -> _Subsets:
        return _Subsets(senteval.read_sts(folder, task))

    def score(task: StsTask, data: _Subsets) -> Task:
        return _score(data.parts, EXPECTED[task], vectors)

    def prepare(sets: Sequence[_Subsets]) -> None:
        parts = [part for one in sets for part in one.parts.values()]
        vectors.add([text for part in parts for text in (*part.first, *part.second)])

    chosen = options.chosen(TASKS)
    scores, missing = measure_each("sts", chosen, subject, options, senteval.root, read, score, prepare)
    partial = not complete(scores, TASKS)
    average = None if partial else mean([score["all"]["spearman"] for score in scores.values()])
    pairs = sum(score["pairs"] for score in scores.values())
    protocol = _PROTOCOL.format(pairs=pairs, pooling=subject.pooling)
    rows = _table(chosen, scores, average, partial)
    return SuiteResult("sts", protocol, scores, {"average": average}, _COLUMNS, rows, missing, partial)


def _score(subsets: Mapping[str, ScoredPairs], expected: int, vectors: Vectors) -> Task:
    """Correlations of one test set.

    `all` is one correlation of the concatenated subsets (SimCSE, SimACE, PairSupCon), `mean` the mean over subsets,
    `wmean` that mean weighted by pairs (SupCon's table). For a set without subsets all three are the same.
    """
    counts = [len(pairs) for pairs in subsets.values()]
    first = [text for pairs in subsets.values() for text in pairs.first]
    second = [text for pairs in subsets.values() for text in pairs.second]
    found = vectors([*first, *second])  # (2P, d)
    cosines = cosine(found[: len(first)], found[len(first) :])  # (P,)
    gold = np.array([score for pairs in subsets.values() for score in pairs.scores])  # (P,)
    ends = np.cumsum(counts)[:-1]
    parts = [_correlations(*part) for part in zip(np.split(cosines, ends), np.split(gold, ends), strict=True)]
    return {
        "pairs": sum(counts),
        "expected": expected,
        "all": _named(_correlations(cosines, gold)),
        "mean": _named(np.mean(parts, axis=0)),
        "wmean": _named(np.average(parts, axis=0, weights=counts)),
        "partial": sum(counts) != expected,
    }


def _correlations(cosines: Floats, gold: Floats) -> tuple[float, float]:
    return 100 * spearman(cosines, gold), 100 * pearson(cosines, gold)


def _named(pair: Sequence[float] | Floats) -> dict[str, float | None]:
    return {"spearman": finite(pair[0]), "pearson": finite(pair[1])}


def cosine(first: Floats, second: Floats) -> NDArray[np.float64]:
    """Cosine of each row of two (P, d) arrays: (P,); 0 where a vector is zero."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines: NDArray[np.float64] = np.zeros(len(a))
    np.divide((a * b).sum(axis=1), lengths, out=cosines, where=lengths != 0)
    return cosines


def spearman(cosine: Floats, gold: Floats) -> float:
    """Rank correlation of two (P,) arrays, in −1..1; NaN where either is constant."""
    from scipy.stats import spearmanr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of constant input, which NaN says already
        return float(spearmanr(cosine, gold).statistic) if len(gold) > 1 else math.nan


def pearson(cosine: Floats, gold: Floats) -> float:
    """Linear correlation of two (P,) arrays, in −1..1; NaN where either is constant."""
    from scipy.stats import pearsonr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        return float(pearsonr(cosine, gold).statistic) if len(gold) > 1 else math.nan


def _table(
    chosen: Sequence[StsTask], scores: Mapping[str, Task], average: float | None, partial: bool
) -> tuple[tuple[str, ...], ...]:
    """A row a task, in the order of the papers' tables; the last is the average."""
    last = ("Avg.", "partial" if partial else "", two(average), "", "", "")
    return (*(_row(task, scores.get(task)) for task in chosen), last)


def _row(task: str, score: Task | None) -> tuple[str, ...]:
    if score is None:
        return (task, "missing", "–", "–", "–", "–")
    values = (score[by][which] for by, which in _CELLS)
    return (task, counted(score["pairs"], score["expected"]), *map(two, values))


_CELLS = (("all", "spearman"), ("all", "pearson"), ("mean", "spearman"), ("wmean", "spearman"))
