"""Vectors as numbers of several types."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet
from safetensors.numpy import load_file

import contrastcli
from contrastcli.model.metrics import cosine
from support.command import MODEL, Contrast, sentences

ENCODE = ("encode", "tiny/sentences.jsonl", *MODEL)
TYPES: Mapping[str, Any] = {"float32": np.float32, "float16": np.float16, "int8": np.int8, "binary": np.uint8}


def stored(vector: Sequence[float], dtype: str) -> list[float]:
    """A vector as it is written, number by number."""
    if dtype == "binary":
        bits = "".join("1" if number > 0 else "0" for number in vector)
        return [int(bits[start : start + 8].ljust(8, "0"), 2) for start in range(0, len(bits), 8)]
    if dtype == "int8":
        return [round(127 * number / max(map(abs, vector))) for number in vector]
    return [float(np.array(number, TYPES[dtype])) for number in vector]


def meant(vector: Sequence[float], dtype: str) -> list[float]:
    """The vector that a search compares."""
    return [1.0 if number > 0 else -1.0 for number in vector] if dtype == "binary" else stored(vector, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [(), ("--dim", "13")])
def test_vectors_are_written_as_numbers_of_a_type(contrast: Contrast, dtype: str, dim: tuple[str, ...]) -> None:
    encoder = contrastcli.load("tiny/backbone")
    if dim:
        encoder.set_dim(int(dim[1]))
    exact = encoder.encode(sentences())
    expected = [stored(vector, dtype) for vector in exact.tolist()]
    for end in ("npy", "safetensors", "parquet"):
        answer = contrast(*ENCODE, "-o", f"v.{end}", "--dtype", dtype, *dim)
        assert answer.code == 0
    written = np.load("v.npy"), load_file("v.safetensors")["vectors"]
    for vectors in written:
        assert vectors.dtype == TYPES[dtype] and vectors.tolist() == expected
    assert parquet.read_table("v.parquet")["vector"].to_pylist() == expected
    cosines = cosine(np.array([meant(vector, dtype) for vector in exact.tolist()]), exact)
    loss = (
        f"cosine of {dtype} to fp32, of 160 texts: {cosines.mean():.4f} at the mean, {cosines.min():.4f} at the least"
    )
    assert (loss in answer.err) == (dtype != "float32")


def test_a_zero_vector_stays_zero() -> None:
    from contrastcli.model.vectors import quantise

    assert quantise(np.zeros((1, 4), np.float32), "int8").tolist() == [[0, 0, 0, 0]]
