"""Pictures in pixels, for terminals that show them: by kitty's protocol, or as sixels."""

from __future__ import annotations

import io
import os
import re
import struct
from base64 import b64encode
from importlib.util import find_spec
from select import select
from typing import Literal, cast, get_args

Protocol = Literal["kitty", "sixel"]

PICTURES = "CONTRAST_PICTURES"
"""`kitty` or `sixel`, whatever the terminal says of itself; anything else for characters."""

_IN, _OUT = 0, 1
_PATIENCE = 1.0  # seconds for the terminal's answer, which comes over the network where that is between
_ATTRIBUTES = re.compile(rb"\x1b\[\?\d+;([\d;]*)c")  # of the terminal; 4 means sixels
_KITTY = ("xterm-kitty", "xterm-ghostty")
_CHUNK = 4096  # letters in one message to kitty
_COLOURS = 64
_BAND = 6  # rows of pixels in one row of sixels


def protocol() -> Protocol | None:
    """How this terminal shows pictures in pixels; None if it does not, or where matplotlib is not installed.

    The terminal is asked, unless something has been typed ahead, which reading its answer would take away.
    """
    if chosen := os.environ.get(PICTURES):
        return cast(Protocol, chosen) if chosen in get_args(Protocol) else None
    if os.environ.get("NO_COLOR") or not find_spec("matplotlib") or not cell_size():
        return None
    if os.environ.get("TERM") in _KITTY:
        return "kitty"
    return "sixel" if b"4" in _attributes() else None


def cell_size() -> tuple[int, int] | None:
    """The width and height of a character in pixels, if the terminal says so."""
    try:
        import fcntl  # unknown on Windows, as termios is
        import termios

        answer = fcntl.ioctl(_OUT, termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError):
        return None
    rows, columns, width, height = struct.unpack("4H", answer)
    return (width // columns, height // rows) if rows and columns and width and height else None


def _attributes() -> list[bytes]:
    """What the terminal says that it can do (DA1); nothing in the background, where a question would stop us."""
    import termios
    import tty

    try:
        before = termios.tcgetattr(_IN)
        if os.tcgetpgrp(_IN) != os.getpgrp():
            return []
        tty.setcbreak(_IN, termios.TCSANOW)
        try:
            return [] if _waits(0) else _ask()
        finally:
            termios.tcsetattr(_IN, termios.TCSANOW, before)
    except (termios.error, OSError):
        return []


def _ask() -> list[bytes]:
    os.write(_OUT, b"\x1b[c")
    answer = b""
    while not (match := _ATTRIBUTES.search(answer)):
        if not _waits(_PATIENCE) or not (more := os.read(_IN, 64)):
            return []
        answer += more
    return match[1].split(b";")


def _waits(seconds: float) -> bool:
    """Whether there is something to read within that time."""
    return bool(select([_IN], [], [], seconds)[0])


def encoded(png: bytes, protocol: Protocol, number: int = 0) -> str:
    """What shows a picture where the cursor is. With a `number`, it replaces that of the same, and no cursor moves."""
    if protocol == "sixel":
        return _sixels(png)
    data = b64encode(png).decode("ascii")
    chunks = [data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK)]
    first = "a=T,f=100,q=2," + (f"{_number(number)},p=1,C=1," if number else "")
    heads = [first, *("" for _ in chunks[1:])]
    last = len(chunks) - 1
    return "".join(f"\x1b_G{heads[n]}m={int(n < last)};{chunk}\x1b\\" for n, chunk in enumerate(chunks))


def removal(protocol: Protocol, number: int) -> str:
    """What takes a picture away. Text replaces sixels, so that these need nothing."""
    return f"\x1b_Ga=d,d=I,{_number(number)},q=2\x1b\\" if protocol == "kitty" else ""


def _number(number: int) -> str:
    return f"i={number % 2**32 or 1}"


def _sixels(png: bytes) -> str:
    """Bands of six rows of pixels, of which each colour has its own in turn."""
    import numpy as np
    from PIL import Image  # matplotlib brings it

    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(_COLOURS)
    pixels = np.asarray(image)  # (height, width), numbers of colours
    palette = np.asarray(image.getpalette()).reshape(-1, 3) * 100 // 255
    colours = "".join(f"#{n};2;{r};{g};{b}" for n, (r, g, b) in enumerate(palette))
    bands = []
    for top in range(0, len(pixels), _BAND):
        band = pixels[top : top + _BAND]
        rows = []
        for n in np.unique(band):
            sixels = np.left_shift(band == n, np.arange(len(band))[:, None]).sum(axis=0) + ord("?")  # (width,)
            text = sixels.astype(np.uint8).tobytes().decode("ascii")
            rows.append(f"#{n}" + re.sub(r"(.)\1{3,}", lambda run: f"!{len(run[0])}{run[1]}", text))
        bands.append("$".join(rows))
    height, width = pixels.shape
    return f'\x1bP0;1q"1;1;{width};{height}{colours}{"-".join(bands)}\x1b\\'
