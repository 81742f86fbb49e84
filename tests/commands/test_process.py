"""The command as a process: signals, pipes, a full disk, and unexpected errors."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from contrastcli.runs import directory as runs
from contrastcli.runs import process
from contrastcli.runs.directory import Run
from support.command import COMMAND, LABELLED, Contrast, refused, train


@pytest.mark.parametrize("words", [("train", "--lr", "nan"), ("runs", "show", "nothing"), ("trian",)])
def test_the_installed_command_gives_the_same_two_lines(contrast: Contrast, words: tuple[str, ...]) -> None:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60)
    here = contrast(*words)
    assert (done.returncode, done.stdout, done.stderr) == (here.code, "", here.err)
    assert len(done.stderr.splitlines()) == 2 and here.code in (2, 3)


def test_no_file_of_the_working_folder_stands_for_a_module_in_the_background(contrast: Contrast) -> None:
    Path("random.py").write_text("raise SystemExit('not mine')\n")
    done = subprocess.run([*process.CONTRAST, "runs", "list", "--json"], capture_output=True, text=True, timeout=60)
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
    _, err = asking.communicate(timeout=60)
    assert (asking.returncode, err.splitlines()) == (130, ["contrast: error: interrupted", "hint: nothing was changed"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_behind_stdout_is_two_lines() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "presets"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert "stdin or stdout: No space left on device" in done.stderr and len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("words", [("presets",), ("train", "--help")])
def test_a_reader_that_leaves_early_is_no_error(words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_training_continues_when_the_reader_of_its_path_has_gone(contrast: Contrast) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as stdout:
        command = [*COMMAND, *train(*LABELLED, "--name", "mine", "--no-ui")]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert Run(Path("runs/mine")).status().state == "finished"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize(
    ("flag", "code", "what"),
    [("--json", 0, "events are printed no longer"), ("--no-ui", 1, "the path runs/mine on stdout")],
)
def test_training_continues_on_a_full_disk_behind_stdout_and_says_so(
    contrast: Contrast, flag: str, code: int, what: str
) -> None:
    with open("/dev/full", "w") as full:
        command = [*COMMAND, *train(*LABELLED, "--name", "mine", flag)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert f"{what}: No space left on device" in done.stderr and done.returncode == code
    assert Run(Path("runs/mine")).status().state == "finished"


def test_an_unexpected_error_has_a_traceback_only_on_request(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("boom\nand more")

    monkeypatch.setattr(runs, "list_runs", fail)
    refused(contrast("runs", "list"), 1, "ValueError: boom", "--debug")
    assert "Traceback" in contrast("--debug", "runs", "list").err


def test_the_two_lines_stay_two_whatever_a_name_holds(contrast: Contrast) -> None:
    refused(contrast("runs", "show", "a\nb\x1b[31m"), 3, "there is no run")
    refused(contrast(*train("--data", "a\nb.txt")), 3, "there is no file or folder a b.txt")
