"""Odd machines: no streams, no working folder, other encodings, no memory, other users."""

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from contrastcli import boundary
from contrastcli.errors import RunError
from contrastcli.files import flush_tree, writing_to
from contrastcli.runs.directory import Run
from contrastcli.tui import state
from support.command import COMMAND, SENTENCES, Answer, Contrast, refused, train


def in_shell(script: str) -> Answer:
    """What a script prints, in which CONTRAST stands for the command."""
    words = ["sh", "-c", script.replace("CONTRAST", shlex.join(COMMAND))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    return Answer(done.returncode, done.stdout, done.stderr)


def test_closed_streams_are_no_error() -> None:
    assert in_shell("CONTRAST presets list >&-") == Answer(0, "", "")
    answer = in_shell("CONTRAST runs path nope <&- 2>&-")
    assert (answer.code, answer.out, answer.err) == (3, "", "")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_the_app_is_for_terminals_in_utf8(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("stdin", "stdout", "stderr", "__stdout__"):
        monkeypatch.setattr(sys, name, SimpleNamespace(isatty=lambda: True, encoding=encoding))
    assert boundary.on_a_terminal() and boundary.is_utf8() == (encoding == "utf-8")


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    code = "from contrastcli import boundary; boundary.prepare_process([]); open(str(open('file', 'w').fileno()), 'w')"
    script = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(code)} <&- >&- 2>&-"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, timeout=300)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "3"}


def test_a_working_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    answer = in_shell(f"cd {gone} && rmdir {gone} && exec CONTRAST runs 2>{tmp_path / 'err'}")
    lines = (tmp_path / "err").read_text().splitlines()
    assert answer.code == 1 and len(lines) == 2
    assert lines[0].startswith("contrast: error: the working folder cannot be used") and "cd" in lines[1]


def test_words_that_are_not_text_are_spelled(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(contrast("query", "a", "caf\udce9"), 2, r"'caf\xe9' is not text", "LC_ALL")
    monkeypatch.setenv("CONTRAST_MODEL", "caf\udce9")
    refused(contrast("query", "a", "b"), 2, r"'caf\xe9' is not text")


BEYOND = {"WORLD_SIZE": "2", "RANK": "5", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}


@pytest.mark.parametrize(
    ("variables", "what"),
    [
        *(({"WORLD_SIZE": size}, "cannot join the others") for size in ("abc", "2", "0")),
        (BEYOND, "RANK is 5, and 2 processes are numbered from 0"),
    ],
)
def test_processes_that_cannot_join_are_said_and_wait_for_nobody(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], what: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    refused(contrast(*train(*SENTENCES, "--dev", "none")), 2, what, "torchrun")


def test_a_library_that_cannot_be_loaded_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = boundary.report(ImportError("libtorch: failed to map"), debug=False)
    refused(Answer(code, *capsys.readouterr()), 1, "libtorch: failed to map", "ulimit -v")


@pytest.mark.parametrize(
    ("raised", "what", "hint"),
    [
        (OSError(errno.EFBIG, "File too large", "out/.v.npy.draft"), "cannot write out/v.npy: File too", "ulimit -f"),
        (OSError(errno.EMFILE, "Too many open files", "at/other"), "cannot write at/other: Too", "ulimit -n"),
        (OSError(errno.EROFS, "Read-only file system", "at/v.npy"), "cannot write at/v.npy: Read", "mount the disk"),
        (ValueError("I/O error: quota exceeded (os error 122)"), "cannot write out/v.npy: ", "make room on the disk"),
    ],
)
def test_what_cannot_be_written_is_named_as_the_user_knows_it(raised: Exception, what: str, hint: str) -> None:
    if "122" in str(raised) and errno.EDQUOT != 122:
        pytest.skip("another system's number")
    with pytest.raises(RunError) as error, writing_to(Path("out/v.npy")):
        raise raised
    assert error.value.what.startswith(what) and hint in error.value.hint


def test_other_users_may_read_a_checkpoint_as_they_may_its_folder(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir(mode=0o755)
    for mode in (0o600, 0o644, 0o400):
        (tmp_path / "one" / f"{mode}").touch(mode=mode)
    flush_tree(tmp_path / "one")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "one").iterdir()} == {0o644}


def test_the_run_of_another_user_is_evaluated_and_left_as_it_is(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    answer = contrast("eval", "simple", "--suite", "geometry")
    assert answer.code == 0 and answer.out and "suites" not in run.scores()


def test_a_pipe_in_place_of_what_the_app_remembers_is_ignored() -> None:
    folder = Path(os.environ["CONTRAST_STATE"])
    folder.mkdir(parents=True)
    os.mkfifo(folder / "app.json")
    assert state.load() == state.State()
