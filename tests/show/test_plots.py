"""Pictures as text and as files: what is in them can be read off them, with and without colour."""

import csv
import random
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from contrastcli.errors import UsageError
from contrastcli.show.canvas import Face
from contrastcli.show.chart import draw, text
from contrastcli.show.pictures import EDGES, Picture, PlotKind, Series
from contrastcli.show.plots import WIDTH, save


def picture(kind: PlotKind, *series: Series, colours: str = "") -> Picture:
    return Picture(f"a-{kind}", "what it shows", kind, "across", "up", series, colours)


def heights(**bins: float) -> tuple[float, ...]:
    return tuple(bins.get(f"d{edge:.0f}", 0.0) for edge in EDGES[:-1])


LINES = picture("lines", Series("rising", (0, 50, 100), (10, 20, 30)), Series("falling", (0, 100), (30, 10)))
PATHS = picture("path", Series("first", (-1, -2, -3), (0.1, 0.3, 0.2)), Series("second", (-1, -2.5), (0.1, 0.4)))
CLOUDS = picture("points", Series("left", (-1, -1.2), (0, 0.4)), Series("right", (1, 1.2, 1.1), (0, 0.3, 0.5)))
PLACES = picture(
    "points",
    Series("a", (-2,), (0.2,), 76.25),
    Series("b", (-3,), (0.3,), 70),
    Series("c", (-1,), (0.1,)),
    colours="STS",
)
HISTOGRAM = picture("histogram", Series("one", EDGES, heights(d40=60, d45=40)), Series("two", EDGES, heights(d60=100)))
BARS = picture("bars", Series("quick", (), (30.0,)), Series("slow", (), (60.0,)))
ALL = [LINES, PATHS, CLOUDS, PLACES, HISTOGRAM, BARS]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12)])
def test_text_names_what_it_shows_and_fits(one: Picture, width: int, height: int) -> None:
    rows = text(one, width, height).split("\n")
    assert rows[0] == "what it shows"
    assert len(rows) <= height and max(map(len, rows)) <= width
    assert all(series.name in "\n".join(rows) for series in one.series)


def test_each_cloud_has_a_glyph_of_its_own_in_text_and_values_follow_the_names() -> None:
    assert "● a (STS 76.25)  ■ b (STS 70.00)  ▲ c" in text(PLACES, 80, 20)
    rows = text(CLOUDS, 60, 16).split("\n")
    assert rows[1:3] == ["up over across", "● left  ■ right"]
    plot = "\n".join(rows[3:])
    assert (plot.count("●"), plot.count("■")) == (2, 3)
    assert all(row.index("●") < 30 for row in rows[3:] if "●" in row)


def test_where_clouds_mix_none_hides_the_others() -> None:
    draw = random.Random(0)

    def points() -> tuple[float, ...]:
        return tuple(draw.random() for _ in range(2000))

    mixed = (Series(name, points(), points()) for name in "abc")
    plot = text(picture("points", *mixed), 40, 20)
    assert all(plot.count(glyph) > 100 for glyph in "●■▲")


def plot(one: Picture, width: int = 44, height: int = 12) -> list[str]:
    """The rows of the plot itself: without legend, y ticks and x ticks."""
    drawn = draw(one, width, height, Face())
    rows = ["".join(glyph.text for glyph in row) for row in drawn.rows[:-1]]
    return [row[drawn.gutter :].ljust(width - drawn.gutter) for row in rows if row[drawn.gutter - 1] in "│┤"]


def test_a_histogram_is_a_staircase_from_zero_and_in_the_ink_that_it_asks_for() -> None:
    stairs = picture("histogram", Series("", (0, 5, 10), (60, 40), ink=3))
    rows = plot(stairs, height=42)
    tops = [next(n for n, row in enumerate(rows) if row[column] != " ") for column in range(1, len(rows[0]) - 1)]
    heights = [len(rows) - top for top in tops]
    middle = len(tops) // 2
    left, right = {*heights[: middle - 2]}, {*heights[middle + 2 :]}
    assert len(left) == len(right) == 1 and left.pop() / right.pop() == pytest.approx(60 / 40, rel=0.05)
    drawn = draw(stairs, 44, 12, Face())
    inks = {glyph.ink for row in drawn.rows[:-1] for glyph in row if glyph.text.strip(" │┤0123456789")}
    assert drawn.x == (0, 10) and inks == {3}


def test_a_crowd_of_points_is_drawn_as_dots() -> None:
    generator = random.Random(0)
    x, y = (tuple(generator.random() for _ in range(200)) for _ in "xy")
    crowd = picture("points", Series("all", x, y))
    dots = sum(bin(ord(letter) - 0x2800).count("1") for row in plot(crowd) for letter in row if letter > "⠀")
    assert 150 < dots <= 200, "the points alone, which no line joins"
    assert "●" not in text(crowd, 60, 20) and "all" in text(crowd, 60, 20)


