"""Geometry of the embeddings: alignment, uniformity (Wang and Isola 2020; SimACE Eq. 10-11) and angles of pairs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from contrastcli.data.convert import convert, scored
from contrastcli.data.examples import ScoredPairs, from_frame
from contrastcli.data.formats import read_file
from contrastcli.data.sources import STARTER, load_examples
from contrastcli.errors import DataError
from contrastcli.evaluation import clustering, senteval
from contrastcli.evaluation.procedure import Options, Procedure, SuiteContext, TaskScores
from contrastcli.evaluation.senteval import Labelled
from contrastcli.evaluation.suites import CLUSTERING
from contrastcli.model.metrics import Floats, alignment, degrees, histogram, uniformity, unit_rows
from contrastcli.settings.sections import Data

POSITIVE = 4.0
"""Pairs with a score above this are positives."""

_RANDOM_PAIRS, _PCA_TEXTS, _TSNE_TEXTS = 10_000, 1000, 2000
_SEED = 0
_PERPLEXITY = 30.0
_STSB, _STARTER = "STS-B", "starter"
_SOURCES = {_STSB: "STS-B's dev split", _STARTER: "the starter's scored pairs, since there is no STS-B"}


def _find(tasks: Sequence[str], options: Options) -> dict[str, Callable[[], ScoredPairs | Labelled]]:
    """STS-B's dev split, or the starter's scored pairs in its place, and clustering sets to draw.

    Raises DataError if --data-dir is no folder.
    """
    readers: dict[str, Callable[[], ScoredPairs | Labelled]] = {}
    for task in tasks:
        if task in CLUSTERING.tasks:
            readers[task] = partial(_read_classes, options.data_dir, task)
        else:
            path = _dev_file(options.data_dir) if task == _STSB else None
            name, file = (_STSB, path) if path else (_STARTER, STARTER / "dev.tsv")
            readers[name] = partial(_read_pairs, file, name)
    return readers


def training_sentences(data: Data) -> list[str]:
    """A fixed sample of at most 1000 of the sentences that a run trains on. Raises DataError."""
    texts = convert(load_examples(data, ("sentences", "scored"), ()), "sentences").views["anchor"]
    return [texts[n] for n in sample(len(texts), _PCA_TEXTS)]


def _dev_file(data_dir: Path | None) -> Path | None:
    try:
        path = senteval.root(data_dir) / "STS" / "STSBenchmark" / "sts-dev.csv"
    except DataError:
        if data_dir is not None and not data_dir.is_dir():
            raise
        return None
    return path if path.is_file() else None


def _read_pairs(path: Path, name: str) -> ScoredPairs:
    return scored(from_frame(read_file(path, str(path), strict=True), "", "", name))


def _read_classes(data_dir: Path | None, task: str) -> Labelled:
    return clustering.read(clustering.root(data_dir), task)


def _score(context: SuiteContext, task: str, data: ScoredPairs | Labelled) -> TaskScores:
    if isinstance(data, ScoredPairs):
        return _angles(context, task, data)
    chosen = sample(len(data), _TSNE_TEXTS)
    with context.subject.truncated(clustering.LENGTH):
        vectors = context.subject.encode([data.first[n] for n in chosen], None)
    labels = [data.names[data.labels[n]] for n in chosen]
    return {"texts": len(data), "tsne": tsne(vectors).round(3).tolist(), "labels": labels}


def _angles(context: SuiteContext, task: str, pairs: ScoredPairs) -> TaskScores:
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    numbers = {text: n for n, text in enumerate(texts)}
    first, second = (np.array([numbers[text] for text in column]) for column in (pairs.first, pairs.second))
    vectors = torch.from_numpy(context.vectors(texts))  # (S, d)
    positive = np.asarray(pairs.scores) > POSITIVE
    left, right = vectors[first[positive]], vectors[second[positive]]  # (P, d)
    # Random pairs as in a batch: of different sentences, and none of the scored pairs.
    one, other = np.random.default_rng(_SEED).integers(len(texts), size=(2, _RANDOM_PAIRS))
    known = np.concatenate([first * len(texts) + second, second * len(texts) + first])
    random = (one != other) & ~np.isin(one * len(texts) + other, known)
    one, other = one[random], other[random]
    positives, negatives = degrees(left, right), degrees(vectors[one], vectors[other])
    chosen = sample(len(texts), _PCA_TEXTS)
    points, explained = pca(vectors[chosen].numpy())
    return {
        "set": pairs.source,
        "split": "dev",
        "scored": len(pairs),
        "pairs": len(left),
        "sentences": len(texts),
        "negatives": len(one),
        "alignment": alignment(left, right),
        "uniformity": uniformity(vectors),
        "positive": positives.mean(),
        "negative": negatives.mean(),
        "positive_histogram": histogram(positives).int().tolist(),
        "negative_histogram": histogram(negatives).int().tolist(),
        "pca": points.round(4).tolist(),
        "explained": [round(share, 4) for share in explained],
        "partial": (len(pairs),) != context.suite.tasks.get(task),
    }


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    """What was measured, with the definitions, in which papers differ."""
    words = [f"unit vectors, pooling: {context.subject.pooling}"]
    for name, task in scores.items():
        if "pairs" in task:
            words += [
                f"{_SOURCES[name]}: positives are the {task['pairs']:,} of {task['scored']:,} pairs scored above "
                f"{POSITIVE:g}, negatives {task['negatives']:,} random pairs of its {task['sentences']:,} sentences",
                "alignment = E‖f(x) − f(x⁺)‖² over the positives, uniformity = log E e^(−2‖f(x) − f(y)‖²) over all "
                "pairs of distinct sentences, lower is better for both",
                f"angles in degrees, PCA of up to {_PCA_TEXTS:,} sentences",
            ]
    if any("tsne" in task for task in scores.values()):
        texts = f"up to {_TSNE_TEXTS:,} texts, truncated at {clustering.LENGTH}"
        words.append(f"t-SNE (perplexity 30, from the PCA) of {texts}")
    return "; ".join(words)


def pca(vectors: Floats) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """The first two principal components of the unit vectors of (N, d), about their mean: (N, 2).

    With them come the shares of the variance that the two axes explain. Each axis points to where its largest
    coordinate is, so that the same vectors make the same picture everywhere. Where the vectors span fewer dimensions,
    the rest is zero.
    """
    unit = unit_rows(vectors)
    places, sizes, _ = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)  # (N, r), (r,)
    points = np.pad(places * sizes, ((0, 0), (0, 1)))[:, :2]  # (N, 2)
    points *= np.sign(points[np.abs(points).argmax(axis=0), [0, 1]])
    first, second = np.pad(sizes**2, (0, 1))[:2] / max(float((sizes**2).sum()), np.finfo(float).tiny)
    return points, (float(first), float(second))


def tsne(vectors: Floats) -> NDArray[np.float64]:
    """t-SNE (van der Maaten and Hinton 2008) of the unit vectors of (N, d), N ≥ 3: (N, 2).

    scikit-learn's: perplexity 30, or a third of the other points where these are few; started from the PCA, seed 0.
    """
    from sklearn.manifold import TSNE

    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    model = TSNE(perplexity=perplexity, init="pca", random_state=_SEED)
    points: NDArray[np.float64] = model.fit_transform(unit_rows(vectors).astype(np.float32))
    return points


def sample(count: int, limit: int) -> NDArray[np.intp]:
    """A fixed random sample of at most `limit` of `count` rows: their numbers, in order."""
    return np.sort(np.random.default_rng(_SEED).choice(count, min(count, limit), replace=False))


PROCEDURE = Procedure(_find, _score, _protocol)
