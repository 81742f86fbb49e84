"""A grid of characters over ranges of x and y: lines and marks in braille dots, and areas in colours behind them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from contrastcli.show.pictures import Band, Range

FULL = 4
"""The most that the ink of an area has of positives or of negatives."""

Ink = int | tuple[int, int]
"""0 for ticks and labels, or for nothing behind; 1 and up for lines; what an area has of positives and negatives."""

_GAP, _MISSING = (1, 0), (0, 2)
"""Of a band."""


class Glyph(NamedTuple):
    """Neighbouring characters of a row with their ink, and the ink of what is behind them."""

    text: str
    ink: Ink = 0
    ground: Ink = 0


Glyphs = list[Glyph]
"""One row."""

_DOT_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of a braille character, by row and column."""
_LETTERS = "*+ox%&$@"
"""What lines are drawn in where there are no braille dots, by their ink."""


@dataclass(frozen=True)
class Face:
    """What a terminal can show, besides letters."""

    colours: bool = True
    braille: bool = True

    def letter(self, ink: int) -> str:
        """What a line in this ink is drawn in without dots."""
        return _LETTERS[(ink - 1) % len(_LETTERS)] if ink > 0 else "."


class Canvas:
    """A grid of characters, each of two by four dots, over ranges of x and y."""

    def __init__(self, width: int, height: int, x: Range, y: Range, face: Face = Face()) -> None:
        self._width, self._height = width, height
        self._x, self._y = x, y
        self._face = face
        self._dots = [0] * (width * height)
        self._inks = [0] * (width * height)
        self._grounds: list[Ink] = [0] * (width * height)
        self._glyphs: dict[int, str] = {}

    def line(self, xs: Sequence[float], ys: Sequence[float], ink: int, dash: str = "1", joined: bool = True) -> None:
        """Draw points, connected by straight lines if `joined`; `dash` tells which dots of these are drawn."""
        before: tuple[int, int] | None = None
        # Dots of the line so far, drawn or not, so that its dashes continue.
        drawn = 0
        last_x = last_y = math.nan
        for x, y in zip(xs, ys, strict=True):
            here = self._dot_at(x, y) if math.isfinite(x) and math.isfinite(y) else None
            if here and before and joined:
                if last_x < self._x[0] < x:
                    # A dot far outside the grid is not where its point is, and would turn the line.
                    share = (self._x[0] - last_x) / (x - last_x)
                    before = self._dot_at(self._x[0], last_y + share * (y - last_y))
                steps = max(abs(here[0] - before[0]), abs(here[1] - before[1]), 1)
                across, down = here[0] - before[0], here[1] - before[1]
                for n in range(1, steps + 1):
                    if dash[(drawn + n) % len(dash)] == "1":
                        self._set(before[0] + round(across * n / steps), before[1] + round(down * n / steps), ink)
                drawn += steps
            elif here:
                self._set(*here, ink)
            before, last_x, last_y = here, x, y

    def fill(self, band: Band) -> None:
        """Colour what lies behind the characters whose middle is in a band."""
        # The app's first frame has nothing to draw, and loads no numpy.
        import numpy as np

        middles = np.linspace(*self._x, 2 * self._width + 1)[1::2]
        curves = (
            np.interp(middles, band.x, curve, math.nan, math.nan) for curve in (band.first, band.second, band.limit)
        )
        for column, (first, second, limit) in enumerate(zip(*curves, strict=True)):
            ends, ink = ((second, limit), _MISSING) if second < limit else ((first, second), _GAP)
            for row in range(self._height):
                y = self._y[1] - (row + 0.5) / self._height * (self._y[1] - self._y[0])
                if min(ends) <= y <= max(ends):
                    cell = row * self._width + column
                    if self._face.colours:
                        self._grounds[cell] = ink
                    elif ink == _MISSING:
                        self._glyphs.setdefault(cell, ":")

    def mark(self, x: float, y: float, glyph: str, ink: int) -> None:
        self._set(*self._dot_at(x, y), ink, glyph)

    def rule(self, x: float) -> None:
        """Draw a line from top to bottom where nothing else is."""
        column, _ = self._dot_at(x, self._y[0])
        for cell in range(column // 2, len(self._dots), self._width) if 0 <= column < 2 * self._width else ():
            if not self._dots[cell]:
                self._glyphs[cell] = "┊"

    def rows(self) -> Iterator[Glyphs]:
        """The characters, neighbours of one ink together."""
        for start in range(0, len(self._dots), self._width):
            yield joined(self._glyph(cell) for cell in range(start, start + self._width))

    def _glyph(self, cell: int) -> Glyph:
        dots, ink = self._dots[cell], self._inks[cell]
        text = chr(0x2800 + dots) if self._face.braille else self._face.letter(ink)
        return Glyph(self._glyphs.get(cell) or (text if dots else " "), ink, self._grounds[cell])

    def _dot_at(self, x: float, y: float) -> tuple[int, int]:
        """Column and row of the dot at a point, counted from the top left; outside the grid where the point is."""
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        up = (y - self._y[0]) / (self._y[1] - self._y[0])
        columns, rows = 2 * self._width - 1, 4 * self._height - 1
        return round(columns * min(max(across, -1.0), 2.0)), round(rows * (1 - min(max(up, -1.0), 2.0)))

    def _set(self, column: int, row: int, ink: int, glyph: str = "") -> None:
        if 0 <= column < 2 * self._width and 0 <= row < 4 * self._height:
            cell = row // 4 * self._width + column // 2
            self._inks[cell] = ink
            if glyph:
                self._glyphs[cell] = glyph
            else:
                self._glyphs.pop(cell, None)
                self._dots[cell] |= _DOT_BITS[row % 4][column % 2]


def joined(glyphs: Iterator[Glyph]) -> Glyphs:
    """A row in which neighbours of one style are one."""
    row: Glyphs = []
    for glyph in glyphs:
        if row and row[-1].ground == glyph.ground and (row[-1].ink == glyph.ink or glyph.text == " "):
            row[-1] = row[-1]._replace(text=row[-1].text + glyph.text)
        else:
            row.append(glyph)
    return row
