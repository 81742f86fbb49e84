"""The speed and memory of BERT-base, and how much of it the machine's matrix products allow."""

import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from contrastcli.commands.bench.peer import Peer
from contrastcli.commands.bench.peer import rate_of as rate
from contrastcli.commands.bench.speed import matrix_rate
from contrastcli.model.backbone import BertBackbone
from contrastcli.model.devices import memory_mb
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.settings.sections import Precision
from support.gpu import CUDA, DEVICE, Base, rate_of, settle
from support.tiny import train

Record = Callable[[str, object], None]

STEPS, LOG_EVERY, ROUNDS = (500, 50, 2) if CUDA else (6, 1, 1)
BATCHES = (64, 512) if CUDA else (4, 8)


def flops(encoder: SentenceEncoder, texts: list[str]) -> float:
    """Of the matrix products of a sentence, on average, without padding; training takes three times as many."""
    assert isinstance(encoder.backbone, BertBackbone)
    shape = encoder.backbone.bert.shape
    n = np.array([len(ids) for ids in encoder.tokenizer.encode(texts, 32)])
    layer = n * (8 * shape.width**2 + 4 * shape.width * shape.inner) + 4 * n**2 * shape.width
    return float(shape.layers * layer.mean())


def products(encoder: SentenceEncoder, precision: Precision) -> float:
    """FLOPs a second of the device's own products of this shape."""
    assert isinstance(encoder.backbone, BertBackbone)
    return median(matrix_rate(encoder.backbone.bert.shape, precision, DEVICE) for _ in range(3))


def ours(base: Base, folder: Path, batch: int, steps: int, **changes: object) -> float:
    """Sentences a second of training."""
    settings = {"train__batch_size": batch, "train__max_steps": steps, "train__log_every": LOG_EVERY}
    run = base.run(folder / "run", **(settings | changes))
    assert train(run).status == "finished"
    speed = rate_of(run)
    shutil.rmtree(run.path)
    return speed


@pytest.mark.parametrize("batch", BATCHES)
def test_training(base: Base, tmp_path: Path, record_property: Record, batch: int) -> None:
    """SimCSE in bf16."""
    settle()
    speed = ours(base, tmp_path, batch, STEPS)
    record_property("sentences/s", speed)
    record_property("s for 10^6 sentences", 1e6 / speed)
    record_property("peak GB", memory_mb(DEVICE) / 1e3)
    encoder = load_encoder(base.backbone)
    texts = [text for column in base.pairs().values() for text in column]
    record_property("share of matrix rate", speed * 3 * flops(encoder, texts) / products(encoder, "bf16"))


@pytest.mark.parametrize("batch", BATCHES)
def test_training_next_to_sentence_transformers(
    base: Base, tmp_path: Path, record_property: Record, batch: int
) -> None:
    """The same weights, rows, objective and precision, in turns."""
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("datasets")
    save_encoder(load_encoder(base.backbone, "mean"), tmp_path / "model")
    peer = Peer(tmp_path / "model", base.pairs())
    steps = 2 * STEPS // 5 if CUDA else STEPS
    rates: dict[str, list[float]] = {"contrast": [], "sentence-transformers": []}
    for _ in range(ROUNDS):
        rates["contrast"].append(ours(base, tmp_path, batch, steps, model__pooling="mean"))
        rates["sentence-transformers"].append(peer.train(batch, steps, bf16=True))
    for name, some in rates.items():
        record_property(f"{name} sentences/s", median(some))
    record_property("ratio", median(rates["contrast"]) / median(rates["sentence-transformers"]))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_encoding(base: Base, record_property: Record, precision: Precision) -> None:
    encoder = load_encoder(base.backbone).to(DEVICE)
    texts = [text for column in base.pairs().values() for text in column]
    expected = encoder.encode(texts[:64])
    encoder.precision = precision
    settle()
    vectors = encoder.encode(texts[:64])
    speed = median(rate(len(texts), lambda: encoder.encode(texts)) for _ in range(3))
    record_property("sentences/s", speed)
    record_property("peak GB", memory_mb(DEVICE) / 1e3)
    record_property("share of matrix rate", speed * flops(encoder, texts) / products(encoder, precision))
    cosines = (vectors * expected).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
    record_property("least cosine to fp32", float(cosines.min()))
    assert cosines.min() > 0.99
