"""Pictures in characters: as charts, which the app colours, and as plain text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from contrastcli.show.chart import Chart, Mark, draw
from contrastcli.show.pictures import HARDEST, POSITIVE, Picture, Series

_GLYPHS = "●■▲◆○□△◇ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BLOCKS = "▏▎▍▌▋▊▉█"  # eighths
_MARGIN = 0.04  # of the ranges, free around points
_CROWD = 100  # points of one series, beyond which dots show more than glyphs


def text(picture: Picture, width: int, height: int) -> str:
    """The picture in about `height` lines of at most `width` characters, its title first."""
    if picture.kind == "bars":
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
    """A picture of any kind but bars, in braille and glyphs."""
    if not picture.series:
        return Chart()
    marks = (Mark(*picture.best, "◆", POSITIVE),) if picture.best else ()
    drawn = Chart(picture.series, marks, picture.x_label, picture.x_range, picture.y_range)
    drawn = replace(drawn, log=picture.log, cursor=picture.cursor)
    if picture.kind == "histogram":
        outlines = tuple(
            replace(s, x=[edge for edge in s.x for _ in range(2)], y=[0.0, *(y for y in s.y for _ in range(2)), 0.0])
            for s in picture.series
        )
        top = (1 + _MARGIN) * max(y for s in picture.series for y in s.y)
        return replace(drawn, lines=outlines, x_range=picture.x_range or picture.occupied(), y_range=(0.0, top))
    if picture.kind == "points" and (len(picture.series) > 1 or len(picture.series[0].x) <= _CROWD):
        return replace(drawn, lines=(), marks=tuple(_glyph_marks(picture.series)), x_margin=_MARGIN)
    if picture.kind == "points":
        return replace(drawn, joined=False, x_margin=_MARGIN)
    if picture.kind == "path":
        ends: list[Mark] = []
        for series in picture.series:
            points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(x + y)]
            if points:
                ends += [Mark(*points[0], "○", HARDEST), Mark(*points[-1], "●", POSITIVE)]
        return replace(drawn, marks=tuple(ends), x_margin=_MARGIN)
    return drawn


def _glyph_marks(series: Sequence[Series]) -> Iterator[Mark]:
    """A glyph for each point, of each series in turn, so that no series hides the others where they mix."""
    for points in zip_longest(*(zip(s.x, s.y, strict=True) for s in series)):
        for n, point in enumerate(points):
            if point is not None:
                yield Mark(point[0], point[1], _GLYPHS[n % len(_GLYPHS)], series[n].ink or n + 1)


def _legend(picture: Picture, width: int) -> list[str]:
    """The series' glyphs, names and values, as many a line as fit."""
    rows = [""]
    for n, series in enumerate(picture.series):
        value = "" if series.value is None else f" ({picture.colours} {series.value:.2f})"
        entry = f"{_GLYPHS[n % len(_GLYPHS)]} {series.name}{value}"
        if rows[-1] and len(rows[-1]) + len(entry) + 2 > width:
            rows.append("")
        rows[-1] += ("  " if rows[-1] else "") + entry
    return [row[:width] for row in rows]


def _bars(picture: Picture, width: int) -> Iterator[str]:
    names = max(len(series.name) for series in picture.series)
    ends = [f" {series.y[0]:.3g} {picture.x_label}" for series in picture.series]
    room = max(width - names - 1 - max(map(len, ends)), 1)
    longest = max(abs(series.y[0]) for series in picture.series) or 1.0
    for series, end in zip(picture.series, ends, strict=True):
        whole, eighths = divmod(round(8 * max(series.y[0], 0) / longest * room), 8)
        bar = "█" * whole + (_BLOCKS[eighths - 1] if eighths else "")
        yield f"{series.name:<{names}} {bar}{end}"
