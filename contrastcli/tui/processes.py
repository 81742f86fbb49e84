"""`contrast …` in child processes: how the app does everything that takes longer than a frame."""

import asyncio
import contextlib
import os
import shlex
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from contrastcli.boundary import PROGRESS
from contrastcli.errors import ErrorRecord, Preempted, in_words
from contrastcli.runs.directory import runs_dir
from contrastcli.runs.events import Progress
from contrastcli.runs.process import CONTRAST
from contrastcli.settings.sections import masked
from contrastcli.tui.widgets import Bars

ShowProgress = Callable[[str], None]
"""Is called with the progress so far, as text."""

_MOST_LINES = 6
"""Of what a process printed that ended without an error of its own."""

_STDERR = msgspec.json.Decoder(Progress | ErrorRecord)

NO_ERROR = ErrorRecord("", ())


@dataclass(frozen=True)
class Finished:
    """What a process left: its result, and what went wrong, empty where all went well."""

    stdout: str
    error: str = ""
    record: ErrorRecord = NO_ERROR
    """The error as the process reported it, if it did."""


@dataclass
class Command:
    """A command that was started; its times are in seconds since the epoch."""

    directory: Path
    words: Sequence[str]
    process: Process
    began: float
    ended: float | None = None

    @property
    def line(self) -> str:
        return command_line(self.directory, self.words)

    @property
    def about(self) -> str:
        """When it began, how long it took, and its exit code where nothing stopped it."""
        code = self.process.returncode
        how = "stopped" if code and (code < 0 or code == Preempted.code) else f"exit {code}"
        end = f"{how:<9} {self.ended - self.began:6.1f} s" if self.ended else "● running"
        return f"{time.strftime('%H:%M:%S', time.localtime(self.began))}  {end}"


def command_line(directory: Path, words: Iterable[str]) -> str:
    """The command to type, without secrets; it names the runs directory where that is not the usual one."""
    elsewhere = directory.resolve() != runs_dir(None).resolve()
    return shlex.join(["contrast", *["--runs-dir", str(directory)] * elsewhere, *map(masked, words)])


COMMANDS: deque[Command] = deque(maxlen=200)
"""The last commands of the app, the newest last."""


async def run_command(directory: Path, *args: str, on_progress: ShowProgress | None = None) -> Finished:
    """Run `contrast` with these arguments on a runs directory. Cancelling this ends the process too."""
    process = await start_process(directory, *args)
    try:
        assert process.stdout
        out, (error, record) = await asyncio.gather(process.stdout.read(), read_error(process, on_progress))
        code = await process.wait()
    finally:
        await end_process(process)
    text = out.decode(errors="replace")
    return Finished(text, error, record) if code else Finished(text)


async def read_error(process: Process, on_progress: ShowProgress | None) -> tuple[str, ErrorRecord]:
    """The error that a command reports on stderr, else the end of what it prints there; progress as it comes.

    The error names fields in place of options.
    """
    lines, bars, error, reported = list[str](), Bars(), "", NO_ERROR
    assert process.stderr
    async for line in process.stderr:
        try:
            record = _STDERR.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            lines.append(line.decode(errors="replace"))
            continue
        if isinstance(record, ErrorRecord):
            where = f" ({label(record.source)})" if record.source else ""
            error, reported = f"{record.what}{where}\nhint: {in_words(record.remedies, label)}", record
        elif on_progress:
            on_progress(bars.update(record))
    error = error or "".join(lines[-_MOST_LINES:]).strip()
    return error or f"exited with code {await process.wait()} and printed nothing", reported


def label(option: str) -> str:
    """The label of the field for an option."""
    return option.removeprefix("--").replace("-", " ") if option.startswith("--") else option


async def start_process(directory: Path, *args: str, stdin: int = DEVNULL) -> Process:
    """Start `contrast` on a runs directory; what it prints is read from its pipes, in lines of any length."""
    environment = {PROGRESS: "json", "PYTHONUNBUFFERED": "1"}
    command = [*CONTRAST, "--runs-dir", str(directory.resolve()), *args]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=stdin, stdout=PIPE, stderr=PIPE, env=os.environ | environment, limit=sys.maxsize
    )
    started = Command(directory, args, process, time.time())
    COMMANDS.append(started)
    asyncio.ensure_future(process.wait()).add_done_callback(lambda _: setattr(started, "ended", time.time()))
    return process


async def end_process(process: Process) -> None:
    """End a process that has not ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
