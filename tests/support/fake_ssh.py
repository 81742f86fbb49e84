"""A stand-in for ssh, which runs the command on this machine."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

_SSH = """#!{python} -IS
import os, subprocess, sys, threading

if os.path.exists("{folder}/cut"):
    print("ssh: no route to host", file=sys.stderr)
    sys.exit(255)
pipe = subprocess.PIPE
child = subprocess.Popen(["sh", "-c", sys.argv[-1]], stdin=pipe, stdout=pipe, stderr=pipe, cwd="{folder}")

def pump(source, to):
    while data := os.read(source, 1 << 16):
        os.write(to, data)

threading.Thread(target=lambda: (pump(0, child.stdin.fileno()), child.stdin.close()), daemon=True).start()
pumps = [threading.Thread(target=pump, args=pair) for pair in ((child.stdout.fileno(), 1), (child.stderr.fileno(), 2))]
[thread.start() for thread in pumps]
[thread.join() for thread in pumps]
os._exit(child.wait())
"""


def install_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch, command: str = "") -> Path:
    """Let `ssh` run commands in a folder of this machine while the returned path does not exist.

    `command` is how to call contrast there.
    """
    script = folder / "bin" / "ssh"
    script.parent.mkdir()
    script.write_text(_SSH.format(python=sys.executable, folder=folder))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CONTRAST_REMOTE", command or f"{shlex.quote(sys.executable)} -m contrastcli")
    return folder / "cut"
