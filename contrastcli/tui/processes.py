"""`contrast …` in child processes: how the app does everything that takes longer than a frame."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contrastcli.boundary import PROGRESS
from contrastcli.runs import events
from contrastcli.runs.events import Progress
from contrastcli.runs.host import TIED, Host
from contrastcli.runs.process import CONTRAST

OnProgress = Callable[[Progress], None]

_LONGEST = 1 << 24  # bytes of a line of output


@dataclass(frozen=True)
class Finished:
    """What a process left: its exit code, its result, and its narration."""

    code: int
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """What went wrong and the hint, with fields in place of options; empty where all went well."""
        if self.code == 0:
            return ""
        lines = [line.removeprefix("contrast: error: ") for line in self.stderr.splitlines() if line.strip()]
        return "\n".join(map(_as_fields, lines[-2:])) or f"exited with code {self.code} and printed nothing"


def _as_fields(line: str) -> str:
    """A line with options as the labels of fields, which are made from them; a command line stays as it is."""
    return line if "contrast " in line else re.sub(r"--([a-z]+(-[a-z]+)*)", lambda m: m[1].replace("-", " "), line)


async def run_command(directory: Path, *args: str, on_progress: OnProgress | None = None) -> Finished:
    """Run `contrast` with these arguments on a runs directory. Cancelling this ends the process too."""
    process = await start_process(directory, *args)
    out, narration = b"", ""
    try:
        assert process.stdout and process.stderr
        out, narration = await asyncio.gather(process.stdout.read(), read_narration(process.stderr, on_progress))
        code = await process.wait()
    finally:
        await end_process(process)
    return Finished(code, out.decode(errors="replace"), narration)


async def read_narration(stream: asyncio.StreamReader, on_progress: OnProgress | None) -> str:
    """What a process prints on stderr until its end, without its progress, which is reported as it comes."""
    lines: list[str] = []
    async for line in stream:
        event = events.decode(line)
        if not isinstance(event, Progress):
            lines.append(line.decode(errors="replace"))
        elif on_progress:
            on_progress(event)
    return "".join(lines)


async def start_process(directory: Path, *args: str, stdin: int = DEVNULL) -> Process:
    """Start `contrast` on a runs directory, on the host of a mirror; what it prints is read from its pipes."""
    environment = {PROGRESS: "json", "PYTHONUNBUFFERED": "1"}
    command = [*CONTRAST, "--runs-dir", str(directory.resolve()), *args]
    if host := Host.of(directory):
        words = [word.replace(str(directory.resolve()), host.directory) for word in args]
        command = host.argv(host.shell(words, environment, "{}" if stdin == PIPE else TIED))
        stdin = PIPE
    made = asyncio.create_subprocess_exec(
        *command, stdin=stdin, stdout=PIPE, stderr=PIPE, env=os.environ | environment, limit=_LONGEST
    )
    starting = asyncio.ensure_future(made)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:  # while it starts: nobody else knows of it yet
        await end_process(await starting)
        raise


async def end_process(process: Process) -> None:
    """End a process that has not ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
