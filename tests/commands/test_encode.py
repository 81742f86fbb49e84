"""`contrast encode` writes the embeddings of sentences, in order, from a file or stdin."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import contrastcli
from contrastcli.model.devices import has_products
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.metrics import cosine
from contrastcli.model.vectors import dequantise
from support.command import MODEL, Contrast, refused, sentences
from support.contracts import PROMPTS, under


def test_the_sentences_of_a_file_become_vectors_in_their_order(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contrastcli.model.encoder.TEXTS_AT_ONCE", 70)  # written in parts
    encoder = contrastcli.load("tiny/backbone")
    for texts in (sentences(), ["ba den", "go"]):  # the second replace the first
        Path("texts.txt").write_text("".join(f"{text}\n" for text in texts))
        answer = contrast("encode", "texts.txt", "-o", "v.npy", *MODEL)
        assert (answer.code, answer.out) == (0, "") and f"wrote v.npy: {len(texts)} vectors of 32" in answer.err
        assert np.array_equal(np.load("v.npy"), encoder.encode(texts))
        assert [path.name for path in Path().iterdir() if path.name.startswith((".v", "v"))] == ["v.npy"]


def test_one_s_home_is_known_where_no_shell_knows_it(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert contrast("encode", "tiny/sentences.jsonl", "--output=~/v.npy", *MODEL).code == 0
    assert len(np.load(tmp_path / "home" / "v.npy")) == len(sentences()) and not Path("~").exists()
    listed = contrast("--runs-dir=~/runs", "runs", "list").out
    assert f"no runs in {tmp_path}/home/runs; make one: contrast --runs-dir '~/runs' train " in listed


def test_a_kind_that_the_model_has_no_prompt_for_is_said_to_change_nothing(contrast: Contrast) -> None:
    words = ("encode", "tiny/sentences.jsonl", "-o", "v.npy", *MODEL)
    assert "tiny/backbone has no prompts, and --as query changes nothing" in contrast(*words, "--as", "query").err
    assert "changes nothing" not in contrast(*words).err
    blank = under(load_encoder(Path("tiny/backbone")), prompts={"query": "", "document": ""})
    save_encoder(blank, Path("blank"))
    assert "changes nothing" in contrast(*words[:4], "--model", "blank", "--as", "query").err
    save_encoder(under(blank, prompts=PROMPTS), Path("asking"))
    note = "asking has prompts for queries and documents, and none is read: a corpus is --as document"
    assert note in contrast(*words[:4], "--model", "asking").err
    assert "none is read" not in contrast(*words).err + contrast(*words[:4], "--model", "asking", "--as", "query").err


INT8 = pytest.mark.skipif(not has_products("int8"), reason="this CPU multiplies no matrices in int8")


@pytest.mark.parametrize("words", [("--dtype", "binary"), pytest.param(("--precision", "int8"), marks=INT8)])
def test_how_near_vectors_are_is_said_of_texts_as_they_are_written(contrast: Contrast, words: tuple[str, str]) -> None:
    save_encoder(under(load_encoder(Path("tiny/backbone")), prompts=PROMPTS), Path("asking"))
    usual = ("encode", "tiny/sentences.jsonl", "--model", "asking", "--as", "query")
    assert contrast(*usual, "-o", "exact.npy").code == 0
    answer = contrast(*usual, "-o", "v.npy", *words)
    exact = np.load("exact.npy")
    cosines = cosine(dequantise(np.load("v.npy"), exact.shape[1]), exact)
    assert f"cosine of {words[1]} to fp32, of {len(exact)} texts: {cosines.mean():.4f} at the mean, " in answer.err
    assert f"{cosines.min():.4f} at the least" in answer.err


@pytest.mark.parametrize("dim", [32, 6])
def test_vectors_are_of_unit_length_where_that_is_asked_for(contrast: Contrast, dim: int) -> None:
    words = ("encode", "tiny/sentences.jsonl", *MODEL, "--dim", dim)
    assert contrast(*words, "-o", "v.npy").code == contrast(*words, "-o", "unit.npy", "--normalize").code == 0
    plain, unit = np.load("v.npy"), np.load("unit.npy")
    lengths = np.sqrt((plain.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    assert not np.allclose(lengths, 1, atol=0.1) and np.allclose(unit, plain / lengths, atol=1e-6)
    # The same vectors again are not those of the other kind.
    assert contrast(*words, "-o", "v.npy", "--normalize").code == 0
    assert np.array_equal(np.load("v.npy"), unit)


def test_sentences_of_stdin_become_vectors(contrast: Contrast) -> None:
    texts = [*sentences(), "Zürich"]
    stdin = "".join(f" {text} \n" for text in texts).encode()
    assert contrast("encode", "-", "-o", "v.npy", *MODEL, stdin=stdin).code == 0
    assert np.array_equal(np.load("v.npy"), contrastcli.load("tiny/backbone").encode(texts))


def test_half_precision_on_request_stays_near(contrast: Contrast) -> None:
    assert contrast("encode", "tiny/sentences.jsonl", "-o", "v.npy", *MODEL, "--precision", "bf16").code == 0
    vectors, expected = np.load("v.npy"), contrastcli.load("tiny/backbone").encode(sentences())
    assert vectors.dtype == np.float32 and not np.array_equal(vectors, expected)
    assert np.abs(vectors - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("stdin", "what", "hint"),
    [
        (b"", "stdin is empty", ""),
        (b"a\n\nb\n\nc\n", "stdin, lines 2, 4: the sentence", ""),
        (b"sentence1\tsentence2\na\tb\n", "stdin holds pairs", "--columns text=sentence1"),
        (b"\x81", "stdin, line 1: not UTF-8", "… | iconv -f cp1251 -t utf-8 | contrast …"),
    ],
)
def test_bad_sentences_of_stdin_are_named(contrast: Contrast, stdin: bytes, what: str, hint: str) -> None:
    refused(contrast("encode", "-", "-o", "x.npy", "--model", "tiny/backbone", stdin=stdin), 3, what, hint)


def test_vectors_go_to_a_file_in_a_folder_that_exists(contrast: Contrast) -> None:
    Path("texts.txt").write_text("one\ntwo\n")
    refused(contrast("encode", "texts.txt", "-o", "no/x.npy"), 1, "there is no folder no")
    shutil.copy("texts.txt", "texts.parquet")
    refused(contrast("encode", "texts.parquet", "-o", "texts.parquet"), 2, "texts.parquet is what would be read")
    Path("vectors.npy").mkdir()
    refused(contrast("encode", "texts.txt", "-o", "vectors.npy"), 1, "vectors.npy is a folder")
    assert not list(Path("vectors.npy").iterdir())


@pytest.mark.parametrize(
    ("shard", "told"),
    [("1/1", "vectors.npy is there, and will be replaced"), ("2/2", "will hold part 2/2 alone; a file for each part")],
)
def test_vectors_that_are_there_are_not_replaced_in_silence(contrast: Contrast, shard: str, told: str) -> None:
    Path("vectors.npy").touch()
    answer = contrast("encode", "tiny/sentences.jsonl", "-o", "vectors.npy", *MODEL, "--shard", shard)
    assert answer.code == 0 and told in answer.err


@pytest.mark.parametrize("name", ["v.npy", "v.parquet"])
def test_vectors_go_to_where_a_link_leads(contrast: Contrast, name: str) -> None:
    Path("disk").mkdir()
    Path(name).symlink_to(f"disk/{name}")
    assert contrast("encode", "tiny/sentences.jsonl", "-o", name, *MODEL).code == 0
    assert Path(name).is_symlink() and [path.name for path in Path("disk").iterdir()] == [name]
