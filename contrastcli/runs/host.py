"""Another machine, on which `contrast` is run through the system's ssh."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import join, quote

import msgspec

from contrastcli.boundary import printable
from contrastcli.errors import ContrastError, RunError, UsageError
from contrastcli.files import atomic_write, read_json

_FILE = ".host.json"
_COMMAND = "CONTRAST_REMOTE"
_SSH = ("ssh", "-T", "-C", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "--")

# Ends a command when its connection ends: its stdin, on which nothing is sent, is kept open for that.
TIED = "{ exec 3<&0; {} </dev/null & p=$!; (cat <&3; kill $p) >/dev/null 2>&1 & wait $p; }"


class Host(msgspec.Struct, frozen=True):
    """A machine as ssh names it, the folder to work in there (that of a login where empty), and the command there.

    A mirror of its runs has it in a file, with the runs directory there and what is wrong with the connection.
    """

    address: str
    folder: str = ""
    command: str = "contrast"
    directory: str = ""
    problem: str = ""

    @classmethod
    def parse(cls, text: str, directory: str = "") -> Host:
        """The host of `user@machine:folder`, perhaps with a runs directory there. Raises UsageError."""
        address, _, folder = text.partition(":")
        if not re.fullmatch(r"\w[\w.+%-]*(@\w[\w.-]*)?", address):  # a leading - would be an option of ssh
            what = f"'{text}' names no machine"
            raise UsageError(what, "write user@machine or user@machine:folder; ports and the like: ~/.ssh/config")
        return cls(address, re.sub("^~(/|$)", "", folder), os.environ.get(_COMMAND) or "contrast", directory)

    @classmethod
    def of(cls, directory: Path) -> Host | None:
        """The host of which a runs directory is a mirror; None for one of this machine. Raises DataError."""
        return read_json(directory / _FILE, cls)

    def save(self, mirror: Path) -> None:
        """Write it into a mirror. Raises OSError."""
        atomic_write(mirror / _FILE, msgspec.json.encode(self))

    def shell(self, words: Sequence[str], environment: Mapping[str, str] | None = None, form: str = "{}") -> str:
        """The command line of `contrast` with these words there; `form` is put around what is in the folder."""
        directory = ["--runs-dir", self.directory] if self.directory else []
        assigned = "".join(f"{name}={quote(value)} " for name, value in (environment or {}).items())
        line = form.replace("{}", f"{assigned}{self.command} {join([*directory, *words])}")
        return f"cd {quote(self.folder)} && {line}" if self.folder else line

    def argv(self, script: str) -> list[str]:
        """The process here that runs a script there."""
        return [*_SSH, self.address, f"sh -c {quote(script)}"]

    def failure(self, code: int, narration: str) -> ContrastError:
        """Why a process there ended with this code, and the remedy."""
        *_, first, last = ["", "", *(printable(line).strip() for line in narration.splitlines() if line.strip())]
        if code == 127:  # of a shell
            hint = f"set {_COMMAND} to its path there: {_COMMAND}='~/venv/bin/contrast' contrast …"
            return RunError(f"{self.address} has no command {self.command}", hint)
        if code == 255:  # of ssh
            hint = f"ssh {self.address} must log in without a question: by a key and ssh-agent"
            return RunError(f"ssh {self.address}: {last or 'the connection was closed'}", hint)
        if "no command 'serve'" in first:
            return RunError(f"{self.address} has an older contrast, which cannot send its runs", "update it there")
        if first.startswith("contrast: error: "):
            what = f"{self.address}: {first.removeprefix('contrast: error: ')}"
            return RunError(what, last.removeprefix("hint: "))
        return RunError(f"{self.address}: {last or 'the connection was cut'}", f"try there: {self.shell(['runs'])}")


def place(path: Path) -> str:
    """A path in a runs directory as the machine knows it that has it."""
    for folder in (path, *path.parents):
        if host := Host.of(folder):
            return str(Path(host.directory, path.relative_to(folder)))
    return str(path)
