"""Charts of a screen: what can be read off their axes, their areas and their colours."""

import math
import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from contrastcli import boundary
from contrastcli.show import axes
from contrastcli.show.canvas import FULL, Canvas, Face, Glyph
from contrastcli.show.chart import Drawing, draw, text
from contrastcli.show.pictures import EDGES, Band, Heat, Picture, Series, angle_histogram

PLAIN = Face(colours=False, braille=False)


def lines(*series: Series) -> Picture:
    return Picture("lines", "lines", "lines", "step", "", series)


def plot(drawing: Drawing, legend: int = 1) -> list[list[Glyph]]:
    """The characters of the plot, one by one, without legend, y ticks and x ticks."""
    rows = [[Glyph(letter, *style) for text, *style in row for letter in text] for row in drawing.rows[legend:-1]]
    return [row[drawing.gutter :] for row in rows]


def ticks(drawing: Drawing, legend: int = 1) -> dict[int, float]:
    """The numbers at the y axis, by their row."""
    rows = ["".join(glyph.text for glyph in row)[: drawing.gutter] for row in drawing.rows[legend:-1]]
    return {n: float(row[:-1].rstrip("°%")) for n, row in enumerate(rows) if row.strip("│ ")}


def test_every_tick_is_the_value_in_the_middle_of_its_row_and_all_values_are_in_the_rows() -> None:
    numbers = random.Random(3)
    for _ in range(3000):
        low = numbers.choice([-1, 1]) * 10 ** numbers.uniform(-5, 5)
        high = low + 10 ** numbers.uniform(-4, 4) * max(1.0, abs(low) / 1000)
        rows = numbers.randrange(3, 60)
        scale = axes.round_rows(low, high, rows)
        bottom, top = scale.range(rows)
        assert bottom <= low + 1e-5 * scale.step and high - 1e-5 * scale.step <= top
        assert high - low > 0.4 * (top - bottom) or rows < 6
        for row, value in scale.ticks(rows).items():
            middle = bottom + (row * 4 + 1.5) * (top - bottom) / (rows * 4 - 1)
            assert value == pytest.approx(middle, rel=1e-6, abs=1e-6 * scale.step)


def test_ticks_are_apart_by_equal_rows_and_equal_round_values() -> None:
    drawing = draw(lines(Series("loss", (0, 50, 100), (6.65, 4.0, 3.7))), 50, 24, Face())
    found = ticks(drawing)
    assert [*found.values()] == [7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0]
    assert len({below - row for row, below in pairwise(found)}) == 1


@pytest.mark.parametrize("unit", ["step", "minutes", "sentences", "epoch"])
@pytest.mark.parametrize("width", [24, 38, 70, 200])
def test_both_ends_of_the_x_axis_are_exact_and_the_unit_is_always_there(unit: str, width: int) -> None:
    row = axes.x_axis(1.0, 105_600.0, width, unit)
    assert len(row) == width and row.startswith("1 ") and row.endswith(f" 105.6k {unit}")
    assert axes.x_axis(1.0, 105_600.0, 9, unit).endswith(unit[-9:])


@pytest.mark.parametrize(("step", "is_seen"), [(100, True), (300, False)])
def test_the_best_is_seen_above_a_smoothed_line_unless_its_step_is_not(step: int, is_seen: bool) -> None:
    line = Series("score", (0, 100, 200), (50.0, 55.0, 56.0))
    picture = Picture("dev", "dev", "lines", "step", "", (line,), best=(step, 90.0))
    drawn = text(picture, 40, 10)
    assert ("◆" in drawn) == (drawn != text(replace(picture, best=None), 40, 10)) == is_seen


def test_a_line_from_far_before_the_view_enters_at_its_height() -> None:
    canvas = Canvas(20, 10, (900, 1000), (0, 100))
    canvas.line((0, 1000), (0, 100), 1)
    assert ["".join(glyph.text for glyph in row)[0] != " " for row in canvas.rows()] == [False, True] + [False] * 8


def test_a_number_near_ten_thousand_is_one_of_thousands() -> None:
    assert [axes.number(value) for value in (1500, 9999, 9999.7, 15_000)] == ["1500", "9999", "10k", "15k"]
    assert [axes.number(value) for value in (999_949, 999_999.6)] == ["999.9k", "1e+06"]


