"""Steps on the device are those of the CPU, repeat, resume, and do not wait for it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrastcli.model.bert.graphs import SEEN
from contrastcli.runs.directory import Run
from contrastcli.runs.measured import Step
from contrastcli.training.loop import Trainer
from support import train_runs
from support.families import write_family
from support.gpu import CUDA, DEVICE, Base
from support.resuming import state
from support.tiny import Tiny, known, told, train, write_backbone
from support.trainers import Case, case_id, cases, distance, first_batch, gradients, trainer_of
from support.waiting import wait_until

Record = Callable[[str, object], None]

STEPS = [case for case in cases() if not case[2] or "objective__mlm_weight" in case[2]][:: 1 if CUDA else 3]
"""Every objective on every form of rows that it takes, and the term of masked tokens; a third without a GPU."""
ROUNDING = 0.05
"""Of sums in bf16, in which kept graphs add up the gradients of chunks; of other dropout it would be 1."""
each_step = pytest.mark.parametrize("case", STEPS, ids=case_id)


@pytest.fixture(scope="module")
def calm(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Without dropout, which devices draw in other ways."""
    folder = tmp_path_factory.mktemp("calm") / "backbone"
    return replace(tiny, backbone=write_backbone(folder, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def one_step(trainer: Trainer, keep_graphs: bool | None = None) -> tuple[float, dict[str, Tensor]]:
    """The loss of the first batch, and every gradient."""
    outcome = trainer.stepper.backward(first_batch(trainer), keep_graphs=keep_graphs)
    return float(outcome.loss), {name: gradient.cpu() for name, gradient in gradients(trainer).items()}


def on_device(tiny: Tiny, folder: Path, case: Case, **more: object) -> Trainer:
    objective, form, changes = case
    return trainer_of(tiny, folder, objective, form, train__device=DEVICE.type, **changes, **more)


@each_step
def test_a_step_is_that_of_the_cpu(calm: Tiny, tmp_path: Path, record_property: Record, case: Case) -> None:
    """In one chunk, since masks of tokens are drawn by chunks, which devices cut in other ways."""
    objective, form, changes = case
    trainers = trainer_of(calm, tmp_path, objective, form, **changes), on_device(calm, tmp_path, case)
    for trainer in trainers:
        trainer.stepper.token_budget = 100_000
    (expected_loss, expected), (loss, gradient) = map(one_step, trainers)
    error = distance(gradient, expected)
    record_property("gradient error", error)
    assert error <= 1e-4
    assert loss == pytest.approx(expected_loss, rel=1e-4)


@each_step
def test_a_step_in_bf16_is_near_that_in_fp32(calm: Tiny, tmp_path: Path, record_property: Record, case: Case) -> None:
    (loss, expected), (half_loss, half) = (
        one_step(on_device(calm, tmp_path, case, train__precision=precision)) for precision in ("fp32", "bf16")
    )
    one, other = (torch.cat([some[name].flatten() for name in expected]) for some in (half, expected))
    cosine = float(torch.cosine_similarity(one, other, dim=0))
    record_property("cosine of gradients", cosine)
    assert half_loss == pytest.approx(loss, rel=0.05, abs=0.05)
    assert cosine > 0.9


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@each_step
def test_the_gradient_cache_draws_the_dropout_of_kept_graphs(
    tiny: Tiny, tmp_path: Path, record_property: Record, case: Case, precision: str
) -> None:
    trainer = on_device(tiny, tmp_path, case, train__precision=precision)
    (_, kept), (_, cached) = (one_step(trainer, keep_graphs) for keep_graphs in (True, False))
    error = distance(cached, kept)
    record_property("gradient error", error)
    assert error <= (1e-4 if precision == "fp32" else ROUNDING)


def test_so_it_does_at_the_shape_of_bert_base(base: Base, tmp_path: Path, record_property: Record) -> None:
    """There torch has several kernels of attention to choose from."""
    from contrastcli.training.plan import make_plan
    from contrastcli.training.session import Session
    from contrastcli.training.setup import make_trainer

    run = base.run(tmp_path / "one", train__batch_size=64)
    trainer = make_trainer(run, make_plan(run.config()), DEVICE, Session(lambda event: None))
    trainer.encoder.train()
    trainer.stepper.token_budget = 1024
    (_, kept), (_, cached) = (one_step(trainer, keep_graphs) for keep_graphs in (True, False))
    error = distance(cached, kept)
    record_property("gradient error", error)
    assert error <= ROUNDING


@contextmanager
def without_waiting() -> Iterator[None]:
    """Raise an error where the CPU waits for the GPU."""
    if CUDA:
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        if CUDA:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("budget", [500, 100_000], ids=["cached", "kept"])
@each_step
def test_a_step_does_not_wait_for_the_device(tiny: Tiny, tmp_path: Path, case: Case, budget: int) -> None:
    trainer = on_device(tiny, tmp_path, case, train__precision="bf16")
    trainer.stepper.token_budget = budget
    # By then its inputs are checked, memory is made, and CUDA graphs are captured.
    for _ in range(SEEN + 1):
        trainer.update(first_batch(trainer))
    with without_waiting():
        outcome, _ = trainer.update(first_batch(trainer))
        for auxiliary in trainer.stepper.auxiliaries:
            auxiliary.after_step(first_batch(trainer), outcome.views)


def updates(trainer: Trainer, budget: int) -> tuple[list[float], dict[str, Tensor]]:
    """The losses of as many updates on the first batch as capture its graphs, and of two that replay them; weights."""
    trainer.stepper.token_budget = budget
    batch, losses = first_batch(trainer), []
    for _ in range(SEEN + 3):
        losses.append(float(trainer.update(batch)[0].loss))
        trainer.encoder.encode_table(trainer.inputs.table)
    return losses, {name: weight.detach().cpu() for name, weight in trainer.encoder.named_parameters()}


@pytest.mark.skipif(not CUDA, reason="a CPU has no CUDA graphs")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@each_step
def test_cuda_graphs_take_the_steps_of_kernels(
    tiny: Tiny, tmp_path: Path, record_property: Record, case: Case, precision: str
) -> None:
    """With dropout, and with the encoder used in between."""
    assert_equal_steps(tiny, tmp_path, record_property, case, train__precision=precision)


@pytest.mark.skipif(not CUDA, reason="a CPU has no CUDA graphs")
@pytest.mark.parametrize("pooling", ["cls", "mean", "first-last", "last-mean", "last"])
@pytest.mark.parametrize("lora", [0, 4])
@pytest.mark.parametrize("family", ["roberta", "distilbert", "mpnet", "modernbert"])
def test_so_they_do_in_other_families(
    tiny: Tiny, tmp_path: Path, record_property: Record, family: str, lora: int, pooling: str
) -> None:
    if lora:
        pytest.importorskip("peft")
    model = replace(tiny, backbone=write_family(family, tmp_path / family))
    changes: dict[str, object] = {"model__lora": lora, "model__pooling": pooling, "train__precision": "bf16"}
    assert_equal_steps(model, tmp_path, record_property, ("simcse", "pairs", {}), **changes)


def assert_equal_steps(tiny: Tiny, folder: Path, record_property: Record, case: Case, **changes: object) -> None:
    """That the steps of kernels are those of CUDA graphs, in which a single chunk is taken."""
    kernels, graphs = (on_device(tiny, folder, case, **changes) for _ in range(2))
    kernels.stepper.cuda_graphs = None
    (expected, weights), (losses, others) = (updates(trainer, 100_000) for trainer in (kernels, graphs))
    assert graphs.stepper.cuda_graphs is not None
    record_property("replayed", bool(graphs.stepper.cuda_graphs._captured))
    same = losses == expected and all(torch.equal(weights[name], others[name]) for name in weights)
    record_property("same bits", same)
    assert losses == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.skipif(not CUDA, reason="a CPU has no CUDA graphs")
def test_where_memory_lacks_for_graphs_kernels_are_launched(tiny: Tiny, tmp_path: Path) -> None:
    trainer = on_device(tiny, tmp_path, ("simcse", "pairs", {}))
    assert (graphs := trainer.stepper.cuda_graphs) is not None
    forward = trainer.encoder.forward

    def greedy(*words: Any, **more: Any) -> Tensor:
        if torch.cuda.is_current_stream_capturing():
            torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)
        return forward(*words, **more)

    trainer.encoder.forward = greedy  # type: ignore[method-assign]
    losses, _ = updates(trainer, 100_000)
    assert not graphs._captured
    other = on_device(tiny, tmp_path, ("simcse", "pairs", {}))
    assert updates(other, 100_000)[0] == pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_two_runs_take_the_same_steps(tiny: Tiny, tmp_path: Path, record_property: Record, precision: str) -> None:
    settings = {"train__max_steps": 10, "train__device": DEVICE.type, "train__precision": precision}
    runs = [tiny.run(tmp_path / name, "simcse", "triplets", **settings) for name in ("one", "other")]
    for run in runs:
        train(run)
    one, other = ([step.loss for step in told(run, Step)] for run in runs)
    record_property("same bits", state(runs[0]) == state(runs[1]))
    assert one == pytest.approx(other, rel=1e-3)


def test_a_killed_run_continues_as_one_that_was_not(tiny: Tiny, tmp_path: Path, record_property: Record) -> None:
    settings = {"train__max_steps": 150, "train__epochs": 99, "train__device": DEVICE.type, "dev__data": "none"}
    settings |= {"train__save_every": 5, "train__lr": 1e-5}
    killed, whole = (tiny.run(tmp_path / name, "simcse", "triplets", **settings) for name in ("killed", "whole"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, train_runs.__file__, str(killed.path)], env=environment)
    wait_until(lambda: len(told(killed, Step)) >= 8 or process.poll() is not None)
    process.kill()
    process.wait()
    step = int(killed.checkpoints()["last"])
    assert 5 <= step < 150
    for run in (killed, whole):
        assert train(run).status == "finished"
    one, other = (losses(run) for run in (killed, whole))
    record_property("killed at step", step)
    record_property("same bits", one == other)
    assert known(one.values()) == pytest.approx(known(other.values()), rel=1e-3, abs=1e-3)


def losses(run: Run) -> dict[int, float | None]:
    """Of each step, the last time that it was taken."""
    return {step.step: step.loss for step in sorted(told(run, Step), key=lambda step: step.step)}
