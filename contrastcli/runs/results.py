"""The results of commands, as types without torch: a command prints them as JSON, and the app decodes that."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from statistics import fmean, stdev
from typing import Any, Self

import msgspec

from contrastcli.runs.status import Status
from contrastcli.runs.verdict import Change, Judgement
from contrastcli.settings.config import Config
from contrastcli.settings.setting import Value
from contrastcli.settings.suggestions import Suggestion


def sourced(config: Config) -> dict[str, dict[str, Value]]:
    """The `value` and `source` of every setting of a run, by key."""
    return {key: {"value": value, "source": config.sources[key]} for key, value in config.shown().items()}


class Lengths(msgspec.Struct, frozen=True):
    """Tokens of training texts: half have at most `p50`, 95 % `p95`, 99 % `p99`, and a share, `cut`, over `limit`."""

    p50: int
    p95: int
    longest: int
    limit: int
    cut: float
    p99: int = 0

    @classmethod
    def of(cls, counts: Iterable[int], limit: int) -> Self:
        """Those of texts with so many tokens each; a `limit` of 0 is none."""
        ordered = sorted(counts)
        p50, p95, p99 = (ordered[ceil(share * (len(ordered) - 1))] for share in (0.5, 0.95, 0.99))
        cut = sum(count > limit for count in ordered) / len(ordered) if limit else 0.0
        return cls(p50, p95, ordered[-1], limit, round(cut, 4), p99)


class Preview(msgspec.Struct, frozen=True):
    """A run as planned, without loading weights: its settings, first rows by role, and size.

    `missing` are the models that are not on this machine, each in a sentence. `disk` is the size of its checkpoints in
    bytes, None while the backbone is missing; `memory` an estimate of GPU memory in GB, None for an unknown backbone.
    `seconds` of training are estimated from the speed of the run `like`; None without a run like it on this machine.
    `dev` and `general` describe the dev sets in a few words, and `contract` the model's way from token vectors to
    embeddings, "" while it is missing; so are the `lengths` None.
    """

    settings: dict[str, dict[str, Value]]
    rows: list[dict[str, str]]
    notes: tuple[str, ...]
    count: int
    steps: int
    steps_per_epoch: int
    sentences_per_step: int
    negatives_per_anchor: int
    dev_pairs: int
    disk: int | None
    missing: tuple[str, ...] = ()
    memory: int | None = None
    seconds: float | None = None
    like: str = ""
    dev: str = ""
    general: str = ""
    contract: str = ""
    lengths: Lengths | None = None


class Trial(msgspec.Struct, frozen=True):
    """The first `tried` of the `steps` of a training: seconds of a step, and the highest memory in GB.

    `total` are the seconds of all steps and `evaluations`; None where too few were tried. `error` says why the trial
    failed, and `hint` what helps.
    """

    steps: int
    evaluations: int
    tried: int = 0
    seconds: float | None = None
    total: float | None = None
    memory: float | None = None
    error: str = ""
    hint: str = ""


class Suggested(msgspec.Struct, frozen=True):
    """Settings for the data of a name, each with its reason, the command that trains with them, and its trial."""

    source: str
    settings: Sequence[Suggestion]
    command: str
    trial: Trial | None = None


class Similarity(msgspec.Struct, frozen=True):
    """The similarity of two sentences to a model: cosine in −1..1, and angle in degrees.

    `tokens` are those of both sentences, of which the model reads the first `limit`.
    """

    a: str
    b: str
    cosine: float
    angle_deg: float
    model: str
    tokens: tuple[int, int] = (0, 0)
    limit: int = 0

    @property
    def cuts(self) -> list[str]:
        """What the model did not read, in words."""
        named = zip("AB", self.tokens, strict=True)
        return [f"{name} is cut after {self.limit:,} of {n:,} tokens" for name, n in named if n > self.limit]


class Neighbour(msgspec.Struct, frozen=True):
    """A sentence of a corpus that is near to a query; `row` counts from 1, `id` is the corpus's own name of it."""

    row: int
    text: str
    cosine: float
    angle_deg: float
    id: str | None = None


