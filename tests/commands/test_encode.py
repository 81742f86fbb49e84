"""`contrast encode`: sentences of a file or of stdin become vectors, in order, in a known format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import contrastcli
from support.command import MODEL, Contrast, refused, sentences


@pytest.mark.parametrize("name", ["v.npy", "v.safetensors", "v.parquet"])
def test_the_sentences_of_a_file_become_vectors_in_their_order(contrast: Contrast, name: str) -> None:
    answer = contrast("encode", "tiny/sentences.jsonl", "-o", name, *MODEL)
    assert (answer.code, answer.out) == (0, "") and f"wrote {name}: 160 vectors of 32" in answer.err
    expected = contrastcli.load("tiny/backbone").encode(sentences())
    assert np.array_equal(read(Path(name)), expected)
    assert [path.name for path in Path().iterdir() if path.name.startswith((".v", "v"))] == [name]


def read(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if path.suffix == ".npy":
        return np.asarray(np.load(path))
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return load_file(path)["vectors"]
    from pyarrow import parquet

    table = parquet.read_table(path)
    assert table["text"].to_pylist() == sentences()
    return np.array(table["vector"].to_pylist(), dtype=np.float32)


def test_sentences_of_stdin_become_vectors(contrast: Contrast) -> None:
    stdin = "".join(f"{text}\n" for text in sentences()).encode()
    assert contrast("encode", "-", "-o", "v.npy", *MODEL, stdin=stdin).code == 0
    assert np.array_equal(np.load("v.npy"), contrastcli.load("tiny/backbone").encode(sentences()))


def test_half_precision_on_request_stays_near(contrast: Contrast) -> None:
    assert contrast("encode", "tiny/sentences.jsonl", "-o", "v.npy", *MODEL, "--precision", "bf16").code == 0
    vectors, expected = np.load("v.npy"), contrastcli.load("tiny/backbone").encode(sentences())
    assert vectors.dtype == np.float32 and not np.array_equal(vectors, expected)
    assert np.abs(vectors - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("stdin", "what"),
    [(b"", "stdin is empty"), (b"a\n\nb\n", "stdin, line 2: blank"), (b"\xe9", "stdin, line 1: not UTF-8")],
)
def test_bad_sentences_of_stdin_are_named(contrast: Contrast, stdin: bytes, what: str) -> None:
    refused(contrast("encode", "-", "-o", "x.npy", "--model", "tiny/backbone", stdin=stdin), 3, what)


def test_vectors_go_to_a_known_format_in_a_folder_that_exists(contrast: Contrast) -> None:
    Path("texts.txt").write_text("one\ntwo\n")
    refused(contrast("encode", "texts.txt", "-o", "x.csv"), 2, "vectors cannot be written as 'x.csv'", ".npy")
    refused(contrast("encode", "texts.txt", "-o", "no/x.npy"), 1, "there is no folder no")
    Path("vectors.npy").mkdir()
    refused(contrast("encode", "texts.txt", "-o", "vectors.npy"), 1, "vectors.npy is a folder")
    Path("vectors.npy").rmdir()
    refused(
        contrast("encode", "nothing.txt", "-o", "x.npy", "--model", "tiny/backbone"),
        3,
        "there is no file or folder nothing.txt",
    )
    refused(contrast("encode", "tiny/pairs.jsonl", "-o", "x.npy", "--model", "tiny/backbone"), 3, "holds pairs")
    assert not list(Path().glob("*.npy"))
