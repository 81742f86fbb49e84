"""Semantic textual similarity: the seven test sets, Spearman and Pearson of cosine and human score."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.examples import ScoredPairs
from contrastcli.errors import DataError
from contrastcli.evaluation import senteval
from contrastcli.evaluation.senteval import StsTask

Floats = NDArray[np.floating]

Encode = Callable[[list[str]], Floats]
"""Distinct texts in, their embeddings (S, d) out."""

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

COLUMNS = ("Set", "Pairs", "Spearman", "Pearson", "Mean", "Weighted")
"""What the cells of `format_table` are: `all` Spearman and Pearson, then the two Spearman means over subsets."""


@dataclass(frozen=True)
class Correlations:
    """Spearman and Pearson × 100; NaN where the cosines or the scores do not vary."""

    spearman: float
    pearson: float


@dataclass(frozen=True)
class Score:
    """One test set.

    `all` is one correlation of the concatenated subsets (SimCSE, SimACE, PairSupCon), `mean` the mean over subsets,
    `wmean` that mean weighted by pairs (SupCon's table). For a set without subsets all three are the same.
    """

    pairs: int
    expected: int
    all: Correlations
    mean: Correlations
    wmean: Correlations

    @property
    def partial(self) -> bool:
        """Whether these are not the published pairs, so that the number compares with no published one."""
        return self.pairs != self.expected


@dataclass(frozen=True)
class Missing:
    """A set that was not scored since its files are absent or malformed: what is wrong, and how to get it."""

    task: StsTask
    what: str
    hint: str


@dataclass(frozen=True)
class StsResult:
    """All that was scored, and what was not. `sentences` counts the distinct texts; `pooling` is the encoder's."""

    scores: Mapping[StsTask, Score]
    missing: tuple[Missing, ...]
    sentences: int
    pooling: str

    @property
    def partial(self) -> bool:
        """Whether any of the seven sets is absent or not the published one."""
        return set(self.scores) != set(TASKS) or any(score.partial for score in self.scores.values())

    @property
    def average(self) -> float | None:
        """Mean `all` Spearman × 100 over the seven sets; None unless all are there and complete."""
        return None if self.partial else math.fsum(score.all.spearman for score in self.scores.values()) / len(TASKS)

    @property
    def protocol(self) -> str:
        """What was measured, in words."""
        pairs = sum(score.pairs for score in self.scores.values())
        return (
            f"test splits as SentEval's, STS13 without SMT: {pairs:,} pairs, {self.sentences:,} distinct sentences; "
            f"cosine, pooling: {self.pooling}, truncated at the model's own limit; "
            "correlations × 100, `all` over the concatenated subsets, `mean` and `wmean` (by pairs) over the subsets"
        )

    def to_json(self) -> dict[str, object]:
        """As `contrast eval --json` prints it: a key for each set, `average`, and what makes it comparable or not."""
        scores: dict[str, object] = {
            task: {**asdict(score, dict_factory=_json_object), "partial": score.partial}
            for task, score in self.scores.items()
        }
        return scores | {
            "average": None if self.average is None else _finite(self.average),
            "partial": self.partial,
            "missing": {gap.task: {"what": gap.what, "hint": gap.hint} for gap in self.missing},
            "protocol": self.protocol,
        }


def evaluate_sts(
    encode: Encode,
    data_dir: Path | None,
    tasks: Sequence[StsTask] = TASKS,
    on_progress: Callable[[str], None] | None = None,
    *,
    pooling: str = "the model's own",
) -> StsResult:
    """Score the seven STS test sets, of SentEval's folder `data_dir` or of its archive on the hub.

    `encode` is called once, with each distinct sentence of all sets. A set that is missing or malformed is in
    `missing` of the result and does not keep the others from being scored. `on_progress` gets what begins, in words.
    """
    say = on_progress or (lambda words: None)
    sets, missing = _read(data_dir, tasks, say)
    every = [pairs for subsets in sets.values() for pairs in subsets.values()]
    numbers = {text: n for n, text in enumerate(dict.fromkeys(text for p in every for text in (*p.first, *p.second)))}
    if not numbers:
        return StsResult({}, missing, 0, pooling)
    say(f"encoding {len(numbers):,} distinct sentences")
    vectors = encode(list(numbers))  # (S, d)
    say("correlating")
    scores = {task: _score(subsets, EXPECTED[task], numbers, vectors) for task, subsets in sets.items()}
    return StsResult(scores, missing, len(numbers), pooling)


def _read(
    data_dir: Path | None, tasks: Sequence[StsTask], say: Callable[[str], None]
) -> tuple[dict[StsTask, dict[str, ScoredPairs]], tuple[Missing, ...]]:
    sets: dict[StsTask, dict[str, ScoredPairs]] = {}
    missing: list[Missing] = []
    try:
        folder = senteval.root(data_dir)
    except DataError as error:
        return {}, tuple(Missing(task, error.what, error.hint) for task in tasks)
    for task in tasks:
        say(f"reading {task}")
        try:
            sets[task] = senteval.read_sts(folder, task)
        except DataError as error:
            missing.append(Missing(task, error.what, error.hint))
    return sets, tuple(missing)


def _score(subsets: Mapping[str, ScoredPairs], expected: int, numbers: Mapping[str, int], vectors: Floats) -> Score:
    cosines, golds = [], []
    for pairs in subsets.values():
        first, second = ([numbers[text] for text in texts] for texts in (pairs.first, pairs.second))
        cosines.append(cosine(vectors[first], vectors[second]))  # (P,)
        golds.append(np.asarray(pairs.scores))
    parts = [_correlations(x, gold) for x, gold in zip(cosines, golds, strict=True)]
    counts = [len(gold) for gold in golds]
    whole = _correlations(np.concatenate(cosines), np.concatenate(golds))
    return Score(sum(counts), expected, whole, _mean(parts, [1] * len(parts)), _mean(parts, counts))


def _correlations(cosines: Floats, gold: Floats) -> Correlations:
    return Correlations(100 * spearman(cosines, gold), 100 * pearson(cosines, gold))


def _mean(parts: Sequence[Correlations], weights: Sequence[int]) -> Correlations:
    return Correlations(
        float(np.average([part.spearman for part in parts], weights=weights)),
        float(np.average([part.pearson for part in parts], weights=weights)),
    )


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


def format_table(result: StsResult) -> list[tuple[str, ...]]:
    """Rows of text, see `COLUMNS`, in the order of the papers' tables; the last is the average."""
    absent = {gap.task: (gap.task, "missing", "–", "–", "–", "–") for gap in result.missing}
    present = {task: _row(task, score) for task, score in result.scores.items()}
    rows = absent | present
    average = "–" if result.average is None else _two(result.average)
    last = ("Avg.", "partial" if result.partial else "", average, "", "", "")
    return [*(rows[task] for task in TASKS if task in rows), last]


def _row(task: StsTask, score: Score) -> tuple[str, ...]:
    pairs = f"{score.pairs} of {score.expected}, partial" if score.partial else str(score.pairs)
    values = (score.all.spearman, score.all.pearson, score.mean.spearman, score.wmean.spearman)
    return (task, pairs, *map(_two, values))


def _two(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "–"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _json_object(items: list[tuple[str, object]]) -> dict[str, object]:
    return {key: _finite(value) if isinstance(value, float) else value for key, value in items}