class Nearest(msgspec.Struct, frozen=True):
    """The sentences of a corpus that are nearest to a query, the nearest first."""

    query: str
    neighbours: list[Neighbour]
    model: str


class Candidate(msgspec.Struct, frozen=True):
    """A text that is near to an anchor: its rank, from 1, and whether it was kept as a negative, or why not."""

    rank: int
    text: str
    cosine: float
    verdict: str
    id: str | None = None


class MinedRow(msgspec.Struct, frozen=True):
    """A row with its candidates, the nearest first; `row` counts from 1, cosines are to the anchor."""

    row: int
    anchor: str
    positive: str
    cosine: float
    candidates: list[Candidate]
    id: str | None = None


class Mined(msgspec.Struct, frozen=True):
    """How hard negatives were mined, and what came of it.

    `rows` of `of` have `negatives` each and were written. `too_close` are the rows with a candidate that was too close,
    `guarded` those with one that the guard dropped. Cosines, to the anchor, are means over the rows written. `teacher`
    is the model whose scores were written too, which are `logits` where it is a cross-encoder.
    """

    source: str
    corpus: str
    model: str
    model_sha256: str
    guard: str
    ranks: tuple[int, int]
    below: float | None
    margin: float | None
    negatives: int
    of: int
    rows: int
    candidates: int
    too_close: int
    guarded: int
    cosine_positive: float
    cosine_negative: float
    hardest: list[MinedRow] = []
    teacher: str = ""
    logits: bool = False


class Odd(msgspec.Struct, frozen=True):
    """A row with something unusual: its number from 1, its place in its file, its texts by role, and why.

    `other` is the row that it equals or contradicts, and `neighbours` are the positives of other rows nearest to its
    anchor, where a model was given.
    """

    row: int
    where: str
    texts: dict[str, str]
    why: str
    other: int | None = None
    other_where: str = ""
    other_texts: dict[str, str] = {}
    neighbours: list[Neighbour] = []


class Found(msgspec.Struct, frozen=True):
    """The rows of one kind: how many, whether cleaning leaves them out, and the strangest."""

    kind: str
    about: str
    count: int
    drops: bool
    rows: list[Odd]


class Inspected(msgspec.Struct, frozen=True):
    """What is in training rows: their form in words, their number, and what is unusual.

    `lengths` of texts by role are tokens of the `model`, and words where that is "". `languages` are shares by role.
    `output` is the file of the `kept` rows, where one was written. Where `columns` were asked for, there are no more
    than these: by name the `role`, "" for none, and the `first` value that is not blank.
    """

    source: str
    form: str
    count: int
    model: str
    lengths: Mapping[str, Lengths]
    languages: Mapping[str, Mapping[str, float]]
    found: list[Found]
    notes: tuple[str, ...]
    output: str | None = None
    kept: int | None = None
    columns: Mapping[str, Mapping[str, str]] = {}


class Check(msgspec.Struct, frozen=True):
    """Something of a run that is in order, in words, or its fault and the remedy."""

    what: str
    text: str
    hint: str = ""
    ok: bool = True


class Spread(msgspec.Struct, frozen=True):
    """A number over seeds: mean and sample standard deviation, which needs two values."""

    mean: float
    sd: float | None
    n: int
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, len(values), tuple(values))

    def __format__(self, form: str) -> str:
        return " ± ".join(f"{number:{form or '.2f'}}" for number in (self.mean, self.sd) if number is not None)

    def __str__(self) -> str:
        return f"{self}"


class ScoreName(str):
    """What a score is of: a task of a suite, as in `sts STS12`; or the dev set, `dev`, with the metric if need be."""

    suite: str
    task: str

    def __new__(cls, suite: str, task: str = "") -> Self:
        name = super().__new__(cls, f"{suite} {task}".rstrip())
        name.suite, name.task = suite, task
        return name


