"""Numbers and texts as people read them, in the lines of events and elsewhere."""

from __future__ import annotations

import math

MISSING = "–"
"""Shown for a missing value."""


def fixed(value: float | None, digits: int) -> str:
    """A number with that many decimals; a dash if it is missing or not finite."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def score(correlation: float | None) -> str:
    """A correlation × 100."""
    return fixed(None if correlation is None else 100 * correlation, 2)


def duration(seconds: float) -> str:
    """`45s`, `2m 10s`, `1h 05m`."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest}s"
    return f"{minutes}m {rest:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def printable(text: str) -> str:
    """The text in one line, without control characters, which data or a path may contain."""
    return "".join(c if c.isprintable() else " " for c in text)
