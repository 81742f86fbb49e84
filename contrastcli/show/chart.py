"""A picture as a chart: rows of text with its lines, points and areas, ticks and a legend.

A screen colours the rows, a terminal prints them; lines differ in their dashes too, so that they are distinct
without colour.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from contrastcli.boundary import has_braille
from contrastcli.show import axes
from contrastcli.show.areas import Bars, HeatMap
from contrastcli.show.axes import RowScale
from contrastcli.show.canvas import Canvas, Face, Glyph, Glyphs
from contrastcli.show.pictures import HARDEST, POSITIVE, Picture, Range, Series

_SHAPES = "●■▲◆○□△◇ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What stands for the points of each series."""

_EIGHTHS = "▏▎▍▌▋▊▉█"

_DASHES = (("1", "━━"), ("111100", "╍╍"), ("100", "┄┄"), ("1111001100", "━·"), ("11110000", "━ "), ("100000", "· "))
"""Which dots of a line are drawn, by its number, and how a legend shows that."""

_MARGIN = 0.04
"""Free at either end of a plane, as a part of it."""

_CROWD = 100
"""Points of one series beyond which dots show more than glyphs."""


@dataclass(frozen=True)
class Drawing:
    """Rows of text; in all but those of the legend, the plot begins after `gutter` characters, at the start of `x`."""

    rows: list[Glyphs]
    gutter: int
    x: Range


def draw(picture: Picture, width: int, height: int, face: Face) -> Drawing:
    """A picture of any kind but bars in `height` rows of `width` characters.

    These are a legend, the plot with its y ticks, and the x ticks. Values that are not finite leave a gap in a line.
    """
    plot = _plot_of(picture, face)
    legend = plot.legend(width, height)
    rows = max(1, height - 1 - len(legend))
    scale = plot.scale(rows)
    ticks = scale.ticks(rows)
    texts = [f"{10**value:.3g}" for value in ticks.values()] if picture.log else axes.labels([*ticks.values()])
    names = {row: f"{text}{picture.y_unit}" for row, text in zip(ticks, texts, strict=True)}
    gutter = max(map(len, names.values()), default=0) + 1
    drawn = []
    for row, glyphs in enumerate(plot.paint(max(1, width - gutter), rows, scale)):
        name = names.get(rows - 1 - row, "")
        drawn.append([Glyph(name.rjust(gutter - 1) + ("┤" if name else "│")), *glyphs])
    x_axis = axes.x_axis(*plot.x, max(1, width - gutter), picture.x_label)
    return Drawing([*legend, *drawn, [Glyph(" " * gutter + x_axis)]], gutter, plot.x)


def _plot_of(picture: Picture, face: Face) -> "_Lines | HeatMap | Bars":
    if picture.heat is not None:
        return HeatMap(picture, picture.heat, face)
    is_filled = picture.kind == "histogram" and len(picture.series) == 2 and face.colours and face.braille
    return Bars(picture) if is_filled else _Lines(picture, face)


class _Lines:
    """Series as lines of dots, and points as glyphs."""

    def __init__(self, picture: Picture, face: Face) -> None:
        self._picture, self._face = picture, face
        self._shown = _outlines(picture)
        scale = _log10 if picture.log else float
        self._lines = [(line.x, list(map(scale, line.y))) for line in self._shown]
        self._marks = [(x, scale(y), glyph, ink) for x, y, glyph, ink in _marks(picture)]
        xs = [x for line, _ in self._lines for x in line] or [x for x, *_ in self._marks]
        is_plane = picture.kind in ("points", "path")
        occupied = picture.occupied() if picture.kind == "histogram" else None
        self.x = picture.x_range or occupied or axes.finite_range(xs, _MARGIN if is_plane else 0.0)

    def legend(self, width: int, height: int) -> list[Glyphs]:
        return _legend(self._picture, width, height, self._face)

    def scale(self, rows: int) -> RowScale:
        marked = [y for x, y, *_ in self._marks if self.x[0] <= x <= self.x[1]]
        ys = [*marked, *(y for _, line in self._lines for y in line)]
        return axes.round_rows(*(self._picture.y_range or axes.finite_range(ys)), rows)

    def paint(self, width: int, rows: int, scale: RowScale) -> Iterator[Glyphs]:
        canvas = Canvas(width, rows, self.x, scale.range(rows), self._face)
        if self._picture.band:
            canvas.fill(self._picture.band)
        # Grey lines lie below the others.
        for n in sorted(range(len(self._lines)), key=lambda n: self._shown[n].ink >= 0):
            dash, _ = _DASHES[n % len(_DASHES)]
            canvas.line(*self._lines[n], self._shown[n].ink or n + 1, dash, self._picture.kind != "points")
        if self._picture.cursor is not None:
            canvas.rule(self._picture.cursor)
        for mark in self._marks:
            canvas.mark(*mark)
        return canvas.rows()


