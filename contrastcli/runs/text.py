"""Numbers and texts as a person reads them, in the line of an event and wherever else a run is shown."""

from __future__ import annotations

import math

MISSING = "–"
"""Stands for a value that is not there."""


def fixed(value: float | None, digits: int) -> str:
    """Fixed decimals; a dash for what is not a finite number."""
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
    """The text on one line; what came from data or a path cannot move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)
