"""A step's gradient is that of the whole batch, however it is cut and whether graphs are kept or computed again."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from contrastcli.model.folder import load_encoder
from contrastcli.training.auxiliaries.mlm import MaskedTokens
from contrastcli.training.batch import CHUNK, LOSS, MLM, Batch, Chunk, seed_of, set_seed
from contrastcli.training.loop import Trainer
from contrastcli.training.optim import gradient_norm, rate
from support.fake_gpu import REFUSED, chosen
from support.settings import config
from support.tiny import Tiny
from support.trainers import CPU, Case, case_id, cases, distance, first_batch, gradients, trainer_of


def direct(trainer: Trainer, batch: Batch, chunks: Sequence[Chunk]) -> Tensor:
    """The textbook way: one graph from the texts to the loss, one backward pass. Returns the loss."""
    stepper = trainer.stepper
    pooled = torch.zeros(len(stepper.encoders) * len(batch.texts), trainer.encoder.backbone.width)
    for chunk in chunks:
        set_seed(stepper.run_seed, batch.step, CHUNK, chunk.number)
        vectors = chunk.encoder.pooled(batch.table, chunk.texts)
        pooled = pooled.index_copy(0, torch.from_numpy(chunk.places), vectors)
    set_seed(stepper.run_seed, batch.step, LOSS)
    names = [prefix + view for prefix in stepper.encoders for view in batch.views]
    views = dict(zip(names, stepper.projection(pooled).chunk(len(names)), strict=True))
    for auxiliary in stepper.auxiliaries:
        views |= auxiliary.views(batch.rows, CPU)
    loss, _ = stepper.loss(views, batch.rows, stepper.heads)
    for auxiliary in stepper.auxiliaries:
        if isinstance(auxiliary, MaskedTokens):
            loss = loss + auxiliary.weight * masked_loss(trainer, auxiliary, batch, chunks)
    torch.autograd.backward(loss)
    return loss.detach()


def masked_loss(trainer: Trainer, mlm: MaskedTokens, batch: Batch, chunks: Sequence[Chunk]) -> Tensor:
    """The mean cross-entropy over all masked tokens of the batch."""
    logits, targets = [], []
    for number, (ids, real, labels) in mlm.mask(batch, chunks).items():
        set_seed(trainer.stepper.run_seed, batch.step, MLM, number)
        hidden = trainer.encoder.backbone(ids, real).last
        logits.append(mlm.head(hidden[labels >= 0]))
        targets.append(labels[labels >= 0])
    return torch.nn.functional.cross_entropy(torch.cat(logits), torch.cat(targets))


OTHER_SIMILARITY = "objective__similarity"
"""The setting of a case whose similarity is not the objective's own."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if OTHER_SIMILARITY in case[2] else [], id=case_id(case))
        for case in cases()
    ],
)
def test_cached_and_kept_gradients_are_those_of_one_graph(tiny: Tiny, tmp_path: Path, case: Case) -> None:
    objective, form, changes = case
    trainer = trainer_of(tiny, tmp_path, objective, form, **changes)
    texts = {"pcl": 4, "embed": 0.5}.get(objective, 1)  # of its many views, of one alone
    trainer.stepper.token_budget = int(trainer.stepper.token_budget * texts)
    batch = first_batch(trainer)
    chunks, _ = trainer.stepper.cut(batch)
    assert len(chunks) >= 4
    loss = direct(trainer, batch, chunks)
    expected = gradients(trainer)
    for keep_graph in (True, False):
        outcome = trainer.stepper.backward(batch, keep_graphs=keep_graph)
        torch.testing.assert_close(outcome.loss, loss, rtol=1e-5, atol=1e-6)
        assert distance(gradients(trainer), expected) <= 1e-5


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(("objective", "keep_graph"), [("simcse", True), ("pcl", False), ("pairsupcon", False)])
def test_threads_give_the_gradients_of_one_and_always_the_same_bits(
    tiny: Tiny, tmp_path: Path, objective: str, keep_graph: bool
) -> None:
    form = "labelled" if objective == "pairsupcon" else "sentences"
    changes = {"objective__mlm_weight": 0.1} if objective == "simcse" else {}
    trainer = trainer_of(tiny, tmp_path, objective, form, **changes)
    batch = first_batch(trainer)
    trainer.stepper.backward(batch, keep_graphs=keep_graph)
    several = gradients(trainer)
    trainer.stepper.backward(batch, keep_graphs=keep_graph)
    again = gradients(trainer)
    assert all(torch.equal(several[name], again[name]) for name in several)
    torch.set_num_threads(1)
    trainer.stepper.backward(batch, keep_graphs=keep_graph)
    assert distance(several, gradients(trainer)) <= 1e-5


