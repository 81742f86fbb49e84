"""Numbers and texts as people read them, in the lines of events and elsewhere."""

import math

from contrastcli.boundary import printable

MISSING = "–"
"""Shown for a missing value."""
_LARGE = 1e6

LENGTH = 200
"""Characters of a text in an event, at most."""


class Numeral(str):
    """A number as text, perhaps with its deviation or unit; tables align it by its digits."""


def fixed(value: float | None, digits: int) -> Numeral:
    """A number with that many decimals, a large one with four digits; a dash if it is missing or not finite."""
    if value is None or not math.isfinite(value):
        return Numeral(MISSING)
    return Numeral(f"{value:.{digits}f}" if abs(value) < _LARGE else f"{value:.4g}")


def score(correlation: float | None) -> Numeral:
    """A correlation × 100."""
    return fixed(None if correlation is None else 100 * correlation, 2)


def excerpt(text: str, most: int) -> str:
    """The beginning of a text in one line of at most so many characters."""
    text = printable(" ".join(text[: 4 * most].split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shortened(text: str, width: int) -> str:
    """The end of a text that is too long, since paths and names of runs begin alike."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def duration(seconds: float) -> str:
    """`45s`, `2m 10s`, `1h 05m`."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest}s"
    return f"{minutes}m {rest:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"
