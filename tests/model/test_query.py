"""Asking a model: which one is meant, how alike two sentences are, and what is nearest in a corpus."""

from __future__ import annotations

import io
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

import contrastcli
from contrastcli.commands.encode import encode_to, read_sentences
from contrastcli.errors import DataError, RunError, UsageError
from contrastcli.files import cache_dir
from contrastcli.model import query
from contrastcli.model.encoder import Precision, SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.query import Index, load_model, read_pairs, read_questions, resolve_model, similarity
from contrastcli.options import check_question
from contrastcli.runs.directory import Run
from support.tiny import WORDS, Tiny, train

Floats = NDArray[np.float32]
SENTENCES = [f"{a} {b}" for a in WORDS[:12] for b in WORDS[12:37]]  # 300, all different


@pytest.fixture
def encoder(tiny: Tiny) -> SentenceEncoder:
    return load_encoder(tiny.backbone)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{text}\n" for text in SENTENCES))
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that a model is asked to embed, in order."""
    texts_asked: list[str] = []
    blocks = SentenceEncoder.blocks

    def counted(
        self: SentenceEncoder,
        texts: Sequence[str],
        *,
        precision: Precision = "fp32",
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[Floats]:
        texts_asked.extend(texts)
        return blocks(self, texts, precision=precision, on_progress=on_progress)

    monkeypatch.setattr(SentenceEncoder, "blocks", counted)
    return texts_asked


def two_runs(trained: Run, folder: Path) -> Path:
    """A directory with the finished runs simple-a and simple-b, the second the newer, and no other."""
    for name, created in (("simple-a", 1000.0), ("simple-b", 2000.0)):
        copy = Path(shutil.copytree(trained.path, folder / name))
        lines = (copy / "events.jsonl").read_bytes().splitlines(keepends=True)
        first = lines[0].replace(b'"time":', b'"was":', 1).rstrip(b"}\n") + f',"time":{created}}}\n'.encode()
        (copy / "events.jsonl").write_bytes(b"".join([first, *lines[1:]]))
    return folder


def test_without_a_word_the_newest_run_that_has_ended_is_meant(trained: Run, tiny: Tiny, tmp_path: Path) -> None:
    folder = two_runs(trained, tmp_path / "runs")
    tiny.run(folder / "yet-to-begin")
    killed = Run(Path(shutil.copytree(trained.path, folder / "killed")))  # newer, and with checkpoints
    lines = killed.events_path.read_bytes().splitlines(keepends=True)
    killed.events_path.write_bytes(b"".join(line for line in lines if b'"done"' not in line))
    assert killed.status().state not in ("finished", "stopped") and killed.checkpoints()
    assert resolve_model(None, folder, {}) == str(folder / "simple-b")
    shutil.rmtree(folder / "simple-b")
    assert resolve_model(None, folder, {}) == str(folder / "simple-a")


def test_the_option_precedes_the_environment_which_precedes_the_newest_run(trained: Run, tmp_path: Path) -> None:
    folder = two_runs(trained, tmp_path / "runs")
    environ = {"CONTRAST_MODEL": "simple-a"}
    assert resolve_model(None, folder, environ) == str(folder / "simple-a")
    assert resolve_model("simple-b", folder, environ) == str(folder / "simple-b")
    assert resolve_model("last", folder, environ) == str(folder / "simple-b")
    assert resolve_model("-a", folder, environ) == str(folder / "simple-a")


def test_a_word_that_means_no_run_is_left_for_folders_and_the_hub(trained: Run, tiny: Tiny, tmp_path: Path) -> None:
    folder = two_runs(trained, tmp_path / "runs")
    for word in ("starter", "owner/name", str(tiny.backbone)):
        assert resolve_model(word, folder, {}) == word


def test_a_word_that_means_two_runs_is_an_error(trained: Run, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        resolve_model("simple", two_runs(trained, tmp_path / "runs"), {})
    assert "simple-a" in error.value.hint and "simple-b" in error.value.hint


def test_without_any_model_the_starter_is_recommended(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        resolve_model(None, tmp_path / "runs", {})
    assert error.value.code == 3 and error.value.hint == "contrast train --preset starter --no-ui"


def test_a_run_answers_with_its_best_checkpoint(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.run(tmp_path / "runs" / "one", train__max_steps=2, dev__every=1)
    train(run)
    best, other = (run.checkpoints_dir / name for name in ("best", "other"))
    encoder = load_encoder(run.checkpoint())
    save_encoder(encoder, best)
    torch.nn.init.zeros_(encoder.backbone.get_parameter("bert.words.weight"))
    save_encoder(encoder, other)
    expected = load_encoder(best).encode(SENTENCES[:3])
    for saved, vectors in (
        ('{"best": "best", "last": "other"}', expected),
        ('{"last": "other"}', load_encoder(other).encode(SENTENCES[:3])),
    ):
        (run.path / "checkpoints.json").write_text(saved)
        assert np.array_equal(contrastcli.load(str(run.path)).encode(SENTENCES[:3]), vectors)
    assert not np.array_equal(expected, vectors)


def test_a_model_may_be_pooled_otherwise(tiny: Tiny) -> None:
    assert load_model(str(tiny.backbone), pooling="cls").pooling == "cls"


def test_cosine_and_angle_are_those_of_the_vectors_in_full_precision(encoder: SentenceEncoder) -> None:
    pairs = [("ba den fir", "go lum"), ("go lum", "ten"), ("ba", "ba den")]
    for (a, b), answer in zip(pairs, similarity(encoder, pairs), strict=True):
        u, v = ([float(x) for x in encoder.encode([text])[0]] for text in (a, b))
        cosine = math.fsum(x * y for x, y in zip(u, v, strict=True)) / math.hypot(*u) / math.hypot(*v)
        assert (answer.a, answer.b) == (a, b)
        assert answer.cosine == pytest.approx(cosine, abs=1e-6)
        assert answer.angle_deg == pytest.approx(math.degrees(math.acos(answer.cosine)), abs=1e-6)


class Fixed:
    """An encoder that knows the vectors of its texts."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors = vectors

    def encode(self, texts: Sequence[str]) -> Floats:
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