class SeedRun(msgspec.Struct, frozen=True):
    """One run of a method."""

    name: str
    seed: Value
    state: str


class Method(msgspec.Struct, frozen=True):
    """Runs that differ only in their seed; `settings` are those in which methods differ, None if it lacks one.

    `scores` are the numbers, × 100, that all `n` finished runs have, each seed counted once.
    """

    settings: dict[str, Value | None]
    runs: tuple[SeedRun, ...]
    n: int
    scores: dict[ScoreName, Spread]

    @property
    def name(self) -> str:
        """That of the first run, of several without the seed."""
        first = self.runs[0]
        return first.name.removesuffix(f"-seed={first.seed}") if len(self.runs) > 1 else first.name


class SweepScores(msgspec.Struct, frozen=True):
    """The results of a sweep: a method for each point of its grid."""

    name: str
    grid: dict[str, tuple[Value, ...]]
    seeds: tuple[int, ...]
    cells: tuple[Method, ...]


class Welch(msgspec.Struct, frozen=True):
    """Means of two methods over their seeds: `difference` is second − first, `low` and `high` its 95 % interval.

    `t`, `df` and the two-sided `p` are None if neither method varies. `holm` is p, corrected for the tests of all pairs
    of methods; `methods` are the names of the first run of both.
    """

    difference: float
    low: float
    high: float
    t: float | None
    df: float | None
    p: float | None
    holm: float | None = None
    methods: tuple[str, str] = ("", "")


class Bootstrap(msgspec.Struct, frozen=True):
    """A metric × 100 of two models on the same `pairs` of `data`: the difference, second − first, its 95 % interval.

    `judgement` is what that says of the second, of several tests by `holm`.

    Of pairs without scores, it is queries or triplets that are counted. `p` is two-sided: how often resampling the
    pairs changes the sign; `holm` is p, corrected for the tests of all pairs of models. None if a correlation is
    undefined.
    """

    runs: tuple[str, str]
    data: str
    metric: str
    pairs: int
    scores: tuple[float | None, float | None]
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    holm: float | None = None
    judgement: Judgement = "not different"

    @property
    def change(self) -> Change:
        """From the first to the second."""
        before, after, low, high = (None if x is None else x / 100 for x in (*self.scores, self.low, self.high))
        return Change(metric=self.metric, before=before, after=after, low=low, high=high)


class Result(Status, frozen=True, kw_only=True):
    """A run with its last evaluation on the dev set in −1..1, its last angles, its scores.json, its minutes of steps.

    Angles are means in degrees: `positive`, `negative`, `hardest`. `published_minutes` are those that a paper prints
    for exactly these settings, on its own machine. Of a model that is no run here, there are scores alone.
    """

    minutes: float | None = None
    published_minutes: float | None = None
    dev: float | None = None
    alignment: float | None = None
    uniformity: float | None = None
    angles: dict[str, float | None] | None = None
    scores: dict[str, Any]
    is_run: bool = True


class Comparison(msgspec.Struct, frozen=True):
    """Runs and models side by side: `settings` are those in which runs differ, None where one lacks the setting.

    `groups` are the same by method. `welch` tests each number of each two methods with two seeds or more. `bootstrap`,
    set only on request, tests each two methods by runs of a seed that all have, else by the first run of both.
    """

    settings: dict[str, tuple[Value | None, ...]]
    results: tuple[Result, ...]
    groups: tuple[Method, ...]
    welch: dict[ScoreName, tuple[Welch, ...]] = {}
    bootstrap: tuple[Bootstrap, ...] | msgspec.UnsetType = msgspec.UNSET


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """How often a program did one thing in a second, in each round: sentences encoded or trained on, or queries.

    `ratio` compares the median with the peer's fastest in that precision, else in any, and `limit_share` with what the
    machine's matrix products alone allow, 0 to 1; None where that is unknown. `error` says why there are no rounds.
    """

    what: str
    program: str
    rates: tuple[float, ...]
    ratio: float | None
    limit_share: float | None
    error: str
