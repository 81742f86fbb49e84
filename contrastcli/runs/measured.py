"""Events that measure: steps, the dev set and probes, the angles of a batch, and the machine that trains."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, field

from contrastcli.runs.event import Count, Event, Number, Positive
from contrastcli.runs.text import duration, excerpt, fixed, score, shortened
from contrastcli.runs.verdict import Change
from contrastcli.settings.metrics import metric_title

HISTOGRAM_BINS = 36
"""Bins of an angle histogram: 5° each over 0-180°."""

SINGULAR = 5
"""Singular values of an evaluation."""

Histogram = Annotated[list[Count], Meta(min_length=HISTOGRAM_BINS, max_length=HISTOGRAM_BINS)]


class DevPair(msgspec.Struct, frozen=True, kw_only=True):
    """A dev pair that the model misjudges: its score and cosine, and their ranks, 1 for the most similar pair."""

    first: str
    second: str
    score: float
    cosine: Number
    score_rank: Count
    cosine_rank: Count


class Evaluated(Event, frozen=True, kw_only=True):
    """The dev set: the score by its metric, in −1..1, alignment and uniformity of unit vectors.

    `worst` are the pairs that it ranks worst, as texts. `shorter` are the scores by shorter size, if some are trained.
    `general` is how the score of the general set has changed since the first evaluation, if there is one. `data` is
    what the set is called. `forgetful` says that dev.keep_general alone keeps it from being the best.
    """

    metric: str = "spearman"
    data: str = ""
    score: Number | None
    alignment: Number | None
    uniformity: Number | None
    pairs: Count
    best: bool = False
    forgetful: bool = False
    worst: list[DevPair] = field(default_factory=list)
    shorter: dict[Positive, Number | None] = field(default_factory=dict)
    general: Change | None = None
    width: Count = 0
    rank: Number | None = None
    """The effective rank of the embeddings, of at most `width`: how many dimensions they use."""
    mean_norm: Number | None = None
    """The norm of the mean of unit vectors: 0 where they go in all directions, 1 where all are the same."""
    singular: list[Number] = field(default_factory=list)
    """The largest singular values, as shares of the sum of all."""

    titles: ClassVar[Mapping[str, str]] = {"score": "dev score × 100", "uniformity": "uniformity, lower is better"}

    @property
    def title(self) -> str:
        return metric_title(self.metric, shortened(self.data, 24))

    @property
    def label(self) -> str:
        return "dev"

    def numbers(self) -> Mapping[str, float | None]:
        scores = {"score": self.score, **{f"score@{dim}": value for dim, value in self.shorter.items()}}
        scores |= {"general": self.general.after} if self.general else {}
        percent = {name: None if value is None else 100 * value for name, value in scores.items()}
        plane = {"alignment": self.alignment, "uniformity": self.uniformity}
        return percent | plane | {name: getattr(self, name) for name in ("rank", "mean_norm") if self.width}

    def details(self, steps: int) -> str:
        shorter = "".join(f", at {dim} {score(value)}" for dim, value in self.shorter.items())
        dev = f"{self.title} {score(self.score)}{' (best)' if self.best else ''}{shorter}"
        dev += f", general {metric_title(self.general.metric)} {score(self.general.after)}" if self.general else ""
        dev += " (too low for a best)" * self.forgetful
        plane = f"alignment {fixed(self.alignment, 2)}  uniformity {fixed(self.uniformity, 2)}"
        return f"step {self.step:,}  {dev}  {plane}"


class Probed(Event, frozen=True, kw_only=True):
    """The angles in degrees of the pairs of dev.probes, by their texts with ` | ` between them."""

    angles: dict[str, Number | None]

    def numbers(self) -> Mapping[str, float | None]:
        return self.angles

    def details(self, steps: int) -> str:
        angles = (f"{self.short(pair, 12)} {fixed(angle, 1)}°" for pair, angle in self.angles.items())
        return "  ".join([f"step {self.step:,}", *angles])

    @staticmethod
    def short(pair: str, letters: int) -> str:
        """A pair of texts, each of so many characters at most."""
        return " | ".join(excerpt(text, letters) for text in pair.split(" | "))


class Step(Event, frozen=True, kw_only=True):
    """One optimiser update, as logged: rates are means since the event before."""

    loss: Number | None
    parts: dict[str, Number | None] = field(default_factory=dict)
    lr: Number
    grad_norm: Number | None = None
    epoch: Number
    sentences_per_s: Number | None = None
    seconds_left: Number | None = None
    memory_mb: Number | None = None
    takes: dict[str, Number] = field(default_factory=dict)
    """The mean seconds of a step since the start of the process, by what they go to."""

    routine: ClassVar[bool] = True
    titles: ClassVar[Mapping[str, str]] = {"loss": "loss"}
    rates: ClassVar[tuple[str, ...]] = ("lr", "grad_norm", "sentences_per_s")
    """Its numbers other than the loss and its parts."""

    @property
    def loss_parts(self) -> Mapping[str, float | None]:
        """The parts of the loss, if there are several."""
        return self.parts if len(self.parts) > 1 else {}

    def numbers(self) -> Mapping[str, float | None]:
        return {"loss": self.loss, **self.loss_parts, **{name: getattr(self, name) for name in self.rates}}

    def details(self, steps: int) -> str:
        parts = ", ".join(f"{name} {fixed(value, 3)}" for name, value in self.loss_parts.items())
        loss = f"loss {fixed(self.loss, 3)}" + (f" ({parts})" if parts else "")
        width = len(f"{steps:,}")
        return "  ".join([f"{self.step:>{width},}/{steps:,}", loss, f"lr {self.lr:.1e}", *self.pace()])

    def pace(self) -> list[str]:
        """Speed and time left, if known."""
        rate = [] if self.sentences_per_s is None else [f"{self.sentences_per_s:,.0f} sentences/s"]
        return rate if self.seconds_left is None else [*rate, f"{duration(self.seconds_left)} left"]


class HardNegative(msgspec.Struct, frozen=True, kw_only=True):
    """An anchor with its closest negative and its positive; angles in degrees."""

    anchor: str
    negative: str
    positive: str
    negative_deg: Number
    positive_deg: Number


class Angles(Event, frozen=True, kw_only=True):
    """Angles of the batch in degrees; histograms count pairs in bins of 5° from 0° to 180°.

    `with_margin` is the mean angle of a positive and the margin, which every negative should exceed, None without a
    margin; `satisfied` is the fraction of positives for which they all do, the accuracy in the batch. An anchor has so
    many `negatives` on average, of which `effective` pull: e to the entropy of the softmax of their similarities over
    τ. All are of the embeddings, without what an objective projects or weighs besides. `closest` are the hardest
    negatives as texts, the closest first, of some batches only.
    `shorter` are positive, negative and hardest by shorter size, if some are trained.
    """

    positive: Number | None
    negative: Number | None
    hardest: Number | None
    with_margin: Number | None = None
    satisfied: Number | None
    negatives: Number | None = None
    effective: Number | None = None
    positive_histogram: Histogram = field(default_factory=list)
    negative_histogram: Histogram = field(default_factory=list)
    closest: list[HardNegative] = field(default_factory=list)
    shorter: dict[Positive, dict[str, Number | None]] = field(default_factory=dict)

    routine: ClassVar[bool] = True
    titles: ClassVar[Mapping[str, str]] = {
        "positive": "mean positive angle, degrees",
        "negative": "mean negative angle, degrees",
        "hardest": "hardest negative angle, degrees",
    }

    def numbers(self) -> Mapping[str, float | None]:
        shorter = {f"{name}@{dim}": angle for dim, own in self.shorter.items() for name, angle in own.items()}
        others = [name for name in ("with_margin", "effective", "negatives") if getattr(self, name) is not None]
        return {name: getattr(self, name) for name in (*self.titles, "satisfied", *others)} | shorter

    def details(self, steps: int) -> str:
        angles = [f"{name} {fixed(getattr(self, name), 1)}°" for name in self.titles]
        share = "–" if self.satisfied is None else f"{100 * self.satisfied:.0f} %"
        return "  ".join([f"step {self.step:,}", *angles, f"batch accuracy {share}"])

    def line(self, steps: int = 0) -> str:
        """The angles and, in a line of its own, the hardest negative."""
        told = [
            f"closest   {fixed(one.negative_deg, 1)}°  {excerpt(one.anchor, 30)} | {excerpt(one.negative, 30)}"
            for one in self.closest[:1]
        ]
        return "\n".join([super().line(steps), *told])


class ViolatedAnchor(msgspec.Struct, frozen=True, kw_only=True):
    """An anchor to which its hardest negative was closer than its positive, so many times.

    Texts as of the last time, and the last angles to positive and negative in degrees, in their order.
    """

    anchor: str
    positive: str
    negative: str
    times: Count
    angles: Annotated[list[tuple[Number, Number]], Meta(min_length=1)]


class Violated(Event, frozen=True, kw_only=True):
    """The anchors that were violated again since the last evaluation, and often by now, the most often first.

    Of so many in `total` that were violated often.
    """

    anchors: Annotated[list[ViolatedAnchor], Meta(min_length=1)]
    total: Count = 0

    def details(self, steps: int) -> str:
        one = self.anchors[0]
        worst = f"{excerpt(one.anchor, 30)} | {excerpt(one.negative, 30)} {one.times} times"
        count = max(self.total, len(self.anchors))
        return f"step {self.step:,}  {count:,} anchors have a closer negative again and again: {worst}"


class System(Event, frozen=True, kw_only=True):
    """The machine that trains: its GPU, the processors and memory of the process, the disk of the run.

    Shares are in per cent, memory and disk in GB (1e9 bytes), the temperature in °C, power in watts, the clock in MHz.
    """

    gpu: Number | None = None
    gpu_memory: Number | None = None
    gpu_temperature: Number | None = None
    gpu_power: Number | None = None
    gpu_clock: Number | None = None
    cpu: Number | None = None
    memory: Number | None = None
    disk_free: Number | None = None

    routine: ClassVar[bool] = True
    titles: ClassVar[Mapping[str, str]] = {"gpu": "GPU in use, per cent", "cpu": "CPU in use, per cent of one core"}
    units: ClassVar[Mapping[str, tuple[str, str]]] = {
        "gpu": ("GPU", "%"),
        "gpu_memory": ("GPU memory", "GB"),
        "gpu_temperature": ("GPU temperature", "°C"),
        "gpu_power": ("GPU power", "W"),
        "gpu_clock": ("GPU clock", "MHz"),
        "cpu": ("CPU", "%"),
        "memory": ("memory", "GB"),
        "disk_free": ("disk free", "GB"),
    }
    """What each number is in words, and its unit."""

    def numbers(self) -> Mapping[str, float]:
        return {name: value for name in self.units if (value := getattr(self, name)) is not None}

    def details(self, steps: int) -> str:
        told = [(*self.units[key], value) for key, value in self.numbers().items()]
        return "  ".join([f"step {self.step:,}", *(f"{name} {self.rounded(x)} {unit}" for name, unit, x in told)])

    @staticmethod
    def rounded(value: float) -> str:
        return fixed(value, 0 if value >= 10 else 1)
