"""Events of a run: one type per kind, with the text and the numbers that consoles, logs and charts show.

An event is a JSON object in one line of `events.jsonl`: `{"event": "evaluated", "step": 125, "score": 0.78, …}`.
Readers skip events and fields that they do not know, so that an older version can watch a newer run. Numbers that are
not finite are written as null. Another package adds a kind of event by a subclass of Event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, reduce
from math import inf
from operator import or_
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from contrastcli.boundary import escaped, printable
from contrastcli.runs.text import duration, excerpt, fixed, score
from contrastcli.runs.verdict import Change
from contrastcli.settings.metrics import metric_title

HISTOGRAM_BINS = 36
"""Bins of an angle histogram: 5° each over 0-180°."""

# What charts and the system can take. A line with other values is no event.
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
Positive = Annotated[int, Meta(ge=1, lt=1 << 53)]
Number = Annotated[float, Meta(ge=-3.4e38, le=3.4e38)]
Time = Annotated[float, Meta(ge=0, lt=1e11)]
Pid = Annotated[int, Meta(ge=1, lt=1 << 31)]
Histogram = Annotated[list[Count], Meta(min_length=HISTOGRAM_BINS, max_length=HISTOGRAM_BINS)]

_encoder = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(reduce(or_, Event.__subclasses__()))


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower, omit_defaults=True):
    """Every event has a step and a time (seconds since the epoch)."""

    step: Count
    time: Time = 0.0

    routine: ClassVar[bool] = False
    """Whether it is so frequent that a console need not show each one."""
    titles: ClassVar[Mapping[str, str]] = {}
    """Titles of charts, by the numbers that may be charted alone."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _decoder.cache_clear()

    @classmethod
    def kind(cls) -> str:
        """Its name in `events.jsonl`, and that of the table of its numbers."""
        return str(cls.__struct_config__.tag)

    @property
    def topic(self) -> str:
        """Consoles may skip all but the latest of routine events with the same topic."""
        return self.kind()

    @property
    def label(self) -> str:
        """The first word of its line."""
        return self.kind()

    def numbers(self) -> Mapping[str, float | None]:
        """Numbers to chart over the steps, by name, in the unit that is shown."""
        return {}

    def details(self, steps: int) -> str:
        """Its line without the label, or nothing; `steps` is the number of steps of the run."""
        return "  ".join([f"step {self.step:,}", *(f"{name} {fixed(x, 2)}" for name, x in self.numbers().items())])

    def line(self, steps: int = 0) -> str:
        """One line of text, or nothing."""
        details = self.details(steps)
        return printable(f"{self.label:<9} {details}").rstrip() if details else ""

    def completes(self, steps: int) -> bool:
        """Whether it is the last one of its topic, which is always shown."""
        return self.step == steps


class Queued(Event, frozen=True, kw_only=True):
    """Training waits for the end of another run, by its name."""

    behind: str

    def details(self, steps: int) -> str:
        return f"behind {self.behind}"


class Started(Event, frozen=True, kw_only=True):
    """Training begins, or continues from the step `resumed_from`, which voids later events."""

    host: str
    pid: Pid
    process_start: Time
    steps: Count
    steps_per_epoch: Positive
    batch_size: Positive
    sentences_per_step: Positive
    negatives_per_anchor: Count
    objective: str
    backbone: str
    device: str
    precision: str
    contract: str = ""
    """From token vectors to embeddings, in words; "" where a checkpoint has it."""
    resumed_from: Count | None = None

    @property
    def label(self) -> str:
        return "started" if self.resumed_from is None else "resumed"

    def details(self, steps: int) -> str:
        parts = [
            f"{self.objective} on {self.backbone}",
            *filter(None, [self.contract]),
            f"{self.device} {self.precision}",
            f"{self.steps:,} steps",
            f"batch {self.batch_size:,}",
            f"{self.negatives_per_anchor:,} negatives per anchor",
        ]
        return " · ".join(parts if self.resumed_from is None else [*parts, f"from step {self.resumed_from:,}"])

    @property
    def valid_until(self) -> float:
        """The last step of which earlier events stay valid."""
        return inf if self.resumed_from is None else self.resumed_from

    def voids(self, earlier: Event) -> bool:
        """Whether this start voids an earlier event, as a resume does with later steps and with every end."""
        return earlier.step > self.valid_until or (self.resumed_from is not None and isinstance(earlier, Done))