def test_a_path_with_gaps_begins_and_ends_at_its_first_and_last_point() -> None:
    nan = float("nan")
    rows = plot(picture("path", Series("one", (nan, 1.0, 2.0, nan), (0.0, 3.0, 4.0, 5.0))))
    [(top, end)] = [(n, row.index("●")) for n, row in enumerate(rows) if "●" in row]
    [(bottom, start)] = [(n, row.index("○")) for n, row in enumerate(rows) if "○" in row]
    assert start < 3 and end > len(rows[0]) - 4 and top < bottom
    assert picture("path", Series("one", (nan,), (nan,))).empty and picture("lines").empty


def test_the_best_point_is_marked_in_the_ranges_that_are_given() -> None:
    ranged = replace(LINES, best=(50, 20), x_range=(0, 200), y_range=(0, 100))
    rising = picture("lines", Series("tenfold", (0, 50, 200), (1, 10, 100)))
    for one, share in ((ranged, 0.2), (replace(rising, best=(50, 10), log=True), 0.5)):
        rows = plot(one, 60, 20)
        [(row, column)] = [(n, row.index("◆")) for n, row in enumerate(rows) if "◆" in row]
        assert column / len(rows[0]) == pytest.approx(0.25, abs=0.02)
        assert row / len(rows) == pytest.approx(1 - share, abs=0.05)
        assert draw(one, 60, 20, Face()).x == (0, 200)


@pytest.mark.parametrize("x", [(1.0,), (2.0, 2.0)])
def test_a_picture_of_one_place_is_drawn(x: tuple[float, ...]) -> None:
    assert text(picture("points", Series("only", x, x)), 40, 12).count("●") == 2  # in the legend and in the plane


matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="it is an extra")


@matplotlib
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_picture_becomes_a_png_and_an_svg_as_wide_as_a_column_and_numbers(one: Picture, tmp_path: Path) -> None:
    png, svg, numbers = save(one, tmp_path / "new" / "folder")
    assert [path.name for path in (png, svg, numbers)] == [f"{one.name}.{kind}" for kind in ("png", "svg", "csv")]
    rows = [*csv.DictReader(numbers.read_text().splitlines())]
    y = "across" if one.kind == "bars" else "up"
    assert [(row["series"], float(row[y])) for row in rows] == [(s.name, y) for s in one.series for y in s.y]
    assert [row.get("STS") for row in rows] == (["76.25", "70", ""] if one == PLACES else [None] * len(rows))
    header = png.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(header[16:20]) == 600 * WIDTH
    drawing = svg.read_text()
    assert re.search(rf'<svg [^>]*width="{72 * WIDTH:g}pt"', drawing)
    assert "<text" not in drawing  # letters are outlines: no font is needed to print them
    assert all(f"<!-- {series.name} -->" in drawing for series in one.series)


@matplotlib
@pytest.mark.parametrize("unit", ["", "seconds"])
def test_bars_have_their_names_and_their_unit_in_print_and_in_numbers(tmp_path: Path, unit: str) -> None:
    _, drawing, numbers = save(replace(BARS, x_label=unit), tmp_path)
    texts = re.findall(r"<!-- (.*) -->", drawing.read_text())
    assert {"quick", "slow"} <= set(texts) and ("seconds" in texts) == bool(unit)
    assert numbers.read_text().startswith(f"series,x,{unit or 'y'}\n")


@matplotlib
def test_lines_differ_without_their_colours(tmp_path: Path) -> None:
    many = picture("lines", *(Series(f"run {n}", (0, 1, 2), (n, n + 1, n)) for n in range(10)))
    drawing = save(many, tmp_path)[1].read_text()
    styles = re.findall(r'clip-path="[^"]*" style="fill: none;([^"]*)"', drawing)
    assert len(set(styles)) == len(styles) == 10
    dashes = {re.sub("stroke: #[0-9a-f]+", "", style) for style in styles}
    assert len(dashes) == 5


@matplotlib
@pytest.mark.parametrize("size", [1, 2, 3, 6, 10])
def test_the_names_of_many_series_fit_the_width(tmp_path: Path, size: int) -> None:
    from matplotlib.image import imread

    many = picture("points", *(Series(f"{n % 10}" * size, (n, n + 1), (n, n)) for n in range(40)))
    assert imread(save(replace(many, x_label=""), tmp_path)[0])[:, -9:, :3].min() == 1  # white to the edge


@matplotlib
def test_a_name_with_dollars_is_no_formula_and_a_letter_that_the_font_lacks_gets_one_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = save(picture("lines", Series("$\\x$ \ue000\ue001", (0, 1), (0, 1))), tmp_path)[1].read_text()
    assert r"$\x$" in svg and capsys.readouterr().err.count("a-lines: Glyph 57344") == 1


@matplotlib
def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    one, other = (save(CLOUDS, tmp_path / name) for name in ("a", "b"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrastcli.show.plots.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        save(LINES, tmp_path)
    assert 'pip install "contrastcli[plots]"' in caught.value.hint and not list(tmp_path.iterdir())
