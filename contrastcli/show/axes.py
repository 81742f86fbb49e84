"""The axes of a chart: rows at round values, ticks that are exactly where they stand, and units."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from contrastcli.show.pictures import Range

_TICKS = (1.0, 2.0, 2.5, 5.0)
"""What neighbouring ticks differ by, times a power of ten."""
_MOST_TICKS = 10
_MANY_ROWS = 3
"""Up to which each row may have a tick."""
_WORTH = 1.15
"""How much coarser a scale may be that has ticks at both ends."""
_COLUMNS_PER_TICK = 12

_EDGE = 3 / 8
"""From the middle of a row to the outer ones of its four dots, as a part of a row."""


def number(value: float) -> str:
    """A number in few characters: `0.05`, `15k`, `3e-05`."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    if abs(value) >= 999950 or abs(value) < 1e-3:
        return f"{value:.2g}"
    return f"{value / 1000:.4g}k" if abs(value) >= 9999.5 else f"{value:.4g}"


def finite_range(values: Sequence[float], margin: float = 0.0) -> Range:
    """The lowest and the highest number, with a margin as a part of that; more where they are the same."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return (low - abs(low) * 0.1, high + abs(low) * 0.1) if low else (0.0, 1.0)
    return low - margin * (high - low), high + margin * (high - low)


class RowScale(NamedTuple):
    """The value in the middle of the lowest row, the step to the next, and which rows have ticks, at round values."""

    first: float
    step: float
    first_tick: int
    rows_per_tick: int

    def range(self, rows: int) -> Range:
        """The values of the lowest and the highest dot of so many rows."""
        return self.first - _EDGE * self.step, self.first + (rows - 1 + _EDGE) * self.step

    def ticks(self, rows: int) -> dict[int, float]:
        """The values of the rows with ticks, by their numbers from below."""
        return {row: self.first + row * self.step for row in range(self.first_tick, rows, self.rows_per_tick)}


def round_rows(low: float, high: float, rows: int) -> RowScale:
    """A scale on which a range is in so many rows: the finest, or one nearly as fine with ticks at more ends."""
    scales = [_lowest(low, *one) for one in _scales((high - low) / rows, rows)]
    fitting = [scale for scale in scales if scale.range(rows)[1] >= high - 1e-6 * scale.step]
    several = [scale for scale in fitting if len(scale.ticks(rows)) > 1]
    fitting = several or [scale for scale in fitting if scale.ticks(rows)] or fitting
    fine = [scale for scale in fitting if scale.step <= _WORTH * fitting[0].step]
    return max(fine, key=lambda scale: (0 in scale.ticks(rows)) + (rows - 1 in scale.ticks(rows)))


def _lowest(low: float, step: float, per_tick: int) -> RowScale:
    """The scale with these steps whose lowest row is the highest that shows a value."""
    number = math.floor(low / step + _EDGE + 1e-6)
    return RowScale(number * step, step, -number % per_tick, per_tick)


def round_bars(top: float, rows: int) -> RowScale:
    """The finest scale of bars that reach up to a value; the value of a row is that of its upper edge."""
    scales = _scales((top or 1.0) / rows, rows)
    return next(RowScale(step, step, n - 1, n) for step, n in scales if step * rows >= top * (1 - 1e-9))


def _scales(rough: float, rows: int) -> list[tuple[float, int]]:
    """Steps from row to row of about this size, and the rows per tick, such that ticks are round; the finest first."""
    power, fewest = 10.0 ** math.floor(math.log10(rough)), max(1 + (rows > _MANY_ROWS), math.ceil(rows / _MOST_TICKS))
    ticks = [power * scale * factor for scale in (1, 10, 100) for factor in _TICKS]
    pairs = ((tick / n, n) for tick in ticks for n in range(fewest, fewest + 4))
    return sorted(pair for pair in pairs if pair[0] >= rough * (1 - 1e-9))


def labels(values: Sequence[float]) -> list[str]:
    """Numbers with as many decimals as show each of them exactly, if those are few."""
    if max(map(abs, values), default=0.0) < 10_000:
        for decimals in range(5):
            if all(math.isclose(value, round(value, decimals), rel_tol=1e-9, abs_tol=1e-12) for value in values):
                return [f"{value:.{decimals}f}" for value in values]
    return [number(value) for value in values]


def x_axis(low: float, high: float, width: int, unit: str) -> str:
    """A row of ticks: both ends, the unit at the right one, and round numbers between them where there is room."""
    right = f"{number(high)} {unit}".strip()[-width:]
    row = [" "] * (width - len(right)) + list(right)
    _put(row, number(low), 0)
    for tick in ticks(low, high, max(1, width // _COLUMNS_PER_TICK)):
        text = number(tick)
        _put(row, text, round((width - 1) * (tick - low) / (high - low)) - len(text) // 2)
    return "".join(row)


def _put(row: list[str], text: str, start: int) -> None:
    """Write a text where nothing else is near."""
    near = row[max(0, start - 1) : start + len(text) + 1]
    if start >= 0 and start + len(text) <= len(row) and not "".join(near).strip():
        row[start : start + len(text)] = text


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers within a range, about `count` or none, apart by 1, 2 or 5 times a power of ten."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
