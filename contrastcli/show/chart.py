"""Charts as rows of text: lines and points in braille, with ticks and a legend.

A screen colours the rows, a terminal prints them; lines differ in their dashes too, so that they are distinct
without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contrastcli.show.pictures import Range, Series

Glyphs = list[tuple[str, int]]
"""One row: pieces of text, each with its ink. Ink 0 is for ticks and labels, 1 and up for lines."""

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a braille cell, by row and column
_DASHES = ("1", "111100", "100", "1111001100", "11110000", "100000")  # which dots of a line are drawn, by its number
_SAMPLES = ("━━", "╍╍", "┄┄", "━·", "━ ", "· ")  # the same, as a legend shows it
_TICK_ROWS, _TICK_COLUMNS = 3, 10  # cells from one tick to the next, at least
_MARGIN = 0.04  # of a range that is taken from the data, free at either end


@dataclass(frozen=True)
class Mark:
    """A character at a point, such as ◆ at the best score."""

    x: float
    y: float
    glyph: str
    ink: int = 0


@dataclass(frozen=True)
class Chart:
    """Series and marks to draw. A range that is None is taken from the series, or without any from the marks.

    Values that are not finite leave a gap in a line. `joined`: whether lines connect the points of a series.
    `x_margin` is the free part of the x range at either end; `log` is for the y axis; `cursor` is an x to mark.
    """

    lines: tuple[Series, ...] = ()
    marks: tuple[Mark, ...] = ()
    x_label: str = ""
    x_range: Range | None = None
    y_range: Range | None = None
    x_margin: float = 0.0
    joined: bool = True
    log: bool = False
    cursor: float | None = None

    @property
    def empty(self) -> bool:
        """Whether there is no point to show."""
        return not self.marks and not any(math.isfinite(y) for line in self.lines for y in line.y)


def draw(chart: Chart, width: int, height: int) -> list[Glyphs]:
    """The chart in `height` rows of `width` characters: a legend, the picture with its y ticks, and the x ticks."""
    lines = [(line.x, list(map(_log10, line.y)) if chart.log else line.y) for line in chart.lines]
    marks = [(mark, _log10(mark.y) if chart.log else mark.y) for mark in chart.marks]
    y_range = (_log10(chart.y_range[0]), _log10(chart.y_range[1])) if chart.y_range and chart.log else chart.y_range
    x_low, x_high = _range(
        [v for x, _ in lines for v in x] or [mark.x for mark, _ in marks], chart.x_range, chart.x_margin
    )
    y_low, y_high = _range([v for _, y in lines for v in y] or [y for _, y in marks], y_range, _MARGIN)
    legend = _legend(chart, width, height)
    rows = max(1, height - 1 - len(legend))
    labels = {
        round((rows * 4 - 1) * (y_high - tick) / (y_high - y_low)) // 4: number(10**tick if chart.log else tick)
        for tick in (_log_ticks if chart.log else ticks)(y_low, y_high, max(2, rows // _TICK_ROWS))
    }
    gutter = max(map(len, labels.values()), default=0)
    canvas = Canvas(max(1, width - gutter - 1), rows, (x_low, x_high), (y_low, y_high))
    for n in sorted(range(len(lines)), key=lambda n: chart.lines[n].ink >= 0):  # grey ones below the others
        canvas.line(*lines[n], chart.lines[n].ink or n + 1, _DASHES[n % len(_DASHES)], chart.joined)
    if chart.cursor is not None:
        canvas.rule(chart.cursor)
    for mark, height_of_mark in marks:
        canvas.mark(mark.x, height_of_mark, mark.glyph, mark.ink)
    picture = [[(labels.get(n, "").rjust(gutter) + "│", 0), *cells] for n, cells in enumerate(canvas.rows())]
    return [*legend, *picture, _x_ticks(x_low, x_high, gutter, width, chart.x_label)]


class Canvas:
    """A grid of braille dots, two by four a character, over ranges of x and y."""

    def __init__(self, width: int, height: int, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._width, self._height = width, height
        self._x, self._y = x, y
        self._dots = [0] * (width * height)
        self._inks = [0] * (width * height)
        self._glyphs: dict[int, str] = {}

    def line(self, xs: Sequence[float], ys: Sequence[float], ink: int, dash: str = "1", joined: bool = True) -> None:
        """Draw points, connected by straight lines if `joined`; `dash` tells which dots of these are drawn."""
        before: tuple[int, int] | None = None
        drawn = 0  # dots of the line so far, drawn or not, so that its dashes continue
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
        """Put a character at a point."""
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
                self._dots[cell] |= _DOTS[row % 4][column % 2]


def number(value: float) -> str:
    """A number in few characters: `0.05`, `1.5k`, `3e-05`."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.2g}"
    return f"{value / 1000:.4g}k" if abs(value) >= 10_000 else f"{value:.4g}"


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers within a range, at least two and about `count`, apart by 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [power * factor for factor in (0.1, 0.2, 0.5, 1, 2, 5, 10)]
    widest = next(n for n, step in enumerate(steps) if step >= rough * 0.999)
    ranges = [(step, math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)) for step in steps[widest::-1]]
    step, first, last = next((one for one in ranges if one[2] > one[1]), ranges[-1])
    return [n * step for n in range(first, last + 1)]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    """Logarithms of 1, 2 and 5 times powers of ten within a range of logarithms; of other numbers in a short one."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1,), (1, 2, 5)):
        places = [n + math.log10(factor) for n in powers for factor in factors]
        if len(inside := [place for place in places if low <= place <= high]) >= 2:
            return inside
    return [math.log10(tick) for tick in ticks(10**low, 10**high, count)]


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan


def _range(values: Sequence[float], limits: Range | None, margin: float) -> Range:
    if limits and limits[0] < limits[1]:
        return limits
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        width = abs(low) * 0.1 or 1.0
        return low - width, high + width
    return low - margin * (high - low), high + margin * (high - low)


def _legend(chart: Chart, width: int, height: int) -> list[Glyphs]:
    """The names of the lines, what one wants to know of each where there is room, in at most a quarter of the rows.

    They may have two rows where that leaves the names whole.
    """
    lines = [(line, n) for n, line in enumerate(chart.lines) if line.name]
    longest = max((len(line.name) for line, _ in lines), default=0)
    least = max((len(line.readings) for line, _ in lines), default=0)
    shapes = [*((longest, n) for n in range(least)), *((n, least - 1) for n in range(longest, 2, -1) if least)]
    rows: list[Glyphs] = []
    most = max(1, height // 4)
    for letters, which in [*shapes, *((n, least) for n in range(longest, 0, -1))]:
        rows = []
        for line, n in lines:
            sample = _SAMPLES[n % len(_SAMPLES)] if chart.joined else "∙"
            entry = " ".join([sample, line.name[:letters], *line.readings[which : which + 1]])
            if not rows or sum(len(text) for text, _ in rows[-1]) + len(entry) > width:
                rows.append([])
            rows[-1].append((entry + (" " if which else "  "), line.ink or n + 1))
        if len(rows) <= most or (len(rows) == 2 and height > 5 and (letters, which) == (longest, least - 1)):
            return rows
    return rows[:most]


def _x_ticks(low: float, high: float, gutter: int, width: int, label: str) -> Glyphs:
    room = width - gutter - 1
    row = [" "] * width
    for tick in ticks(low, high, max(1, room // _TICK_COLUMNS)):
        text = number(tick)
        start = gutter + 1 + round((room - 1) * (tick - low) / (high - low)) - len(text) // 2
        start = min(max(start, gutter + 1), width - len(text))
        if all(cell == " " for cell in row[max(0, start - 1) : start + len(text) + 1]):
            row[start : start + len(text)] = text
    text = "".join(row)
    if text.endswith(" " * (len(label) + 1)):
        text = text[: width - len(label)] + label
    elif text.startswith(" " * (len(label) + 1)):
        text = label + text[len(label) :]
    return [(text, 0)]
