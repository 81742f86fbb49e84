"""Vectors in shards, and of a command that was killed: in the end the same bits as of one that was not."""

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import filelock
import numpy as np
import pytest
from numpy.typing import NDArray
from pyarrow import parquet
from safetensors.numpy import load_file

import contrastcli
from contrastcli.files import Draft
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import cosine
from support.command import MODEL, Contrast, failed, sentences
from support.disks import failing_disk
from support.forked import start, wait

BLOCK = 30
ENCODE = ("encode", "texts.txt", "-o", "v.npy", *MODEL)
ALREADY = "note: {} of the 160 vectors are there already"
LOST = "note: what was begun of v.npy is damaged, or of other texts, options or another model"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrastcli.model.encoder.TEXTS_AT_ONCE", BLOCK)


@pytest.fixture
def whole(contrast: Contrast) -> NDArray[np.float32]:
    """The vectors of texts.txt, 160 texts."""
    write(sentences())
    return contrastcli.load("tiny/backbone").encode(sentences())


def write(texts: list[str]) -> None:
    Path("texts.txt").write_text("".join(f"{text}\n" for text in texts))


def hidden() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.name.startswith("."))


def read(path: str) -> NDArray[np.float32]:
    if path.endswith(".npy"):
        vectors: NDArray[np.float32] = np.load(path)
        return vectors
    if path.endswith(".safetensors"):
        return load_file(path)["vectors"]
    return np.array(parquet.read_table(path)["vector"].to_pylist(), dtype=np.float32)


@pytest.mark.parametrize(("parts", "end"), [(7, "npy"), (3, "safetensors"), (3, "parquet")])
def test_shards_joined_have_the_bits_of_one_file(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, parts: int, end: str
) -> None:
    encode_table = SentenceEncoder.encode_table
    # A model whose vectors show all texts that are encoded together.
    monkeypatch.setattr(
        SentenceEncoder, "encode_table", lambda self, table, **how: encode_table(self, table, **how) + table.flat.sum()
    )
    write(sentences())
    assert contrast("encode", "texts.txt", "-o", f"whole.{end}", *MODEL).code == 0
    expected, shards = read(f"whole.{end}"), []
    for number in range(1, parts + 1):
        answer = contrast("encode", "texts.txt", "-o", f"v.{end}", *MODEL, "--shard", f"{number}/{parts}")
        shards.append(read(f"v.{end}"))
        first = sum(map(len, shards[:-1])) + 1
        rows = f"rows {first} to {first + len(shards[-1]) - 1} of 160"
        assert answer.err.endswith(f"wrote v.{end}: {len(shards[-1])} vectors of 32, {rows}\n")
    assert np.array_equal(np.concatenate(shards), expected)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_only_the_shards_own_texts_that_fill_the_model_are_counted(contrast: Contrast) -> None:
    write(["ba " * 100] * 12)
    assert "fill the model's 32 tokens, or are cut there: 6" in contrast(*ENCODE, "--shard", "1/2").err


def test_a_shard_is_compared_on_its_own_texts(contrast: Contrast, whole: NDArray[np.float32]) -> None:
    answer = contrast(*ENCODE, "--shard", "2/3", "--dtype", "binary")
    cosines = cosine(np.where(whole > 0, 1, -1)[53:106], whole[53:106])
    assert f"of 53 texts: {cosines.mean():.4f} at the mean, {cosines.min():.4f} at the least" in answer.err
    write(["go"])
    assert "at the mean" not in contrast(*ENCODE, "--shard", "1/2", "--dtype", "int8").err


def test_of_more_shards_than_texts_some_are_empty_and_say_so(contrast: Contrast) -> None:
    write(["ba den", "go"])
    for number, (rows, told) in enumerate([(0, "none"), (1, "rows 1 to 1"), (1, "rows 2 to 2")], 1):
        answer = contrast(*ENCODE, "--shard", f"{number}/3")
        assert np.load("v.npy").shape == (rows, 32) and answer.err.endswith(f" of 32, {told} of 2\n"), answer


