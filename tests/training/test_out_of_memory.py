"""Memory that runs out anywhere in training or encoding costs time, and a note, and nothing else."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrastcli import load
from contrastcli.data.batching import Indices
from contrastcli.data.tokens import TokenTable
from contrastcli.errors import RunError
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Done, Note
from contrastcli.runs.measured import Angles, Evaluated, Step
from contrastcli.training import angles
from contrastcli.training.auxiliaries import violations
from contrastcli.training.loop import Trainer
from support.command import Contrast, failed
from support.tiny import Tiny, told, train
from support.trainers import first_batch, trainer_of

OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB"

Failure = Callable[[Trainer, pytest.MonkeyPatch], None]


def weights_after_two_steps(trainer: Trainer) -> dict[str, Tensor]:
    for _ in range(2):
        trainer.update(first_batch(trainer))
    return {name: p.detach().clone() for name, p in trainer.encoder.named_parameters()}


def fail_at(number: int) -> Failure:
    """Let memory run out at a place of that number, counted over a step, where the moments are made."""

    def fail(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
        made, zeros_like = 0, torch.zeros_like

        def limited(like: Tensor) -> Tensor:
            nonlocal made
            made += 1
            if made >= number and trainer.stepper.token_budget > 200:
                raise torch.OutOfMemoryError(OUT_OF_MEMORY)
            return zeros_like(like)

        monkeypatch.setattr(torch, "zeros_like", limited)

    return fail


def limit(monkeypatch: pytest.MonkeyPatch, tokens: int, is_limited: Callable[[], bool]) -> None:
    """Let any model hold only so many tokens at once while `is_limited`."""
    pooled = SentenceEncoder.pooled

    def limited(self: SentenceEncoder, table: TokenTable, texts: Indices, *words: Any) -> Tensor:
        if is_limited() and len(texts) * int(table.lengths[texts].max()) > tokens:
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return pooled(self, table, texts, *words)

    monkeypatch.setattr(SentenceEncoder, "pooled", limited)


def fail_beyond(tokens: int) -> Failure:
    """Let the device hold the graphs of only so many tokens."""
    return lambda trainer, monkeypatch: limit(monkeypatch, tokens, torch.is_grad_enabled)


FAILURES = {"graphs": fail_beyond(50), **{f"{n} moments": fail_at(n) for n in (1, 2, 9, 30)}}


@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
def test_a_step_halves_the_budget_says_so_and_is_taken_whole(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Failure
) -> None:
    expected = trainer_of(tiny, tmp_path, "pairsupcon", "labelled")
    expected.stepper.token_budget = 200
    events: list[Event] = []
    trainer = trainer_of(tiny, tmp_path, "pairsupcon", "labelled")
    trainer.session.emit, trainer.stepper.token_budget = events.append, 800
    after = weights_after_two_steps(expected)
    fail(trainer, monkeypatch)
    assert all(torch.equal(weight, after[name]) for name, weight in weights_after_two_steps(trainer).items())
    assert [event.text for event in events if isinstance(event, Note)] == [
        "memory ran out: the step starts again with at most 400 tokens at once",
        "memory ran out: the step starts again with at most 200 tokens at once",
    ]


def test_a_step_that_never_fits_says_what_to_do(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(tiny, tmp_path, "pairsupcon", "labelled")
    trainer.stepper.token_budget = 400
    fail_beyond(0)(trainer, monkeypatch)
    with pytest.raises(RunError, match="memory ran out with 100 tokens") as raised:
        trainer.update(first_batch(trainer))
    assert "smaller batch" in raised.value.hint


NOTE = "memory ran out in encoding: it continues with at most {} tokens at once"


@pytest.mark.parametrize("threads", [1, 2])
def test_the_dev_set_is_measured_in_smaller_chunks(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    settings = {"train__max_steps": 4, "dev__every": 2}
    whole, limited = (tiny.run(tmp_path / name, "simcse", "pairs", **settings) for name in ("whole", "limited"))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        train(whole)
        limit(monkeypatch, 192, torch.is_inference_mode_enabled)
        train(limited)
    finally:
        torch.set_num_threads(before)
    scores = [{one.step: one.score for one in told(run, Evaluated)} for run in (whole, limited)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3) and [*scores[0]] == [0, 2, 4]
    assert [step.loss for step in told(whole, Step)] == [step.loss for step in told(limited, Step)]
    notes = [(note.step, note.text) for note in told(limited, Note)]
    assert notes == [(0, NOTE.format(768)), (0, NOTE.format(384)), (0, NOTE.format(192))]


@pytest.mark.parametrize(("owner", "name"), [(angles, "measure"), (violations, "hardest_negatives")])
def test_a_batch_is_measured_without_memory_of_a_gpu(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: ModuleType, name: str
) -> None:
    whole, limited = (tiny.run(tmp_path / name, "simcse", "pairs", train__max_steps=2) for name in ("whole", "limited"))
    train(whole)
    measure, calls = getattr(owner, name), []

    def full(*words: Any, **more: Any) -> Any:
        calls.append(words)
        if len(calls) == 1:
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return measure(*words, **more)

    monkeypatch.setattr(owner, name, full)
    assert train(limited).status == "finished" and len(calls) == 3
    first, other = ([one.positive for one in told(run, Angles)] for run in (whole, limited))
    assert first == other


def test_encode_continues_in_smaller_chunks_and_says_so(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["ba den fir go"] * 700
    expected: NDArray[np.float32] = load("tiny/backbone").encode(texts)
    limit(monkeypatch, 400, torch.is_inference_mode_enabled)
    words = ("encode", "-", "--model", "tiny/backbone", "-o")
    answer = contrast(*words, "out.npy", stdin="\n".join(texts).encode())
    assert answer.code == 0 and NOTE.format(384) in answer.err
    np.testing.assert_allclose(np.load("out.npy"), expected, rtol=0, atol=1e-5)
    limit(monkeypatch, 5, torch.is_inference_mode_enabled)
    answer = contrast(*words, "other.npy", stdin="\n".join(texts).encode())
    failed(answer, 1, "memory ran out with one text of 6 tokens", "CUDA_VISIBLE_DEVICES=")


@pytest.mark.parametrize("command", ["encode", "train"])
def test_a_model_that_does_not_fit_at_all_says_what_helps(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(SentenceEncoder, "to", Mock(side_effect=torch.OutOfMemoryError(OUT_OF_MEMORY)))
    words = {
        "encode": ("encode", "-", "--model", "tiny/backbone", "-o", "out.npy"),
        "train": ("train", "--objective", "simcse", "--data", "tiny/pairs.jsonl", "--backbone", "tiny/backbone"),
    }
    more = ("--dev", "none", "--no-ui", "--name", "one") if command == "train" else ()
    answer = contrast(*words[command], *more, stdin=b"ba den")
    failed(answer, 1, "memory", "CUDA_VISIBLE_DEVICES= before the command")
    if command == "train":
        end = told(Run(Path("runs/one")), Done)[-1]
        assert answer.err.endswith(f"contrast: error: {end.message}\nhint: {end.hint}\n")
