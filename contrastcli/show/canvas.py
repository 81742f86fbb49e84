"""A grid of braille dots: lines and marks over ranges of x and y, as rows of text."""

import math
from collections.abc import Iterator, Sequence

from contrastcli.show.pictures import Range

Glyphs = list[tuple[str, int]]
"""One row: pieces of text, each with its ink. Ink 0 is for ticks and labels, 1 and up for lines."""

_DOT_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Of a braille character, by row and column."""


class Canvas:
    """A grid of braille dots, two by four a character, over ranges of x and y."""

    def __init__(self, width: int, height: int, x: Range, y: Range) -> None:
        self._width, self._height = width, height
        self._x, self._y = x, y
        self._dots = [0] * (width * height)
        self._inks = [0] * (width * height)
        self._glyphs: dict[int, str] = {}

    def line(self, xs: Sequence[float], ys: Sequence[float], ink: int, dash: str = "1", joined: bool = True) -> None:
        """Draw points, connected by straight lines if `joined`; `dash` tells which dots of these are drawn."""
        before: tuple[int, int] | None = None
        # Dots of the line so far, drawn or not, so that its dashes continue.
        drawn = 0
        for x, y in zip(xs, ys, strict=True):
            here = self._dot_at(x, y) if math.isfinite(x) and math.isfinite(y) else None
            if here and before and joined:
                steps = max(abs(here[0] - before[0]), abs(here[1] - before[1]), 1)
                across, down = here[0] - before[0], here[1] - before[1]
                for n in range(1, steps + 1):
                    if dash[(drawn + n) % len(dash)] == "1":
                        self._set(before[0] + round(across * n / steps), before[1] + round(down * n / steps), ink)
                drawn += steps
            elif here:
                self._set(*here, ink)
            before = here

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
            cells: Glyphs = []
            for cell in range(start, start + self._width):
                text = self._glyphs.get(cell) or (chr(0x2800 + self._dots[cell]) if self._dots[cell] else " ")
                ink = self._inks[cell]
                if cells and (cells[-1][1] == ink or text == " "):
                    cells[-1] = (cells[-1][0] + text, cells[-1][1])
                else:
                    cells.append((text, ink))
            yield cells

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
                self._dots[cell] |= _DOT_BITS[row % 4][column % 2]