def test_a_band_has_two_inks_and_shows_what_is_missing_to_the_limit() -> None:
    x = (0, 100)
    positive, hardest, limit = (40, 40), (30, 70), (50, 50)
    series = [Series(name, x, y) for name, y in (("positive", positive), ("hardest", hardest), ("limit", limit))]
    picture = replace(lines(*series), band=Band(x, positive, hardest, limit), y_range=(20, 80))
    drawing = draw(picture, 64, 40, Face())
    cells, [(first, highest), (second, lower), *_] = plot(drawing), ticks(drawing).items()
    per_row = (highest - lower) / (second - first)
    for column in range(2, len(cells[0]) - 2):
        hard = 30 + 40 * (column + 0.5) / len(cells[0])
        for n, row in enumerate(cells):
            angle = highest - per_row * (n - first)
            ends = (hard, 50) if hard < 50 else (40, hard)
            inside = min(ends) + per_row < angle < max(ends) - per_row
            outside = angle < min(ends) - per_row or angle > max(ends) + per_row
            ground = row[column].ground
            if inside:
                assert isinstance(ground, tuple) and (ground[1] > 0) == (hard < 50), (hard, angle)
            assert not (outside and ground)


def heat(*counts: tuple[dict[int, int], dict[int, int]], x: tuple[float, float] = (0.0, 10.0)) -> Picture:
    """Bins of 5 degrees, by number, of positives and negatives at each place."""
    columns = [tuple([of.get(n, 0) for n in range(len(EDGES) - 1)] for of in both) for both in counts]
    names = (Series("positive", (), ()), Series("negative", (), ()))
    shown = Heat(EDGES, columns)  # type: ignore[arg-type]
    return Picture("angles", "Pairs", "heat", "step", "", names, x_range=x, y_unit="°", heat=shown)


def halves(drawing: Drawing) -> list[list[tuple[int, int]]]:
    """How much of positives and negatives each half of a character has, from the top."""

    def of(glyph: Glyph) -> tuple[tuple[int, int], tuple[int, int]]:
        ink, ground = (one if isinstance(one, tuple) else (0, 0) for one in (glyph.ink, glyph.ground))
        return {"▀": (ink, ground), "▄": (ground, ink), " ": ((0, 0), (0, 0))}[glyph.text]

    pairs = [[of(glyph) for glyph in row] for row in plot(drawing)]
    return [[pair[half] for pair in row] for row in pairs for half in (0, 1)]


def test_a_heat_map_is_brightest_where_most_pairs_are() -> None:
    left = ({4: 16, 5: 4}, {10: 400, 11: 100})
    right = ({8: 16}, {8: 100, 14: 400})
    drawing = draw(heat(left, right), 60, 26, Face())
    rows = halves(drawing)
    places = ticks(drawing)
    (top, highest), (below, lower) = list(places.items())[:2]
    degrees = [highest - (highest - lower) / (below - top) * ((n - 0.5) / 2 - top) for n in range(len(rows))]
    brightest = {
        (side, kind): [angle for angle, row in zip(degrees, rows, strict=True) if row[column][kind] == FULL]
        for side, column in (("left", 5), ("right", len(rows[0]) - 5))
        for kind in (0, 1)
    }
    for (side, kind), bin_ in {("left", 0): 4, ("left", 1): 10, ("right", 0): 8, ("right", 1): 14}.items():
        assert brightest[side, kind], (side, kind)
        assert all(5 * bin_ - 3 < angle < 5 * bin_ + 8 for angle in brightest[side, kind]), (side, kind)
    both = [row[-5] for row in rows if all(row[-5])]
    assert both and {pair[0] for pair in both} == {FULL} and all(0 < pair[1] < FULL for pair in both)
    legend = {glyph.text.strip("█ "): glyph.ink for glyph in drawing.rows[0]}
    assert legend == {"positive": (FULL, 0), "negative": (0, FULL), "both": (FULL, FULL)}


