"""Pictures for print: PNG and SVG as wide as a column, by matplotlib; and their numbers."""

import io
import math
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from contrastcli.boundary import narrate
from contrastcli.errors import UsageError, Use
from contrastcli.files import atomic_write, make_folder, writing_to
from contrastcli.show.format import as_csv
from contrastcli.show.pictures import Picture, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.3  # inches, a column of paper
_HEIGHT_INCHES = 2.3  # without the legend
_LEGEND_ROW_INCHES = 0.14
_BAR_INCHES = 0.28
"""Of a bar and the space next to it."""

_LETTERS_PER_LINE = 60
_MARKERS_PER_CURVE = 8
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = "os^Dv*PX"
_STYLE = Path(__file__).with_suffix(".mplstyle")


def check(folder: Path, draws: bool = True) -> None:
    """Make the folder of --out, before long work, for pictures if it `draws`.

    Raises UsageError for the name of a file, and without matplotlib; RunError where it cannot be made.
    """
    if folder.suffix in (".json", ".csv", ".txt", ".md", ".tex", ".png", ".svg", ".pdf") and not folder.is_dir():
        raise UsageError(
            f"--out is a folder, and {folder} a file", f"--out {folder.with_suffix('')}, or --json > {folder}"
        )
    if draws and find_spec("matplotlib") is None:
        raise UsageError("pictures as files need matplotlib", 'pip install "contrastcli[plots]"')
    make_folder(folder)


def save(picture: Picture, folder: Path) -> list[Path]:
    """Write a picture as PNG, SVG and, its numbers, CSV into a folder, which is made if missing; returns the paths.

    Raises UsageError without matplotlib, RunError where the folder cannot be written.
    """
    check(folder)
    import matplotlib

    paths = []
    with matplotlib.rc_context(fname=_STYLE), writing_to(folder, Use("--out", "FOLDER", "write elsewhere:")):
        figure = _figure(picture)
        # These entries would make equal pictures unequal files.
        for kind, varying in (("png", "Software"), ("svg", "Date")):
            stream = io.BytesIO()
            with warnings.catch_warnings(category=UserWarning, action="always", record=True) as problems:
                figure.savefig(stream, format=kind, metadata={varying: None})
            paths.append(folder / f"{picture.name}.{kind}")
            atomic_write(paths[-1], stream.getvalue())
        # As of letters that the font lacks, in both files.
        for problem in problems[:1]:
            narrate(f"note: {picture.name}: {problem.message}")
        # A histogram has an edge more, a bar no place.
        coloured = (picture.colours,) if picture.colours else ()
        points = [
            (one.name, one.x[n] if one.x else None, y, *(one.value for _ in coloured))
            for one in picture.series
            for n, y in enumerate(one.y)
        ]
        paths.append(folder / f"{picture.name}.csv")
        x, y = ("", picture.x_label) if picture.kind == "bars" else (picture.x_label, picture.y_label)
        numbers = as_csv(["series", x or "x", y or "y", *coloured], points)
        atomic_write(paths[-1], f"{numbers}\n".encode())
    return paths


def _figure(picture: Picture) -> "Figure":
    from matplotlib.figure import Figure

    columns = max(1, _LETTERS_PER_LINE // (max(len(series.name) for series in picture.series) + 9))
    named = any(series.name for series in picture.series) and picture.kind != "bars"
    rows = math.ceil(len(picture.series) / columns) if named else 0
    height = _HEIGHT_INCHES + _LEGEND_ROW_INCHES * rows
    if picture.kind == "bars":
        height = 0.5 + _BAR_INCHES * len(picture.series)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot(xlabel=picture.x_label, ylabel=picture.y_label)
    if picture.kind == "bars":
        _draw_bars(axes, picture)
    elif picture.colours:
        _draw_values(axes, picture)
    else:
        for number, series in enumerate(picture.series):
            _draw_series(axes, picture, series, number)
    if _is_cloud(picture):
        axes.set_aspect("equal", "datalim")
        axes.locator_params(nbins=5)
    if not picture.x_label and picture.kind != "bars":  # the coordinates have no meaning
        axes.set_axis_off()
    if rows:
        larger = 2.5 if _is_cloud(picture) else 1.0
        style = {"ncols": columns, "handlelength": 2.6, "columnspacing": 1.2, "markerscale": larger}
        figure.legend(loc="outside upper left", **style)
    return figure


def _draw_bars(axes: "Axes", picture: Picture) -> None:
    names, values = [series.name for series in picture.series], [series.y[0] for series in picture.series]
    colours = [f"C{max(series.ink - 1, 0)}" for series in picture.series]
    axes.bar_label(axes.barh(names, values, color=colours, height=0.6), fmt="%.3g", padding=2)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_visible(bool(picture.x_label))


def _draw_series(axes: "Axes", picture: Picture, series: Series, number: int) -> None:
    """One series in the ink of its number: no two of 35 lines are alike, and none of 56 clouds."""
    marker, name = _MARKERS[number % len(_MARKERS)], series.name
    colour = f"C{series.ink - 1 if series.ink > 0 else number}"
    dashes = _DASHES[number % len(_DASHES)]
    if picture.kind == "histogram":
        axes.stairs(series.y, series.x, color=colour, linestyle=dashes, linewidth=1.1, label=name)
        axes.set_xlim(*picture.occupied())
    elif picture.kind == "points":
        size = 1.6 if _is_cloud(picture) else 5.0
        axes.plot(series.x, series.y, marker, color=colour, markersize=size, markeredgewidth=0, label=name)
    elif picture.kind == "path":
        axes.plot(series.x, series.y, color=colour, linestyle=dashes, marker=marker, markersize=2, label=name)
        axes.plot(series.x[:1], series.y[:1], color=colour, marker=marker, markersize=5, markerfacecolor="white")
        axes.plot(series.x[-1:], series.y[-1:], color=colour, marker=marker, markersize=5)
    else:
        every = max(1, len(series.x) // _MARKERS_PER_CURVE)
        # Curves that coincide show all their markers.
        marked = (number * every // len(picture.series), every)
        axes.plot(series.x, series.y, color=colour, linestyle=dashes, marker=marker, markersize=3, markevery=marked)
        axes.lines[-1].set_label(name)


def _is_cloud(picture: Picture) -> bool:
    return picture.kind == "points" and any(len(series.x) > 1 for series in picture.series)


def _draw_values(axes: "Axes", picture: Picture) -> None:
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
