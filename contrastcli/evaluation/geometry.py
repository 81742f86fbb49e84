"""How a model's sentences lie on the sphere: alignment, uniformity (Wang and Isola 2020; SimACE Eq. 11) and angles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastcli.data.examples import ScoredPairs, scored_from_table
from contrastcli.data.formats import read_file
from contrastcli.data.sources import STARTER, load_examples
from contrastcli.errors import DataError
from contrastcli.evaluation import clustering, senteval
from contrastcli.evaluation.cache import Task, measure_each
from contrastcli.evaluation.projection import pca, sample, tsne
from contrastcli.evaluation.result import Gap, Options, Subject, SuiteResult, finite, two
from contrastcli.objectives.similarity import degrees
from contrastcli.runs.events import HISTOGRAM_BINS
from contrastcli.settings.sections import Data

TASKS = ("STS-B", *clustering.TASKS)
"""The clustering sets, drawn by t-SNE, are measured only where they are asked for by name."""

POSITIVE = 4.0
"""Pairs with a score above this are positives."""

_PUBLISHED = 1500  # pairs of STS-B's dev split
_NEGATIVES = 10_000  # random pairs drawn
_SENTENCES = 1000  # of the PCA
_TEXTS = 2000  # of a t-SNE
_SEED = 0
_ROWS = 1024  # rows of the distance matrix at once
_STARTER = STARTER / "dev.tsv"
_SOURCES = {"STS-B": "STS-B's dev split", "starter": "the starter's scored pairs, since there is no STS-B"}


def alignment(first: Tensor, second: Tensor, alpha: float = 2.0) -> float:
    """E‖f(x) − f(x⁺)‖^α over positive pairs, rows of two (N, d) tensors. NaN where there are none.

    SimACE's Eq. 11 prints a log in front; its figures fit this form, without.
    """
    distance = (_unit(first) - _unit(second)).norm(dim=1)  # (N,)
    return float(distance.pow(alpha).mean()) if len(distance) else math.nan


def uniformity(vectors: Tensor, t: float = 2.0) -> float:
    """log E e^(−t‖f(x) − f(y)‖²) over all pairs of distinct rows of (N, d). NaN for fewer than two."""
    unit = _unit(vectors)
    count = len(unit)
    if count < 2:
        return math.nan
    total = 0.0
    for start in range(0, count, _ROWS):
        cosine = unit[start : start + _ROWS] @ unit.T  # (rows, N)
        total += float(torch.exp(2 * t * (cosine - 1)).double().sum())  # ‖a − b‖² = 2 − 2 cos
    return math.log((total - count) / (count * (count - 1)))  # without each row beside itself


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=1)


def histogram(angles: Tensor) -> list[int]:
    """How many angles lie in each bin of 5°."""
    counts: list[int] = torch.histc(angles.float(), HISTOGRAM_BINS, 0, 180).int().tolist()
    return counts


def measure(subject: Subject, options: Options) -> SuiteResult:
    """Measure on STS-B's dev split; where `options.data_dir` or the hub has none, on the starter's scored pairs."""
    tasks, gaps = _of_pairs(subject, options)
    drawn, more = _of_classes(subject, options)
    gaps += more
    rows = (
        *(_row(name, scores) for name, scores in tasks.items()),
        *((name, "–", f"{len(scores['tsne']):,} of {scores['texts']:,}", *"––––") for name, scores in drawn.items()),
        *((gap.task, "missing", *"–––––") for gap in gaps),
    )
    columns = ("Set", "Positives", "Sentences", "Alignment", "Uniformity", "Positive°", "Negative°")
    incomplete = any(scores["partial"] for scores in tasks.values()) or bool(gaps)
    protocol = _protocol(subject, tasks, list(drawn))
    return SuiteResult("geometry", protocol, tasks | drawn, {}, columns, rows, gaps, incomplete)


def _of_pairs(subject: Subject, options: Options) -> tuple[dict[str, Task], tuple[Gap, ...]]:
    if options.tasks and "STS-B" not in options.tasks:
        return {}, ()
    score = partial(_score, subject)
    found, gaps = measure_each("geometry", ["STS-B"], subject, options, _dev_file, _read, score)
    return {str(scores["set"]): scores for scores in found.values()}, gaps


def _of_classes(subject: Subject, options: Options) -> tuple[dict[str, Task], tuple[Gap, ...]]:
    sets = [task for task in clustering.TASKS if task in options.tasks]
    if not sets:
        return {}, ()
    with subject.truncated(clustering.LENGTH):
        draw = partial(_draw, subject)
        return measure_each("t-SNE", sets, subject, options, clustering.root, clustering.read, draw)


def training_sentences(data: Data) -> list[str]:
    """At most 1000 of the sentences that a run trains on, chosen once and for all. Raises DataError."""
    texts = load_examples(data, ("sentences",), ()).views["anchor"]
    return [texts[n] for n in sample(len(texts), _SENTENCES)]


def _dev_file(data_dir: Path | None) -> Path:
    """STS-B's dev split, else the starter's scored pairs. Raises DataError where `data_dir` is no folder."""
    try:
        path = senteval.root(data_dir) / "STS" / "STSBenchmark" / "sts-dev.csv"
    except DataError:
        if data_dir is not None and not data_dir.expanduser().is_dir():
            raise
        return _STARTER
    return path if path.is_file() else _STARTER


def _read(path: Path, task: str) -> ScoredPairs:
    return scored_from_table(read_file(path, str(path)), "", "starter" if path == _STARTER else task)


def _score(subject: Subject, task: str, pairs: ScoredPairs) -> Task:
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    numbers = {text: n for n, text in enumerate(texts)}
    first, second = (np.array([numbers[text] for text in column]) for column in (pairs.first, pairs.second))
    vectors = torch.from_numpy(subject.encode(texts))  # (S, d)
    positive = np.asarray(pairs.scores) > POSITIVE
    left, right = vectors[first[positive]], vectors[second[positive]]  # (P, d)
    one, other = _strangers(len(texts), first, second)
    positives, negatives = degrees(left, right), degrees(vectors[one], vectors[other])
    chosen = sample(len(texts), _SENTENCES)
    plane = pca(vectors[chosen].numpy())
    return {
        "set": pairs.source,
        "split": "dev",
        "scored": len(pairs),
        "pairs": len(left),
        "sentences": len(texts),
        "negatives": len(one),
        "alignment": finite(alignment(left, right)),
        "uniformity": finite(uniformity(vectors)),
        "positive": finite(float(positives.mean())),
        "negative": finite(float(negatives.mean())),
        "positive_histogram": histogram(positives),
        "negative_histogram": histogram(negatives),
        "pca": plane.points.round(4).tolist(),
        "explained": [round(share, 4) for share in plane.explained],
        "partial": (pairs.source, len(pairs)) != (task, _PUBLISHED),
    }


def _strangers(
    count: int, first: NDArray[np.intp], second: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Random pairs of `count` sentences, as a batch brings them together: distinct, and none of the scored pairs."""
    one, other = np.random.default_rng(_SEED).integers(count, size=(2, _NEGATIVES))
    scored = np.concatenate([first * count + second, second * count + first])
    strange = (one != other) & ~np.isin(one * count + other, scored)
    return one[strange], other[strange]


