"""`contrast encode`: the sentences of a file as vectors on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.errors import DataError, RunError, UsageError
from contrastcli.files import writing_to
from contrastcli.model.encoder import Precision, SentenceEncoder

OnProgress = Callable[[int, int], None]
Floats = NDArray[np.float32]

_ROWS = 20_000  # encoded between two writes


def read_sentences(source: str) -> list[str]:
    """The sentences of a file, or of stdin for `-`, one a line. Raises DataError."""
    if source != "-":
        from contrastcli.data.sources import load_sentences

        return load_sentences(source)
    from contrastcli.data.formats import decode

    lines = [line.strip() for _, line in decode(sys.stdin.buffer, "stdin")]
    if not lines:
        raise DataError("stdin is empty", "give one sentence a line")
    if "" in lines:
        raise DataError(f"stdin, line {lines.index('') + 1}: blank", "fill it in or delete the line")
    return lines


def encode_to(
    encoder: SentenceEncoder, texts: Sequence[str], output: Path, precision: Precision, on_progress: OnProgress
) -> None:
    """Write the vectors (N, d), float32, in the texts' order, in the format of the output's suffix.

    The file appears when it is whole. Raises UsageError for an unknown suffix, RunError where it cannot be written.
    """
    writer = check_output(output)
    temporary = output.with_name(f".{output.stem}.{os.getpid()}{output.suffix}")
    with writing_to(output):
        try:
            vectors = np.lib.format.open_memmap(
                temporary.with_suffix(".npy"), "w+", np.dtype(np.float32), (len(texts), encoder.width)
            )
            for start in range(0, len(texts), _ROWS):
                some = texts[start : start + _ROWS]

                def report(done: int, total: int, before: int = start) -> None:
                    on_progress(before + done, len(texts))

                vectors[start : start + len(some)] = encoder.encode(some, precision=precision, on_progress=report)
            writer(vectors, texts, temporary)
            os.replace(temporary, output)
        finally:
            for left in (temporary, temporary.with_suffix(".npy")):
                left.unlink(missing_ok=True)


def check_output(output: Path) -> Callable[[Floats, Sequence[str], Path], None]:
    """How to write a file of that suffix. Raises UsageError for one that is not known, RunError without its folder."""
    if not output.parent.is_dir():
        raise RunError(f"there is no folder {output.parent}", "make it, or write elsewhere")
    writers = {".npy": _npy, ".safetensors": _safetensors, ".parquet": _parquet}
    if output.suffix not in writers:
        raise UsageError(f"vectors cannot be written as '{output.name}'", f"use {', '.join(writers)}")
    return writers[output.suffix]


def _npy(vectors: np.memmap[tuple[int, ...], np.dtype[np.float32]] | Floats, texts: Sequence[str], path: Path) -> None:
    if isinstance(vectors, np.memmap):
        vectors.flush()


def _safetensors(vectors: Floats, texts: Sequence[str], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"vectors": np.ascontiguousarray(vectors)}, path)


def _parquet(vectors: Floats, texts: Sequence[str], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.FixedSizeListArray.from_arrays(pa.array(np.asarray(vectors).reshape(-1)), vectors.shape[1])
    pq.write_table(pa.table({"text": pa.array(texts), "vector": flat}), path)
