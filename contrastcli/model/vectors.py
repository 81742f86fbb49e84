"""Embeddings on disk: as numbers of several types, in three formats, block by block, and a cache for each model."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import partial
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from tokenize import TokenError
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.examples import as_id
from contrastcli.data.texts import Column, Texts
from contrastcli.data.tokens import Advance
from contrastcli.errors import DataError, Hint, Use
from contrastcli.files import cache_key, cached, check_regular
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import unit_rows
from contrastcli.settings.sections import Dtype, Kind

Vectors = NDArray[np.float32]
Stored = NDArray[Any]
"""Vectors as they are written: (·, d), or (·, d / 8) of bits."""

_COMPARED = 64
"""Texts of a corpus that are encoded to see whether stored vectors are theirs."""
_LEAST_COSINE, _EQUAL_COSINE = 0.98, 0.999
"""Of one text in two precisions: int8's is the least like fp32's, and those of bf16 and of a file of int8 are alike."""
_CLEAR = 0.01
"""A component of a unit vector that has one sign in every precision."""


def quantise(vectors: Vectors, dtype: Dtype) -> Stored:
    """Vectors (N, d) as they are written.

    float16: rounded. int8: 127 for the largest component of each, which keeps its direction and not its length. binary:
    a bit for each sign, 1 for a positive one, eight to a byte, as sentence-transformers' ubinary.
    """
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1)
    if dtype == "int8":
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        return np.rint(vectors * (127 / np.where(largest, largest, 1))).astype(np.int8)
    return vectors.astype(f"<f{np.dtype(dtype).itemsize}")


def dequantise(stored: Stored, width: int) -> Vectors:
    """Vectors (…, d) to compare with others: the components of int8 as they are, of bits their signs, 1 and −1."""
    if stored.dtype == np.uint8:
        return np.unpackbits(stored, axis=-1, count=width) * np.float32(2) - 1
    return stored.astype(np.float32)


_DTYPES: dict[np.dtype[Any], Dtype] = {
    quantise(np.zeros((1, 1), np.float32), dtype).dtype: dtype for dtype in get_args(Dtype)
}


class Joined:
    """Stored vectors (N, ·) of several files, one after the other, of which rows are read as of an array."""

    def __init__(self, parts: Sequence[Stored]) -> None:
        self._parts = parts
        self._starts = [0, *accumulate(map(len, parts))]
        self.dtype, self.shape = parts[0].dtype, (self._starts[-1], *parts[0].shape[1:])

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[np.int64]) -> Stored:
        """The rows of a slice or with these numbers (n,), in memory: (n, ·)."""
        numbers = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        taken = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        for first, part in zip(self._starts, self._parts, strict=False):
            own = (first <= numbers) & (numbers < first + len(part))
            taken[own] = part[numbers[own] - first]
        return taken


def npy_header(like: Stored, count: int) -> bytes:
    """The header of an array of so many rows, which `numpy.load` reads or maps."""
    header = BytesIO()
    shape = (count, like.shape[1])
    np.lib.format.write_array_header_1_0(header, {"descr": like.dtype.str, "fortran_order": False, "shape": shape})
    return header.getvalue()


def _safetensors_header(like: Stored, count: int) -> bytes:
    """That of a file of one tensor, `vectors`."""
    kind, size = f"{like.dtype.kind.upper()}{8 * like.itemsize}", count * like[0].nbytes
    header = json.dumps({"vectors": {"dtype": kind, "shape": [count, like.shape[1]], "data_offsets": [0, size]}})
    header += " " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header.encode()


HEADERS = {".npy": npy_header, ".safetensors": _safetensors_header}
"""What precedes the rows, by the suffix of the file, given one of them and their number."""


def write_parquet(
    path: Path, blocks: Iterable[Stored], like: Stored, texts: Texts, ids: Column[object] | None, row: int
) -> None:
    """Write the columns `text`, `vector` and, where there are ids, `id`, from a row on; a block is a row group."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    width = like.shape[1]
    kinds = {"text": pa.string(), "vector": pa.list_(pa.from_numpy_dtype(like.dtype), width)}
    schema = pa.schema(kinds if ids is None else kinds | {"id": pa.string()})
    with ParquetWriter(path, schema) as writer:
        for block in blocks:
            flat = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), width)
            rows = range(row, row + len(block))
            names = [] if ids is None else [pa.array([as_id(ids, row) for row in rows], pa.string())]
            some = pa.array(texts[row : rows.stop], pa.string())
            writer.write_table(pa.table([some, flat, *names], schema=schema))
            row = rows.stop


