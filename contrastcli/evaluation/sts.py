"""Semantic textual similarity: the seven test sets, Spearman and Pearson of cosine and human score."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from contrastcli.data.examples import ScoredPairs
from contrastcli.evaluation import senteval
from contrastcli.evaluation.procedure import Procedure, SuiteContext, TaskScores, in_folder
from contrastcli.evaluation.senteval import Parts
from contrastcli.model.metrics import Floats, cosine, pearson, spearman

_PROTOCOL = (
    "test splits as SentEval's, STS13 without SMT: {pairs:,} pairs; cosine, pooling: {pooling}, truncated at the "
    "model's own limit; correlations × 100, `all` over the concatenated subsets, `mean` and `wmean` (by pairs) over "
    "the subsets"
)


def _score(context: SuiteContext, task: str, data: Parts[ScoredPairs]) -> TaskScores:
    """Correlations of one test set.

    `all` is one correlation of the concatenated subsets (SimCSE, SimACE, PairSupCon), `mean` the mean over subsets,
    `wmean` that mean weighted by pairs (SupCon's table). For a set without subsets all three are the same.
    """
    subsets = data.values()
    counts = [len(pairs) for pairs in subsets]
    first = context.vectors([text for pairs in subsets for text in pairs.first])  # (P, d)
    second = context.vectors([text for pairs in subsets for text in pairs.second])
    cosines = cosine(first, second)  # (P,)
    gold = np.array([score for pairs in subsets for score in pairs.scores])
    ends = np.cumsum(counts)[:-1]
    parts = [_correlations(*part) for part in zip(np.split(cosines, ends), np.split(gold, ends), strict=True)]
    pairs, (expected,) = sum(counts), context.suite.tasks[task]
    return {
        "pairs": pairs,
        "expected": expected,
        "all": _named(_correlations(cosines, gold)),
        "mean": _named(np.mean(parts, axis=0)),
        "wmean": _named(np.average(parts, axis=0, weights=counts)),
        "partial": pairs != expected,
    }


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    pairs = sum(task["pairs"] for task in scores.values())
    return _PROTOCOL.format(pairs=pairs, pooling=context.subject.pooling)


def _correlations(cosines: Floats, gold: Floats) -> tuple[float, float]:
    return 100 * spearman(cosines, gold), 100 * pearson(cosines, gold)


def _named(pair: Sequence[float] | Floats) -> dict[str, float]:
    return dict(zip(("spearman", "pearson"), pair, strict=True))


PROCEDURE = Procedure(
    in_folder(senteval.root, senteval.read_sts),
    _score,
    _protocol,
    texts=lambda data: {None: chain.from_iterable(pairs.texts for pairs in data.values())},
    sizes=lambda data: {"test": sum(map(len, data.values()))},
)
"""Each distinct sentence of a set is encoded once, all together."""
