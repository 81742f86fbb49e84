"""Pictures for print: PNG and SVG as wide as a column, by matplotlib."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastcli.errors import UsageError
from contrastcli.files import atomic_write, make_folder, writing_to
from contrastcli.show.pictures import Picture, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.3
"""Inches: a column of a two-column paper."""

_HEIGHT = 2.3  # inches, without the legend
_LINE = 0.14  # inches, of a row of the legend
_BAR = 0.28  # inches, of a bar and the space beside it
_LETTERS = 60  # of 7 points that fit into the width
_MARKED = 8  # markers along a curve
# Okabe and Ito's colours: they differ for every eye, and with the dashes and markers also in grey
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = "os^Dv*PX"
_STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "savefig.dpi": 600,
    "svg.fonttype": "path",  # the same letters on every machine, and sharp at any size
    "svg.hashsalt": "contrast",  # so that equal pictures are equal files
}


def check(folder: Path) -> None:
    """Make a folder for pictures, before long work. Raises UsageError without matplotlib, RunError where it cannot."""
    _require()
    make_folder(folder)


def _require() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("pictures as files need matplotlib", 'pip install "contrastcli[plots]"') from None


def save(picture: Picture, folder: Path) -> list[Path]:
    """Write a picture as PNG and SVG into a folder, which is made where it is missing; returns their paths.

    Raises UsageError without matplotlib, RunError where the folder cannot be written.
    """
    _require()
    import matplotlib

    with matplotlib.rc_context(_STYLE), writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        figure = _figure(picture)
        # Neither the date nor the version goes into the file.
        return [_write(figure, folder / f"{picture.name}.{kind}", {part: None}) for kind, part in _VARYING.items()]


_VARYING = {"png": "Software", "svg": "Date"}


def _write(figure: Figure, path: Path, metadata: dict[str, None]) -> Path:
    stream = io.BytesIO()
    figure.savefig(stream, format=path.suffix[1:], metadata=metadata)
    atomic_write(path, stream.getvalue())
    return path


def _figure(picture: Picture) -> Figure:
    from matplotlib.figure import Figure

    columns = max(1, _LETTERS // (max(len(series.name) for series in picture.series) + 8))
    rows = 0 if picture.form == "bars" else math.ceil(len(picture.series) / columns)
    height = _HEIGHT + _LINE * rows if rows else 0.5 + _BAR * len(picture.series)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot(xlabel=picture.x_label, ylabel=picture.y_label)
    if picture.form == "bars":
        _bars(axes, picture.series)
    elif picture.colours:
        _coloured(axes, picture)
    else:
        for number, series in enumerate(picture.series):
            _series(axes, picture, series, number)
    if _is_cloud(picture):
        axes.set_aspect("equal", "datalim")
        axes.locator_params(nbins=5)
    if not picture.x_label:  # places that mean nothing but by their neighbours
        axes.set_axis_off()
    if rows:
        larger = 2.5 if _is_cloud(picture) else 1.0
        style = {"ncols": columns, "handlelength": 2.6, "columnspacing": 1.2, "markerscale": larger}
        figure.legend(loc="outside upper left", **style)
    return figure


def _series(axes: Axes, picture: Picture, series: Series, number: int) -> None:
    """One series in the ink that its number gives: no two of 35 lines are alike, and none of 56 clouds."""
    colour = _COLOURS[number % len(_COLOURS)]
    dashes = _DASHES[number % len(_DASHES)]
    marker = _MARKERS[number % len(_MARKERS)]
    if picture.form == "histogram":
        axes.stairs(series.y, series.x, color=colour, linestyle=dashes, linewidth=1.1, label=series.name)
        axes.set_xlim(*picture.extent()[0])
    elif picture.form == "points":
        size = 1.6 if _is_cloud(picture) else 5.0
        axes.plot(series.x, series.y, marker, color=colour, markersize=size, markeredgewidth=0, label=series.name)
    elif picture.form == "path":
        axes.plot(series.x, series.y, color=colour, linestyle=dashes, marker=marker, markersize=2, label=series.name)
        axes.plot(*_end(series, 0), color=colour, marker=marker, markersize=5, markerfacecolor="white")
        axes.plot(*_end(series, -1), color=colour, marker=marker, markersize=5)
    else:
        every = max(1, len(series.x) // _MARKED)
        marked = (number * every // len(picture.series), every)  # markers of curves that run together stand apart
        axes.plot(series.x, series.y, color=colour, linestyle=dashes, marker=marker, markersize=3, markevery=marked)
        axes.lines[-1].set_label(series.name)


def _is_cloud(picture: Picture) -> bool:
    return picture.form == "points" and any(len(series.x) > 1 for series in picture.series)


def _end(series: Series, place: int) -> tuple[list[float], list[float]]:
    return [series.x[place]], [series.y[place]]


def _coloured(axes: Axes, picture: Picture) -> None:
    """Points whose colour is the value of their series; grey where it has none."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    values = [series.value for series in picture.series if series.value is not None]
    scale, colours = Normalize(min(values), max(values)), colormaps["cividis"]
    for number, series in enumerate(picture.series):
        marker = _MARKERS[number % len(_MARKERS)]
        inside = "lightgrey" if series.value is None else colours(scale(series.value))
        axes.plot(series.x, series.y, marker, color="black", markerfacecolor=inside, label=series.name)
    axes.figure.colorbar(ScalarMappable(scale, colours), ax=axes, label=picture.colours)


def _bars(axes: Axes, bars: tuple[Series, ...]) -> None:
    drawn = axes.barh([series.name for series in bars], [series.y[0] for series in bars], color=_COLOURS[0], height=0.6)
    axes.bar_label(drawn, fmt="%.3g", padding=2)
    axes.invert_yaxis()
    axes.margins(x=0.12)
