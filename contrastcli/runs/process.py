"""The process that trains a run: lock and heartbeat, launching it, asking it to stop, waiting for its end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from contrastcli.boundary import PROGRESS
from contrastcli.errors import InterruptedEarly, InUse, Preempted, Preemption, RunError, UsageError
from contrastcli.files import atomic_write, writing_to
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Queued, Started
from contrastcli.runs.status import IN_PROGRESS, Status, Writer, read_writer, this_process
from contrastcli.settings import sections
from contrastcli.settings.objective import no_negatives

HEARTBEAT = 1.0
"""Seconds between two heartbeats of a training process."""

_ALIVE_BYTES = 512
"""Of a heartbeat file, filled up with blanks."""

CONTRAST = (sys.executable, "-P", "-m", "contrastcli")
"""The command line, as a process is started with it: no file of the working folder stands for a module."""

_OF_ONE_PROCESS = (PROGRESS, "WORLD_SIZE", "RANK", "LOCAL_RANK", "SLURM_STEP_ID")
"""Variables that a process in the background does not inherit: of what it prints, and of torchrun's or srun's tasks."""

POLL_SECONDS, QUEUE_POLL_SECONDS = 0.1, 0.5


def slurm_tasks(given: Mapping[str, str]) -> str:
    """How many tasks srun started with this process, each of which would else train a run of its own.

    A job's script, which is one process however many tasks the job has, is in no step.
    """
    tasks = given.get("SLURM_STEP_NUM_TASKS", given.get("SLURM_NTASKS", "1"))
    return tasks if "SLURM_STEP_ID" in given else "1"


@contextlib.contextmanager
def hold(run: Run) -> Iterator[Writer]:
    """Lock a run for training and keep its heartbeat; yields the calling process, whose step the training counts.

    Raises RunError if another process trains there or the directory cannot be written.
    """
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT):
            _beat(run, writer)

    with run.locked():
        writer = this_process()
        with writing_to(run.path):
            atomic_write(run.alive_path, msgspec.json.encode(writer).ljust(_ALIVE_BYTES))
            # A request to an earlier process is not meant for this one, whose start the system has rounded.
            with contextlib.suppress(FileNotFoundError):
                if run.stop_path.stat().st_mtime < writer.process_start - 1.0:
                    run.stop_path.unlink()
        heartbeat = threading.Thread(target=beat, name="heartbeat", daemon=True)
        heartbeat.start()
        try:
            yield writer
        finally:
            ended.set()
            heartbeat.join()
            with contextlib.suppress(OSError):
                if _is_own(run, writer):
                    run.alive_path.unlink()
                    run.stop_path.unlink(missing_ok=True)


def _beat(run: Run, writer: Writer) -> None:
    # A shared disk that fails, or memory that runs out, for a moment is no reason to stop.
    with contextlib.suppress(OSError, MemoryError):
        os.utime(run.alive_path)
        if writer.step and _is_own(run, writer):
            # In place and never shorter, so that readers find it whole, and a full disk has room for it.
            with open(run.alive_path, "r+b") as file:
                file.write(msgspec.json.encode(writer).ljust(_ALIVE_BYTES))


def _is_own(run: Run, writer: Writer) -> bool:
    """Whether the heartbeat is this one's: where a run was removed, another process may train one of its name."""
    return writer.same_as(read_writer(run.alive_path))


