"""Embeddings of many texts, computed once for each model and mapped from disk from then on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.files import cache_dir
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.vectors import write_npy

Vectors = NDArray[np.float32]
OnProgress = Callable[[int, int], None]


def cached_vectors(encoder: SentenceEncoder, texts: Sequence[str], on_progress: OnProgress | None = None) -> Vectors:
    """Embeddings (N, d) of texts, mapped from the cache, which they are written to as they are made."""
    path = cache_dir() / "vectors" / f"{_key(encoder, texts)}.npy"
    stored = _stored(path, (len(texts), encoder.width))
    if stored is not None:
        return stored
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_npy(draft, encoder.blocks(texts, on_progress=on_progress), texts, encoder.width)
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError:  # a cache that cannot be written costs memory and time, not the answer
        return encoder.encode(texts, on_progress=on_progress)
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def _stored(path: Path, shape: tuple[int, int]) -> Vectors | None:
    """The vectors of a cache file; None where there is none, or none that is whole."""
    try:
        vectors: Vectors = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return None
    return vectors if vectors.shape == shape else None


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


def _key(encoder: SentenceEncoder, texts: Sequence[str]) -> str:
    """What the vectors depend on: the model and the texts."""
    digest = hashlib.sha256(fingerprint(encoder).encode())
    for text in texts:
        data = text.encode()
        digest.update(b"%d " % len(data) + data)  # with its length: a text may hold any character
    return digest.hexdigest()
