"""A disk that is full, or fails, at every write of a command in turn: two lines, nothing lost, nothing left half."""

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrastcli.model.folder import load_encoder
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Note, encode
from contrastcli.runs.measured import Step
from support.command import LABELLED, MODEL, Contrast, sentences, train
from support.disks import FULL, Disk, mounted
from support.resuming import assert_same, story
from support.tiny import told

TRAIN = train(*LABELLED, "--set", "dev.every=2", "--log-every", "1", "--max-steps", "4", "--name", "one")

HELPS = {
    FULL: "ulimit -f",
    errno.ENOSPC: "make room on the disk of /",
    errno.EDQUOT: "make room on the disk of /",
    errno.EIO: "check the disk",
    errno.EROFS: "mount the disk for writing",
    errno.EACCES: "a folder of your own",
}


def complaint(error: str) -> tuple[str, str]:
    """The last two lines on stderr."""
    what, hint = error.splitlines()[-2:]
    return what, hint


def failures(contrast: Contrast, monkeypatch: pytest.MonkeyPatch, error: int, first: int, by: int) -> Iterator[Run]:
    """The run that each disk leaves which fails at another of its writes."""
    while True:
        shutil.rmtree("runs", ignore_errors=True)
        disk = Disk(Path("runs"), first, error)
        with mounted(disk, monkeypatch):
            answer = contrast(*TRAIN)
        if answer.code == 0:
            assert error == FULL or not disk.failed
            return
        what, hint = complaint(answer.err)
        assert answer.code == 1 and what.startswith("contrast: error: cannot write"), (first, answer)
        assert os.strerror(error) in what and HELPS[error] in hint
        yield Run(Path("runs/one"))
        first += by


@pytest.mark.parametrize(
    ("error", "first", "by"),
    [
        (FULL, 3, 14),
        # Every other write by one error, those between by the other: what is done about both is the same.
        pytest.param(FULL, 1, 2, marks=pytest.mark.slow),
        pytest.param(errno.ENOSPC, 2, 2, marks=pytest.mark.slow),
        pytest.param(errno.EDQUOT, 3, 5, marks=pytest.mark.slow),
        pytest.param(errno.EIO, 1, 5, marks=pytest.mark.slow),
        pytest.param(errno.EROFS, 1, 5, marks=pytest.mark.slow),
        pytest.param(errno.EACCES, 4, 5, marks=pytest.mark.slow),
    ],
)
def test_a_disk_that_fails_loses_nothing(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, error: int, first: int, by: int
) -> None:
    assert contrast("--runs-dir", "whole", *TRAIN).code == 0
    whole = Run(Path("whole/one"))
    for run in failures(contrast, monkeypatch, error, first, by):
        assert {path.name for path in Path("runs").rglob(".*")} <= {".gitignore", ".scores.json.lock"}, (
            "a draft is left"
        )
        if run.exists():
            assert run.status().state in ("starting", "silent", "failed")  # this process, which trained it, lives on
            assert all(event.step <= 4 for event in run.events())
            if saved := run.checkpoints():
                load_encoder(run.checkpoint())
                assert int(saved["last"]) <= told(run, Step)[-1].step
        assert contrast(*("train", "--resume", "one") if run.exists() else TRAIN).code == 0
        assert_same(run, whole)
        assert story(run) == story(whole)


@pytest.mark.parametrize("error", [FULL, errno.ENOSPC])
@pytest.mark.parametrize(
    "words",
    [
        ("encode", "texts.txt", "-o", "out/v.npy", *MODEL),
        ("encode", "texts.txt", "-o", "out/v.safetensors", *MODEL),
        ("encode", "texts.txt", "-o", "out/v.parquet", *MODEL),
        ("export", "tiny/backbone", "out/model"),
    ],
)
def test_results_are_whole_or_not_there(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: int
) -> None:
    Path("texts.txt").write_text("\n".join(sentences()))
    for number in range(1, 100):
        shutil.rmtree("out", ignore_errors=True)
        Path("out").mkdir()
        disk = Disk(Path("out"), number, error)
        with mounted(disk, monkeypatch):
            answer = contrast(*words)
        if answer.code == 0:
            break
        what, hint = complaint(answer.err)
        assert answer.code == 1 and what.startswith("contrast: error: cannot write"), (number, answer)
        assert os.strerror(error) in what and HELPS[error] in hint and "write elsewhere: " in hint
        # What is begun of vectors is kept, to be continued.
        assert [path for path in Path("out").iterdir() if ".part" not in path.name] == []
    assert number > 1 and (error == FULL or not disk.failed)
    assert len(list(Path("out").iterdir())) == 1


def test_a_line_of_events_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write = EventWriter(path)
    first = encode(write(Note(step=1, text="first")))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(first) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write(Note(step=2, text="second"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == first
    assert first + encode(write(Note(step=3, text="third"))) == path.read_bytes()
    write.close()