def test_a_shard_of_a_parquet_has_its_own_texts_and_ids(contrast: Contrast) -> None:
    Path("faq.csv").write_text("id,text\n7,ba den\n8,fir go\n9,lum\n")
    assert contrast("encode", "faq.csv", "-o", "v.parquet", *MODEL, "--shard", "2/2").code == 0
    table = parquet.read_table("v.parquet")
    assert (table["id"].to_pylist(), table["text"].to_pylist()) == (["8", "9"], ["fir go", "lum"])


def after_two_blocks(number: signal.Signals) -> Callable[[Draft, memoryview], None]:
    """Have this process get a signal once it has written two blocks."""
    append, parts = Draft.append, iter(range(9))

    def signalled(self: Draft, part: memoryview) -> None:
        append(self, part)
        if next(parts) == 1:
            signal.raise_signal(number)

    return signalled


def test_a_command_that_was_killed_continues_where_it_was(contrast: Contrast, whole: NDArray[np.float32]) -> None:
    """Wherever it was killed in between is a matter of test_kills.py and test_failing_disks.py."""
    outcome = wait(start(ENCODE, before=lambda: setattr(Draft, "append", after_two_blocks(signal.SIGKILL))))
    assert outcome.code == -signal.SIGKILL and not Path("v.npy").exists(), outcome
    assert ALREADY.format(60) in contrast(*ENCODE).err
    assert np.array_equal(np.load("v.npy"), whole) and hidden() == []


def begin(contrast: Contrast) -> None:
    """Two blocks of v.npy, after which the disk was full."""
    with failing_disk(Path(), 12, errno.ENOSPC):
        answer = contrast(*ENCODE)
    failed(answer, 1, "cannot write v.npy: No space left on device", "write elsewhere: -o FILE")
    assert hidden() == [".v.npy.part", ".v.npy.part.json"] and not Path("v.npy").exists()


def test_a_disk_that_was_full_costs_no_block_that_was_written(
    contrast: Contrast, whole: NDArray[np.float32], encoded: list[str]
) -> None:
    begin(contrast)
    encoded.clear()
    answer = contrast(*ENCODE)
    assert answer.code == 0 and ALREADY.format(60) in answer.err and LOST not in answer.err
    assert encoded == sentences()[60:]
    assert np.array_equal(np.load("v.npy"), whole) and hidden() == []


def test_an_interrupt_says_how_to_continue(
    contrast: Contrast, whole: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Draft, "append", after_two_blocks(signal.SIGINT))
    failed(contrast(*ENCODE), 130, "interrupted", "the same command continues it")
    assert ALREADY.format(60) in contrast(*ENCODE).err
    assert np.array_equal(np.load("v.npy"), whole) and hidden() == []


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: write(["go", *sentences()[1:]]), ()),
        (lambda: os.truncate(".v.npy.part", 300), ()),
        (lambda: Path(".v.npy.part").unlink(), ()),
        (lambda: Path(".v.npy.part.json").write_text("[1]"), ()),
        (lambda: None, ("--model", "starter")),
        (lambda: None, ("--dtype", "float16")),
        (lambda: None, ("--dim", "16")),
        (lambda: None, ("--shard", "1/2")),
    ],
)
def test_what_is_damaged_or_of_something_else_is_not_continued(
    contrast: Contrast,
    whole: NDArray[np.float32],
    act: Callable[[], None],
    words: tuple[str, ...],
) -> None:
    begin(contrast)
    act()
    answer = contrast(*ENCODE, *words)
    assert answer.code == 0 and LOST in answer.err and "there already" not in answer.err
    vectors = np.load("v.npy")
    assert contrast("encode", "texts.txt", "-o", "other.npy", *MODEL, *words).code == 0
    assert np.array_equal(vectors, np.load("other.npy")) and hidden() == []


def test_two_processes_do_not_write_one_file(contrast: Contrast, whole: NDArray[np.float32]) -> None:
    with filelock.FileLock(".v.npy.lock"):
        failed(contrast(*ENCODE), 1, "another process writes v.npy", "wait for its end, or write elsewhere: -o FILE")
    assert contrast(*ENCODE).code == 0
