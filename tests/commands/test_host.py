"""--host: the same command on another machine, by the system's ssh in place of this process."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import COMMAND, Contrast, refused
from support.recorded import recorded

_SSH = """#!/bin/sh
while [ $# -gt 1 ]; do shift; done
cd {there} && exec sh -c "$1"
"""


class Left(Exception):
    """This process has become another one."""


@pytest.fixture
def argv(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this process is replaced by."""
    words: list[str] = []

    def execvp(file: str, args: list[str]) -> None:
        assert file == args[0]
        words.extend(args)
        raise Left

    monkeypatch.setattr(os, "execvp", execvp)
    return words


@pytest.mark.parametrize(
    ("words", "address", "command"),
    [
        (["tui", "--no-mouse", "--host", "ann@box"], "ann@box", "contrast tui --no-mouse"),
        (["watch", "--host=box:my project", "last"], "box", "cd 'my project' && contrast watch last"),
        (["runs", "list", "--host", "box:~/a", "--json"], "box", "cd a && contrast runs list --json"),
        (["--runs-dir", "/all runs", "watch", "--host", "box:~"], "box", "contrast --runs-dir '/all runs' watch"),
        (["tui", "--host", "box:$(x)", "a;b"], "box", "cd '$(x)' && contrast tui 'a;b'"),
    ],
)
def test_ssh_gets_the_command_without_the_host(
    contrast: Contrast, argv: list[str], words: list[str], address: str, command: str
) -> None:
    contrast(*words)
    assert argv == ["ssh", "-n", "--", address, command]


def test_a_terminal_here_is_one_there(contrast: Contrast, argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrastcli.boundary.on_a_terminal", lambda: True)
    monkeypatch.setenv("CONTRAST_REMOTE", "~/venv/bin/contrast")
    contrast("tui", "--host", "box")
    assert argv == ["ssh", "-t", "--", "box", "~/venv/bin/contrast tui"]


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "", ":runs", "ann@", "ann@:runs", "ssh://box:2222"])
def test_what_names_no_machine_is_refused(contrast: Contrast, argv: list[str], host: str) -> None:
    refused(contrast("watch", f"--host={host}"), 2, "names no machine", "user@HOST:DIR")
    assert not argv


def test_without_ssh(contrast: Contrast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(contrast("tui", "--host", "box"), 1, "there is no command ssh here", "OpenSSH")


def test_a_run_there_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path / "there" / "project" / "runs", "diverged")
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(_SSH.format(there=shlex.quote(str(tmp_path / "there"))))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CONTRAST_REMOTE", f"env CONTRAST_RUNS=runs {shlex.quote(sys.executable)} -m contrastcli")
    words = [*COMMAND, "watch", "--json", "--host", "box:project"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, run.events_path.read_text())
