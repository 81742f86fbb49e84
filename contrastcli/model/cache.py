"""Embeddings of many texts, computed once for each model and mapped from disk from then on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.tokens import OnProgress
from contrastcli.files import cache_key, cached
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.vectors import write_npy

Vectors = NDArray[np.float32]


def cached_vectors(encoder: SentenceEncoder, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
    """Embeddings (N, d) of texts, mapped from the cache, which they are written to block by block."""

    def load(path: Path) -> Vectors:
        vectors: Vectors = np.load(path, mmap_mode="r")
        if vectors.shape != (len(texts), encoder.width):
            raise ValueError(f"{path} holds vectors of shape {vectors.shape}")
        return vectors

    def write(path: Path) -> None:
        write_npy(path, encoder.blocks(texts, on_progress=on_progress), texts, encoder.width)

    vectors = cached(f"vectors/{cache_key(fingerprint(encoder), texts)}.npy", load, write)
    return encoder.encode(texts, on_progress=on_progress) if vectors is None else vectors


def fingerprint(encoder: SentenceEncoder) -> str:
    """Equal only for models that give the same vectors: weights, how they are used, tokenizer and pooling contract."""
    config = json.dumps(encoder.backbone.config, sort_keys=True)
    reading = (encoder.tokenizer.fingerprint, encoder.max_length, encoder.prompt)
    contract = (encoder.pooling, repr(encoder.dense), encoder.normalize)
    digest = hashlib.sha256(repr((config, reading, contract)).encode())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().numpy())
    return digest.hexdigest()
