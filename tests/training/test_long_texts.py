"""Texts as long as the model reads: each is a chunk alone, and what it takes is said before the start."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contrastcli.model.encoder import padded
from contrastcli.model.weights import count_parameters
from contrastcli.settings.memory import GRAPH_BYTES, estimate, sizes_of
from support.families import write_family
from support.tiny import Tiny
from support.trainers import first_batch, gradients, trainer_of

LONG = 1_200


@pytest.fixture
def long(tiny: Tiny, tmp_path: Path) -> Tiny:
    """Pairs of which one text in eight is long, and a decoder that reads it."""
    rows = [{"anchor": f"ba {n}", "positive": "fir go " * (LONG if n % 8 == 0 else 3)} for n in range(16)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = write_family("qwen3", tmp_path / "qwen3", max_position_embeddings=2 * LONG, attention_dropout=0.0)
    return replace(tiny, backbone=folder, data={"pairs": tmp_path / "pairs.jsonl"})


def test_a_text_beyond_the_budget_is_a_chunk_alone_without_padding(long: Tiny, tmp_path: Path) -> None:
    trainer = trainer_of(long, tmp_path / "run", "simcse", "pairs", train__batch_size=8)
    batch = first_batch(trainer)
    chunks, keeps_graphs = trainer.stepper.cut(batch)
    alone = [chunk.texts for chunk in chunks if batch.table.lengths[chunk.texts].max() > trainer.stepper.token_budget]
    assert alone and all(len(texts) == 1 for texts in alone) and not keeps_graphs
    ids, real = padded(trainer.encoder, batch.table, alone[0])
    assert ids.shape == (1, 2 * LONG) and real.all()
    trainer.stepper.backward(batch)
    assert all(torch.isfinite(gradient).all() for gradient in gradients(trainer).values())


def test_the_memory_of_a_long_text_is_estimated_whatever_the_budget(long: Tiny) -> None:
    config = long.config("simcse", "pairs", train__token_budget=1024)
    sizes = sizes_of(json.loads((long.backbone / "config.json").read_text()))
    parameters = count_parameters(long.backbone)
    assert sizes and parameters < 40_000, "positions that turn vectors have no weights"
    memory = estimate(config, 2, sizes=sizes, longest=2 * LONG, parameters=parameters)
    assert memory and memory.tokens == 2 * LONG
    assert memory.activations == pytest.approx(GRAPH_BYTES * 2 * LONG * 2 * 32 / 1e9)
    assert memory.weights == pytest.approx(16 * parameters / 1e9)