def test_without_colours_a_heat_map_is_letters_that_its_legend_explains() -> None:
    drawing = draw(heat(({4: 1}, {10: 1}), ({6: 1}, {6: 1})), 40, 20, Face(colours=False))
    letters = {glyph.text for row in plot(drawing) for glyph in row}
    assert letters == {" ", "+", "-", "x"}
    assert "".join(glyph.text for glyph in drawing.rows[0]).split() == ["+", "positive", "-", "negative", "x", "both"]
    assert not any(glyph.ground for row in drawing.rows for glyph in row)


def test_bars_are_as_high_as_their_shares_to_an_eighth_of_a_row() -> None:
    positive, negative = [0] * 36, [0] * 36
    positive[4:7], negative[5:9] = [2, 5, 3], [1, 4, 3, 2]
    picture = angle_histogram("% of pairs", positive, negative)
    drawing = draw(picture, 65, 24, Face())
    cells, places = plot(drawing), ticks(drawing)
    assert drawing.x == (20, 45), "the angles that occur"
    row, value = next(iter(places.items()))
    per_row = value / (len(cells) - row)
    for number, bins in enumerate(zip(positive[4:9], negative[4:9], strict=True)):
        column = [line[int((number + 0.5) / 5 * len(cells[0]))] for line in cells]
        eighths = {(FULL, 0): 0.0, (0, FULL): 0.0, (FULL, FULL): 0.0}
        for glyph in column:
            filled = " ▁▂▃▄▅▆▇█".index(glyph.text)
            if filled:
                eighths[glyph.ink] += filled  # type: ignore[index]
        both = min(bins)
        assert eighths[FULL, FULL] * per_row / 8 == pytest.approx(10 * both, abs=0.07 * per_row * 8)
        kind = (FULL, 0) if bins[0] > bins[1] else (0, FULL)
        assert eighths[kind] * per_row / 8 == pytest.approx(10 * (max(bins) - both), abs=per_row)


def test_symbols_have_words_where_they_cannot_be_shown() -> None:
    pages = [page.read_text() for page in (Path(boundary.__file__).parent / "help").iterdir()]
    shown = boundary.fitting("".join(["53.14 → 55.62, ✓ ok, 2.1 ± 0.3", *pages]), "ascii")
    assert re.findall(r"\\u.{4}", shown) == []


@pytest.mark.parametrize(("name", "value"), [("TERM", "linux"), ("LANG", "C"), ("LC_ALL", "POSIX")])
def test_without_braille_a_chart_is_letters_one_for_each_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    picture = lines(Series("rising", (0, 100), (1, 3)), Series("falling", (0, 100), (3, 1)))
    monkeypatch.delenv("LC_ALL", raising=False)
    assert max(text(picture, 40, 12)) > "⠁", "braille where nothing speaks against it"
    monkeypatch.setenv(name, value)
    drawn = text(picture, 40, 12)
    assert boundary.fitting(drawn, "ascii").isascii() and "\\u" not in boundary.fitting(drawn, "ascii")
    assert "** rising" in drawn and "++ falling" in drawn and drawn.count("*") > 20 < drawn.count("+")


def test_what_is_missing_of_a_gap_is_seen_without_colours_too() -> None:
    x = (0, 100)
    band = Band(x, (40, 40), (30, 30), (60, 60))
    picture = replace(lines(Series("positive", x, (40, 40))), band=band, y_range=(20, 80))
    marked = [glyph.text for row in plot(draw(picture, 40, 20, PLAIN)) for glyph in row]
    assert marked.count(":") > 100
    assert not any(math.isnan(number) for number in ticks(draw(picture, 40, 20, PLAIN)).values())


def test_a_screenshot_needs_no_font_for_its_curves() -> None:
    from rich.segment import Segment
    from rich.style import Style

    from contrastcli.tui.screenshot import svg

    row = [Segment("a\uffff b <", Style(color="#ff0000")), Segment("⠁⣿▄█", Style(color="#00ff00", bgcolor="#000000"))]
    drawn = svg([row], 10, "title & more")
    words = [part.partition(">")[2].partition("<")[0] for part in drawn.split("<text ")[1:]]
    assert words == ["a", "b", "&lt;"] and "title &amp; more" in drawn
    assert drawn.count("h0") == 1 + 8, "a dot each"
    assert "⠁" not in drawn and "█" not in drawn and "▄" not in drawn
