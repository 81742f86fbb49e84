"""A run from its first event to its last: events, checkpoints and its end."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import rankdata

from contrastcli.evaluation.significance import RESAMPLES
from contrastcli.model.folder import load_encoder
from contrastcli.runs import process
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Done, Note, Progress, Saved, Started
from contrastcli.runs.measured import Angles, Evaluated, Step
from contrastcli.runs.status import read_writer
from contrastcli.training import angles, loop
from contrastcli.training.dev import DevSet
from contrastcli.training.session import Session
from support.tables import scored_pairs
from support.tiny import Tiny, known, told, train
from support.waiting import wait_until


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give the dev set these scores, one for each evaluation, step 0 first."""

    def script(*scores: float | None) -> None:
        left = iter(scores)

        def evaluate(self: DevSet, encoder: object, step: int, on_chunk: object = None) -> Evaluated:
            score = next(left)
            now = np.full(1 + RESAMPLES, np.nan if score is None else score)
            self.scores |= {"last": now} if step else {"first": now, "last": now}
            return Evaluated(step=step, score=score, alignment=0.1, uniformity=-1.0, pairs=30)

        monkeypatch.setattr(DevSet, "evaluate", evaluate)

    return script


def test_loading_is_reported_once_a_second_and_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    events = list[Event]()
    session = Session(events.append)
    clock = iter(range(1_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) / 10)
    for done in range(1, 101):
        session.loading("encoding by a teacher", done, 100)
    assert [event.done for event in events if isinstance(event, Progress)] == [1, *range(12, 100, 11), 100]


def test_the_heartbeat_has_the_step_that_is_not_logged(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "HEARTBEAT", 0.01)
    run = tiny.run(place, train__log_every=1000, train__max_steps=12, dev__every=7)
    found: list[float | None] = []

    def watch(event: Event) -> None:
        if isinstance(event, Evaluated) and event.step == 7:
            wait_until(lambda: (writer := read_writer(run.alive_path)) and writer.step == 7)
            found.append(run.status().seconds_left)

    train(run, watch)
    assert found[0] is not None and [step.step for step in told(run, Step)] == [1, 12]
    takes = told(run, Step)[-1].takes
    parts = ["mining", "batch", "forward", "loss", "backward", "optimiser", "logging", "evaluation", "saving"]
    assert list(takes) == parts and min(takes.values()) > 0


def test_a_gpu_is_timed_by_its_own_events_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []
    passed = 2

    class FakeEvent:
        def __init__(self, enable_timing: bool) -> None:
            self.number = len(recorded)
            recorded.append(self)

        def query(self) -> bool:
            return self.number < passed

        def elapsed_time(self, end: "FakeEvent") -> float:
            assert end.query(), "torch refuses the time of what has not passed"
            return 1000.0 * (end.number - self.number)

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(record_event=lambda event: event))
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    clock = loop.Clock(torch.device("cuda"))
    for what in ("batch", "forward", "backward"):
        clock.mark(what)
    clock.tick(8)
    assert clock.takes() == {"batch": 1.0}
    passed = 5
    clock.mark("optimiser")
    assert clock.takes() == {"batch": 1.0, "forward": 1.0, "backward": 1.0, "optimiser": 1.0}


def test_texts_that_may_be_cut_are_counted_before_training(tiny: Tiny, tmp_path: Path) -> None:
    """Six words fill eight tokens; the seventh is cut."""
    texts = ["unknownword " * n for n in (2, 5, 6, 7)]
    rows = [{"anchor": text, "positive": f"ba {n}"} for n, text in enumerate(texts)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"data__train": str(tmp_path / "rows.jsonl"), "train__batch_size": 4, "train__max_steps": 1}
    run = tiny.trained(tmp_path / "run", "simcse", "pairs", model__max_length=8, **changes)
    notes = [note.text for note in told(run, Note)]
    assert "texts that fill model.max_length, 8 tokens, or are cut there: 2 of 8" in notes


