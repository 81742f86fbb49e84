"""Events of a run: one type per kind, with the text and the numbers that consoles, logs and charts show.

Those of the course of a run are here, those that measure in `measured`, and what all have in `event`.

An event is a JSON object in one line of `events.jsonl`: `{"event": "evaluated", "step": 125, "score": 0.78, …}`.
Readers skip events and fields that they do not know, so that an older version can watch a newer run. Numbers that are
not finite are written as null.
"""

from collections.abc import Iterable
from functools import reduce
from math import inf
from operator import or_
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from contrastcli.boundary import escaped, printable
from contrastcli.runs.event import Count, Event, Pid, Positive, Time
from contrastcli.runs.measured import Step
from contrastcli.runs.verdict import Change, against


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
            *[f"{self.negatives_per_anchor:,} negatives per anchor"] * (self.negatives_per_anchor > 0),
        ]
        return " · ".join(parts if self.resumed_from is None else [*parts, f"from step {self.resumed_from:,}"])

    @property
    def valid_until(self) -> float:
        """The last step of which earlier events stay valid."""
        return inf if self.resumed_from is None else self.resumed_from

    def voids(self, earlier: Event) -> bool:
        """Whether this start voids an earlier event, as a resume does with later steps, every end and its verdict."""
        ends = self.resumed_from is not None and isinstance(earlier, Done | Verdict)
        return ends or earlier.step > self.valid_until


class Progress(Event, frozen=True, kw_only=True):
    """Long work other than training: encoding, tokenising, evaluating."""

    what: str
    done: Count
    total: Count

    routine: ClassVar[bool] = True

    def details(self, steps: int) -> str:
        return f"{self.what}  {self.done:,}/{self.total:,}"


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
        text = f"{against(self.change.judgement, self.base)}, at step {self.best_step:,}: {self.change}"
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


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(reduce(or_, Event.__subclasses__()))


def encode(event: Event) -> bytes:
    """An event as its line, which a terminal may show."""
    return escaped(_encoder.encode(event).decode()).encode() + b"\n"


def decode(line: bytes) -> Event | None:
    """The event of a line; None for an unknown kind of event or an incomplete line."""
    # Most lines of other files are left here, without being decoded.
    if b'"event"' not in line:
        return None
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Tag(msgspec.Struct):
    event: str


def is_foreign(line: bytes) -> bool:
    """Whether a line is an event of a kind that is unknown here, as of a later version."""
    try:
        tag = msgspec.json.decode(line, type=_Tag)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return tag.event not in {kind.kind() for kind in Event.__subclasses__()}


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
