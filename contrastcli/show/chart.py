"""Charts as rows of text: lines, points and areas in braille, with ticks and a legend.

A screen colours the rows, a terminal prints them; lines differ in their dashes too, so that they can be told apart
without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Cells = list[tuple[str, int]]
"""One row: pieces of text, each with its ink. Ink 0 is for ticks and labels, 1 and up for lines."""

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a braille cell, by row and column
_DASHES = ("1", "111100", "100", "1111001100", "11110000", "100000")  # which dots of a line are drawn, by its number
_SAMPLES = ("━━", "╍╍", "┄┄", "━·", "━ ", "· ")  # the same, as a legend shows it
_TICK_ROWS, _TICK_COLUMNS = 3, 10  # cells from one tick to the next, at least


@dataclass(frozen=True)
class Line:
    """A curve through points in their order; values that are not finite leave a gap. `ink` 0: by its number."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    ink: int = 0
    joined: bool = True
    filled: bool = False


@dataclass(frozen=True)
class Mark:
    """A character at a point, such as ◆ at the best score."""

    x: float
    y: float
    glyph: str
    ink: int = 0


@dataclass(frozen=True)
class Chart:
    """What is drawn. Ranges that are not given are those of the data; `log` is for the y axis."""

    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    x_label: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is not one point to show."""
        return not self.marks and not any(math.isfinite(y) for line in self.lines for y in line.y)


def draw(chart: Chart, width: int, height: int) -> list[Cells]:
    """The chart in `height` rows of `width` characters: a legend, the picture with its y ticks, and the x ticks."""
    lines = [_scaled(line, chart.log) for line in chart.lines]
    x_low, x_high = _range([x for line in lines for x in line.x], chart.x_range, 0.0)
    y_low, y_high = _range([y for line in lines for y in line.y], _logged(chart.y_range, chart.log), 0.04)
    legend = _legend(chart.lines, width)[: max(1, height // 5)]
    rows = max(1, height - 1 - len(legend))
    labels = {row: text for row, text in _y_ticks(y_low, y_high, rows, chart.log)}
    gutter = max(map(len, labels.values()), default=0)
    canvas = Canvas(max(1, width - gutter - 1), rows, (x_low, x_high), (y_low, y_high))
    for number, line in enumerate(lines):
        canvas.line(line, line.ink or number + 1, _DASHES[number % len(_DASHES)])
    for mark in chart.marks:
        canvas.mark(mark, _log(mark.y) if chart.log else mark.y)
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

    def line(self, line: Line, ink: int, dash: str) -> None:
        """Draw the points of a line, and what joins them or lies below them."""
        before: tuple[int, int] | None = None
        drawn = 0
        for x, y in zip(line.x, line.y, strict=True):
            here = self._place(x, y) if math.isfinite(x) and math.isfinite(y) else None
            if here is not None and line.filled:
                self._segment(here, (here[0], 4 * self._height - 1), ink)
            if here is not None and before is not None and line.joined:
                drawn = self._segment(before, here, ink, dash, drawn)
            elif here is not None:
                self._dot(*here, ink)
            before = here

    def mark(self, mark: Mark, y: float) -> None:
        """Put a character at a point."""
        column, row = self._place(mark.x, y)
        if 0 <= column < 2 * self._width and 0 <= row < 4 * self._height:
            cell = row // 4 * self._width + column // 2
            self._glyphs[cell], self._inks[cell] = mark.glyph, mark.ink

    def rows(self) -> Iterator[Cells]:
        """The characters, neighbours of one ink together."""
        for start in range(0, len(self._dots), self._width):
            cells: Cells = []
            for cell in range(start, start + self._width):
                text = self._glyphs.get(cell) or (chr(0x2800 + self._dots[cell]) if self._dots[cell] else " ")
                ink = self._inks[cell]
                if cells and (cells[-1][1] == ink or text == " "):
                    cells[-1] = (cells[-1][0] + text, cells[-1][1])
                else:
                    cells.append((text, ink))
            yield cells

    def _place(self, x: float, y: float) -> tuple[int, int]:
        """Column and row of the dot at a point, counted from the top left; beyond the grid where the point is."""
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        up = (y - self._y[0]) / (self._y[1] - self._y[0])
        columns, rows = 2 * self._width - 1, 4 * self._height - 1
        return round(columns * min(max(across, -1.0), 2.0)), round(rows * (1 - min(max(up, -1.0), 2.0)))

    def _segment(self, a: tuple[int, int], b: tuple[int, int], ink: int, dash: str = "1", drawn: int = 0) -> int:
        """A straight run of dots; returns how many dots of the line there are by now, for its dashes to go on."""
        steps = max(abs(b[0] - a[0]), abs(b[1] - a[1]), 1)
        for n in range(1, steps + 1):
            if dash[(drawn + n) % len(dash)] == "1":
                self._dot(a[0] + round((b[0] - a[0]) * n / steps), a[1] + round((b[1] - a[1]) * n / steps), ink)
        return drawn + steps

    def _dot(self, column: int, row: int, ink: int) -> None:
        if 0 <= column < 2 * self._width and 0 <= row < 4 * self._height:
            cell = row // 4 * self._width + column // 2
            self._dots[cell] |= _DOTS[row % 4][column % 2]
            self._inks[cell] = ink


def number(value: float) -> str:
    """A number in few characters: `0.05`, `1.5k`, `3e-05`."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.2g}"
    return f"{value / 1000:.4g}k" if abs(value) >= 10_000 else f"{value:.4g}"


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers within a range, about `count` of them, at least two apart by 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)]


