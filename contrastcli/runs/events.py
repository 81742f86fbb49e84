"""What a run says: one type per event, and how events are written, read and followed.

A run appends one JSON object a line to `events.jsonl`: `{"event": "evaluated", "step": 125, "spearman": 0.78, …}`.
Readers skip events and fields that they do not know, so an older tool can watch a newer run. Numbers that are not
finite are written as null.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

HISTOGRAM_BINS = 36
"""Bins of an angle histogram: 5° each over 0-180°."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower, omit_defaults=True):
    """Every event has the step that it belongs to and a time (seconds since the epoch)."""

    step: int
    time: float = 0.0


class Started(Event, frozen=True, kw_only=True):
    """Training begins, or goes on after `resumed_from`; readers then drop earlier events beyond that step."""

    host: str
    pid: int
    process_start: float
    steps: int
    steps_per_epoch: int
    batch_size: int
    sentences_per_step: int
    negatives_per_anchor: int
    objective: str
    backbone: str
    device: str
    precision: str
    resumed_from: int | None = None


class Progress(Event, frozen=True, kw_only=True):
    """Long work that is no training: encoding, tokenising, evaluating."""

    what: str
    done: int
    total: int


class Step(Event, frozen=True, kw_only=True):
    """One optimiser update, as logged: rates are means since the event before."""

    loss: float | None
    parts: dict[str, float | None] = {}
    lr: float
    grad_norm: float | None = None
    epoch: float
    sentences_per_s: float | None = None
    seconds_left: float | None = None
    memory_mb: float | None = None


class Angles(Event, frozen=True, kw_only=True):
    """Angles of the batch in degrees.

    `satisfied` is the fraction of positives whose angle is smaller than that of every negative by at least the
    margin. Histograms count pairs in 5° bins from 0° to 180°.
    """

    positive: float | None
    negative: float | None
    hardest: float | None
    satisfied: float | None
    positive_histogram: list[int] = []
    negative_histogram: list[int] = []


class Evaluated(Event, frozen=True, kw_only=True):
    """The dev set: Spearman in −1..1, alignment and uniformity of unit vectors."""

    spearman: float | None
    alignment: float | None
    uniformity: float | None
    pairs: int
    best: bool = False


class Saved(Event, frozen=True, kw_only=True):
    """A checkpoint is complete on disk."""

    checkpoint: str
    best: bool = False


class Note(Event, frozen=True, kw_only=True):
    """A sentence that the user should read."""

    text: str


class Done(Event, frozen=True, kw_only=True):
    """The end: finished, stopped, failed or diverged; `message` says why and `hint` how to mend it."""

    status: str
    code: int
    message: str = ""
    hint: str = ""


AnyEvent = Started | Progress | Step | Angles | Evaluated | Saved | Note | Done
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


def encode(event: AnyEvent) -> bytes:
    """An event as its line."""
    return _encoder.encode(event) + b"\n"


def decode(line: bytes) -> AnyEvent | None:
    """One line as an event; None for an event that this version does not know or a torn line."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        return None


class EventWriter:
    """Appends events to a file, each at once and whole; cuts a line that a killed writer left torn."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        _cut_torn_line(path)

    def __call__(self, event: AnyEvent) -> bytes:
        """Write the event, stamped with the time if it has none, and return the line as written."""
        stamped = event if event.time else msgspec.structs.replace(event, time=round(time.time(), 3))
        line = encode(stamped)
        self._file.write(line)
        return line

    def close(self) -> None:
        self._file.close()


def _cut_torn_line(path: Path) -> None:
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)


def read(path: Path) -> list[AnyEvent]:
    """All events of a run, without those that a resume made void."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        return _current(event for line in file if line.endswith(b"\n") and (event := decode(line)) is not None)


def _current(events: Iterator[AnyEvent]) -> list[AnyEvent]:
    kept: list[AnyEvent] = []
    for event in events:
        if isinstance(event, Started) and event.resumed_from is not None:
            kept = [e for e in kept if e.step <= event.resumed_from and not isinstance(e, Done)]
        kept.append(event)
    return kept


def follow(path: Path, interval: float = 0.1) -> Iterator[AnyEvent | None]:
    """Events as they are written, from the first on; None whenever nothing is new, after waiting `interval` seconds.

    The file may be yet to come: a run exists a moment before its first event.
    """
    position = 0  # counts whole lines only: a torn last line may still be completed, or cut
    while True:
        data = _from(path, position)
        whole = data[: data.rfind(b"\n") + 1]
        position += len(whole)
        for line in whole.splitlines():
            if (event := decode(line)) is not None:
                yield event
        if not whole:
            yield None
            time.sleep(interval)


def _from(path: Path, position: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(position)
            return file.read()
    except FileNotFoundError:
        return b""
