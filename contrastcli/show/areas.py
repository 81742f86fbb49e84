"""Charts made of coloured areas: angles over steps as a heat map in half blocks, and bars in eighths of a row."""

import math
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate

from contrastcli.show import axes
from contrastcli.show.axes import RowScale
from contrastcli.show.canvas import FULL, Face, Glyph, Glyphs, joined
from contrastcli.show.pictures import Heat, Picture

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LETTERS = {(False, False): " ", (True, False): "+", (False, True): "-", (True, True): "x"}
"""In place of colours: nothing, positives, negatives, both."""


class _Areas:
    """Positives and negatives in two colours, and a third where they overlap."""

    def __init__(self, picture: Picture, face: Face) -> None:
        self._names, self._face = [one.name for one in picture.series], face

    def legend(self, width: int, height: int) -> list[Glyphs]:
        """The colours, or what stands for them, with their names."""
        kinds = ((True, False), (False, True), (True, True))
        entries = [
            Glyph(f"{'█' if self._face.colours else _LETTERS[kind]} {name}  ", (FULL * kind[0], FULL * kind[1]))
            for kind, name in zip(kinds, [*self._names, "both"], strict=True)
        ]
        return [entries] if sum(len(entry.text) for entry in entries) <= width and height > 5 else []


class HeatMap(_Areas):
    """How often positives and negatives have values of y, over x: the more often, the brighter."""

    def __init__(self, picture: Picture, heat: Heat, face: Face) -> None:
        super().__init__(picture, face)
        self._heat, self.x = heat, picture.x_range or (0.0, 1.0)
        seen = [n for both in heat.counts for kind in both for n, level in enumerate(_levels(kind)) if level]
        self._y = heat.edges[min(seen, default=0)], heat.edges[max(seen, default=0) + 1]

    def scale(self, rows: int) -> RowScale:
        return axes.round_rows(*self._y, rows)

    def paint(self, width: int, rows: int, scale: RowScale) -> Iterator[Glyphs]:
        """Rows from the top, each of them of two half blocks over each other."""
        # The app's first frame has nothing to draw, and loads no numpy.
        import numpy as np

        edges = [scale.first + (n / 2 - 0.5) * scale.step for n in range(2 * rows + 1)]
        # What lies below each edge: pairs are spread evenly within their bin.
        below = [
            [np.interp(edges, self._heat.edges, [0, *accumulate(counts)]) for counts in both]
            for both in self._heat.counts
        ]
        known = [[_levels(np.diff(one).tolist()) for one in both] for both in below]
        columns = [known[int((n + 0.5) / width * len(known))] for n in range(width)]
        for row in reversed(range(rows)):
            halves = ([(positive[n], negative[n]) for n in (2 * row, 2 * row + 1)] for positive, negative in columns)
            yield joined(self._glyph(*both) for both in halves)

    def _glyph(self, lower: tuple[int, int], upper: tuple[int, int]) -> Glyph:
        if not self._face.colours:
            return Glyph(_LETTERS[lower[0] + upper[0] > 0, lower[1] + upper[1] > 0])
        if not any(upper):
            return Glyph("▄", lower) if any(lower) else Glyph(" ")
        return Glyph("▀", upper, lower if any(lower) else 0)


def _levels(counts: Sequence[float]) -> list[int]:
    """How bright each of some counts is; by the root, so that the tails are seen."""
    most = max(counts) or 1.0
    return [round(FULL * math.sqrt(count / most)) for count in counts]


class Bars(_Areas):
    """Two histograms over each other as filled bars."""

    def __init__(self, picture: Picture) -> None:
        super().__init__(picture, Face())
        self.x = picture.occupied()
        self._edges, self._shares = picture.series[0].x, [one.y for one in picture.series]

    def scale(self, rows: int) -> RowScale:
        return axes.round_bars(max(map(max, self._shares)), rows)

    def paint(self, width: int, rows: int, scale: RowScale) -> Iterator[Glyphs]:
        places = [self.x[0] + (n + 0.5) / width * (self.x[1] - self.x[0]) for n in range(width)]
        bins = [bisect(self._edges, place) - 1 for place in places]
        heights = [tuple(round(8 * shares[n] / scale.step) for shares in self._shares) for n in bins]
        for row in reversed(range(rows)):
            yield joined(_cell(*(height - 8 * row for height in both)) for both in heights)


def _cell(positive: int, negative: int) -> Glyph:
    """A character of two bars that reach so many eighths of it."""
    low, high = (min(max(one(positive, negative), 0), 8) for one in (min, max))
    taller = (FULL, 0) if positive > negative else (0, FULL)
    if not low or low == 8:
        return Glyph(_EIGHTHS[high], (FULL, FULL) if low else taller)
    # A character has two colours: what is above both bars, or the rest of the taller one.
    return Glyph(_EIGHTHS[low], (FULL, FULL), taller if high - low > 8 - high else 0)
