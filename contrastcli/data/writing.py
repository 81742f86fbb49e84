"""Rows of texts into files that `formats` reads again."""

import csv
import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from contrastcli.boundary import narrate
from contrastcli.data.folders import PARTS
from contrastcli.data.formats import Frame, format_of
from contrastcli.data.forms import DELIMITERS
from contrastcli.data.texts import Column, read_columns
from contrastcli.errors import DataError, UsageError
from contrastcli.files import check_output, is_writable, writing_to

Records = Iterable[Sequence[Any]]

_PARQUET_GROUP_ROWS = 10_000


def as_json_line(value: object) -> bytes:
    """A line of JSON: dates and bytes of a .parquet are texts, and a number that is none is null."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=0) + b"\n"


def _as_text(cell: object) -> str:
    """A cell where a format has texts alone; empty for none."""
    if isinstance(cell, str):
        return cell
    text = as_json_line(cell).decode().strip()
    return "" if text == "null" else text.strip('"')


def _write_jsonl(path: Path, columns: Sequence[str], rows: Records) -> None:
    with open(path, "wb") as file:
        file.writelines(as_json_line(dict(zip(columns, row, strict=True))) for row in rows)


def write_csv(path: Path, columns: Sequence[str], rows: Records, like: Frame | None = None) -> None:
    """Write rows with the separator and the mark of a frame, if it has those that reading finds out."""
    marked = like is not None and like.is_marked
    with open(path, "w", encoding="utf-8-sig" if marked else "utf-8", newline="") as file:
        # One column does not show what separates it from others.
        delimiter = like.delimiter if like and like.delimiter in DELIMITERS and len(columns) > 1 else ","
        usual = csv.writer(file, lineterminator="\n", delimiter=delimiter)
        # Other programs, and Python before 3.13, take a carriage return for the end of a row.
        quoted = csv.writer(file, lineterminator="\n", delimiter=delimiter, quoting=csv.QUOTE_ALL)
        (quoted if any(mark in name for name in columns for mark in ("\r", *DELIMITERS)) else usual).writerow(columns)
        for row in rows:
            texts = [_as_text(cell) for cell in row]
            (quoted if any("\r" in text for text in texts) else usual).writerow(texts)


def _write_tsv(path: Path, columns: Sequence[str], rows: Records) -> None:
    """Raises DataError for a text with a tab or a line end, or names of columns, that no .tsv can hold."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        # Where no tab is next to a name, reading finds out what separates its parts.
        if len(columns) == 1 and any(mark in columns[0] for mark in DELIMITERS):
            what = f"a .tsv cannot hold a column of that name alone: {columns[0]!r:.60}"
            raise DataError(what, "write a .jsonl or .csv")
        for row in chain([columns], rows):
            texts = [_as_text(cell) for cell in row]
            check_cells(texts)
            file.write("\t".join(texts) + "\n")


def check_cells(texts: Iterable[str]) -> None:
    """Raises DataError for a text with a tab or a line end, which no .tsv can hold."""
    if text := next((text for text in texts if any(character in text for character in "\t\n\r")), ""):
        raise DataError(f"a .tsv cannot hold a tab or line end, as in {text!r:.60}", "write a .jsonl or .csv")


def _write_parquet(path: Path, columns: Sequence[str], rows: Records) -> None:
    """Cells wait on disk for the type of their column; where no type holds all of them, they are texts."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    stored = read_columns(columns, chain.from_iterable(rows))
    schema = pa.schema({name: _type(cells) for name, cells in stored.items()})
    with ParquetWriter(path, schema) as writer:
        for start in range(0, len(stored[columns[0]]), _PARQUET_GROUP_ROWS):
            group: dict[str, Iterable[object]] = {}
            for name, cells in stored.items():
                group[name] = cells[start : start + _PARQUET_GROUP_ROWS]
                if schema.field(name).type == pa.string():
                    group[name] = (None if cell is None else _as_text(cell) for cell in group[name])
            writer.write_table(pa.table(group, schema=schema))


def _type(cells: Column[object]) -> Any:
    import pyarrow as pa

    if cells.is_text.all():
        return pa.string()
    try:
        kind = pa.infer_type(cells)
        for start in range(0, len(cells), _PARQUET_GROUP_ROWS):
            pa.array(cells[start : start + _PARQUET_GROUP_ROWS], kind)
    except (pa.ArrowException, OverflowError):
        return pa.string()
    # No file can hold an object without keys.
    return pa.string() if "struct<>" in str(kind) else kind


WRITERS: Mapping[str, Callable[[Path, Sequence[str], Records], None]] = {
    ".jsonl": _write_jsonl,
    ".csv": write_csv,
    ".tsv": _write_tsv,
    ".parquet": _write_parquet,
}
"""By the suffix of a file; each gets the names of the columns, and the rows. They raise OSError."""


def check_rows_output(output: Path, *sources: str) -> None:
    """Raise UsageError for a file that is read too, or of an unknown format; RunError without an open folder."""
    check_output(output, "rows", WRITERS)
    if not is_writable(output.parent):
        with writing_to(output):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    check_unread(output, *sources)
    # Before the work, while it can still be moved away.
    if output.exists():
        narrate(f"note: {output} is there, and will be replaced")


def check_unread(output: Path, *sources: str) -> None:
    """Raise UsageError for a file that is one of what is read, or would be data in a folder of these."""
    if not format_of(output):
        return
    folder = output.parent.resolve()
    # Of the folders in one that is read, these alone are read too.
    places = (folder, folder.parent) if folder.name in ("data", *PARTS) else (folder,)
    for source in sources:
        path = os.path.expanduser(source)
        if not os.path.exists(path):
            continue
        if output.exists() and output.samefile(path):
            raise UsageError(f"{output} is what would be read", "write to another file")
        if any(place.samefile(path) for place in places):
            raise UsageError(f"{output} is in the folder that would be read", "write to another folder")
