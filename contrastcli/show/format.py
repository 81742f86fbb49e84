"""How values, tables and JSON read, wherever they are shown."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Sequence

import msgspec

from contrastcli.runs.text import MISSING

_NUMBER = re.compile(r"[-+]?[\d,]+(\.\d+)?( ± [\d.]+)?")


def as_json(value: object) -> str:
    """A result as indented JSON."""
    return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)


def as_json_line(value: object) -> str:
    """A result as JSON in one line."""
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns padded to their widest cell; numbers to the right."""
    cells = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [all(_is_number(row[i]) for row in cells[1:]) and len(cells) > 1 for i in range(len(header))]
    lines = [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same in Markdown."""
    lines = [header, ["---"] * len(header), *([cell(value).replace("|", r"\|") for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def names_and_values(facts: Iterable[tuple[str, object]]) -> str:
    """A line a fact, the values below each other."""
    lines = [(name, cell(value)) for name, value in facts]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def cell(value: object) -> str:
    """A value in a table."""
    return MISSING if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text in ("", MISSING) or _NUMBER.fullmatch(text) is not None


def size(count: int) -> str:
    """Bytes in the unit that suits them."""
    number = float(count)
    units = ["B", "KB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.0f} B" if units[0] == "B" else f"{number:.1f} {units[0]}"


def terminal_width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns
