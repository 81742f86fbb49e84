"""Clustering of short texts: KMeans against the classes of eight sets (PairSupCon's Table 1).

A set X is a file X.tsv, X.txt or X of lines with a class, a tab and a text, or X.txt with a text a line and X_gnd.txt
with its class in the same line. X is its name, whatever the case and punctuation, or a usual one (agnewsdataraw-8000).
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import numpy as np

from contrastcli.data.batching import Indices
from contrastcli.errors import DataError
from contrastcli.evaluation.procedure import Procedure, SuiteContext, TaskScores, in_folder
from contrastcli.evaluation.senteval import Labelled, read_lines
from contrastcli.evaluation.suites import CLUSTERING

SEEDS = 10
LENGTH = 64

_STARTS = 10
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "AgNews": ("agnewsdataraw8000",),
    "Tweet": ("tweet89", "tweetremaplabel"),
    "GoogleNews-TS": ("ts", "googlets"),
    "GoogleNews-S": ("s", "googles"),
    "GoogleNews-T": ("t", "googlet"),
}
_SUFFIXES = (".tsv", ".txt", "")
_GOLD = "_gnd"
_HINT = (
    "put lines of label TAB text, or X.txt with X_gnd.txt, into DIR or DIR/cluster, and give --data-dir DIR; the name "
    "of a file is that of a set, for classes of your own too: DIR/agnews.tsv, and --task AgNews"
)
_PROTOCOL = (
    f"KMeans (k-means++, {_STARTS} starts, seeds 0-{SEEDS - 1}, k = number of classes) on the embeddings as the model "
    f"gives them: {{length}}, pooling: {{pooling}}, truncated at {LENGTH} tokens; accuracy by the best assignment of "
    "clusters to classes (Hungarian), NMI, AMI and ARI, all × 100 and means over the seeds; SD (n−1) is of the accuracy"
)


def root(data_dir: Path | None) -> Path:
    """The folder with the sets: `data_dir`, or a folder `cluster` in or next to it. Raises DataError."""
    if data_dir is None:
        raise DataError("the clustering sets are not on the hub", _HINT)
    for place in (data_dir, data_dir / "cluster", data_dir.parent / "cluster"):
        if any(_file(place, task) for task in CLUSTERING.tasks):
            return place
    raise DataError(f"{data_dir} holds none of the clustering sets ({', '.join(CLUSTERING.tasks)})", _HINT)


def _file(folder: Path, task: str) -> Path | None:
    names = {_plain(task), *_OTHER_NAMES.get(task, ())}
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return next((f for f in files if f.suffix in _SUFFIXES and f.is_file() and _plain(f.stem) in names), None)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def read(folder: Path, task: str) -> Labelled:
    """The texts and classes of a set. Raises DataError where it is missing or malformed."""
    path = _file(folder, task)
    if path is None:
        raise DataError(f"{folder} has no file of {task}", _HINT)
    lines = dict(read_lines(path, latin=True))
    gold = path.with_name(f"{path.stem}{_GOLD}{path.suffix}")
    if gold.is_file():
        classes = dict(read_lines(gold, latin=True))
        if lines.keys() != classes.keys():
            number = min(lines.keys() ^ classes.keys())
            raise DataError(f"{path} and {gold.name}: only one of them has a line {number} that is not blank", _HINT)
        rows = [(classes[number], text) for number, text in lines.items()]
    else:
        rows = []
        for number, line in lines.items():
            label, _, text = line.partition("\t")
            if not text.strip():
                raise DataError(f"{path}, line {number}: not a label, a tab and a text: {line!r:.60}", _HINT)
            rows.append((label.strip(), text))
    names, numbers = np.unique([label for label, _ in rows], return_inverse=True)
    if len(names) < 2:
        raise DataError(f"{path} has fewer than two classes", _HINT)
    return Labelled([" ".join(text.split()) for _, text in rows], [], numbers.tolist(), names.tolist())


def _score(context: SuiteContext, task: str, data: Labelled) -> TaskScores:
    from sklearn.cluster import KMeans

    with context.subject.truncated(LENGTH):
        vectors = context.vectors(data.first)  # (N, d)
    trials, labels = [], np.array(data.labels)
    classes = int(labels.max()) + 1
    for seed in range(SEEDS):
        with warnings.catch_warnings(action="ignore"):
            # Clusters stay empty where there are fewer distinct vectors.
            clusters = KMeans(classes, n_init=_STARTS, random_state=seed).fit_predict(vectors)
        trials.append(agreement(labels, clusters))
        context.options.on_progress(f"clustering {task}", seed + 1, SEEDS)
    accuracies = [trial["accuracy"] for trial in trials]
    expected = context.suite.tasks[task]
    return {
        **{name: float(np.mean([trial[name] for trial in trials])) for name in trials[0]},
        "sd": float(np.std(accuracies, ddof=1)),
        "accuracies": accuracies,
        "classes": classes,
        "rows": len(data),
        "expected": expected[0],
        "partial": (len(data), classes) != expected,
    }


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    encoder = context.subject.encoder
    length = "unit length" if encoder and encoder.contract.normalizes else "not normalised"
    return _PROTOCOL.format(length=length, pooling=context.subject.pooling)


def agreement(labels: Indices, clusters: Indices) -> dict[str, float]:
    """Agreement of clusters with classes, × 100: accuracy under the best one-to-one assignment, NMI, AMI, ARI."""
    from scipy.optimize import linear_sum_assignment
    from sklearn import metrics

    table = metrics.cluster.contingency_matrix(labels, clusters)  # classes × clusters
    hits = table[linear_sum_assignment(table, maximize=True)].sum()
    return {
        "accuracy": 100 * float(hits) / len(labels),
        "nmi": 100 * float(metrics.normalized_mutual_info_score(labels, clusters)),
        "ami": 100 * float(metrics.adjusted_mutual_info_score(labels, clusters)),
        "ari": 100 * float(metrics.adjusted_rand_score(labels, clusters)),
    }


def _sizes(data: Labelled) -> dict[str, float]:
    """Texts, words of a text, classes, the largest and the smallest class (PairSupCon, Table 2)."""
    words, rows = [len(text.split()) for text in data.first], np.bincount(data.labels)
    return {"N": len(words), "W": round(fmean(words), 1), "C": len(rows), "L": int(rows.max()), "S": int(rows.min())}


PROCEDURE = Procedure(in_folder(root, read), _score, _protocol, sizes=_sizes)
