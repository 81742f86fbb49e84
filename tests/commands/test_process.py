"""The command as a process: signals, pipes, a full disk, and unexpected errors."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO
from unittest.mock import Mock

import pytest

from contrastcli.runs import directory as runs
from contrastcli.runs import process
from contrastcli.runs.directory import Run
from support.command import COMMAND, LABELLED, Contrast, refused, train


@pytest.mark.parametrize("words", [("train", "--lr", "nan"), ("runs", "show", "nothing"), ("trian",)])
def test_the_installed_command_gives_the_same_two_lines(contrast: Contrast, words: tuple[str, ...]) -> None:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=300)
    here = contrast(*words)
    assert (done.returncode, done.stdout, done.stderr) == (here.code, "", here.err)
    assert len(done.stderr.splitlines()) == 2 and here.code in (2, 3)


def test_no_file_of_the_working_folder_stands_for_a_module_in_the_background(contrast: Contrast) -> None:
    Path("random.py").write_text("raise SystemExit('not mine')\n")
    done = subprocess.run([*process.CONTRAST, "runs", "list", "--json"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, contrast("runs", "list", "--json").out, "")


def test_an_interrupted_command_ends_with_130_and_two_lines(contrast: Contrast) -> None:
    asking = subprocess.Popen(
        [*COMMAND, "query", "-", "--model", "tiny/backbone"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asking.stdin is not None and asking.stdout is not None
    asking.stdin.write("a\tb\n" * 1000)
    asking.stdin.flush()
    assert asking.stdout.readline()  # it is up and has answered
    asking.send_signal(signal.SIGINT)
    _, err = asking.communicate(timeout=300)
    assert (asking.returncode, err.splitlines()) == (130, ["contrast: error: interrupted", "hint: nothing was changed"])


def unread() -> IO[str]:
    """A stdout whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def full() -> IO[str]:
    """A stdout on a disk without room."""
    return open("/dev/full", "w")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    ("stdout", "words", "code", "what"),
    [
        (unread, ("presets",), 0, ""),
        (unread, ("train", "--help"), 0, ""),
        (full, ("presets",), 1, "stdin or stdout"),
        pytest.param(unread, train(*LABELLED, "--name", "mine", "--no-ui"), 0, "", marks=pytest.mark.slow),
        (full, train(*LABELLED, "--name", "mine", "--no-ui"), 1, "the path runs/mine on stdout"),
        (full, train(*LABELLED, "--name", "mine", "--json"), 0, "events are printed no longer"),
    ],
)
def test_what_cannot_be_printed_is_said_unless_its_reader_left_and_training_continues(
    contrast: Contrast, stdout: Callable[[], IO[str]], words: tuple[str, ...], code: int, what: str
) -> None:
    with stdout() as stream:
        done = subprocess.run([*COMMAND, *words], stdout=stream, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == code and (f"{what}: No space left on device" in done.stderr) == bool(what), done.stderr
    assert len(done.stderr.splitlines()) == 2 * code or "--name" in words
    assert "--name" not in words or Run(Path("runs/mine")).status().state == "finished"


def test_an_unexpected_error_has_a_traceback_only_on_request(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "list_runs", Mock(side_effect=ValueError("boom\nand more")))
    refused(contrast("runs", "list"), 1, "ValueError: boom", "--debug")
    assert "Traceback" in contrast("--debug", "runs", "list").err


def test_the_two_lines_stay_two_whatever_a_name_holds(contrast: Contrast) -> None:
    refused(contrast("runs", "show", "a\nb\x1b[31m"), 3, "there is no run")
    refused(contrast(*train("--data", "a\nb.txt")), 3, "there is no file or folder a b.txt")