def test_a_sentence_its_positive_and_every_step_get_dropout_of_their_own(tiny: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path, "simcse", "sentences")
    batch = first_batch(trainer)
    first, again, other = (trainer.stepper.backward(dataclasses.replace(batch, step=step)) for step in (1, 1, 2))
    assert first.loss == again.loss != other.loss
    assert (first.views["anchor"] - first.views["positive"]).abs().amax(dim=1).gt(1e-3).all()


def test_graphs_are_kept_only_where_the_whole_batch_fits_the_budget(tiny: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path, "simcse", "pairs")
    batch = first_batch(trainer)
    for budget in (240, 100, 10_000):
        trainer.stepper.token_budget = budget
        chunks, keep_graphs = trainer.stepper.cut(batch)
        padded = [len(chunk.texts) * int(batch.table.lengths[chunk.texts].max()) for chunk in chunks]
        assert max(padded) <= budget
        assert keep_graphs == (budget == 10_000)
        assert not keep_graphs or sum(padded) <= budget
    trainer.stepper.token_budget = 1
    chunks, keep_graphs = trainer.stepper.cut(batch)
    assert {len(chunk.texts) for chunk in chunks} == {1} and not keep_graphs


def test_tokens_of_the_texts_are_masked_and_none_of_padding_or_templates(tiny: Tiny, tmp_path: Path) -> None:
    changes = {"objective__mlm_weight": 1.0, "objective__mlm_probability": 0.9}
    trainer = trainer_of(tiny, tmp_path, "simcse", "pairs", model__pooling="mask", model__suffix="[MASK]", **changes)
    (mlm, *_), batch = trainer.stepper.auxiliaries, first_batch(trainer)
    assert isinstance(mlm, MaskedTokens) and batch.templates is not None
    mlm.special = mlm.special[:0]  # a tokenizer that does not name its padding
    masked = mlm.mask(batch, trainer.stepper.cut(batch)[0]).values()
    assert any((~real).any() for _, real, _ in masked)
    assert not any((labels[~real] >= 0).any() for _, real, labels in masked)
    # Chunks are padded by texts of one token.
    assert sum(int((real.sum(dim=1) > 1).sum()) for _, real, _ in masked) == len(batch.templates)


