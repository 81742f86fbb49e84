"""`contrast encode` writes the embeddings of sentences, in order, from a file or stdin."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

import contrastcli
from contrastcli.commands.encode import encode_to, read_sentences
from contrastcli.errors import DataError, RunError, UsageError
from contrastcli.model.devices import has_products
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.metrics import cosine
from support.command import MODEL, Contrast, refused, sentences
from support.tiny import WORDS, Tiny

Floats = NDArray[np.float32]
SENTENCES = [f"{a} {b}" for a in WORDS[:12] for b in WORDS[12:37]]  # 300, all different


@pytest.fixture
def encoder(tiny: Tiny) -> SentenceEncoder:
    return load_encoder(tiny.backbone)


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


def test_texts_that_fill_the_model_are_counted(contrast: Contrast) -> None:
    stdin = "\n".join(["a man", " ".join(WORDS * 20), "a dog", " ".join(WORDS * 30)]).encode()
    answer = contrast("encode", "-", "-o", "v.npy", *MODEL, stdin=stdin)
    limit = contrastcli.load("tiny/backbone").max_length
    assert f"2 of 4 texts fill the model's {limit} tokens, or are cut there" in answer.err


def test_sentences_of_stdin_become_vectors(contrast: Contrast) -> None:
    stdin = "".join(f"{text}\n" for text in sentences()).encode()
    assert contrast("encode", "-", "-o", "v.npy", *MODEL, stdin=stdin).code == 0
    assert np.array_equal(np.load("v.npy"), contrastcli.load("tiny/backbone").encode(sentences()))


def test_half_precision_on_request_stays_near(contrast: Contrast) -> None:
    assert contrast("encode", "tiny/sentences.jsonl", "-o", "v.npy", *MODEL, "--precision", "bf16").code == 0
    vectors, expected = np.load("v.npy"), contrastcli.load("tiny/backbone").encode(sentences())
    assert vectors.dtype == np.float32 and not np.array_equal(vectors, expected)
    assert np.abs(vectors - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.skipif(not has_products("int8"), reason="this CPU multiplies no matrices in int8")
def test_int8_says_how_near_it_is(contrast: Contrast) -> None:
    answer = contrast("encode", "tiny/sentences.jsonl", "-o", "v.npy", *MODEL, "--precision", "int8")
    assert answer.code == 0
    exact = contrastcli.load("tiny/backbone").encode(sentences())
    cosines = cosine(np.load("v.npy"), exact)
    assert f"cosine of int8 to fp32, of {len(exact)} texts: {cosines.mean():.4f} at the mean" in answer.err
    assert f"{cosines.min():.4f} at the least" in answer.err


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


def read_vectors(path: Path) -> tuple[Floats, list[str] | None]:
    if path.suffix == ".npy":
        return np.load(path), None
    if path.suffix == ".safetensors":
        return load_file(path)["vectors"], None
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(path)
    return np.array(table["vector"].to_pylist(), dtype=np.float32), table["text"].to_pylist()


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".parquet"])
def test_vectors_are_written_in_the_order_of_the_texts(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr("contrastcli.model.encoder.TEXTS_AT_ONCE", 70)  # written in five parts
    steps: list[tuple[int, int]] = []
    output = tmp_path / f"vectors{suffix}"
    for texts in (SENTENCES, SENTENCES[:3]):  # and over what was there
        encode_to(encoder, texts, output, lambda done, total: steps.append((done, total)))
        vectors, kept = read_vectors(output)
        assert vectors.dtype == np.float32 and np.array_equal(vectors, encoder.encode(texts))
        assert kept in (None, list(texts)) and steps[-1] == (len(texts), len(texts))
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_vectors_that_cannot_be_written_leave_what_was_there(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "vectors.npy"
    encode_to(encoder, SENTENCES[:3], output, lambda done, total: None)
    before, some = output.read_bytes(), encoder.encode(SENTENCES[:2])

    def full_disk(*_: object, **__: object) -> object:
        yield some
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(encoder, "blocks", full_disk)
    with pytest.raises(RunError, match="No space left on device"):
        encode_to(encoder, SENTENCES, output, lambda done, total: None)
    assert output.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["vectors.npy"]


def test_an_unknown_kind_of_file_and_a_missing_folder_are_refused(encoder: SentenceEncoder, tmp_path: Path) -> None:
    for output, kind in ((tmp_path / "v.txt", UsageError), (tmp_path / "none" / "v.npy", RunError)):
        with pytest.raises(kind):
            encode_to(encoder, ["ba"], output, lambda done, total: None)
    assert list(tmp_path.iterdir()) == []


def test_sentences_are_read_of_a_file_or_of_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text in SENTENCES))
    assert read_sentences(str(tmp_path / "corpus.txt")) == SENTENCES
    for given, texts in ((b"ba den\ngo \n", ["ba den", "go"]), (b"Z\xc3\xbcrich", ["Zürich"])):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        assert read_sentences("-") == texts
    for given, word in ((b"", "empty"), (b"ba\n\ngo\n", "line 2"), (b"ba\n\xff\n", "line 2")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        with pytest.raises(DataError, match=word):
            read_sentences("-")
