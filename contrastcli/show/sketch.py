"""Pictures as plain text."""

from collections.abc import Iterator
from dataclasses import replace

from contrastcli.boundary import has_braille
from contrastcli.show.canvas import Face
from contrastcli.show.chart import SHAPES, draw, has_shapes
from contrastcli.show.pictures import Picture

_EIGHTHS = "▏▎▍▌▋▊▉█"


def text(picture: Picture, width: int, height: int) -> str:
    """The picture in about `height` lines of at most `width` characters, its title first."""
    if picture.kind == "bars":
        return "\n".join([picture.title, *_bars(picture, width)])
    rows = [picture.title]
    if picture.y_label:
        rows.append(f"{picture.y_label} over {picture.x_label}")
    if has_shapes(picture):
        rows += _legend(picture, width)
    face = Face(colours=False, braille=has_braille())
    drawn = draw(replace(picture, x_label=""), width, max(height - len(rows), 6), face).rows
    return "\n".join([*rows, *("".join(glyph.text for glyph in row).rstrip() for row in drawn)])


def _legend(picture: Picture, width: int) -> list[str]:
    rows = [""]
    for n, series in enumerate(picture.series):
        value = "" if series.value is None else f" ({picture.colours} {series.value:.2f})"
        entry = f"{SHAPES[n % len(SHAPES)]} {series.name}{value}"
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
        bar = "█" * whole + (_EIGHTHS[eighths - 1] if eighths else "")
        yield f"{series.name:<{names}} {bar}{end}"