def _scaled(line: Line, log: bool) -> Line:
    return Line(line.name, line.x, [_log(y) for y in line.y], line.ink, line.joined, line.filled) if log else line


def _log(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan


def _logged(limits: tuple[float, float] | None, log: bool) -> tuple[float, float] | None:
    return (_log(limits[0]), _log(limits[1])) if limits and log else limits


def _range(values: Sequence[float], given: tuple[float, float] | None, margin: float) -> tuple[float, float]:
    if given and given[0] < given[1]:
        return given
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        width = abs(low) * 0.1 or 1.0
        return low - width, high + width
    return low - margin * (high - low), high + margin * (high - low)


def _legend(lines: Sequence[Line], width: int) -> list[Cells]:
    """The names of the lines in as many rows as it takes."""
    rows: list[Cells] = []
    room = 0
    for n, line in enumerate(lines):
        text = f"{_SAMPLES[n % len(_SAMPLES)] if line.joined else '∙'} {line.name}  "
        if line.name and len(text) > room + 2:  # the two spaces at the end need no room
            rows.append([])
            room = width
        if line.name:
            rows[-1].append((text, line.ink or n + 1))
            room -= len(text)
    return rows


def _y_ticks(low: float, high: float, rows: int, log: bool) -> Iterator[tuple[int, str]]:
    for tick in ticks(low, high, max(2, rows // _TICK_ROWS)):
        row = round((rows * 4 - 1) * (high - tick) / (high - low)) // 4
        yield row, number(10**tick if log else tick)


def _x_ticks(low: float, high: float, gutter: int, width: int, label: str) -> Cells:
    room = width - gutter - 1
    row = [" "] * width
    for tick in ticks(low, high, max(1, room // _TICK_COLUMNS)):
        text = number(tick)
        start = gutter + 1 + round((room - 1) * (tick - low) / (high - low)) - len(text) // 2
        start = min(max(start, gutter + 1), width - len(text))
        if all(cell == " " for cell in row[max(0, start - 1) : start + len(text) + 1]):
            row[start : start + len(text)] = text
    end = f" {label}"
    if label and all(cell == " " for cell in row[width - len(end) :]):
        row[width - len(end) :] = end
    elif label and all(cell == " " for cell in row[: len(label) + 1]):
        row[: len(label)] = label
    return [("".join(row), 0)]
