"""Plain text for a terminal: paragraphs and tables of two columns, wrapped to a width."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import fill

Rows = Sequence[tuple[str, str]]
"""A term and its explanation, a row each."""

_ROW = re.compile(r"( *\S+(?: \S+)*)(?:  +(.*))?")
"""A line of two columns, with two spaces or more between them."""


def laid_out(paragraph: str, width: int) -> str:
    """Lines with two spaces in them as a table, other lines wrapped unless they are indented."""
    rows = [(match[1], match[2] or "") for match in map(_ROW.fullmatch, paragraph.splitlines()) if match]
    if any(text for _, text in rows):
        return columns(rows, width)
    return paragraph if paragraph.startswith(" ") else _wrapped(paragraph, width)


def columns(rows: Rows, width: int) -> str:
    """Two columns, the second wrapped; terms longer than half a line have a line of their own."""
    indent = " " * (max((len(term) for term, _ in rows if len(term) <= width // 2), default=2) + 2)
    lines = []
    for term, text in rows:
        alone = not text or len(term) >= len(indent)
        lines += [term] if alone else []
        lines += [_wrapped(text, width, indent if alone else term.ljust(len(indent)), indent)] if text else []
    return "\n".join(lines)


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> str:
    """Lines between words; names with hyphens stay whole."""
    return fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
