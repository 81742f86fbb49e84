"""A picture as a chart: rows of text with its lines and points in braille and glyphs, ticks and a legend.

A screen colours the rows, a terminal prints them; lines differ in their dashes too, so that they are distinct
without colour.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from contrastcli.show.canvas import Canvas, Glyphs
from contrastcli.show.pictures import HARDEST, POSITIVE, Picture, Range, Series

SHAPES = "●■▲◆○□△◇ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What stands for the points of each series."""

_DASHES = ("1", "111100", "100", "1111001100", "11110000", "100000")
"""Which dots of a line are drawn, by its number."""

_DASH_SAMPLES = ("━━", "╍╍", "┄┄", "━·", "━ ", "· ")
"""The same, as a legend shows it."""

_ROWS_PER_TICK, _COLUMNS_PER_TICK = 3, 10
_MARGIN = 0.04
"""Free at either end of a range that is taken from the data, as a part of it."""

_CROWD = 100
"""Points of one series beyond which dots show more than glyphs."""


@dataclass(frozen=True)
class Drawing:
    """Rows of text; in all but those of the legend, the plot begins after `gutter` characters, at the start of `x`."""

    rows: list[Glyphs]
    gutter: int
    x: Range


def draw(picture: Picture, width: int, height: int) -> Drawing:
    """A picture of any kind but bars in `height` rows of `width` characters.

    These are a legend, the plot with its y ticks, and the x ticks. Values that are not finite leave a gap in a line.
    """
    scale = _log10 if picture.log else float
    shown = _lines(picture)
    lines = [(line.x, list(map(scale, line.y))) for line in shown]
    marks = [(x, scale(y), glyph, ink) for x, y, glyph, ink in _marks(picture)]
    xs = [x for line, _ in lines for x in line] or [x for x, *_ in marks]
    ys = [y for _, line in lines for y in line] or [y for _, y, *_ in marks]
    x_limits, y_limits = _limits(picture)
    x_low, x_high = _range(xs, x_limits, _MARGIN if picture.kind in ("points", "path") else 0.0)
    y_low, y_high = _range(ys, y_limits and (scale(y_limits[0]), scale(y_limits[1])), _MARGIN)
    legend = _legend(shown, picture.kind != "points", width, height)
    rows = max(1, height - 1 - len(legend))
    labels = {
        round((rows * 4 - 1) * (y_high - tick) / (y_high - y_low)) // 4: number(10**tick if picture.log else tick)
        for tick in (_log_ticks if picture.log else ticks)(y_low, y_high, max(2, rows // _ROWS_PER_TICK))
    }
    gutter = max(map(len, labels.values()), default=0) + 1
    canvas = Canvas(max(1, width - gutter), rows, (x_low, x_high), (y_low, y_high))
    # Grey lines lie below the others.
    for n in sorted(range(len(lines)), key=lambda n: shown[n].ink >= 0):
        canvas.line(*lines[n], shown[n].ink or n + 1, _DASHES[n % len(_DASHES)], picture.kind != "points")
    if picture.cursor is not None:
        canvas.rule(picture.cursor)
    for mark in marks:
        canvas.mark(*mark)
    plot = [[(labels.get(n, "").rjust(gutter - 1) + "│", 0), *cells] for n, cells in enumerate(canvas.rows())]
    x_ticks = _x_ticks(x_low, x_high, gutter, width, picture.x_label)
    return Drawing([*legend, *plot, x_ticks], gutter, (x_low, x_high))


def has_shapes(picture: Picture) -> bool:
    """Whether each point is drawn as the shape of its series; a crowd of one series is drawn as dots."""
    series = picture.series
    return picture.kind == "points" and (len(series) > 1 or any(len(one.x) <= _CROWD for one in series))


def _lines(picture: Picture) -> Sequence[Series]:
    """What is drawn as dots: of a histogram the outline of its bars."""
    if picture.kind == "histogram":
        return [
            replace(s, x=[edge for edge in s.x for _ in range(2)], y=[0.0, *(y for y in s.y for _ in range(2)), 0.0])
            for s in picture.series
        ]
    return () if has_shapes(picture) else picture.series


def _marks(picture: Picture) -> Iterator[tuple[float, float, str, int]]:
    """The best point, the ends of paths, and the shapes of points: x, y, glyph and ink.

    A point of each series in turn, so that no series hides the others where they mix.
    """
    if picture.best:
        yield *picture.best, "◆", POSITIVE
    for series in picture.series if picture.kind == "path" else ():
        if finite := [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(x + y)]:
            yield *finite[0], "○", HARDEST
            yield *finite[-1], "●", POSITIVE
    every = picture.series if has_shapes(picture) else ()
    for points in zip_longest(*(zip(s.x, s.y, strict=True) for s in every)):
        for n, point in enumerate(points):
            if point is not None:
                yield *point, SHAPES[n % len(SHAPES)], every[n].ink or n + 1


def _limits(picture: Picture) -> tuple[Range | None, Range | None]:
    """The ranges of x and y that do not follow from the points."""
    if picture.kind != "histogram":
        return picture.x_range, picture.y_range
    top = max((y for s in picture.series for y in s.y), default=1.0)
    return picture.x_range or picture.occupied(), (0.0, (1 + _MARGIN) * top)


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


def _legend(series: Sequence[Series], joined: bool, width: int, height: int) -> list[Glyphs]:
    """The names of the lines, what one wants to know of each where there is room, in at most a quarter of the rows.

    They may have two rows where that leaves the names whole.
    """
    lines = [(line, n) for n, line in enumerate(series) if line.name]
    longest = max((len(line.name) for line, _ in lines), default=0)
    least = max((len(line.readings) for line, _ in lines), default=0)
    shapes = [*((longest, n) for n in range(least)), *((n, least - 1) for n in range(longest, 2, -1) if least)]
    rows: list[Glyphs] = []
    most = max(1, height // 4)
    for letters, which in [*shapes, *((n, least) for n in range(longest, 0, -1))]:
        rows = []
        for line, n in lines:
            sample = _DASH_SAMPLES[n % len(_DASH_SAMPLES)] if joined else "∙"
            entry = " ".join([sample, line.name[:letters], *line.readings[which : which + 1]])
            if not rows or sum(len(text) for text, _ in rows[-1]) + len(entry) > width:
                rows.append([])
            rows[-1].append((entry + (" " if which else "  "), line.ink or n + 1))
        if len(rows) <= most or (len(rows) == 2 and height > 5 and (letters, which) == (longest, least - 1)):
            return rows
    return rows[:most]


def _x_ticks(low: float, high: float, gutter: int, width: int, label: str) -> Glyphs:
    room = width - gutter
    row = [" "] * width
    for tick in ticks(low, high, max(1, room // _COLUMNS_PER_TICK)):
        text = number(tick)
        start = gutter + round((room - 1) * (tick - low) / (high - low)) - len(text) // 2
        start = min(max(start, gutter), width - len(text))
        if all(cell == " " for cell in row[max(0, start - 1) : start + len(text) + 1]):
            row[start : start + len(text)] = text
    text = "".join(row)
    if text.endswith(" " * (len(label) + 1)):
        text = text[: width - len(label)] + label
    elif text.startswith(" " * (len(label) + 1)):
        text = label + text[len(label) :]
    return [(text, 0)]
