"""Pictures in pixels: what a terminal makes of them is the picture, and only a terminal that shows them gets them."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from contrastcli.show import graphics
from contrastcli.show.graphics import cell_size, encoded, protocol, removal

PIXELS = np.zeros((11, 40, 3), np.uint8)
"""As high as one band of sixels and most of another."""
PIXELS[:, :, 2] = 255
PIXELS[2:9, 5:30] = (224, 31, 0)
PIXELS[4, 8:20:3] = (255, 255, 255)


def as_png(pixels: NDArray[np.uint8]) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="png")
    return stream.getvalue()


def shown(sixels: str) -> NDArray[np.uint8]:
    """What a terminal shows of sixels, by reading them letter by letter."""
    match = re.fullmatch(r'\x1bP0;1q"1;1;(\d+);(\d+)(.*)\x1b\\', sixels)
    assert match
    picture = np.full((int(match[2]), int(match[1]), 3), 7, np.uint8)  # no colour of the picture
    colours: dict[str, tuple[int, ...]] = {}
    x = y = 0
    for number, parts, count, letter in re.findall(r"#(\d+)((?:;\d+)*)|!?(\d*)(.)", match[3]):
        if parts:
            colours[number] = tuple(round(int(part) * 2.55) for part in parts.split(";")[2:])
        elif number:
            colour = colours[number]
        elif letter in "$-":
            x, y = 0, y + 6 * (letter == "-")
        else:
            for bit in range(6):
                if (ord(letter) - 63) >> bit & 1:
                    picture[y + bit, x : x + int(count or 1)] = colour
            x += int(count or 1)
    return picture


def test_sixels_are_the_picture() -> None:
    np.testing.assert_array_equal(shown(encoded(as_png(PIXELS), "sixel", 1)), PIXELS)


def test_kitty_gets_the_file_in_messages_of_the_size_that_it_takes() -> None:
    png = as_png(np.random.default_rng(0).integers(0, 256, (60, 60, 3), np.uint8))
    messages = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", encoded(png, "kitty", 7))
    assert b64decode("".join(data for _, data in messages)) == png
    assert len(messages) > 2 and max(len(data) for _, data in messages) <= 4096
    assert [keys[-3:] for keys, _ in messages] == [*["m=1"] * (len(messages) - 1), "m=0"]
    assert "i=7," in messages[0][0] and "i=7," in removal("kitty", 7)
    assert removal("sixel", 7) == ""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("TERM=xterm-kitty", "kitty"),
        ("TERM=xterm-ghostty TERM_PROGRAM=ghostty", "kitty"),
        ("TERM=xterm-kitty XTERM_VERSION=XTerm(379)", "kitty"),  # opened from an xterm
        ("TERM=foot", "sixel"),
        ("TERM=xterm-256color TERM_PROGRAM=WezTerm", "sixel"),
        ("TERM=xterm-256color LC_TERMINAL=iTerm2", "sixel"),
        ("TERM=xterm XTERM_VERSION=XTerm(379)", "sixel"),
        ("TERM=xterm-256color", None),
        ("TERM=screen LC_TERMINAL=iTerm2 TMUX=/tmp/tmux-0/default,1,0", None),
        ("TERM=tmux-256color TMUX=/tmp/tmux-0/default,1,0 CONTRAST_PICTURES=sixel", "sixel"),
        ("TERM=xterm-kitty CONTRAST_PICTURES=braille", None),
    ],
)
def test_terminals_are_known_by_their_variables(
    monkeypatch: pytest.MonkeyPatch, variables: str, expected: str | None
) -> None:
    monkeypatch.setattr(os, "environ", dict(variable.split("=") for variable in variables.split()))
    assert protocol() == expected
    monkeypatch.setattr(graphics, "find_spec", lambda name: None)
    assert protocol() is None, "matplotlib is not installed"


def test_a_terminal_tells_the_size_of_its_characters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(graphics, "_OUT", theirs)
    assert cell_size() is None
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 725, 432))
    assert cell_size() == (9, 18)
    os.close(ours)
    os.close(theirs)
    with (tmp_path / "piped").open("wb") as file:
        monkeypatch.setattr(graphics, "_OUT", file.fileno())
        assert cell_size() is None
