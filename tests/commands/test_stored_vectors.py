"""Vectors as numbers of several types, and a search in those of a file."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet
from safetensors.numpy import load_file

import contrastcli
from contrastcli.model import search
from contrastcli.model.metrics import cosine
from support.command import MODEL, Answer, Contrast, failed, refused, sentences
from support.rounding import assert_near

ENCODE = ("encode", "tiny/sentences.jsonl", *MODEL)
QUERY = ("query", "ba den", "--corpus", "tiny/sentences.jsonl", *MODEL, "--json")
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


@pytest.mark.parametrize(
    ("dtype", "dim"), [*((dtype, ()) for dtype in TYPES), ("int8", ("--dim", "13")), ("binary", ("--dim", "13"))]
)
def test_vectors_are_written_as_numbers_of_a_type(contrast: Contrast, dtype: str, dim: tuple[str, ...]) -> None:
    exact = contrastcli.load("tiny/backbone").encode(sentences())[:, : int(dim[1]) if dim else None]
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


def neighbours(answer: Answer) -> list[tuple[int, float]]:
    assert answer.code == 0, answer
    return [(one["row"], one["cosine"]) for one in json.loads(answer.out)["neighbours"]]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_search_in_written_vectors_is_exact_and_encodes_the_query(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, encoded: list[str], dtype: str
) -> None:
    monkeypatch.setattr(search, "ROWS", 50)
    assert contrast(*ENCODE, "-o", "v.npy", "--dtype", dtype).code == 0
    query, *vectors = contrastcli.load("tiny/backbone").encode(["ba den", *sentences()]).tolist()
    cosines = []
    for row, vector in enumerate((meant(vector, dtype) for vector in vectors), 1):
        product = math.fsum(a * b for a, b in zip(query, vector, strict=True))
        cosines.append((product / math.hypot(*query) / math.hypot(*vector), -row))
    cosines.sort(reverse=True)
    encoded.clear()
    found = neighbours(contrast(*QUERY, "--vectors", "v.npy", "-k", "7"))
    assert_near([cosine for _, cosine in found], [cosine for cosine, _ in cosines[:7]], scale=1)
    by_row = {-row: cosine for cosine, row in cosines}
    assert_near([by_row[row] for row, _ in found], [cosine for _, cosine in found], scale=1)
    # Of the corpus 54, to see that they fit, and what is shown.
    assert len(encoded) == 54 + 1 + 7 and encoded[54] == "ba den"


def test_the_parts_of_vectors_are_searched_as_one_file_is(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ROWS", 50)
    whole, parts = [*ENCODE, "-o", "v.npy"], [f"p-{number}.npy" for number in (1, 2, 3)]
    assert contrast(*whole).code == 0
    for number, part in enumerate(parts, 1):
        assert contrast(*ENCODE, "-o", part, "--shard", f"{number}/3").code == 0
    words = [word for part in parts for word in ("--vectors", part)]
    found = contrast(*QUERY, *words, "-k", "7")
    assert found.code == 0 and found.out == contrast(*QUERY, "--vectors", "v.npy", "-k", "7").out
    turned = contrast(*QUERY, *words[2:], *words[:2])
    refused(turned, 3, "p-2.npy, p-3.npy, p-1.npy holds vectors of other", "in the order of their texts, or contrast")
    refused(contrast(*QUERY, *words[:4]), 3, "p-1.npy, p-2.npy holds 106 × 32 numbers", "contrast encode")
    np.save("p-3.npy", np.load("p-3.npy").astype(np.float16))
    what = "holds several types, no vectors of 32 for each of 160 texts"
    refused(contrast(*QUERY, *words), 3, what, "contrast encode")


def test_vectors_that_are_not_the_corpus_s_are_refused_with_what_makes_them(contrast: Contrast) -> None:
    texts = sentences()
    Path("turned.txt").write_text("".join(f"{text}\n" for text in reversed(texts)))
    Path("fewer.txt").write_text("".join(f"{text}\n" for text in texts[:-1]))
    np.save("doubles.npy", np.zeros((160, 32)))
    Path("text.npy").write_text("no array")
    Path("cut.npy").write_bytes(b"")
    for name, words in {"other.npy": ("--model", "starter"), "v.parquet": (), "nan.npy": ()}.items():
        assert contrast(*ENCODE, "-o", name, *words).code == 0
    vectors = np.load("nan.npy")
    vectors[7] = np.nan
    np.save("nan.npy", vectors)
    for name in ("turned", "fewer"):
        assert contrast("encode", f"{name}.txt", "-o", f"{name}.npy", *MODEL).code == 0
    expected = neighbours(contrast(*QUERY))
    for name, what in {
        "none.npy": "there is no file none.npy",
        "doubles.npy": "holds 160 × 32 numbers of type float64, no vectors of 32 for each of 160 texts",
        "other.npy": "of type float32, no vectors of 32",
        "fewer.npy": "holds 159 × 32 numbers",
        "turned.npy": "turned.npy holds vectors of other texts or another model",
        "nan.npy": "nan.npy holds vectors of other texts or another model",
        "text.npy": "text.npy is not a complete .npy file of vectors",
        "cut.npy": "cut.npy is not a complete .npy file of vectors",
        "v.parquet": "v.parquet is not a complete .npy file of vectors",
    }.items():
        answer = contrast(*QUERY, "--vectors", name)
        failed(answer, 3, what, "contrast encode tiny/sentences.jsonl -o ")
        command, _, then = answer.err.splitlines()[-1].partition("; then ")
        hinted = shlex.split(command.removeprefix("hint: contrast "))
        contrast(*hinted)
        assert neighbours(contrast(*QUERY, *shlex.split(then))) == expected


@pytest.mark.parametrize(("dtype", "numbers"), [("float32", "160 × 16"), ("binary", "160 × 2")])
def test_shorter_vectors_are_searched_with_the_option_of_the_hint(contrast: Contrast, dtype: str, numbers: str) -> None:
    assert contrast(*ENCODE, "-o", "short.npy", "--dim", "16", "--dtype", dtype).code == 0
    words = (*QUERY, "--vectors", "short.npy")
    refused(contrast(*words), 3, f"short.npy holds {numbers} numbers", "if they were encoded so: --dim 16")
    assert contrast(*words, "--dim", "16").code == 0


@pytest.mark.parametrize(("dim", "others"), [("15", ["16"]), ("5", ["4", "6"])])
def test_bits_that_fill_no_byte_are_searched_with_the_option_of_the_hint(
    contrast: Contrast, dim: str, others: Sequence[str]
) -> None:
    assert contrast(*ENCODE, "-o", "odd.npy", "--dim", dim, "--dtype", "binary").code == 0
    words, hint = (*QUERY, "--vectors", "odd.npy"), f"--dim {dim}"
    refused(contrast(*words), 3, "odd.npy holds 160 ×", hint)
    for other in others:
        what = f"odd.npy holds bits of {dim} numbers, and vectors have {other}"
        failed(contrast(*words, "--dim", other), 3, what, hint)
    assert contrast(*words, "--dim", dim).code == 0


def test_a_text_that_has_changed_since_is_not_shown_with_the_vector_of_another(contrast: Contrast) -> None:
    texts = sentences()
    texts[3], texts[4] = texts[4], texts[3]  # which are not among those that are compared before
    Path("swapped.txt").write_text("".join(f"{text}\n" for text in texts))
    assert contrast(*ENCODE, "-o", "v.npy").code == 0
    answer = contrast("query", texts[3], "--corpus", "swapped.txt", "--vectors", "v.npy", "-k", "1", *MODEL)
    failed(answer, 3, "v.npy holds vectors of other texts", "contrast encode swapped.txt -o FILE.npy")


def test_vectors_that_are_near_to_the_models_are_told(contrast: Contrast) -> None:
    assert contrast(*ENCODE, "-o", "v.npy").code == 0
    assert "near ones" not in contrast(*QUERY, "--vectors", "v.npy").err
    vectors = np.load("v.npy")
    scale = np.linalg.norm(vectors, axis=1, keepdims=True) / vectors.shape[1] ** 0.5
    np.save("near.npy", vectors + 0.1 * scale * np.random.default_rng(0).normal(size=vectors.shape).astype(np.float32))
    answer = contrast(*QUERY, "--vectors", "near.npy")
    assert answer.code == 0 and "near.npy has not the model's own vectors, but near ones: cosine 0.99" in answer.err


def test_the_hint_repeats_what_decides_on_the_rows(contrast: Contrast) -> None:
    Path("faq.csv").write_text("id,body\n7,ba den\n8,\n9,go\n")
    words = ("--corpus", "faq.csv", *MODEL, "--columns", "text=body", "--blank", "drop", "--dim", "8")
    answer = contrast("query", "go", *words, "--vectors", "v.npy")
    hint = answer.err.splitlines()[-1].removeprefix("hint: contrast ").partition("; then --vectors FILE.npy")[0]
    assert contrast(*shlex.split(hint)).code == 0
    answer = contrast("query", "go", *words, "--vectors", "FILE.npy", "-k", "1")
    assert answer.code == 0 and answer.out.split()[:3] == ["1.0000", "0.0°", "9"]
