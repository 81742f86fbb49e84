"""Word vectors as a baseline: what a sentence becomes, and what is wrong with a file."""

import gzip
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contrastcli.errors import DataError
from contrastcli.evaluation.glove import WordVectors, load_subject
from contrastcli.model.locate import is_word_vectors
from support.command import Contrast, failed
from support.sts_files import measured, write_sick, write_stsb

LINES = ["the 1 0 0", "dog 0 2 0", "don't 0 0 3", "runs 5e-1 -1 0", ". 9 9 9", "1999 0 1 1", "at last 7 7 7"]
MORE = ["dog 9 9 9", "Straße 5 5 5", "straße 3 4 0"]


def write(folder: Path, lines: list[str], name: str = "glove.txt") -> Path:
    path = folder / name
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    return WordVectors(write(tmp_path, [*LINES, *MORE]))


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("the dog runs", [0.5, 1 / 3, 0]),
        ("The DOG", [0.5, 1, 0]),
        ("the the dog", [2 / 3, 2 / 3, 0]),
        ("the unheard-of dog", [0.5, 1, 0]),
        ('"dog," (dog)', [0, 2, 0]),
        ("don't", [0, 0, 3]),
        ("dog .", [4.5, 5.5, 4.5]),
        ("dog.", [0, 2, 0]),
        ("1999\tdog\u2003dog", [0, 5 / 3, 1 / 3]),
        ("Straße", [3, 4, 0]),
        ("at last", [0, 0, 0]),
        ("nothing known !", [0, 0, 0]),
        ("", [0, 0, 0]),
    ],
)
def test_a_sentence_is_the_mean_of_its_known_words(vectors: WordVectors, text: str, mean: list[float]) -> None:
    means = vectors.encode([text])
    assert means.dtype == np.float32
    np.testing.assert_allclose(means, [mean], rtol=1e-6)


def test_rows_follow_the_texts_whatever_was_encoded_before(vectors: WordVectors) -> None:
    alone = {text: vectors.encode([text])[0] for text in ("dog", "the runs", "zebra")}
    together = vectors.encode(["zebra", "the runs", "1999", "dog"])
    np.testing.assert_array_equal(together[[0, 1, 3]], [alone["zebra"], alone["the runs"], alone["dog"]])
    np.testing.assert_array_equal(together[2], [0, 1, 1])
    assert vectors.encode([]).shape == (0, 3)


@pytest.mark.parametrize(("name", "mark"), [("v.txt.gz", ""), ("v.vec", "\ufeff"), ("v.vec.gz", "")])
def test_compressed_files_and_word2vecs_header_are_read(tmp_path: Path, name: str, mark: str) -> None:
    vectors = WordVectors(write(tmp_path, [f"{mark}{len(LINES)} 3", *(line + " " for line in LINES)], name))
    np.testing.assert_allclose(vectors.encode(["the dog"]), [[0.5, 1, 0]])


@pytest.mark.parametrize("first", ["1999 0 1 1", "at last 7 7 7", "the 1 0 0"])
def test_the_first_word_may_be_a_number_or_hold_a_space(tmp_path: Path, first: str) -> None:
    vectors = WordVectors(write(tmp_path, [first, *LINES]))
    np.testing.assert_allclose(vectors.encode(["dog"]), [[0, 2, 0]])


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([], "line 1: not a word and its numbers"),
        (["a sentence of words"], "line 1: not a word and its numbers"),
        (["dog 1 2", "cat 1"], "line 2: 1 numbers after the word where there should be 2"),
        (["dog 1 2", "", "cat 1 2"], "line 2: 0 numbers"),
        (["dog 1 2", "cat 1 x", "cow 1 2"], "line 2: 'x' is no number"),
        (["dog 1 2", "cat 1 -1e19"], "line 2: '-1e19' is no number"),
        (["3 1000000000000", *LINES], "line 1: not a word and its numbers"),
        (["1 0", *LINES], "line 1: not a word and its numbers"),
        (["3 2", "dog 1 2", "cat 1 2"], "has 2 words, its first line says 3"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(tmp_path: Path, lines: list[str], what: str) -> None:
    with pytest.raises(DataError, match=what):
        WordVectors(write(tmp_path, lines)).encode(["dog cat"])


def test_a_torn_gzip_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [f"word{n} {n} {n * n}" for n in range(5000)], "v.txt.gz")
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError, match="a damaged or truncated gzip file"):
        WordVectors(path).encode(["word4999"])


def test_a_file_that_is_a_model_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "folder.txt").mkdir()
    assert is_word_vectors(str(write(tmp_path, LINES, "glove.6B.300d.txt")))
    assert is_word_vectors(str(write(tmp_path, LINES, "wiki.vec.gz")))
    assert not is_word_vectors(str(write(tmp_path, LINES, "glove.csv")))
    assert not is_word_vectors(str(tmp_path / "folder.txt")) and not is_word_vectors(str(tmp_path / "absent.txt"))


def test_word_vectors_are_a_subject_that_another_file_is_not(tmp_path: Path) -> None:
    one, other = (load_subject(str(write(tmp_path, LINES[:n], f"{n}.txt")), None) for n in (5, 6))
    assert one.encode(["the dog"], None).tolist() == [[0.5, 1, 0]]
    assert one.encoder is None and one.fingerprint != other.fingerprint


def test_the_file_is_read_once_for_the_texts_of_a_suite(tmp_path: Path) -> None:
    write_stsb(tmp_path, [("the dog", "the dog runs", "1"), ("runs", "dog .", "2")])
    write_sick(tmp_path, [("1999", "don't", "1"), ("dog don't", "runs .", "2")])
    path = write(tmp_path, LINES)
    model = load_subject(str(path), None)

    def once(texts: Iterable[str]) -> None:
        model.prepare(texts)
        path.unlink()

    assert set(measured(replace(model, prepare=once), tmp_path).tasks) == {"STS-B", "SICK-R"}


def test_a_file_without_any_word_of_the_texts_measures_nothing(tmp_path: Path, contrast: Contrast) -> None:
    """Sentences that end in a number look like word vectors, and gave scores of zeros."""
    Path("texts.txt").write_text("".join(f"dog the number {n}\n" for n in range(9)))
    Path("faq.csv").write_text("anchor,positive\nba den,fir go\nden fir,go ba\n")
    answer = contrast("eval", "texts.txt", "--data", "faq.csv")
    failed(answer, 3, "texts.txt has 0 of the 4 words of the texts", "give word vectors of their language")
