"""Rows of texts into files that `formats` reads again."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from contrastcli.errors import DataError, UsageError
from contrastcli.files import check_output

Records = Iterable[Sequence[str]]

_PARQUET_GROUP_ROWS = 10_000


def _write_jsonl(path: Path, columns: Sequence[str], rows: Records) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")


def _write_csv(path: Path, columns: Sequence[str], rows: Records) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _write_tsv(path: Path, columns: Sequence[str], rows: Records) -> None:
    """Raises DataError for a text with a tab or a line end, which no field of a .tsv can hold."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("\t".join(columns) + "\n")
        for row in rows:
            if text := next((text for text in row if any(character in text for character in "\t\n\r")), ""):
                raise DataError(f"a .tsv cannot hold a tab or line end, as in {text!r:.60}", "write a .jsonl or .csv")
            file.write("\t".join(row) + "\n")


def _write_parquet(path: Path, columns: Sequence[str], rows: Records) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema(dict.fromkeys(columns, pa.string()))
    with ParquetWriter(path, schema) as writer:
        waiting = iter(rows)
        while group := [*islice(waiting, _PARQUET_GROUP_ROWS)]:
            texts = [pa.array(column, pa.string()) for column in zip(*group, strict=True)]
            writer.write_table(pa.table(texts, schema=schema))


WRITERS: Mapping[str, Callable[[Path, Sequence[str], Records], None]] = {
    ".jsonl": _write_jsonl,
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".parquet": _write_parquet,
}
"""By the suffix of a file; each gets the names of the columns, and the rows. They raise OSError."""


def check_rows_output(output: Path, *sources: str) -> None:
    """Raise UsageError for a file that is read too, or of an unknown format; RunError without its folder."""
    check_output(output, "rows", WRITERS)
    if output.exists() and any(output.samefile(name) for name in sources if Path(name).exists()):
        raise UsageError(f"{output} is what would be read", "write to another file")
