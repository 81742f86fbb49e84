"""What is written to events.jsonl, and what readers make of it."""

import json
import os
import random
import resource
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from msgspec.structs import replace

from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import BLOCK_BYTES, EventWriter, follow, read, read_from_end
from contrastcli.runs.events import Done, Note, Progress, Saved, Started, Verdict, decode, encode
from contrastcli.runs.measured import Angles, Evaluated, Step
from contrastcli.runs.verdict import Change
from support.signs import started

EVERY_KIND: list[Event] = [
    started(),
    Progress(step=0, what="tokenising", done=1, total=2),
    Evaluated(step=0, score=0.5, alignment=0.3, uniformity=-1.5, pairs=100),
    Step(step=10, loss=1.5, parts={"contrast": 1.0, "classification": 0.5}, lr=3e-5, epoch=0.1),
    Angles(step=10, positive=30.0, negative=70.0, hardest=50.0, satisfied=0.5, positive_histogram=[1] * 36),
    Saved(step=10, checkpoint="000010", best=True),
    Note(step=10, text="τ is small"),
    Done(step=10, status="finished", code=0),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of events that does not exist yet."""
    return tmp_path / "events.jsonl"


def write(path: Path, *events: Event) -> list[Event]:
    """The events as they were written."""
    with closing(EventWriter(path)) as writer:
        return [writer(event) for event in events]


def test_what_is_written_is_read_back_with_the_time_of_writing(path: Path) -> None:
    assert read(path) == []
    written = write(path, *EVERY_KIND)
    assert read(path) == written and path.read_bytes() == b"".join(map(encode, written))
    assert all(event.time > 1.6e9 for event in written)
    assert [replace(event, time=0.0) for event in written] == EVERY_KIND
    names = [json.loads(line)["event"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert names == ["started", "progress", "evaluated", "step", "angles", "saved", "note", "done"]


def test_numbers_that_are_not_finite_are_written_as_null(path: Path) -> None:
    write(path, Step(step=1, loss=float("nan"), parts={"contrast": float("inf")}, lr=1e-5, epoch=0.0))
    written = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert written["loss"] is None and written["parts"] == {"contrast": None}
    (event,) = read(path)
    assert isinstance(event, Step) and event.loss is None


@pytest.mark.parametrize(
    "line",
    [b'{"event":"teleported","step":1}', b'{"event":"note"}', b'{"step":1}', b"garbage", b"\xff\xfe", b"[1]", b""],
)
def test_an_unknown_event_is_skipped(path: Path, line: bytes) -> None:
    path.write_bytes(line + b'\n{"mood": "good", "text": "known", "step": 2, "event": "note"}\n')
    assert decode(line) is None
    assert read(path) == [Note(step=2, text="known")], "fields too, and spaces and order do not matter"


def test_follow_waits_for_the_rest_of_a_line_and_continues_after_a_torn_one_was_cut(path: Path) -> None:
    path.write_bytes(b'{"event":"note","step":1,"text":"a"}\n{"event":"note","st')
    events = follow(path, lambda: False)
    assert [next(events), next(events)] == [Note(step=1, text="a"), None]
    with open(path, "ab") as file:
        file.write(b'ep":2,"text":"b"}\n{"event":"no')
    assert [next(events), next(events)] == [Note(step=2, text="b"), None]
    assert write(path, Note(step=7, text="resumed")) == [next(events)]


VERDICT = Verdict(step=0, base="starter", best_step=0, change=Change(before=0.5, after=0.7, low=0.1, high=0.3))


def random_history(seed: int) -> list[Event]:
    """A run that was resumed many times, from random steps, after ends and without any."""
    draw = random.Random(seed)
    events: list[Event] = [started()]
    step = 0
    for _ in range(40):
        step += draw.randrange(3)
        if draw.random() < 0.2:
            if draw.random() < 0.5:
                events += [VERDICT, Done(step=step, status="stopped", code=0)]
            step = draw.randrange(step + 1)
            events.append(started(step=step, resumed_from=step))
        else:
            events.append(Note(step=step, text=f"{len(events)}"))
    return events


def test_an_event_is_void_where_a_later_resume_began_before_it_and_with_it_ends_and_verdicts(path: Path) -> None:
    for seed in range(50):
        path.unlink(missing_ok=True)
        events = write(path, *random_history(seed))
        resumes = [(n, e.resumed_from) for n, e in enumerate(events) if isinstance(e, Started) and n]
        valid = [
            event
            for n, event in enumerate(events)
            if all(event.step <= (at or 0) and not isinstance(event, Done | Verdict) for m, at in resumes if m > n)
        ]
        assert read(path) == valid == list(read_from_end(path, lambda: [b"{"]))[::-1], seed


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_too_long_for_an_event_is_passed_over_from_either_end(path: Path, end: bytes) -> None:
    first, second = Note(step=1, time=1.0, text="a"), Note(step=2, time=2.0, text="b")
    write(path, first)
    with open(path, "ab") as file:
        file.write(b'{"event":"note","step":9,"text":"' + b"x" * (3 << 20) + b'"}\n')
    write(path, second)
    with open(path, "ab") as file:
        file.write(bytes(2 << 20) + end)
    assert read(path) == [first, second]
    assert list(read_from_end(path, lambda: [b"{"])) == [second, first]
    assert [event for event in islice(follow(path, lambda: False), 3) if event] == [first, second]


@pytest.mark.parametrize("length", [1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
def test_an_incomplete_last_line_of_any_length_is_not_read_and_is_cut_before_appending(path: Path, length: int) -> None:
    for whole in (b"", encode(EVERY_KIND[0])):
        path.write_bytes(whole + b"x" * length)
        assert b"".join(map(encode, read(path))) == whole
        added = write(path, Note(step=3, text="after"))
        assert path.read_bytes() == whole + b"".join(map(encode, added))


def test_a_line_of_events_is_written_whole_or_not_at_all(path: Path) -> None:
    with closing(EventWriter(path)) as write:
        first = encode(write(Note(step=1, text="first")))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(first) + 10, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                write(Note(step=2, text="second"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == first
        assert first + encode(write(Note(step=3, text="third"))) == path.read_bytes()


def test_of_a_long_file_only_the_end_is_read_before_more_is_written(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)  # takes no room on the disk
    with open(path, "ab") as file:
        file.write(b"\n")
    write(path, EVERY_KIND[-1])
    assert isinstance(next(Run(path.parent).latest(Done)), Done)


def test_the_latest_events_of_some_kinds_are_those_of_all_events(path: Path) -> None:
    again = started(step=10, resumed_from=10)
    write(path, *EVERY_KIND, Step(step=20, loss=1.0, lr=1e-5, epoch=0.2), again, Saved(step=11, checkpoint="000011"))
    for kinds in ((Step,), (Saved, Evaluated), (Done,), (Started, Step)):
        assert [*Run(path.parent).latest(*kinds)][::-1] == [event for event in read(path) if isinstance(event, kinds)]


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (-0.00004, -0.00001), (0.00001, 0.00004)])
def test_a_change_that_is_shown_as_nothing_is_none(low: float, high: float) -> None:
    change = Change(before=0.7351, after=0.735099999, low=low, high=high)
    assert str(change).endswith("(+0.00, 95 % +0.00 … +0.00)") and change.judgement == "not different"