@pytest.mark.parametrize("degrees", [1e-5, 0.01, 0.1, 45, 90, 135, 179.9])
def test_small_and_large_angles_keep_their_digits(degrees: float) -> None:
    angle = math.radians(degrees)
    vectors = {"a": [1.0, 0.0], "b": [3 * math.cos(angle), 3 * math.sin(angle)]}
    (answer,) = similarity(Fixed(vectors), [("a", "b")])  # type: ignore[arg-type]
    assert answer.angle_deg == pytest.approx(degrees, rel=1e-6)
    assert answer.cosine == pytest.approx(math.cos(angle), abs=1e-7)


def test_identical_sentences_are_exactly_alike_and_no_cosine_is_beyond_one(encoder: SentenceEncoder) -> None:
    answers = similarity(encoder, [(text, text) for text in SENTENCES])
    assert {(s.cosine, s.angle_deg) for s in answers} == {(1.0, 0.0)}
    draw = np.random.default_rng(0).normal(size=(300, 5))
    vectors = {f"{sign}{i}": list(length * row) for i, row in enumerate(draw) for sign, length in (("", 3), ("-", -1))}
    opposite = similarity(Fixed(vectors), [(str(i), f"-{i}") for i in range(300)])  # type: ignore[arg-type]
    assert all(s.cosine >= -1 and s.angle_deg == pytest.approx(180) for s in opposite)


def test_each_distinct_sentence_is_encoded_once(encoder: SentenceEncoder, asked: list[str]) -> None:
    answers = similarity(encoder, [("ba", "den"), ("den", "ba"), ("ba", "ba")])
    assert asked == ["ba", "den"]
    assert answers[0].cosine == answers[1].cosine and answers[2].cosine == 1.0


def by_hand(encoder: SentenceEncoder, text: str) -> list[tuple[float, int]]:
    """Cosine and row of the whole corpus, the nearest first."""
    vectors = encoder.encode([text, *SENTENCES]).astype(np.float64)
    cosines = [float(vectors[0] @ v / np.linalg.norm(vectors[0]) / np.linalg.norm(v)) for v in vectors[1:]]
    return sorted(((cosine, row) for row, cosine in enumerate(cosines, 1)), reverse=True)


