"""The app in a terminal of its own, which goes away: the app ends, and training does not."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from functools import partialmethod
from pathlib import Path
from typing import Self

import psutil
import pytest

from contrastcli.tui import app
from support.command import COMMAND
from support.waiting import wait_until

SECONDS = 30  # at most, on a slow machine


class Terminal:
    """A process in a terminal; `inputs` is where its keys come from, the terminal unless that is another."""

    def __init__(self, *words: str, ignores_hangup: bool = False, own_input: bool = False, size: int = 24) -> None:
        self.screen, stdout = pty.openpty()
        self.inputs, stdin = pty.openpty() if own_input else (self.screen, stdout)
        fcntl.ioctl(stdout, termios.TIOCSWINSZ, struct.pack("HHHH", size, 4 * size, 0, 0))

        def take_terminal() -> None:
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_hangup else signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        environment = os.environ | {"TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=stdin,
            stdout=stdout,
            stderr=stdout,
            env=environment,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        for stream in {stdin, stdout}:
            os.close(stream)

    def read_until(self, text: bytes) -> bytes:
        """What the process has drawn, as soon as that has this text in it."""
        deadline, drawn = time.monotonic() + SECONDS, b""
        while text not in drawn:
            assert time.monotonic() < deadline, drawn
            if select.select([self.screen], [], [], 0.1)[0]:
                drawn += os.read(self.screen, 1 << 16)
        return drawn

    def hang_up(self) -> None:
        os.close(self.screen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.parametrize("options", [{}, {"ignores_hangup": True}, {"ignores_hangup": True, "own_input": True}])
def test_the_app_ends_when_its_terminal_goes(options: dict[str, bool]) -> None:
    with Terminal("tui", **options) as terminal:
        terminal.read_until(b"leave")
        terminal.hang_up()
        assert terminal.process.wait(SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_app_and_restores_the_terminal(number: signal.Signals) -> None:
    with Terminal("tui") as terminal:
        terminal.read_until(b"leave")
        terminal.process.send_signal(number)
        terminal.read_until(b"\x1b[?1049l")  # the usual screen again
        assert terminal.process.wait(SECONDS) == 0


def test_the_app_is_drawn_anew_when_it_continues() -> None:
    with Terminal("tui") as terminal:
        terminal.read_until(b"leave")
        terminal.process.send_signal(signal.SIGTSTP)
        terminal.read_until(b"\x1b[?1049l")
        wait_until(lambda: psutil.Process(terminal.process.pid).status() == psutil.STATUS_STOPPED)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read_until(b"5 Query")


def test_a_tiny_terminal_shows_what_fits() -> None:
    with Terminal("tui", size=1) as terminal:
        terminal.read_until(b"\x1b[?2004h")  # it takes keys
        os.write(terminal.inputs, b"q")
        terminal.read_until(b"\x1b[?1049l")
        assert terminal.process.wait(SECONDS) == 0


def test_an_error_of_the_app_is_raised_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail(self: app.ContrastApp) -> None:
        raise ZeroDivisionError("no room")

    monkeypatch.setattr(app, "end_with_terminal", lambda shown: None)
    monkeypatch.setattr(app.ContrastApp, "on_mount", fail)
    monkeypatch.setattr(app.ContrastApp, "run", partialmethod(app.ContrastApp.run, headless=True))
    with pytest.raises(ZeroDivisionError, match="no room"):
        app.show(tmp_path)
    assert "Traceback" not in capfd.readouterr().err


def test_nothing_is_selected_before_the_first_screen_is_shown(tmp_path: Path) -> None:
    """Textual asks for that from Python 3.12 on, where tasks begin at once."""
    app.ContrastApp(tmp_path).clear_selection()
