"""The app's terminal, which goes away with its window, its multiplexer or its connection."""

import os
import signal
import sys
import threading
import time
from typing import Any

from textual.app import App

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 2.0  # to end by itself
_STREAMS = (0, 1, 2)


def end_with_terminal(app: App[Any]) -> None:
    """From now on, end the app once its terminal has gone, or for SIGHUP, SIGINT and SIGTERM. Needs the main thread."""
    if sys.platform == "win32":
        return
    asked = threading.Event()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: asked.set())

    def watch() -> None:
        while not asked.wait(_POLL_SECONDS) and not _is_gone():
            pass
        if _is_gone():  # what is still drawn fails nowhere
            null = os.open(os.devnull, os.O_RDWR)
            for stream in _STREAMS:
                os.dup2(null, stream)
        app.call_later(app.exit)
        time.sleep(_GRACE_SECONDS)
        # The app may wait for a thread that a write to the terminal has ended.
        os._exit(0)

    threading.Thread(target=watch, name="terminal", daemon=True).start()


def _is_gone() -> bool:
    import termios  # unknown on Windows

    try:
        for stream in _STREAMS:
            termios.tcgetattr(stream)
    except termios.error:
        return True
    return False