@contextlib.contextmanager
def handle_signals(handle: Callable[[int], None]) -> Iterator[None]:
    """In the body, Ctrl-C, SIGTERM and SIGUSR1 call `handle`, and SIGHUP, sent when a connection is lost, does nothing.

    One that is ignored already stays so, as Ctrl-C in what a script starts in the background. Only the main thread can
    handle signals; in any other this does nothing.
    """
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), lambda number, frame: handle(number))
        # Windows knows neither SIGHUP nor SIGUSR1.
        if hasattr(signal, "SIGHUP"):
            handlers |= {signal.SIGHUP: signal.SIG_IGN, signal.SIGUSR1: handlers[signal.SIGTERM]}
    caught = {number: handler for number, handler in handlers.items() if signal.getsignal(number) != signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in caught.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interruption(number: int) -> KeyboardInterrupt:
    """What a signal raises where nothing can be saved."""
    return KeyboardInterrupt() if number == signal.SIGINT else Preemption()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In the body a signal raises its interruption, which leaves it whatever a library makes of that.

    An import that is interrupted may go on, or fail with an error of another kind when it is tried again.
    """
    raised: list[KeyboardInterrupt] = []

    def interrupt(number: int) -> NoReturn:
        raised.append(interruption(number))
        raise raised[-1]

    with handle_signals(interrupt):
        try:
            yield
        except Exception as error:
            if not raised or isinstance(error, InterruptedEarly | Preempted):
                raise
    if raised:
        raise raised[0]


def request_stop(run: Run) -> None:
    """Ask the training process to save and stop; does nothing if it has ended. Raises RunError."""
    if not run.status().ended:
        with writing_to(run.path):
            run.stop_path.touch()


def left_out(run: Run) -> frozenset[tuple[str, str]]:
    """The pairs of an anchor and a negative that were left out of a run's negatives since it began."""
    try:
        pairs = msgspec.json.Decoder(dict[str, str]).decode_lines(run.false_negatives_path.read_bytes())
        return frozenset((pair["anchor"], pair["negative"]) for pair in pairs)
    # There is none yet, or a file that training does not take either, and says so.
    except (OSError, msgspec.DecodeError, KeyError):
        return frozenset()


def exclude(run: Run, anchor: str, negative: str, undo: bool = False) -> None:
    """Leave a pair of texts out of the negatives from the next step of training on, or with `undo` no longer.

    Raises UsageError, and RunError where it cannot be written.
    """
    import filelock

    path, spec = run.false_negatives_path, run.config().spec
    if spec.negatives is no_negatives:
        raise UsageError(f"'{spec.name}', the objective of {run.name}, has no negatives", "leave rows out of its data")
    line = msgspec.json.encode({"anchor": anchor, "negative": negative}) + b"\n"
    with writing_to(run.path), filelock.FileLock(path.with_name(f".{path.name}.lock")):
        known = path.read_bytes() if path.exists() else b""
        # Other programs write no end of the last line.
        known += b"\n" * (known[-1:] not in (b"", b"\n"))
        if undo and line not in known:
            raise UsageError(f"these two were not left out in {run.name}", f"the pairs are in {path}")
        if undo and known == line:
            path.unlink()
        elif undo or line not in known:
            atomic_write(path, known.replace(line, b"") if undo else known + line)


def wait_behind(other: Run, run: Run, emit: Callable[[Event], object], step: int, *passed: str) -> None:
    """Wait until another run has ended or is deleted, and the one that it waited for if it ended before that began.

    Those `passed` have been waited for. Raises KeyboardInterrupt when `run` is asked to stop.
    """
    emit(Queued(step=step, behind=other.name))
    while other.exists():
        # A run that is being deleted cannot be read.
        with contextlib.suppress(OSError):
            if wait_for_end(other, QUEUE_POLL_SECONDS).ended:
                last = next(other.latest(Queued, Started), None)
                # It left the queue behind this run, which now is behind it.
                if isinstance(last, Queued) and last.behind not in (run.name, *passed):
                    wait_behind(Run(other.path.parent / last.behind), run, emit, step, *passed, other.name)
                return
        if run.stop_path.exists():
            raise KeyboardInterrupt


def wait_for_end(run: Run, timeout: float) -> Status:
    """The status once the run has ended and its process has released the lock, or after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        status = run.status()
        if status.state == "killed" or time.monotonic() >= deadline:
            return status
        # A process writes its last event, and a moment later releases the lock.
        if status.ended:
            try:
                with run.locked():
                    return status
            except InUse:
                pass
            # As on a full disk, where a lock cannot be made.
            except RunError:
                return status
        time.sleep(POLL_SECONDS)


def launch(run: Run, arguments: Sequence[str], command: Sequence[str] = CONTRAST) -> int:
    """Start `contrast` with these arguments in its own session, append its output to train.log, and return its pid.

    Writes `alive` for the new process, until that does so itself. Raises InUse if the run is in progress.
    """
    with run.locked(), writing_to(run.path):
        # Another one was started while this one waited for the lock, which its process does not hold yet.
        if run.alive_path.exists() and run.status().state in IN_PROGRESS:
            raise InUse(f"a process is starting in {run.path}", f"contrast watch {run.word} shows it")
        # The run has its settings, and a resume would take those of variables before flags typed here.
        settled = [setting.variable for setting in sections.all_settings().values()]
        pid = start_detached([*command, *arguments], run.log_path, settled)
        # It trains; where the disk is full it will say so itself.
        with contextlib.suppress(OSError):
            atomic_write(run.alive_path, msgspec.json.encode(Writer(socket.gethostname(), pid, time.time())))
    return pid


def start_detached(command: Sequence[str], log: Path, unset: Sequence[str] = ()) -> int:
    """Start a process in its own session, append its output to a file, and return its pid. Raises RunError.

    It gets no variable that is to be `unset`.
    """
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    with writing_to(log), open(log, "ab") as output:
        process = subprocess.Popen(
            command,
            env={name: value for name, value in os.environ.items() if name not in (*_OF_ONE_PROCESS, *unset)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            creationflags=flags,
        )
    # A process that has ended stays in the system's table until its parent waits for it.
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()
    return process.pid