SCHEDULES = {
    ("linear", 0.0): [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1],
    ("linear", 0.2): [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125],
    ("constant", 0.0): [1.0] * 10,
    ("constant", 0.4): [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ("cosine", 0.0): [1.0, 0.97553, 0.90451, 0.79389, 0.65451, 0.5, 0.34549, 0.20611, 0.09549, 0.02447],
    ("cosine", 0.6): [1 / 6, 1 / 3, 0.5, 2 / 3, 5 / 6, 1.0, 1.0, 0.85355, 0.5, 0.14645],
    ("linear", 1.0): [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
}


@pytest.mark.parametrize(("schedule", "warmup"), list(SCHEDULES))
def test_the_rate_rises_and_falls_as_written_by_hand(schedule: str, warmup: float) -> None:
    settings = config(train__schedule=schedule, train__warmup=warmup).train
    rates = [rate(settings, step, 10) for step in range(1, 11)]
    assert rates == pytest.approx(SCHEDULES[schedule, warmup], abs=1e-5)


@pytest.mark.parametrize(("head_lr", "expected"), [(0.0, 1e-3), (0.5, 0.5)])
@pytest.mark.parametrize(
    ("objective", "form", "head"),
    [("pairsupcon", "labelled", "train-only"), ("pairsupcon", "labelled", "keep"), ("pcl", "sentences", "train-only")],
)
def test_heads_have_a_rate_of_their_own_and_every_encoder_has_the_usual_one(
    tiny: Tiny, tmp_path: Path, objective: str, form: str, head: str, head_lr: float, expected: float
) -> None:
    trainer = trainer_of(tiny, tmp_path, objective, form, model__head=head, train__head_lr=head_lr)
    rates = {id(p): group["lr"] for group in trainer.optimizer.param_groups for p in group["params"]}
    dense = trainer.encoder.after if head == "keep" else trainer.stepper.extras["projection"]
    heads = [*dense.parameters(), *trainer.stepper.heads.parameters()]
    assert {rates.pop(id(p)) for p in heads} == {expected}
    assert set(rates.values()) == {1e-3}
    assert len(rates) == len(trainer.stepper.encoders) * len(list(trainer.encoder.backbone.parameters()))


def test_weights_decay_and_vectors_do_not(tiny: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path, "pairsupcon", "labelled", train__weight_decay=0.1, train__lr=0.5)
    parameters = [p for group in trainer.optimizer.param_groups for p in group["params"]]
    for parameter in parameters:
        parameter.data.fill_(1.0)
        parameter.grad = torch.zeros_like(parameter)
    trainer.optimizer.step()
    for parameter in parameters:
        assert parameter.unique().tolist() == pytest.approx([0.95 if parameter.ndim > 1 else 1.0])


def test_a_clipped_gradient_keeps_its_direction_and_its_norm_is_returned(tiny: Tiny) -> None:
    gradient = torch.tensor([3.0, 0.0, -4.0])
    for clip, expected in [(0.0, 1.0), (10.0, 1.0), (1.0, 0.2)]:
        parameter = torch.nn.Parameter(torch.zeros(3))
        parameter.grad = gradient.clone()
        assert float(gradient_norm([parameter], clip)) == pytest.approx(5.0)
        torch.testing.assert_close(parameter.grad, expected * gradient)


@pytest.mark.parametrize(("optimizer", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam)])
def test_bf16_computes_with_the_weights_of_the_last_step(
    tiny: Tiny, tmp_path: Path, optimizer: str, kind: type
) -> None:
    trainer = trainer_of(tiny, tmp_path, "simcse", "pairs", train__precision="bf16", train__optimizer=optimizer)
    assert type(trainer.optimizer).__bases__ == (kind,)
    encoder, batch = trainer.encoder, first_batch(trainer)
    trainer.update(batch)
    fresh = load_encoder(tiny.backbone)
    fresh.load_state_dict(encoder.state_dict())
    assert torch.equal(*(one.eval().pooled(batch.table, batch.texts, "bf16") for one in (encoder, fresh)))


def test_streams_steps_chunks_and_runs_draw_from_different_seeds() -> None:
    seeds = {seed_of(*one) for one in product((0, 1, 2**32 - 1), range(4), range(5), range(4))}
    assert len(seeds) == 3 * 4 * 5 * 4
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_fresh_heads_are_the_seeds_alone_and_drawn_apart(tiny: Tiny, tmp_path: Path) -> None:
    trainers = [
        trainer_of(tiny, tmp_path, "pairsupcon", "labelled", model__head="keep", train__seed=seed) for seed in (1, 1, 2)
    ]
    first, again, other = (
        {**dict(one.stepper.extras.named_parameters()), "dense": next(one.encoder.after.parameters())}
        for one in trainers
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)
    (classifier,) = trainers[0].stepper.heads["classifier"].parameters()
    dense = first["dense"].flatten()
    assert not torch.equal(dense, classifier.flatten()[: len(dense)])


@pytest.mark.slow
def test_a_step_of_every_objective_stays_on_its_device() -> None:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "support.fake_gpu"]
    answer = subprocess.run(command, cwd=tests, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    errors = dict(json.loads(line) for line in answer.stdout.splitlines())
    assert {name for name in REFUSED if errors.pop(name)} == REFUSED.keys()  # the device finds what it is for
    assert errors.pop("several devices") == ""
    assert errors == {case_id(case): "" for case in chosen()}
