"""A run that is stopped inside a step or an evaluation, at any chunk, ends as one that was not stopped."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from contrastcli.files import atomic_write
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Note, Saved
from contrastcli.runs.measured import Angles, Evaluated, Probed, Step, Violated
from contrastcli.training.session import StopRequested
from contrastcli.training.step import Stepper
from support.resuming import assert_same
from support.tiny import Tiny, on_step, told, train, write_backbone
from support.trainers import first_batch, trainer_of

Count = Callable[[Run, int], None]


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Ask a run to stop while that forward pass runs, counted from 1; the first one of a new run is an evaluation."""
    pooled = SentenceEncoder.pooled

    def ask(run: Run, number: int) -> None:
        left = iter(range(number - 1, -1, -1))

        def stopping(*args: Any) -> torch.Tensor:
            if next(left, None) == 0:
                run.stop_path.touch()
            return pooled(*args)

        monkeypatch.setattr(SentenceEncoder, "pooled", stopping)

    return ask


def record(run: Run) -> list[object]:
    """Every event of training as it is in the file, without times and rates."""
    unmeasured: dict[str, object] = {
        "time": 0.0,
        "sentences_per_s": None,
        "seconds_left": None,
        "memory_mb": None,
        "takes": {},
    }
    events = [event for event in run.events() if isinstance(event, Step | Angles | Probed | Violated | Evaluated)]
    return [
        msgspec.structs.replace(event, **{key: unmeasured[key] for key in unmeasured if hasattr(event, key)})
        for event in events
    ]


