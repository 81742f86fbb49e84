"""Pictures in characters: as charts, which the app colours, and as plain text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from contrastcli.show.chart import Chart, Line, Mark, draw
from contrastcli.show.pictures import HARDEST, POSITIVE, Picture, Series

_GLYPHS = "●■▲◆○□△◇ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BLOCKS = "▏▎▍▌▋▊▉█"  # eighths
_MARGIN = 0.04  # of the ranges, free around points
_CROWD = 100  # points of one series, beyond which dots show more than glyphs


def text(picture: Picture, width: int, height: int) -> str:
    """The picture in about `height` lines of at most `width` characters, its title first."""
    if picture.form == "bars":
        return "\n".join([picture.title, *_bars(picture, width)])
    rows = [picture.title]
    if picture.y_label:
        rows.append(f"{picture.y_label} over {picture.x_label}")
    drawn = replace(chart(picture), x_label="")
    if drawn.marks and not drawn.lines:
        rows += _legend(picture, width)
    cells = draw(drawn, width, max(height - len(rows), 6))
    return "\n".join([*rows, *("".join(piece for piece, _ in row).rstrip() for row in cells)])


def chart(picture: Picture) -> Chart:
    """A picture, which is not of bars, in braille and glyphs."""
    if not picture.series:
        return Chart()
    lines: Iterable[Line] = (Line(s.name, s.x, s.y, s.ink) for s in picture.series)
    marks = [Mark(*picture.best, "◆", POSITIVE)] if picture.best else []
    x_range, y_range = picture.x_range, picture.y_range
    match picture.form:
        case "histogram":
            lines = (Line(s.name, *_staircase(s.x, s.y), s.ink) for s in picture.series)
            shown, (_, top) = picture.extent()
            x_range, y_range = x_range or shown, (0.0, (1 + _MARGIN) * top)
        case "points" if len(picture.series) == 1 and len(picture.series[0].x) > _CROWD:
            lines = (replace(line, joined=False) for line in lines)
            x_range, y_range = map(_wider, picture.extent())
        case "points":
            lines, marks = (), list(_dots(picture.series))
            x_range, y_range = map(_wider, picture.extent())
        case "path":
            marks = [mark for series in picture.series for mark in _ends(series)]
            x_range, y_range = map(_wider, picture.extent())
    return Chart(tuple(lines), tuple(marks), picture.x_label, x_range, y_range, picture.log)


def _staircase(edges: Sequence[float], heights: Sequence[float]) -> tuple[list[float], list[float]]:
    """The outline of a histogram as x and y of a line; there is one edge more than heights."""
    x = [edge for edge in edges for _ in range(2)]
    return x, [0.0, *(height for height in heights for _ in range(2)), 0.0]


def _ends(series: Series) -> list[Mark]:
    """The first and the last point of a path."""
    points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    return [Mark(*points[0], "○", HARDEST), Mark(*points[-1], "●", POSITIVE)] if points else []


def _wider(limits: tuple[float, float]) -> tuple[float, float]:
    low, high = limits
    margin = _MARGIN * (high - low) or 0.05 * abs(low) or 1.0
    return low - margin, high + margin


def _dots(series: Sequence[Series]) -> Iterator[Mark]:
    """A glyph a point, the series in turn, so that where they mix none hides the others."""
    places = (zip(s.x, s.y, strict=True) for s in series)
    for row in zip_longest(*places):
        for number, place in enumerate(row):
            if place is not None:
                yield Mark(place[0], place[1], _glyph(number), series[number].ink or number + 1)


def _glyph(number: int) -> str:
    return _GLYPHS[number % len(_GLYPHS)]


def _legend(picture: Picture, width: int) -> list[str]:
    """The series' glyphs, names and values, as many a line as fit."""
    rows = [""]
    for number, series in enumerate(picture.series):
        value = "" if series.value is None else f" ({picture.colours} {series.value:.2f})"
        entry = f"{_glyph(number)} {series.name}{value}"
        if rows[-1] and len(rows[-1]) + len(entry) + 2 > width:
            rows.append("")
        rows[-1] += ("  " if rows[-1] else "") + entry
    return [row[:width] for row in rows]


def _bars(picture: Picture, width: int) -> Iterator[str]:
    names = max(len(series.name) for series in picture.series)
    ends = [f" {series.y[0]:.3g} {picture.x_label}" for series in picture.series]
    room = max(width - names - 1 - max(map(len, ends)), 1)
    longest = max(series.y[0] for series in picture.series)
    for series, end in zip(picture.series, ends, strict=True):
        yield f"{series.name:<{names}} {_bar(series.y[0] / longest * room)}{end}"


def _bar(length: float) -> str:
    whole, eighths = divmod(round(8 * length), 8)
    return "█" * whole + (_BLOCKS[eighths - 1] if eighths else "")
