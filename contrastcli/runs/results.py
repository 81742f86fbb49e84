"""The results of commands, as types that need no torch: a command prints them as JSON, and the app decodes that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import msgspec

from contrastcli.runs.directory import Comparison
from contrastcli.settings.config import Config
from contrastcli.settings.setting import Value


class Sourced(msgspec.Struct, frozen=True):
    """The value of a setting, and where it is from."""

    value: Value
    source: str


def sourced(config: Config) -> dict[str, Sourced]:
    """Every setting of a run, by key."""
    return {key: Sourced(value, config.sources[key]) for key, value in config.flat().items()}


class Preview(msgspec.Struct, frozen=True):
    """What a run would do, worked out without loading weights: its settings, its first rows by role, its size.

    `disk` is what its checkpoints take in bytes, None while the backbone is not on this machine.
    """

    settings: dict[str, Sourced]
    rows: list[dict[str, str]]
    notes: tuple[str, ...]
    count: int
    steps: int
    steps_per_epoch: int
    sentences_per_step: int
    negatives_per_anchor: int
    dev_pairs: int
    disk: int | None


class Similarity(msgspec.Struct, frozen=True):
    """How similar two sentences are to a model: cosine in −1..1 and the angle in degrees."""

    a: str
    b: str
    cosine: float
    angle_deg: float
    model: str


class Neighbour(msgspec.Struct, frozen=True):
    """A sentence of a corpus near to a query; `row` counts the corpus' sentences from 1."""

    row: int
    text: str
    cosine: float
    angle_deg: float


class Nearest(msgspec.Struct, frozen=True):
    """What a model finds nearest to a query in a corpus, the nearest first."""

    query: str
    neighbours: list[Neighbour]
    model: str


@dataclass(frozen=True)
class Welch:
    """Means of two methods over their seeds: `difference` is first − second, `low` and `high` its 95 % interval.

    `t`, `df` and the two-sided `p` are NaN where neither method varies.
    """

    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float


@dataclass(frozen=True)
class Bootstrap:
    """Spearman of two models on the same pairs, in −1..1: `difference` is first − second, with its 95 % interval.

    `p` is two-sided: how often resampling the pairs turns the sign. NaN where a correlation is undefined.
    """

    first: float
    second: float
    low: float
    high: float
    p: float
    pairs: int

    @property
    def difference(self) -> float:
        return self.first - self.second


@dataclass(frozen=True)
class Paired:
    """Two runs on the same scored pairs; `data` is what these are called."""

    first: str
    second: str
    data: str
    found: Bootstrap


@dataclass(frozen=True)
class Compared:
    """A comparison with what speaks for a difference.

    `welch` has a test for each number that both of two methods have over two seeds or more, the first minus the second.
    """

    comparison: Comparison
    welch: Mapping[str, Welch] = field(default_factory=dict)
    paired: Paired | None = None


class Benchmark(msgspec.Struct, frozen=True):
    """Sentences per second in each round, of contrast and of sentence-transformers, and the ratio of the medians.

    Without sentence-transformers `theirs` is empty and `ratio` None.
    """

    what: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    ratio: float | None

    @classmethod
    def of(cls, what: str, ours: Sequence[float], theirs: Sequence[float]) -> Benchmark:
        """The benchmark of these rounds."""
        return cls(what, tuple(ours), tuple(theirs), median(ours) / median(theirs) if theirs else None)
