"""Embeddings on disk: files in three formats, written block by block, and a cache for each model."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.examples import as_id
from contrastcli.data.texts import Column
from contrastcli.data.tokens import OnProgress
from contrastcli.files import cache_key, cached
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.settings.sections import Kind

Vectors = NDArray[np.float32]

Blocks = Iterable[Vectors]
"""Blocks of rows: (·, d)."""

Ids = Column[object] | None

VectorWriter = Callable[[Path, Blocks, Sequence[str], int, Ids], None]
"""Writes the vectors (N, d) of N texts, given in blocks, to a file, with d and ids, if any. Raises OSError."""


def write_npy(path: Path, blocks: Blocks, texts: Sequence[str], width: int, ids: Ids = None) -> None:
    """Write an array that `numpy.load` reads or maps."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(texts), width)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        # Not through a memory map: there a full disk kills the process.
        for block in blocks:
            file.write(_bytes(block))


def write_safetensors(path: Path, blocks: Blocks, texts: Sequence[str], width: int, ids: Ids = None) -> None:
    """Write one tensor, `vectors`."""
    shape = [len(texts), width]
    header = json.dumps({"vectors": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * len(texts) * width]}})
    header += " " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        for block in blocks:
            file.write(_bytes(block))


def write_parquet(path: Path, blocks: Blocks, texts: Sequence[str], width: int, ids: Ids = None) -> None:
    """Write the columns `text` and `vector`, and `id` where there are ids, a row group for each block."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    kinds = {"text": pa.string(), "vector": pa.list_(pa.float32(), width)}
    schema = pa.schema(kinds if ids is None else kinds | {"id": pa.string()})
    with ParquetWriter(path, schema) as writer:
        done = 0
        for block in blocks:
            flat = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), width)
            rows = range(done, done + len(block))
            names = [] if ids is None else [pa.array([as_id(ids, row) for row in rows], pa.string())]
            some = pa.array(texts[done : rows.stop], pa.string())
            writer.write_table(pa.table([some, flat, *names], schema=schema))
            done = rows.stop


WRITERS: Mapping[str, VectorWriter] = {".npy": write_npy, ".safetensors": write_safetensors, ".parquet": write_parquet}
"""Writers by the suffix of the file."""


def _bytes(block: Vectors) -> memoryview:
    return np.ascontiguousarray(block, dtype="<f4").data


def cached_vectors(
    encoder: SentenceEncoder, texts: Sequence[str], on_progress: OnProgress | None = None, kind: Kind | None = None
) -> Vectors:
    """Embeddings (N, d) of texts of a kind, mapped from the cache; on the first call they are written to it."""

    def load(path: Path) -> Vectors:
        vectors: Vectors = np.load(path, mmap_mode="r")
        if vectors.shape != (len(texts), encoder.width):
            raise ValueError(f"{path} holds vectors of shape {vectors.shape}")
        return vectors

    def write(path: Path) -> None:
        write_npy(path, encoder.blocks(texts, kind, on_progress=on_progress), texts, encoder.width)

    key = cache_key(fingerprint(encoder) + encoder.contract.prompt(kind), texts)
    vectors = cached(f"vectors/{key}.npy", load, write)
    return encoder.encode(texts, kind, on_progress=on_progress) if vectors is None else vectors


def fingerprint(encoder: SentenceEncoder) -> str:
    """SHA-256, in hexadecimal, of all that vectors depend on: weights, config, tokenizer and pooling contract."""
    config = json.dumps(encoder.backbone.config, sort_keys=True)
    contract = encoder.contract
    inputs = (encoder.tokenizer.fingerprint, encoder.max_length, sorted(contract.prompts.items()), contract.default)
    layers = (contract.pooling, contract.include_prompt, repr(encoder.after))
    precision = () if encoder.precision == "fp32" else (encoder.precision,)
    digest = hashlib.sha256(repr((config, inputs, layers, *precision)).encode())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().numpy())
    return digest.hexdigest()