@pytest.mark.parametrize(
    ("objective", "form", "passes", "changes"),
    [
        ("simcse", "pairs", 20, {"model__head": "keep", "dev__probes": "ba | da; ba da | den"}),
        pytest.param(
            *("pcl", "sentences", 45),
            {"train__token_budget": 400, "model__head": "train-only", "train__save_every": 3},
            marks=pytest.mark.slow,
        ),
        ("simcse", "triplets", 30, {"objective__mlm_weight": 0.1, "dev__patience": 2}),
        pytest.param(
            *("simcse", "triplets", 30),
            {"data__limit": 16, "train__epochs": 9, "train__max_steps": 9, "train__log_every": 3},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_stops_at_any_chunk_change_nothing(
    tiny: Tiny, tmp_path: Path, stop_at: Count, objective: str, form: str, passes: int, changes: dict[str, object]
) -> None:
    """A step takes at most so many forward `passes`; each session gets a few more than that before it is stopped."""
    settings = {"train__max_steps": 5, "train__token_budget": 100, "dev__every": 2} | changes
    undisturbed, stopped = (tiny.run(tmp_path / name, objective, form, **settings) for name in ("whole", "stopped"))
    train(undisturbed)
    draw, ends = random.Random(8), [Done(step=0, status="", code=0)]
    for number in [1, 2, *(draw.randrange(passes, 2 * passes) for _ in range(100))]:
        stop_at(stopped, number)
        ends.append(train(stopped))
        if ends[-1].status == "finished":
            break
    assert ends[-1].status == "finished" and len(ends) > 5, ends
    assert [(end.status, end.code) for end in ends[1:-1]] == [("stopped", 0)] * (len(ends) - 2)
    assert_same(stopped, undisturbed)
    assert record(stopped) == record(undisturbed)
    assert bool(told(stopped, Violated)) == ("data__limit" in changes)


@pytest.mark.parametrize(("number", "step"), [(1, 0), (2, 0), (26, 1)])
def test_the_step_or_evaluation_under_way_is_dropped(
    tiny: Tiny, place: Path, stop_at: Count, number: int, step: int
) -> None:
    """Stopped in the evaluation before the first step; in that step; and in the next one."""
    run = tiny.run(place, "simcse", "pairs", train__token_budget=100)
    stop_at(run, number)
    assert train(run) == Done(step=step, status="stopped", code=0)
    assert run.checkpoints() == {"last": f"{step:06d}"}
    assert [event.step for event in told(run, Step)] == [1] * step
    assert len(told(run, Evaluated)) == (number > 1)
    before = load_file(tiny.backbone / "model.safetensors")
    after = load_file(run.checkpoint("last") / "model.safetensors")
    assert all(torch.equal(after[name], before[name]) for name in after) == (step == 0)


def test_an_interrupted_last_evaluation_is_done_after_the_resume(tiny: Tiny, tmp_path: Path, stop_at: Count) -> None:
    undisturbed, stopped = (tiny.run(tmp_path / name, train__max_steps=3, dev__every=9) for name in ("whole", "one"))
    train(undisturbed)
    monitored = 0

    def stop_in_evaluation(event: object) -> None:
        nonlocal monitored
        if isinstance(event, Angles) and event.step == 3:
            monitored += 1
            stop_at(stopped, 1)

    assert train(stopped, stop_in_evaluation) == Done(step=3, status="stopped", code=0)
    assert monitored == 1 and [event.step for event in told(stopped, Evaluated)] == [0]
    assert train(stopped) == Done(step=3, status="finished", code=0)
    assert [event.checkpoint for event in told(stopped, Saved)] == ["000003", "000003"]
    assert_same(stopped, undisturbed)
    assert record(stopped) == record(undisturbed)


def test_a_dropped_step_leaves_no_trace_in_the_buffers_of_a_loss(tiny: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path, "simcse", "pairs")
    trainer.stepper.heads.register_buffer("queue", torch.zeros(3))
    loss, asked = trainer.stepper.loss, False

    def loss_with_a_queue(*inputs: Any) -> Any:
        nonlocal asked
        asked = True
        trainer.stepper.heads.get_buffer("queue").add_(1)
        return loss(*inputs)

    trainer.stepper.loss, trainer.session.stop_requested = loss_with_a_queue, lambda: asked
    with pytest.raises(StopRequested):
        trainer.update(first_batch(trainer))
    assert trainer.stepper.heads.get_buffer("queue").tolist() == [0, 0, 0]


def notes(run: Run) -> list[str]:
    return [event.text for event in told(run, Note) if "tokens at once" in event.text]


def stop_and_change(run: Run, step: int, budget: int) -> None:
    """Stop a run after a step, and give it another token budget, as `train --resume --token-budget` does."""
    train(run, on_step(step, run.stop_path.touch))
    config = run.config()
    changed = replace(config, train=msgspec.structs.replace(config.train, token_budget=budget))
    atomic_write(run.config_path, changed.to_toml().encode())


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_another_token_budget_changes_dropout_and_nothing_else(tiny: Tiny, tmp_path: Path, dropout: float) -> None:
    backbone = write_backbone(tmp_path / "backbone", hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    rate = 1e-4
    settings = {"train__max_steps": 5, "train__lr": rate, "model__backbone": str(backbone), "train__token_budget": 4000}
    undisturbed, changed = (
        tiny.run(tmp_path / name, "simcse", "triplets", **settings) for name in ("whole", "changed")
    )
    train(undisturbed)
    stop_and_change(changed, 2, 200)
    assert train(changed).status == "finished"
    one, other = (load_file(run.checkpoint("last") / "model.safetensors") for run in (changed, undisturbed))
    # No score depends on the bias of a key, and its gradient is rounding.
    difference = max(float((one[name] - other[name]).abs().max()) for name in one if not name.endswith("key.bias"))
    assert (difference <= rate / 100) == (dropout == 0)
    assert notes(changed) == ["at most 200 tokens at once instead of 4,000: other chunks, which draw other dropout"]


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that runs out of memory in step 3 with more than 500 tokens at once."""
    backward = Stepper.backward

    def limited(self: Stepper, batch: Any, **options: Any) -> Any:
        if batch.step == 3 and self.token_budget > 500:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return backward(self, batch, **options)

    monkeypatch.setattr(Stepper, "backward", limited)


@pytest.mark.usefixtures("small_memory")
def test_a_reduced_token_budget_is_remembered(tiny: Tiny, tmp_path: Path) -> None:
    settings = {"train__max_steps": 6, "train__token_budget": 800}
    undisturbed, stopped = (tiny.run(tmp_path / name, "simcse", "triplets", **settings) for name in ("whole", "one"))
    train(undisturbed)
    train(stopped, on_step(2, stopped.stop_path.touch))  # memory has not run out yet
    train(stopped, on_step(4, stopped.stop_path.touch))
    train(stopped)
    assert_same(stopped, undisturbed)
    assert notes(stopped) == [
        "memory ran out: the step starts again with at most 400 tokens at once",
        "at most 400 tokens at once, since memory ran out with more; --token-budget N sets another budget",
    ]


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("budget", [480, 4000])
def test_a_given_token_budget_replaces_the_reduced_one(tiny: Tiny, place: Path, budget: int) -> None:
    run = tiny.run(place, "simcse", "triplets", train__max_steps=6, train__token_budget=800)
    stop_and_change(run, 4, budget)
    train(run)
    assert notes(run)[-1] == f"at most {budget:,} tokens at once instead of 400: other chunks, which draw other dropout"
