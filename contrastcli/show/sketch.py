"""Pictures for a terminal: rows of text without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from contrastcli.show import chart
from contrastcli.show.chart import Chart, Line, Mark
from contrastcli.show.pictures import Picture, Series

_GLYPHS = "●■▲◆○□△◇ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BLOCKS = "▏▎▍▌▋▊▉█"  # eighths
_MARGIN = 0.04  # of the ranges, free around points


def text(picture: Picture, width: int, height: int) -> str:
    """The picture in about `height` lines of at most `width` characters, its title first."""
    if picture.form == "bars":
        return "\n".join([picture.title, *_bars(picture, width)])
    rows = [picture.title]
    if picture.y_label:
        rows.append(f"{picture.y_label} over {picture.x_label}")
    if picture.form == "points":
        rows += _legend(picture, width)
    drawn = chart.draw(_chart(picture), width, max(height - len(rows), 6))
    return "\n".join([*rows, *("".join(piece for piece, _ in cells).rstrip() for cells in drawn)])


def _chart(picture: Picture) -> Chart:
    x_range, y_range = map(_wider, picture.extent())
    if picture.form == "points":
        return Chart((), tuple(_dots(picture.series)), "", x_range, y_range)
    if picture.form == "histogram":
        stairs = tuple(Line(s.name, *chart.staircase(s.x, s.y)) for s in picture.series)
        return Chart(stairs, (), "", x_range, (0.0, y_range[1]))
    lines = tuple(Line(s.name, s.x, s.y) for s in picture.series)
    ended = picture.series if picture.form == "path" else ()
    marks = tuple(Mark(s.x[end], s.y[end], glyph) for s in ended for end, glyph in ((0, "○"), (-1, "●")))
    return Chart(lines, marks, "", x_range, y_range)


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
                yield Mark(place[0], place[1], _glyph(number))


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