def test_texts_of_the_hardest_negatives_are_told_of_some_batches_only(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(angles, "BATCHES", 3)
    run = tiny.trained(place, train__log_every=2)
    told_of = {event.step: len(event.closest) for event in told(run, Angles)}
    assert [step for step in told_of if told_of[step]] == [1, 8, 16, 20]
    texts = tiny.data["labelled"].read_text()
    assert all(f'"{event.closest[0].anchor}"' in texts for event in told(run, Angles) if event.closest)


@pytest.fixture(scope="module")
def measured(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of one epoch and a half with evaluations; no test may change it."""
    changes = {"train__epochs": 2, "train__max_steps": 30, "dev__every": 5, "objective__beta": 3.0}
    return tiny.trained(tmp_path_factory.mktemp("measured") / "one", **changes)


def test_loss_is_the_sum_of_its_parts_and_epochs_are_counted(measured: Run) -> None:
    steps = told(measured, Step)
    for event in steps:
        classification, contrast = known(event.parts[name] for name in ("classification", "contrast"))
        assert event.loss == pytest.approx(classification + 3 * contrast, rel=1e-5)
        assert event.grad_norm is not None and event.grad_norm > 0
    assert [event.epoch for event in steps] == pytest.approx([step / 20 for step in range(1, 31)], abs=1e-4)


def test_the_best_model_has_the_score_that_was_logged(tiny: Tiny, measured: Run) -> None:
    best = load_encoder(measured.checkpoint("best"))
    again = DevSet.of(scored_pairs(str(tiny.dev)), best).evaluate(best, 0)
    scores = {event.step: event.score for event in told(measured, Evaluated) if event.step}
    assert scores[int(measured.checkpoints()["best"])] == again.score == max(known(scores.values()))


def test_the_worst_dev_pairs_are_those_whose_ranks_differ_most(tiny: Tiny, measured: Run) -> None:
    pairs, encoder = scored_pairs(str(tiny.dev)), load_encoder(measured.checkpoint("last"))
    first, second = (torch.from_numpy(encoder.encode(texts)).double() for texts in (pairs.first, pairs.second))
    cosines = [float(a @ b / a.norm() / b.norm()) for a, b in zip(first, second, strict=True)]
    gaps = np.abs(rankdata(np.negative(pairs.scores)) - rankdata(np.negative(cosines)))
    worst = told(measured, Evaluated)[-1].worst
    assert len(worst) == 5
    for one, gap in zip(worst, sorted(gaps, reverse=True), strict=False):
        n = list(zip(pairs.first, pairs.second, strict=True)).index((one.first, one.second))
        assert gaps[n] == gap
        assert one.score == pairs.scores[n] and one.cosine == pytest.approx(cosines[n], abs=1e-3)
        assert abs(one.score_rank - one.cosine_rank) == pytest.approx(gap, abs=1)


def test_a_run_writes_its_events_in_order(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, dev__every=5, train__log_every=4, train__max_steps=10)
    assert train(run) == Done(step=10, status="finished", code=0)
    story = [(type(event).__name__, event.step) for event in run.events() if not isinstance(event, Note)]
    steps = [("Step", 1), ("Angles", 1), ("Step", 4), ("Angles", 4)]
    middle = [("Evaluated", 5), ("Saved", 5), ("Step", 8), ("Angles", 8)]
    end = [("Step", 10), ("Angles", 10), ("Evaluated", 10), ("Saved", 10), ("Verdict", 10), ("Done", 10)]
    actual = [(name, step) for name, step in story if name not in ("Progress", "System")]
    assert actual == [("Started", 0), ("Evaluated", 0), *steps, *middle, *end]
    started = told(run, Started)[0]
    assert (started.steps, started.steps_per_epoch, started.batch_size, started.sentences_per_step) == (10, 20, 8, 16)
    assert (started.negatives_per_anchor, started.device, started.precision) == (14, "cpu", "fp32")
    assert run.status().state == "finished"


def test_slow_steps_are_logged_in_time_and_long_work_says_that_it_begins(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, original = 0.0, torch.optim.AdamW.step

    def slow_step(self: torch.optim.AdamW) -> None:
        nonlocal now
        now += 4
        original(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", slow_step)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now))
    run = tiny.trained(place, train__log_every=100, train__max_steps=9)
    steps = told(run, Step)
    assert [event.step for event in steps] == [1, 4, 7, 9]
    assert [event.sentences_per_s for event in steps] == [4.0] * 4
    begun = [event for event in told(run, Progress) if event.what == "encoding the dev set"]
    assert (begun[0].step, begun[0].done) == (0, 0) and begun[0].total > 0


def test_a_limit_beyond_that_of_the_backbone_is_said(tiny: Tiny, place: Path) -> None:
    run = tiny.trained(place, "simcse", "pairs", model__max_length=100, train__max_steps=1)
    assert any("max_length is 32, the most that this backbone reads" in note.text for note in told(run, Note))


def test_best_keeps_the_model_and_last_what_resuming_needs(
    tiny: Tiny, place: Path, scripted: Callable[..., None]
) -> None:
    scripted(0.99, 0.1, 0.5, 0.3, 0.4)  # the untrained model's score is no candidate
    run = tiny.trained(place, dev__every=1, train__max_steps=4)
    assert run.status().best == 0.5 and told(run, Evaluated)[0].score == 0.99
    assert run.checkpoints() == {"last": "000004", "best": "000002"}
    assert {path.name for path in run.checkpoints_dir.iterdir()} == {"000002", "000004"}
    best, last = files(run.checkpoint("best")), files(run.checkpoint("last"))
    assert {name for name in last if name.startswith("training/")} == {
        "training/checksums.json",
        "training/dev.safetensors",
        "training/heads.safetensors",
        "training/optimizer.safetensors",
        "training/position.json",
    }
    assert best == {name for name in last if not name.startswith("training/")}
    assert [(event.step, event.best) for event in told(run, Saved)] == [(1, True), (2, True), (3, False), (4, False)]
    assert [event.best for event in told(run, Evaluated)] == [False, True, True, False, False]


def test_a_new_best_is_saved_between_saves_and_an_undefined_score_is_none(
    tiny: Tiny, place: Path, scripted: Callable[..., None]
) -> None:
    scripted(None, None, 0.3, None, 0.25, None)
    run = tiny.trained(place, dev__every=2, train__save_every=5, train__max_steps=10)
    assert [event.step for event in told(run, Saved)] == [4, 5, 10]
    assert run.checkpoints() == {"last": "000010", "best": "000004"}


def test_without_a_dev_set_there_is_no_best_and_last_counts(tiny: Tiny, place: Path) -> None:
    before = {path: path.read_bytes() for path in tiny.backbone.iterdir()}
    run = tiny.trained(place, dev__data="none", dev__every=2, train__max_steps=5)
    assert run.checkpoints() == {"last": "000005"}
    assert run.checkpoint().name == "000005"
    assert told(run, Evaluated) == []
    assert [event.step for event in told(run, Saved)] == [2, 4, 5]
    assert {path: path.read_bytes() for path in tiny.backbone.iterdir()} == before, "the backbone stays as it is"


def test_training_stops_when_patience_ends_and_keeps_its_last_state(
    tiny: Tiny, place: Path, scripted: Callable[..., None]
) -> None:
    scripted(0.0, 0.1, 0.3, 0.3, 0.2, 0.9, 0.9, 0.9, 0.9, 0.9)
    run = tiny.run(place, dev__every=2, dev__patience=2, train__save_every=20)
    assert train(run) == Done(step=8, status="finished", code=0)
    assert run.checkpoints() == {"last": "000008", "best": "000004"}
    assert told(run, Note)[-1].text == "stopped early: 2 evaluations without a best"


def test_an_early_stop_that_a_kill_cut_short_takes_no_further_step(
    tiny: Tiny, place: Path, scripted: Callable[..., None]
) -> None:
    def killed(event: Event) -> None:
        if isinstance(event, Note) and "stopped early" in event.text:
            raise SystemExit

    run = tiny.run(place, dev__every=2, dev__patience=1)
    scripted(0.0, 0.3, 0.2)
    with pytest.raises(SystemExit):
        train(run, killed)
    assert told(run, Note)[-1].text == "stopped early: 1 evaluation without a best"
    assert train(run) == Done(step=4, status="finished", code=0)


def test_a_head_for_training_only_is_dropped_and_a_kept_one_is_in_the_model(tiny: Tiny, place: Path) -> None:
    for head, kept in [("train-only", False), ("keep", True)]:
        run = tiny.trained(place.with_name(head), "simcse", "sentences", model__head=head, train__max_steps=2)
        assert (len(load_encoder(run.checkpoint()).after) > 0) == kept
        assert any(name.startswith("2_Dense") for name in files(run.checkpoint())) == kept
        heads = load_file(run.checkpoint("last") / "training" / "heads.safetensors")
        assert any(name.startswith("projection") for name in heads) != kept


def test_bf16_trains_finite_fp32_weights_and_repeats_itself(tiny: Tiny, place: Path) -> None:
    made = []
    for name, precision in [("first", "bf16"), ("again", "bf16"), ("full", "fp32")]:
        run = tiny.trained(place.with_name(name), train__max_steps=8, train__precision=precision)
        assert all(event.loss is not None for event in told(run, Step))
        made.append(load_file(run.checkpoint("last") / "model.safetensors"))
    assert {tensor.dtype for tensor in made[0].values()} == {torch.float32}
    first, again, full = made
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], full[name]) for name in first)
    for name in first:
        torch.testing.assert_close(first[name], full[name], rtol=0, atol=0.02)