@pytest.mark.parametrize("rows", [7, 300, 1000])
def test_the_nearest_are_those_of_a_full_search(
    encoder: SentenceEncoder, corpus: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(query, "_ROWS", rows)
    nearest = Index(encoder, corpus).nearest("ba den fir", 9)
    expected = by_hand(encoder, "ba den fir")[:9]
    assert [n.row for n in nearest] == [row for _, row in expected]
    assert [n.text for n in nearest] == [SENTENCES[row - 1] for _, row in expected]
    assert [n.cosine for n in nearest] == pytest.approx([cosine for cosine, _ in expected], abs=1e-6)
    assert [n.angle_deg for n in nearest] == sorted(n.angle_deg for n in nearest)


def test_a_sentence_of_the_corpus_finds_itself_and_more_than_all_are_all(
    encoder: SentenceEncoder, corpus: Path
) -> None:
    nearest = Index(encoder, corpus).nearest(SENTENCES[41], 1000)
    assert nearest[0].row == 42 and f"{nearest[0].angle_deg:.1f}" == "0.0" and nearest[0].cosine <= 1
    assert sorted(n.row for n in nearest) == list(range(1, 301))


def test_a_corpus_may_be_any_file_with_a_column_of_sentences(encoder: SentenceEncoder, tmp_path: Path) -> None:
    (tmp_path / "corpus.csv").write_text('id,text\n1,"ba, den"\n2,go\n')
    assert {n.text for n in Index(encoder, tmp_path / "corpus.csv").nearest("go", 5)} == {"ba, den", "go"}
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\nba\tden\n")
    with pytest.raises(DataError, match="pairs"):
        Index(encoder, tmp_path / "pairs.tsv").nearest("go", 5)


def test_a_corpus_is_encoded_once(encoder: SentenceEncoder, corpus: Path, asked: list[str]) -> None:
    steps: list[tuple[int, int]] = []
    first = Index(encoder, corpus, lambda done, total: steps.append((done, total))).nearest("ba", 5)
    assert sorted(asked) == sorted([*SENTENCES, "ba"]) and steps[-1] == (300, 300)
    asked.clear()
    assert Index(encoder, corpus).nearest("ba", 5) == first and asked == ["ba"]
    corpus.rename(corpus.with_name("renamed.txt"))  # what it holds counts, not where
    assert Index(encoder, corpus.with_name("renamed.txt")).nearest("ba", 5) == first and asked == ["ba"] * 2


def changed(encoder: SentenceEncoder, what: str) -> None:
    if what == "weights":
        encoder.backbone.get_parameter("bert.norm.bias").data += 1
    elif what == "prompt":
        encoder.prompt = "go "
    elif what == "length":
        encoder.max_length = 3
    else:
        encoder.pooling = "cls"


@pytest.mark.parametrize("what", ["weights", "prompt", "length", "pooling"])
def test_another_model_encodes_the_corpus_again(encoder: SentenceEncoder, corpus: Path, what: str) -> None:
    before = Index(encoder, corpus).nearest("ba den", 5)
    changed(encoder, what)
    after = Index(encoder, corpus).nearest("ba den", 5)
    assert [n.cosine for n in after] == pytest.approx([c for c, _ in by_hand(encoder, "ba den")[:5]], abs=1e-6)
    assert [n.cosine for n in after] != [n.cosine for n in before]


def test_a_changed_corpus_is_encoded_again(encoder: SentenceEncoder, corpus: Path) -> None:
    Index(encoder, corpus).nearest("ba den", 1)
    corpus.write_text(corpus.read_text().replace(SENTENCES[7] + "\n", "ba den\n", 1))
    assert Index(encoder, corpus).nearest("ba den", 1)[0].row == 8


def test_a_damaged_cache_is_made_again(encoder: SentenceEncoder, corpus: Path) -> None:
    first = Index(encoder, corpus).nearest("ba", 5)
    (file,) = (cache_dir() / "vectors").iterdir()
    for damaged in (file.read_bytes()[:1000], b""):
        file.write_bytes(damaged)
        assert Index(encoder, corpus).nearest("ba", 5) == first
    assert np.array_equal(np.load(file), encoder.encode(SENTENCES))


def test_a_cache_that_cannot_be_written_costs_no_answer(
    encoder: SentenceEncoder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Index(encoder, corpus).nearest("ba", 5)
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONTRAST_CACHE", str(tmp_path / "file"))
    assert Index(encoder, corpus).nearest("ba", 5) == expected


def test_words_of_the_command_line_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        check_question([os.fsdecode(b"Z\xfcrich"), "b"], None)
    check_question(["Zürich", "b"], None)


def test_pairs_of_any_number_come_in_their_order() -> None:
    lines = b"".join(f"a {i}\tb {i}\r\n".encode() for i in range(9000))
    blocks = list(read_pairs(io.BytesIO(lines)))
    assert [pair for block in blocks for pair in block] == [(f"a {i}", f"b {i}") for i in range(9000)]
    assert len(blocks) > 1


def test_a_line_is_answered_before_the_next_has_come() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as sender:
        pairs, questions = read_pairs(stream), read_questions(stream)
        sender.write(b"a\tb\nc")
        assert next(pairs) == [("a", "b")]
        sender.write(b"\td\n")
        assert next(pairs) == [("c", "d")]
        sender.write(b"how so\nwhy\n")
        assert next(questions) == ["how so", "why"]


@pytest.mark.parametrize(
    "bad", [b"one sentence\n", b"a\tb\tc\n", b"\tb\n", b"a\t  \n", b"\n", b"a\t\xff\n"], ids=lambda line: repr(line)
)
def test_a_line_that_is_no_pair_is_named(bad: bytes) -> None:
    with pytest.raises(DataError, match="stdin, line 3"):
        list(read_pairs(io.BytesIO(b"a\tb\nc\td\n" + bad + b"e\tf\n")))


def test_no_pairs_at_all_are_an_error() -> None:
    with pytest.raises(DataError, match="stdin is empty"):
        list(read_pairs(io.BytesIO(b"")))


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
        encode_to(encoder, texts, output, "fp32", lambda done, total: steps.append((done, total)))
        vectors, kept = read_vectors(output)
        assert vectors.dtype == np.float32 and np.array_equal(vectors, encoder.encode(texts))
        assert kept in (None, list(texts)) and steps[-1] == (len(texts), len(texts))
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_vectors_that_cannot_be_written_leave_what_was_there(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "vectors.npy"
    encode_to(encoder, SENTENCES[:3], output, "fp32", lambda done, total: None)
    before, some = output.read_bytes(), encoder.encode(SENTENCES[:2])

    def full_disk(*_: object, **__: object) -> object:
        yield some
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(encoder, "blocks", full_disk)
    with pytest.raises(RunError, match="No space left on device"):
        encode_to(encoder, SENTENCES, output, "fp32", lambda done, total: None)
    assert output.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["vectors.npy"]


def test_an_unknown_kind_of_file_and_a_missing_folder_are_refused(encoder: SentenceEncoder, tmp_path: Path) -> None:
    for output, kind in ((tmp_path / "v.txt", UsageError), (tmp_path / "none" / "v.npy", RunError)):
        with pytest.raises(kind):
            encode_to(encoder, ["ba"], output, "fp32", lambda done, total: None)
    assert list(tmp_path.iterdir()) == []


def test_sentences_are_read_of_a_file_or_of_stdin(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_sentences(str(corpus)) == SENTENCES
    for given, sentences in ((b"ba den\ngo \n", ["ba den", "go"]), (b"Z\xc3\xbcrich", ["Zürich"])):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        assert read_sentences("-") == sentences
    for given, word in ((b"", "empty"), (b"ba\n\ngo\n", "line 2"), (b"ba\n\xff\n", "line 2")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
        with pytest.raises(DataError, match=word):
            read_sentences("-")
