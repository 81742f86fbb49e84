"""Opening files with the viewer of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path


def open_file(path: Path) -> bool:
    """Open a file with the system's viewer; false where there is none, or it would open on another machine (ssh)."""
    if "SSH_CONNECTION" in os.environ:
        return False
    if sys.platform == "win32":
        os.startfile(path)
        return True
    has_screen = sys.platform == "darwin" or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}
    viewer = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    if not viewer or not has_screen:
        return False
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([viewer, path], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    threading.Thread(target=process.wait, daemon=True).start()  # some viewers run until they are closed
    return True
