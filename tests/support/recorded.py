"""Runs in every state without training: run directories as training would leave them, the same each time."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from contrastcli.runs import directory as runs
from contrastcli.runs import status
from contrastcli.runs.directory import TRAINING, Run
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Done, Note, Progress, Saved, Started, encode
from contrastcli.runs.measured import HISTOGRAM_BINS, Angles, DevPair, Evaluated, HardNegative, Step
from contrastcli.runs.status import Writer
from support import signs
from support.settings import preset
from support.signs import DEAD, beat

Kind = Literal[
    "finished", "running", "starting", "stopped", "resumed", "diverged", "failed", "killed", "silent", "empty"
]
BEGIN = 1_795_000_000.0
"""The start of every recorded run, in seconds since the epoch."""

_SENTENCES = (
    "A man is playing a guitar on a stage in front of a large crowd.",
    "A man plays the guitar for many people.",
    "Two dogs run through the snow.",
    "Dogs are running in a park covered with snow, and one of them has a red ball in its mouth.",
    "The bank raised its rates.",
    "A woman slices an onion.",
)
_STEPS, _EVERY, _LOGGED = 600, 100, 10
_BATCH = 64
_ENDS: dict[Kind, int] = {"finished": _STEPS, "resumed": _STEPS, "stopped": 350, "diverged": 350, "failed": 350}
_HALF = 350  # the step of runs that have not ended


def recorded(directory: Path, kind: Kind, name: str = "", **settings: object) -> Run:
    """A run of the preset `starter` in that state, with changes as train__lr=1e-3. An `empty` one has no event.

    This process is the one that trains a `running` or `starting` run; a `silent` one trains on another machine.
    """
    run = runs.create(preset("starter", **settings), directory, name or f"starter-{kind}")
    writer = _writer(kind)
    if kind != "empty":
        append(run, *_events(kind, run, writer))
    if kind in ("running", "starting", "killed", "silent"):
        # A live run has a fresh heartbeat, however slow the test is.
        beat(run, writer, seconds_ago=90 if kind == "silent" else -3600)
    if kind in ("killed", "failed"):
        run.log_path.write_text("tokenising  4,096/4,096\nTraceback (most recent call last):\nMemoryError\n")
    if kind not in ("starting", "empty", "diverged", "failed"):
        _save(run, best=300, last=_ENDS.get(kind, 300))
    return run


def append(run: Run, *events: Event) -> None:
    """Add events to a run."""
    with open(run.events_path, "ab") as file:
        file.writelines(map(encode, events))


def end(run: Run, score: float, status: str = "finished", code: int = 0, message: str = "") -> None:
    """Write the events of four steps now, from the start, or the resume, to the end, with this dev score."""
    begun = started(Writer("elsewhere", 1, 0.0), resumed_from=0 if run.events() else None)
    write = EventWriter(run.events_path)
    write(replace(begun, time=0.0, steps=4, steps_per_epoch=4))
    write(Evaluated(step=4, score=score, alignment=0.1, uniformity=-1.0, pairs=9, best=True))
    write(Done(step=4, status=status, code=code, message=message))
    write.close()


def training(first: int, last: int) -> Iterator[Event]:
    """The events of training between two steps, both included: the loss falls, more and more slowly."""
    for step in range(first, last + 1):
        if step == 1 or step % _LOGGED == 0:
            yield stepped(step)
            yield angles(step)
        if step % _EVERY == 0:
            best = step <= 300
            yield evaluated(step, best=best)
            yield Saved(step=step, time=_at(step), checkpoint=f"{step:06}", best=best)


def stepped(step: int) -> Step:
    """A step as logged."""
    contrast = 0.6 + 2.4 * _left(step) + _noise(step, 0.12)
    classification = 0.4 + 0.3 * _left(step) + _noise(step, 0.02)
    return Step(
        step=step,
        time=_at(step),
        loss=contrast + classification,
        parts={"contrast": contrast, "classification": classification},
        lr=5e-5 * (1 - step / _STEPS),
        grad_norm=4 + 9 * _left(step) + _noise(step, 1.5),
        epoch=step / 100,
        sentences_per_s=1480 + _noise(step, 60),
        seconds_left=(_STEPS - step) * 0.25,
        memory_mb=912.5,
        takes={"batch": 0.001, "forward": 0.09, "backward": 0.14, "optimiser": 0.016, "evaluation": 0.003},
    )


def angles(step: int) -> Angles:
    """The angles of a step."""
    positive, negative = 34 + 16 * _left(step) + _noise(step, 1.5), 84 - 22 * _left(step) + _noise(step, 0.8)
    return Angles(
        step=step,
        time=_at(step),
        positive=positive,
        negative=negative,
        hardest=negative - 26 + _noise(step, 1.2),
        satisfied=0.97 - 0.5 * _left(step),
        negatives=126.0,
        effective=9 + 60 * _left(step),
        positive_histogram=_bell(positive, 9, _BATCH),
        negative_histogram=_bell(negative, 11, _BATCH * (_BATCH - 1)),
        closest=[_hard_negative(step, row) for row in range(5)],
    )


def _hard_negative(step: int, row: int) -> HardNegative:
    return HardNegative(
        anchor=_sentence(row),
        negative=_sentence(row + 1),
        positive=_sentence(row + 3),
        negative_deg=12.5 + 7 * row + 20 * _left(step),
        positive_deg=22.5 + 3 * row + 10 * _left(step),
    )


def _sentence(number: int) -> str:
    return _SENTENCES[number % len(_SENTENCES)]


def evaluated(step: int, *, best: bool) -> Evaluated:
    """The dev set at a step: best at step 300, a little worse after."""
    spearman = 0.74 - 0.14 * _left(step) - max(0, step - 300) * 4e-5
    alignment, uniformity = 0.2 - 0.03 * _left(step), -2.6 + 1.0 * _left(step)
    return Evaluated(
        step=step,
        time=_at(step),
        data="starter",
        score=round(spearman, 6),
        alignment=round(alignment, 5),
        uniformity=round(uniformity, 5),
        pairs=500,
        width=128,
        rank=round(61 - 40 * _left(step), 2),
        mean_norm=round(0.2 + 0.4 * _left(step), 4),
        best=best,
        worst=[
            DevPair(
                first=_sentence(row),
                second=_sentence(row + 1),
                score=(row % 2) * 4.8,
                cosine=0.9 - 0.8 * (row % 2) + step / 10_000,
                score_rank=480 - 465 * (row % 2) + row,
                cosine_rank=20 + 440 * (row % 2) - row,
            )
            for row in range(5)
        ],
    )


def _events(kind: Kind, run: Run, writer: Writer) -> Iterator[Event]:
    """Every event of a run of that kind."""
    if kind == "starting":
        return
    yield started(writer)
    yield Note(step=0, time=BEGIN, text="1,204 of 4,096 rows labelled neutral were dropped")
    yield Progress(step=0, time=BEGIN, what="tokenising", done=4096, total=4096)
    yield evaluated(0, best=False)
    if kind == "resumed":
        yield from training(1, 430)
        yield Done(step=430, time=_at(430), status="stopped", code=0)
        yield started(writer, resumed_from=400)
        yield from training(401, _STEPS)
    else:
        yield from training(1, _ENDS.get(kind, _HALF))
    if kind in _ENDS:
        yield _done(kind, run, _ENDS[kind])


def started(writer: Writer, resumed_from: int | None = None) -> Started:
    """The start or resume of a run of 600 steps."""
    step = resumed_from or 0
    when = {"step": step, "time": _at(step), "resumed_from": resumed_from}
    return signs.started(writer, **when, steps=_STEPS, batch_size=_BATCH, objective="pairsupcon")


def _done(kind: Kind, run: Run, step: int) -> Done:
    end = Done(step=step, time=_at(step), status="finished" if kind == "resumed" else kind, code=0)
    if kind == "diverged":
        what = f"the loss or its gradient is not a finite number at step {step}"
        hint = "lower --lr, raise --tau or set --clip 1; the last good checkpoint is kept"
        return replace(end, code=4, message=what, hint=hint)
    if kind == "failed":
        hint = f"contrast --debug train --resume {run.name}"
        return replace(end, code=1, message="MemoryError: no message", hint=hint)
    return end


def _writer(kind: Kind) -> Writer:
    if kind == "silent":
        return Writer("elsewhere", 4242, BEGIN)
    if kind in ("running", "starting"):
        return status.this_process()
    return replace(DEAD, process_start=BEGIN)


def _save(run: Run, *, best: int, last: int) -> None:
    """Checkpoints by name only: nothing reads their weights here."""
    for step in {best, last}:
        (run.checkpoints_dir / f"{step:06}" / TRAINING).mkdir(parents=True)
    run.checkpoints_path.write_bytes(msgspec.json.encode({"last": f"{last:06}", "best": f"{best:06}"}))


def _at(step: int) -> float:
    return BEGIN + 5 + step * 0.25


def _left(step: int) -> float:
    """The share that is left to learn, 1 at the start."""
    return math.exp(-step / 120)


def _noise(step: int, scale: float) -> float:
    """A pseudo-random number within ± scale, a function of the step."""
    return scale * math.sin(12.9898 * step) * math.cos(4.1414 * step)


def _bell(mean: float, width: float, count: int) -> list[int]:
    """Counts in 5° bins around a mean, in degrees."""
    centres = [180 / HISTOGRAM_BINS * (n + 0.5) for n in range(HISTOGRAM_BINS)]
    heights = [math.exp(-(((centre - mean) / width) ** 2) / 2) for centre in centres]
    return [round(count * height / sum(heights)) for height in heights]
