"""A shell completes commands, options, their values, presets and runs."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command import COMMAND, Answer, Contrast, refused, train


@pytest.fixture
def complete(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> Contrast:
    """Runs `contrast` as bash does for the words that were typed, the last of which is to be completed."""

    def ask(*words: object, stdin: bytes = b"") -> Answer:
        monkeypatch.setenv("COMP_WORDS", " ".join(["contrast", *map(str, words)]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_CONTRAST_COMPLETE", "bash_complete")
        answer = contrast()
        monkeypatch.delenv("_CONTRAST_COMPLETE")
        return answer

    return ask


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("swe",), ["plain,sweep"]),
        (("presets", ""), ["plain,list", "plain,show"]),
        (("completion", ""), ["plain,bash", "plain,fish", "plain,zsh"]),
        (("train", "--batch"), ["plain,--batch-size"]),
        (("train", "--pooling", "me"), ["plain,mean", "plain,mean-no-cls"]),
        (("presets", "show", "start"), ["plain,starter"]),
        (("sweep", "--preset", "simace-gr"), ["plain,simace-grid"]),
    ],
)
def test_a_word_is_completed(complete: Contrast, words: tuple[str, ...], expected: list[str]) -> None:
    assert complete(*words).out.split() == expected


@pytest.mark.parametrize("words", [("watch",), ("query", "--model"), ("train", "--resume")])
def test_runs_are_completed_by_name_and_files_by_the_shell(
    contrast: Contrast, complete: Contrast, words: tuple[str, ...]
) -> None:
    contrast(*train("--data", "tiny/labelled.jsonl", "--name", "mine"))
    assert complete(*words, "m").out.split() == ["file,m", "plain,mine"]
    assert complete("--runs-dir", "elsewhere", *words, "m").out.split() == ["file,m"]


def test_completing_runs_no_ssh_and_tells_no_error(complete: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(os, "execvp", lambda file, words: started.append(file))
    assert complete("watch", "--host", "box", "--js").out.split() == ["plain,--json"]
    assert complete("swep", "--gr") == (0, "\n", "") and not started


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_command_and_the_variable_of_click_give_the_same(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    by_command = contrast("completion", shell)
    monkeypatch.setenv("_CONTRAST_COMPLETE", f"{shell}_source")
    assert by_command.code == 0 and f"_CONTRAST_COMPLETE={shell}_complete" in by_command.out
    assert contrast() == by_command


def test_another_shell_is_refused(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_CONTRAST_COMPLETE", "tcsh_source")
    refused(contrast(), 2, "'tcsh_source'", "bash, fish, zsh")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path: Path, contrast: Contrast) -> None:
    command = tmp_path / "contrast"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    contrast(*train("--data", "tiny/labelled.jsonl", "--name", "mine"))
    script = contrast("completion", "bash").out + "compopt() { :; }\n"
    for words in ("swe", "watch mi", "presets sh"):
        script += f"COMPREPLY=() COMP_WORDS=(contrast {words}) COMP_CWORD={len(words.split())}\n"
        script += f'_contrast_completion {command}\necho "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["sweep", "mine", "show"], done.stderr