def _has_shapes(picture: Picture) -> bool:
    """Whether each point is drawn as the shape of its series; a crowd of one series is drawn as dots."""
    series = picture.series
    return picture.kind == "points" and (len(series) > 1 or any(len(one.x) <= _CROWD for one in series))


def _outlines(picture: Picture) -> Sequence[Series]:
    """What is drawn as dots: of a histogram the outline of its bars."""
    if picture.kind == "histogram":
        return [
            replace(s, x=[edge for edge in s.x for _ in range(2)], y=[0.0, *(y for y in s.y for _ in range(2)), 0.0])
            for s in picture.series
        ]
    return () if _has_shapes(picture) else picture.series


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
    every = picture.series if _has_shapes(picture) else ()
    for points in zip_longest(*(zip(s.x, s.y, strict=True) for s in every)):
        for n, point in enumerate(points):
            if point is not None:
                yield *point, _SHAPES[n % len(_SHAPES)], every[n].ink or n + 1


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else math.nan


def _legend(picture: Picture, width: int, height: int, face: Face) -> list[Glyphs]:
    """The names of the series, what one wants to know of each where there is room, in at most a quarter of the rows.

    They may have two rows rather than lose a number or letters.
    """
    read = [
        one if one.value is None else replace(one, readings=(f"({picture.colours} {one.value:.2f})",))
        for one in picture.series
    ]
    named = [(_symbol(picture, n, face), one, n) for n, one in enumerate(read) if one.name]
    longest = max((len(one.name) for _, one, _ in named), default=0)
    least = max((len(one.readings) for _, one, _ in named), default=0)
    shapes = [*((longest, n) for n in range(least)), *((n, least - 1) for n in range(longest, 2, -1) if least)]
    rows: list[Glyphs] = []
    most = max(1, height // 4)
    for letters, which in [*shapes, *((n, least) for n in range(longest, 0, -1))]:
        rows = []
        for symbol, one, n in named:
            # A size of embeddings, as @64, is short and no other without its end.
            name = one.name if one.name.startswith("@") else one.name[:letters]
            entry = " ".join([symbol, name, *one.readings[which : which + 1]])
            if not rows or sum(len(glyph.text) for glyph in rows[-1]) + len(entry) > width:
                rows.append([])
            rows[-1].append(Glyph(entry + (" " if which else "  "), one.ink or n + 1))
        if len(rows) <= (most if height <= 5 or which < least - 1 else max(most, 2)):
            return rows
    return rows[:most]


def _symbol(picture: Picture, n: int, face: Face) -> str:
    if picture.kind == "points":
        return _SHAPES[n % len(_SHAPES)] if _has_shapes(picture) else "∙"
    return _DASHES[n % len(_DASHES)][1] if face.braille else 2 * face.letter(picture.series[n].ink or n + 1)


def text(picture: Picture, width: int, height: int) -> str:
    """The picture as plain text in about `height` lines of at most `width` characters, its title first."""
    if picture.kind == "bars":
        return "\n".join([picture.title, *_bars(picture, width)])
    rows = [picture.title]
    if picture.y_label:
        rows.append(f"{picture.y_label} over {picture.x_label}")
    face = Face(colours=False, braille=has_braille())
    drawn = draw(replace(picture, x_label=""), width, max(height - len(rows), 6), face).rows
    return "\n".join([*rows, *("".join(glyph.text for glyph in row).rstrip() for row in drawn)])


def _bars(picture: Picture, width: int) -> Iterator[str]:
    names = max(len(series.name) for series in picture.series)
    ends = [f" {series.y[0]:.3g} {picture.x_label}" for series in picture.series]
    room = max(width - names - 1 - max(map(len, ends)), 1)
    longest = max(abs(series.y[0]) for series in picture.series) or 1.0
    for series, end in zip(picture.series, ends, strict=True):
        whole, eighths = divmod(round(8 * max(series.y[0], 0) / longest * room), 8)
        bar = "█" * whole + (_EIGHTHS[eighths - 1] if eighths else "")
        yield f"{series.name:<{names}} {bar}{end}"
