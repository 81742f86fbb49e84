"""Pictures as files, opened with the viewer of the system."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from contrastcli.errors import ContrastError
from contrastcli.files import cache_dir
from contrastcli.show import pictures, plots
from contrastcli.show.pictures import Picture


def open_pictures(shown: Sequence[Picture], model: str) -> str:
    """Write the pictures of a model as PNG and SVG, and open them; returns what came of it, in a sentence."""
    (label,) = pictures.labels([model], None).values()
    folder = cache_dir() / "pictures" / label
    try:
        saved = [plots.save(picture, folder) for picture in shown]
    except ContrastError as error:
        return f"{error.what} · {error.hint}"
    opened = [open_file(png) for png, *_ in saved]
    return f"Opened the pictures in {folder}." if all(opened) else f"The pictures are in {folder}."


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
    threading.Thread(target=process.wait, daemon=True).start()  # it may run until closed
    return True
