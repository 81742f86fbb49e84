"""Embeddings to a file as they are made, so that memory holds one block of them: .npy, .safetensors, .parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Blocks = Iterable[NDArray[np.float32]]
"""Rows (·, d), some at a time."""


class Writer(Protocol):
    """One format of files of vectors."""

    def __call__(self, path: Path, blocks: Blocks, texts: Sequence[str], width: int) -> None:
        """Write the vectors (N, d) of N texts, which come in blocks. Raises OSError."""


def write_npy(path: Path, blocks: Blocks, texts: Sequence[str], width: int) -> None:
    """What `numpy.load` reads or maps."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(texts), width)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:  # written, not mapped: a disk that is full while a page is mapped kills the process
            file.write(_bytes(block))


def write_safetensors(path: Path, blocks: Blocks, texts: Sequence[str], width: int) -> None:
    """One tensor, `vectors`."""
    shape = [len(texts), width]
    header = json.dumps({"vectors": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * len(texts) * width]}})
    header += " " * (-len(header) % 8)  # so that the numbers are aligned
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        for block in blocks:
            file.write(_bytes(block))


def write_parquet(path: Path, blocks: Blocks, texts: Sequence[str], width: int) -> None:
    """Columns `text` and `vector`, a row group a block."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema({"text": pa.string(), "vector": pa.list_(pa.float32(), width)})
    with ParquetWriter(path, schema) as writer:
        done = 0
        for block in blocks:
            flat = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), width)
            some = pa.array(texts[done : done + len(block)], pa.string())
            writer.write_table(pa.table([some, flat], schema=schema))
            done += len(block)


WRITERS: Mapping[str, Writer] = {".npy": write_npy, ".safetensors": write_safetensors, ".parquet": write_parquet}
"""By the suffix of the file."""


def _bytes(block: NDArray[np.float32]) -> memoryview:
    return np.ascontiguousarray(block, dtype="<f4").data