def _draw(subject: Subject, task: str, data: clustering.Classed) -> Task:
    chosen = sample(len(data.texts), _TEXTS)
    vectors = subject.encode([data.texts[n] for n in chosen])
    labels: list[int] = data.labels[chosen].tolist()
    return {"texts": len(data.texts), "tsne": tsne(vectors).round(3).tolist(), "labels": labels}


def _row(name: str, scores: Mapping[str, Any]) -> tuple[str, ...]:
    sizes = (f"{scores['pairs']:,} of {scores['scored']:,} pairs", f"{scores['sentences']:,}")
    return (name, *sizes, *(two(scores[key]) for key in ("alignment", "uniformity", "positive", "negative")))


def _protocol(subject: Subject, tasks: Mapping[str, Mapping[str, Any]], drawn: Sequence[str]) -> str:
    """What was measured, in words, with the definitions: half of the published confusion is about them."""
    words = [f"unit vectors, pooling: {subject.pooling}"]
    for name, scores in tasks.items():
        words += [
            f"{_SOURCES[name]}: positives are the {scores['pairs']:,} of {scores['scored']:,} pairs scored above "
            f"{POSITIVE:g}, negatives {scores['negatives']:,} random pairs of its {scores['sentences']:,} sentences",
            "alignment = E‖f(x) − f(x⁺)‖² over the positives, uniformity = log E e^(−2‖f(x) − f(y)‖²) over all "
            "pairs of distinct sentences, lower is better for both",
            f"angles in degrees, PCA of up to {_SENTENCES:,} sentences",
        ]
    if drawn:
        words.append(f"t-SNE (perplexity 30, from the PCA) of up to {_TEXTS:,} texts, truncated at {clustering.LENGTH}")
    return "; ".join(words)
