"""Values, tables, JSON and paragraphs as text for a terminal."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import TextWrapper
from typing import Any

import msgspec

from contrastcli.boundary import is_utf8, printable
from contrastcli.runs.text import MISSING, Numeral

Fields = Sequence[tuple[str, str]]
"""A term and its explanation, a row each."""

Grid = tuple[Sequence[str], Sequence[Sequence[object]]]
"""The header and the rows of a table."""

_TEX = str.maketrans({character: f"\\{character}" for character in "&%$#_{}"})
_TEX |= str.maketrans({"±": r"$\pm$", "–": "--", "λ": r"$\lambda$", "β": r"$\beta$", "τ": r"$\tau$"})
_TEX |= str.maketrans({"−": "$-$", "°": r"$^\circ$", "|": r"$|$", "…": r"\dots{}"})
_TEX |= str.maketrans({"^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "\\": r"\textbackslash{}"})

_TWO_COLUMNS = re.compile(r"( *\S+(?: \S+)*)(?:  +(.*))?")


SCHEMA = 1
"""Of all results as JSON: it rises where a key is renamed or removed, or means something else."""


class _Padded(str):
    """A number with spaces before it, to stand below others."""


def as_json(value: object, schema: int = SCHEMA) -> str:
    """A result as indented JSON; an object has the number of its schema first, unless that is 0."""
    built = _finite(value)
    if schema and isinstance(built, dict):
        built = {"schema": schema, **built}
    return json.dumps(built, indent=2, ensure_ascii=not is_utf8())


def _finite(value: object) -> Any:
    """A value as JSON has it, null for numbers that are not finite."""
    return msgspec.json.decode(msgspec.json.encode(value))


def as_json_lines(values: Iterable[object]) -> str:
    """Results as JSON, a line each."""
    return "\n".join(json.dumps(_finite(value), ensure_ascii=not is_utf8()) for value in values)


def as_csv(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A header and rows as CSV."""
    stream = io.StringIO()
    body = ([value.strip() if isinstance(value, _Padded) else value for value in row] for row in rows)
    csv.writer(stream, lineterminator="\n").writerows([header, *body])
    return stream.getvalue().rstrip("\n")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns padded to their widest cell, those of numbers to the right; no row for a header without a word.

    A terminal shows some letters two places wide.
    """
    from rich.cells import cell_len

    body = [[cell(value) for value in row] for row in rows]
    cells = [list(header), *body] if any(header) else body
    widths, numeric = [max(map(cell_len, column)) for column in zip(*cells, strict=True)], _numeric(header, body)
    lines = []
    for row in cells:
        spaces = [" " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)]
        padded = (s + text if n else text + s for text, s, n in zip(row, spaces, numeric, strict=True))
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _numeric(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[bool]:
    columns = [column for _, *column in zip(header, *body, strict=True)]
    return [bool(body) and all(isinstance(c, Numeral) or c in ("", MISSING) for c in column) for column in columns]


def points_aligned(column: Sequence[object]) -> list[str]:
    """The cells of a column, its numbers with their decimal points below each other."""
    cells = [cell(value) for value in column]
    whole = [len(text) - len(text.lstrip("+-0123456789,")) if isinstance(text, Numeral) else 0 for text in cells]
    if sum(map(bool, whole)) < 2:
        return cells
    return [_Padded(f"{' ' * (max(whole) - n)}{text}") if n else text for text, n in zip(cells, whole, strict=True)]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *([cell(value).replace("|", r"\|") for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for the package booktabs; rows with a second cell begin a group of those without."""
    body = [[cell(value) for value in row] for row in rows]
    head, *lines = [" & ".join(map(_in_tex, row)) + r" \\" for row in (header, *body)]
    grouped = any(len(row) > 1 and not row[1] for row in body)
    spaced = [f"\\addlinespace\n{line}" if n and grouped and body[n][1] else line for n, line in enumerate(lines)]
    top = rf"\begin{{tabular}}{{{''.join('r' if numeric else 'l' for numeric in _numeric(header, body))}}}"
    return "\n".join([top, r"\toprule", head, r"\midrule", *spaced, r"\bottomrule", r"\end{tabular}"])


def _in_tex(text: str) -> str:
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", text.translate(_TEX))


TABLES: Mapping[str, Callable[[Sequence[str], Iterable[Sequence[object]]], str]] = {
    "text": table,
    "markdown": markdown_table,
    "latex": latex_table,
    "csv": as_csv,
}
"""How a table is written, by the value of --format."""


def cell(value: object) -> str:
    """A value in a table."""
    if isinstance(value, Numeral):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Numeral(f"{value:g}" if isinstance(value, float) else value)
    return MISSING if value is None else printable(str(value))


def size(count: int) -> str:
    """Bytes in a suitable unit: `12 B`, `3.4 MB`."""
    # Of the number as it is written, so that there are never 1000.0 of a unit.
    power = min(int(f"{count:.3e}".partition("e")[2]) // 3, 4)
    return f"{count / 1000**power:.1f} {'KMGT'[power - 1]}B" if power else f"{count} B"


def laid_out(paragraph: str, width: int) -> str:
    """Lines with two spaces in them as a table, other lines wrapped unless they are indented."""
    rows = [(match[1], match[2] or "") for match in map(_TWO_COLUMNS.fullmatch, paragraph.splitlines()) if match]
    if any(text for _, text in rows):
        return columns(rows, width)
    return paragraph if paragraph.startswith(" ") else _wrapped(paragraph, width)


def columns(rows: Fields, width: int) -> str:
    """Two columns, the second wrapped; terms longer than half a line have a line of their own."""
    indent = " " * (max((len(term) for term, _ in rows if len(term) <= width // 2), default=2) + 2)
    lines = []
    for term, text in rows:
        alone = not text or len(term) >= len(indent)
        lines += [term] if alone else []
        lines += [_wrapped(text, width, indent if alone else term.ljust(len(indent)), indent)] if text else []
    return "\n".join(lines)


def _wrapped(text: str, width: int, first: str = "", rest: str = "") -> str:
    # Names stay whole.
    return TextWrapper(width, first, rest, break_on_hyphens=False, break_long_words=False).fill(text)