class Progress(Event, frozen=True, kw_only=True):
    """Long work other than training: encoding, tokenising, evaluating."""

    what: str
    done: Count
    total: Count

    routine: ClassVar[bool] = True

    @property
    def topic(self) -> str:
        return self.what

    def details(self, steps: int) -> str:
        return f"{self.what}  {self.done:,}/{self.total:,}"

    def completes(self, steps: int) -> bool:
        return self.done == self.total


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
    `general` is how the score of the general set has changed since the first evaluation, if there is one.
    """

    metric: str = "spearman"
    score: Number | None
    alignment: Number | None
    uniformity: Number | None
    pairs: Count
    best: bool = False
    worst: list[DevPair] = []
    shorter: dict[Positive, Number | None] = {}
    general: Change | None = None

    titles: ClassVar[Mapping[str, str]] = {"score": "dev score × 100", "uniformity": "uniformity, lower is better"}

    @property
    def title(self) -> str:
        return metric_title(self.metric)

    @property
    def label(self) -> str:
        return "dev"

    def numbers(self) -> Mapping[str, float | None]:
        scores = {"score": self.score, **{f"score@{dim}": value for dim, value in self.shorter.items()}}
        scores |= {"general": self.general.after} if self.general else {}
        percent = {name: None if value is None else 100 * value for name, value in scores.items()}
        return percent | {"alignment": self.alignment, "uniformity": self.uniformity}

    def details(self, steps: int) -> str:
        shorter = "".join(f", at {dim} {score(value)}" for dim, value in self.shorter.items())
        dev = f"{self.title} {score(self.score)}{' (best)' if self.best else ''}{shorter}"
        dev += f", general {metric_title(self.general.metric)} {score(self.general.after)}" if self.general else ""
        plane = f"alignment {fixed(self.alignment, 2)}  uniformity {fixed(self.uniformity, 2)}"
        return f"step {self.step:,}  {dev}  {plane}"


class Step(Event, frozen=True, kw_only=True):
    """One optimiser update, as logged: rates are means since the event before."""

    loss: Number | None
    parts: dict[str, Number | None] = {}
    lr: Number
    grad_norm: Number | None = None
    epoch: Number
    sentences_per_s: Number | None = None
    seconds_left: Number | None = None
    memory_mb: Number | None = None

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

    `satisfied` is the fraction of positives whose angle is smaller than that of every negative by the margin or more,
    the accuracy in the batch. `closest` are the hardest negatives as texts, the closest first, of some batches only.
    `shorter` are positive, negative and hardest by shorter size, if some are trained.
    """

    positive: Number | None
    negative: Number | None
    hardest: Number | None
    satisfied: Number | None
    positive_histogram: Histogram = []
    negative_histogram: Histogram = []
    closest: list[HardNegative] = []
    shorter: dict[Positive, dict[str, Number | None]] = {}

    routine: ClassVar[bool] = True
    titles: ClassVar[Mapping[str, str]] = {
        "positive": "mean positive angle, degrees",
        "negative": "mean negative angle, degrees",
        "hardest": "hardest negative angle, degrees",
    }

    def numbers(self) -> Mapping[str, float | None]:
        shorter = {f"{name}@{dim}": angle for dim, own in self.shorter.items() for name, angle in own.items()}
        return {name: getattr(self, name) for name in (*self.titles, "satisfied")} | shorter

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
        return "  ".join([f"step {self.step:,}", *(" ".join(words) for words in self.in_words())])

    def in_words(self) -> list[tuple[str, str]]:
        """What the machine tells: a name, and the value with its unit."""
        return [(self.units[name][0], self.in_unit(name, value)) for name, value in self.numbers().items()]

    @classmethod
    def in_unit(cls, name: str, value: float) -> str:
        return f"{fixed(value, 0 if value >= 10 else 1)} {cls.units[name][1]}"


class Alert(Event, frozen=True, kw_only=True):
    """Something that needs attention, said once: which rule, what it saw, what to do."""

    rule: str
    text: str
    hint: str

    def details(self, steps: int) -> str:
        return f"step {self.step:,}  {self.text}; {self.hint}"


class Saved(Event, frozen=True, kw_only=True):
    """A checkpoint is complete on disk."""

    checkpoint: str
    best: bool = False

    def details(self, steps: int) -> str:
        return f"step {self.step:,}  checkpoint {self.checkpoint} (best)" if self.best else ""


class Note(Event, frozen=True, kw_only=True):
    """A message to the user."""

    text: str

    def details(self, steps: int) -> str:
        return self.text


class Verdict(Event, frozen=True, kw_only=True):
    """What training made of the model `base`: the change of the dev score, and of the general one if that is measured.

    `best_step` is the step of the checkpoint that is meant; `hint` is what to do where it is worse in general.
    """

    base: str
    best_step: Count
    change: Change
    general: Change | None = None
    hint: str = ""

    def details(self, steps: int) -> str:
        text = f"{self.change.against(self.base)}, at step {self.best_step:,}: {self.change}"
        return text if self.general is None else f"{text}; {self.general.judgement} in general: {self.general}"

    def line(self, steps: int = 0) -> str:
        """The verdict and, in a line of its own, what to do."""
        return "\n".join(filter(None, [super().line(steps), self.hint and printable(f"hint: {self.hint}")]))


class Done(Event, frozen=True, kw_only=True):
    """The end: finished, stopped, failed or diverged; `message` says why and `hint` what to do."""

    status: str
    code: Annotated[int, Meta(ge=0, le=255)]
    message: str = ""
    hint: str = ""

    @property
    def label(self) -> str:
        return self.status

    def details(self, steps: int) -> str:
        return f"step {self.step:,}  {self.message}"


def encode(event: Event) -> bytes:
    """An event as its line, which a terminal may show."""
    return escaped(_encoder.encode(event).decode()).encode() + b"\n"


def decode(line: bytes) -> Event | None:
    """The event of a line; None for an unknown kind of event or an incomplete line."""
    # Most lines of other files are left here, without being decoded.
    if b'"event"' not in line:
        return None
    try:
        return _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def training_seconds(latest: Iterable[Event]) -> float:
    """Seconds that the steps took, from their logged rates: without loading, evaluating and saving.

    The events are given last to first, and may be only the steps and starts among them.
    """
    # Of the process whose start is still to come: seconds for each sentence of a step, and its earliest step so far.
    seconds, pace, later = 0.0, 0.0, None
    for event in latest:
        if isinstance(event, Step | Started):
            before = event.step if isinstance(event, Step) else event.resumed_from or 0
            pace += (later.step - before) / later.sentences_per_s if later and later.sentences_per_s else 0.0
            later = event if isinstance(event, Step) else None
        if isinstance(event, Started):
            seconds, pace = seconds + pace * event.sentences_per_step, 0.0
    return seconds
