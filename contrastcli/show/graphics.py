"""Pictures in pixels, for terminals that show them: by kitty's protocol, or as sixels."""

from __future__ import annotations

import io
import os
import re
import struct
from base64 import b64encode
from importlib.util import find_spec
from typing import Literal

Protocol = Literal["kitty", "sixel"]

_KITTY = {"kitty", "xterm-kitty", "xterm-ghostty"}
_SIXEL = {"sixel", "foot", "foot-extra", "mlterm", "WezTerm", "iTerm.app", "iTerm2"}
_OUT = 1
_CHUNK = 4096  # letters in one message to kitty
_COLOURS = 64
_BAND = 6  # rows of pixels in one row of sixels


def protocol() -> Protocol | None:
    """What CONTRAST_PICTURES says, else what the terminal is known to show; None without matplotlib.

    The terminal is not asked: it may answer late, when the app takes that for keys. One without sixels ignores them.
    """
    terminal = {os.environ.get(name) for name in ("TERM", "TERM_PROGRAM", "LC_TERMINAL")}
    if chosen := os.environ.get("CONTRAST_PICTURES"):
        terminal = {chosen}
    elif os.environ.keys() & {"TMUX", "STY"}:  # which pass on neither
        return None
    elif "XTERM_VERSION" in os.environ:
        terminal.add("sixel")
    kitty, sixel = terminal & _KITTY, terminal & _SIXEL
    return ("kitty" if kitty else "sixel" if sixel else None) if find_spec("matplotlib") else None


def cell_size() -> tuple[int, int] | None:
    """The width and height of a character in pixels, where the terminal says so."""
    try:
        import fcntl  # unknown on Windows, as termios is
        import termios

        rows, columns, *pixels = struct.unpack("4H", fcntl.ioctl(_OUT, termios.TIOCGWINSZ, bytes(8)))
    except (ImportError, OSError):
        return None
    return (pixels[0] // columns, pixels[1] // rows) if all((rows, columns, *pixels)) else None


def encoded(png: bytes, protocol: Protocol, number: int) -> str:
    """What shows a picture where the cursor is, instead of an earlier one of that number."""
    if protocol == "sixel":
        return _sixels(png)
    data = b64encode(png).decode("ascii")
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    keys = f"a=T,f=100,i={number},p=1,C=1,q=2,m=1"
    return "".join(f"\x1b_G{'m=1' if n else keys};{chunk}\x1b\\" for n, chunk in enumerate(chunks)) + "\x1b_Gm=0;\x1b\\"


def removal(protocol: Protocol, number: int) -> str:
    """What takes a picture away. Text replaces sixels, so that these need nothing."""
    return f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\" if protocol == "kitty" else ""


def _sixels(png: bytes) -> str:
    """Bands of six rows of pixels, of which each colour has its own in turn."""
    import numpy as np
    from PIL import Image  # matplotlib brings it

    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(_COLOURS)
    pixels = np.asarray(image)  # (height, width), numbers of colours
    palette = (np.asarray(image.getpalette()).reshape(-1, 3) * 100 + 127) // 255
    colours = "".join(f"#{n};2;{r};{g};{b}" for n, (r, g, b) in enumerate(palette))
    bands = []
    for band in np.split(pixels, range(_BAND, len(pixels), _BAND)):
        rows = []
        for n in np.unique(band):
            sixels = np.packbits(band == n, axis=0, bitorder="little")[0] + ord("?")  # (width,)
            rows.append(
                f"#{n}" + re.sub(r"(.)\1{3,}", lambda run: f"!{len(run[0])}{run[1]}", sixels.tobytes().decode())
            )
        bands.append("$".join(rows))
    return f'\x1bP0;1q"1;1;{image.width};{image.height}{colours}{"-".join(bands)}\x1b\\'
