"""Numbers and texts as people read them, in the lines of events and elsewhere."""

from __future__ import annotations

import math
import re

MISSING = "–"
"""Shown for a missing value."""

CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal, or turn the direction of writing."""


def fixed(value: float | None, digits: int) -> str:
    """A number with that many decimals; a dash if it is missing or not finite."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def score(correlation: float | None) -> str:
    """A correlation × 100."""
    return fixed(None if correlation is None else 100 * correlation, 2)


def excerpt(text: str, most: int) -> str:
    """The beginning of a text in one line of at most so many characters."""
    text = printable(" ".join(text[: 4 * most].split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def duration(seconds: float) -> str:
    """`45s`, `2m 10s`, `1h 05m`."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest}s"
    return f"{minutes}m {rest:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def escaped(text: str) -> str:
    """Lines without control characters but tabs: with the escapes that JSON and TOML have for them."""
    return CONTROLS.sub(lambda match: match[0] if match[0] in "\n\t" else f"\\u{ord(match[0]):04x}", text)


def printable(text: str) -> str:
    """One line without control characters, which data, names and messages may hold."""
    return escaped(text.replace("\n", " ").replace("\t", " "))