def cached_vectors(
    encoder: SentenceEncoder, texts: Sequence[str], on_progress: Advance | None = None, kind: Kind | None = None
) -> Vectors:
    """Embeddings (N, d) of texts of a kind, mapped from the cache; on the first call they are written to it."""

    def write(path: Path) -> None:
        like = np.empty((1, encoder.width), np.float32)
        # Not through a memory map: there a full disk kills the process.
        with open(path, "wb") as file:
            file.write(npy_header(like, len(texts)))
            file.writelines(block.data for block in encoder.blocks(texts, kind, on_progress))

    key = cache_key(fingerprint(encoder) + encoder.contract.prompt(kind), texts)
    vectors: Vectors | None = cached(f"vectors/{key}.npy", partial(np.load, mmap_mode="r"), write)
    return encoder.encode(texts, kind, on_progress=on_progress) if vectors is None else vectors


def stored_vectors(
    paths: Sequence[Path], encoder: SentenceEncoder, texts: Sequence[str], remedy: Hint
) -> tuple[Stored | Joined, str]:
    """The vectors of documents, mapped from the .npy that `contrast encode` wrote, and a note where they differ.

    Several files hold the parts of the texts, in their order. Raises DataError, with a remedy, where they are not this
    model's of these texts, of which some are encoded to see.
    """
    parts = [_mapped(path, remedy) for path in paths]
    name, stored = ", ".join(map(str, paths)), Joined(parts) if len(parts) > 1 else parts[0]
    dtype = _DTYPES.get(stored.dtype)
    like = dtype and quantise(np.zeros((1, encoder.width), np.float32), dtype)
    is_one_kind = len({(part.dtype, part.shape[1:]) for part in parts}) == 1
    if like is None or stored.shape != (len(texts), like.shape[1]) or not is_one_kind:
        numbers = f"{' × '.join(map(str, stored.shape))} numbers of type {stored.dtype}"
        what = numbers if is_one_kind else "several types"
        if like is not None and is_one_kind and stored.shape[:-1] == (len(texts),):
            width = _width(stored[:_COMPARED], encoder.encode(texts[:_COMPARED], "document"))
            remedy = Use("--dim", str(width), "if they were encoded so:") if width < encoder.width else remedy
        raise DataError(f"{name} holds {what}, no vectors of {encoder.width} for each of {len(texts):,} texts", remedy)
    step = -(-len(texts) // _COMPARED)
    least = check_own(stored[::step], encoder, texts[::step], name, remedy)
    differs = f"{name} has not the model's own vectors, but near ones: cosine {least:.4f} at the least"
    by = "of another precision, or of another model of its kind"
    return stored, f"{differs}, {by}" if least < _EQUAL_COSINE and stored.dtype != np.uint8 else ""


def _mapped(path: Path, remedy: Hint) -> Stored:
    if not path.exists():
        raise DataError(f"there is no file {path}", remedy)
    check_regular(path)
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, OverflowError, RecursionError, TokenError) as error:
        raise DataError(f"{path} is not a complete .npy file of vectors: {error}", remedy) from None


def _width(stored: Stored, exact: Vectors) -> int:
    """The numbers of stored vectors (N, ·), given those of their texts (N, d): the last byte of bits may hold fewer."""
    if stored.dtype != np.uint8:
        return int(stored.shape[1])
    width, known = 8 * stored.shape[1], min(8 * stored.shape[1], exact.shape[1])
    is_set, is_positive = np.unpackbits(stored, axis=1).max(axis=0), unit_rows(exact[:, :known]).max(axis=0) > _CLEAR
    missing, more = np.flatnonzero(is_positive > is_set[:known]), np.flatnonzero(is_set[known:])
    if missing.size and missing[0] > width - 8:
        return int(missing[0])
    return int(known + more[-1] + 1 if more.size else known)


def check_own(stored: Stored, encoder: SentenceEncoder, texts: Sequence[str], name: str, remedy: Hint) -> float:
    """The least cosine of some stored vectors (N, ·) to this model's. Raises DataError where one is of another text."""
    exact = encoder.encode(texts, "document")  # (N, d)
    made = quantise(exact, _DTYPES[stored.dtype])
    first, second = (unit_rows(dequantise(one, encoder.width)) for one in (stored, made))
    if stored.dtype == np.uint8 and (width := _width(stored, exact)) != encoder.width:
        what = f"{name} holds bits of {width} numbers, and vectors have {encoder.width}"
        raise DataError(what, Use("--dim", str(width), "if they were encoded so:"))
    cosines, known = first @ second.T, exact.any(axis=1)
    own = cosines.diagonal()
    # Each is nearest to its own text, or as near as to an equal one in another precision; of bits more differ.
    # Nothing is near to what is not finite.
    is_near = own >= cosines.max(axis=1) - 0.01
    is_other = ~is_near | (known & (own < (_LEAST_COSINE if stored.dtype != np.uint8 else 0)))
    if is_other.any():
        raise DataError(f"{name} holds vectors of other texts or another model", remedy)
    return float(own[known].min(initial=1))


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
