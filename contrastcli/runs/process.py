"""The process that trains in a run: its lock and heartbeat, how it is launched, asked to stop and waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from contrastcli.errors import RunError
from contrastcli.files import atomic_write, writing_to
from contrastcli.runs.directory import Run
from contrastcli.runs.status import SILENT_AFTER, Status, Writer, this_process

HEARTBEAT = 1.0
"""Seconds between two heartbeats of a training process."""

_POLL = 0.1  # seconds
_CONTRAST = (sys.executable, "-m", "contrastcli")


@contextlib.contextmanager
def hold(run: Run) -> Iterator[Writer]:
    """Lock a run for training and keep its heartbeat; yields the calling process, for the Started event.

    Raises RunError if another process trains there or the directory cannot be written.
    """
    with run.locked():
        writer = this_process()
        with writing_to(run.path):
            atomic_write(run.alive_path, msgspec.json.encode(writer))
            _drop_requests_before(run, writer.process_start - 1.0)  # systems round the start of a process
        ended = threading.Event()
        heartbeat = threading.Thread(target=_beat, args=(run.alive_path, ended), name="heartbeat", daemon=True)
        heartbeat.start()
        try:
            yield writer
        finally:
            ended.set()
            heartbeat.join()
            for path in (run.alive_path, run.stop_path):
                with contextlib.suppress(OSError):  # training has ended, whatever becomes of the disk
                    path.unlink(missing_ok=True)


@contextlib.contextmanager
def handle_signals(handle: Callable[[], None]) -> Iterator[None]:
    """In the body Ctrl-C and SIGTERM call `handle`, and SIGHUP, sent when a connection is lost, does nothing.

    Only a main thread can handle signals; in another one nothing changes.
    """
    wanted: dict[str, Any] = {  # SIGHUP is unknown on Windows
        "SIGINT": lambda number, frame: handle(),
        "SIGTERM": lambda number, frame: handle(),
        "SIGHUP": signal.SIG_IGN,
    }
    if threading.current_thread() is not threading.main_thread():
        wanted = {}
    handlers = {getattr(signal, name): handler for name, handler in wanted.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drop_requests_before(run: Run, moment: float) -> None:
    """Drop a stop request that a killed process has left, but none made since this one was launched."""
    with contextlib.suppress(FileNotFoundError):
        if run.stop_path.stat().st_mtime < moment:
            run.stop_path.unlink()


def _beat(alive: Path, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT):
        with contextlib.suppress(OSError):  # an error of a shared disk that passes is no reason to stop
            os.utime(alive)


def stop_requested(run: Run) -> bool:
    """Whether the training process has been asked to stop."""
    return run.stop_path.exists()


def request_stop(run: Run) -> None:
    """Ask the training process to end its step, save and stop; does nothing where it has ended. Raises RunError."""
    if not run.status().ended:
        with writing_to(run.path):
            run.stop_path.touch()


def wait_for_end(run: Run, timeout: float) -> Status:
    """The status once the run has ended and its process has released it, or after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not _is_released(run, status := run.status()) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return status


def _is_released(run: Run, status: Status) -> bool:
    if not status.ended or status.state == "killed":
        return status.ended
    with contextlib.suppress(FileNotFoundError):  # the last event is written a moment before the heartbeat ends
        if time.time() - run.alive_path.stat().st_mtime <= SILENT_AFTER:
            return False
    with contextlib.suppress(RunError), run.locked():  # and the lock is released a moment after that
        return True
    return False


def launch(run: Run, arguments: Sequence[str], command: Sequence[str] = _CONTRAST) -> int:
    """Start `contrast` with these arguments in a session of its own, its output appended to train.log; returns its pid.

    Until the new process writes `alive` itself, that file names it already. Raises RunError if the run is in progress.
    """
    with run.locked():
        pass
    with writing_to(run.path), open(run.log_path, "ab") as log:
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            creationflags=_creation_flags(),
        )
        atomic_write(run.alive_path, msgspec.json.encode(Writer(socket.gethostname(), process.pid, time.time())))
    # Unless its parent waits for it, a process that has ended stays in the system's table.
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()
    return process.pid


def _creation_flags() -> int:
    if sys.platform == "win32":
        return subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    return 0
