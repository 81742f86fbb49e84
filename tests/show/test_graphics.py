"""Pictures in pixels: what a terminal makes of them is the picture, and only a terminal that shows them gets them."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
import threading
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from contrastcli.show import graphics
from contrastcli.show.graphics import encoded, protocol, removal

pytest.importorskip("matplotlib")
PIXELS = np.zeros((11, 40, 3), np.uint8)
"""As high as one band of sixels and most of another."""
PIXELS[:, :, 2] = 255
PIXELS[2:9, 5:30] = (255, 0, 0)
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
    np.testing.assert_array_equal(shown(encoded(as_png(PIXELS), "sixel")), PIXELS)


def test_kitty_gets_the_file_in_messages_of_the_size_that_it_takes() -> None:
    png = as_png(np.random.default_rng(0).integers(0, 256, (60, 60, 3), np.uint8))
    messages = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", encoded(png, "kitty", 7))
    assert b64decode("".join(data for _, data in messages)) == png
    assert len(messages) > 2 and max(len(data) for _, data in messages) <= 4096
    assert [keys[-3:] for keys, _ in messages] == [*["m=1"] * (len(messages) - 1), "m=0"]
    assert "i=7," in messages[0][0] and "i=7," in removal("kitty", 7)
    assert removal("sixel", 7) == ""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of stdin and stdout, which are a terminal of 80×24 characters of 9×18 pixels."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 720, 432))
    monkeypatch.setattr(graphics, "_IN", theirs)
    monkeypatch.setattr(graphics, "_OUT", theirs)
    monkeypatch.setattr(graphics, "_PATIENCE", 0.05)
    monkeypatch.setattr(os, "tcgetpgrp", lambda stream: os.getpgrp())  # a terminal of another session has none
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield ours
    os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"\x1b[?62;4;22c", "sixel"),
        (b"\x1b[?63;1;2;4c", "sixel"),
        (b"\x1b[?4;6c", None),  # a VT132
        (b"\x1b[?64;1;2;22;44c", None),
        (b"", None),
    ],
)
def test_a_terminal_says_whether_it_shows_sixels(terminal: int, reply: bytes, expected: str | None) -> None:
    questions: list[bytes] = []

    def answer() -> None:
        questions.append(os.read(terminal, 64))
        os.write(terminal, reply)

    answering = threading.Thread(target=answer)
    answering.start()
    before = termios.tcgetattr(graphics._IN)
    assert protocol() == expected
    answering.join()
    assert questions == [b"\x1b[c"]
    assert termios.tcgetattr(graphics._IN) == before


def test_what_is_typed_ahead_is_left_to_the_app(terminal: int) -> None:
    os.write(terminal, b"3\n")
    assert protocol() is None
    assert os.read(graphics._IN, 8) == b"3\n"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-kitty", "NO_COLOR": "1"}, None),
        ({"TERM": "xterm-kitty", "CONTRAST_PICTURES": "braille"}, None),
        ({"CONTRAST_PICTURES": "sixel"}, "sixel"),
    ],
)
def test_variables_decide_without_asking(
    terminal: int, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert protocol() == expected


def test_a_pipe_and_a_terminal_without_pixels_get_no_pictures(
    terminal: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "xterm-kitty")
    fcntl.ioctl(graphics._OUT, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    assert protocol() is None
    with (tmp_path / "piped").open("wb") as file:
        monkeypatch.setattr(graphics, "_OUT", file.fileno())
        assert protocol() is None
