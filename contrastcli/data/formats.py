"""Files into named columns, read strictly: whatever is wrong is named by file and line.

Two published forms go by their content whatever they are called: STS-B (tabs, no header) and SICK (tabs, in a .txt).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from contrastcli.errors import DataError

FORMATS: Mapping[str, str] = {
    ".txt": "one sentence a line",
    ".csv": "comma-separated with standard quoting; the first line names the columns",
    ".tsv": "tab-separated, quotes are literal; the first line names the columns",
    ".jsonl": "one object a line, all with the same keys",
    ".json": 'a list of objects, or {"data": [...]}',
    ".parquet": "columns by name",
}
"""What a file holds, by the end of its name; each but parquet also compressed, as .gz."""

_KNOWN = f"known: {' '.join(FORMATS)}, and .gz of each but .parquet"

Cell = object
"""What a file holds in one place: text from most, numbers and null as well from JSON and parquet."""

Lines = Iterator[tuple[int, str]]
"""Lines with their ends, counted from 1."""

Rows = Iterator[tuple[int, Sequence[Cell]]]
"""Rows, each with the line that it starts in."""


@dataclass(frozen=True)
class Part:
    """The rows of one file: the name that people know it by, and the line that each row starts in."""

    name: str
    lines: Sequence[int]
    unit: str = "line"


@dataclass(frozen=True)
class Table:
    """Columns by name, all of one length, and the files that their rows come from."""

    columns: Mapping[str, list[Cell]]
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(len(part.lines) for part in self.parts)

    def where(self, row: int) -> str:
        """The file and line of a row, in words."""
        for part in self.parts:
            if row < len(part.lines):
                return f"{part.name}, {part.unit} {part.lines[row]}"
            row -= len(part.lines)
        raise IndexError(row)


class Columnar(Protocol):
    """What is used of a `datasets.Dataset`."""

    @property
    def features(self) -> Mapping[str, object]:
        """The type of each column, by name."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice) -> dict[str, list[Cell]]: ...


def format_of(path: Path) -> str:
    """The format that a file's name says, or "" for none that is known."""
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    known = suffix in FORMATS and not (suffix == ".parquet" and path.name.endswith(".gz"))
    return suffix if known else ""


def read_file(path: Path, name: str, limit: int = 0) -> Table:
    """The first `limit` rows of a file (0: all). Raises DataError, which calls the file `name`."""
    suffix = format_of(path)
    if not suffix:
        raise DataError(f"{name} has no format that is known", _KNOWN)
    if suffix == ".parquet":
        return _read_parquet(path, name, limit)
    try:
        with _open(path) as stream:
            return _read_text(suffix, decode(stream, name), name, limit)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name} is not a whole gzip file: {error}", "copy or download it again") from None
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}", "check the path and its permissions") from None


def _open(path: Path) -> BinaryIO:
    if not path.name.endswith(".gz"):
        return path.open("rb")
    return io.BufferedReader(cast(io.RawIOBase, gzip.open(path)))  # whose lines come without a call into Python each


def decode(stream: Iterable[bytes], name: str, first: int = 1) -> Lines:
    """Lines as text, numbered from `first`. They end at line feeds only: other separators occur within sentences."""
    for number, raw in enumerate(stream, first):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            what = f"{name}, line {number}: not UTF-8 (byte 0x{raw[error.start]:02x})"
            raise DataError(what, "convert the file: iconv -f latin1 -t utf-8") from None
        if "\0" in text:
            raise DataError(f"{name}, line {number}: holds a NUL byte", "is it a text file? Delete the byte if so")
        yield number, text


def _read_text(suffix: str, lines: Lines, name: str, limit: int) -> Table:
    first = next(lines, None)
    if first is None:
        raise DataError(f"{name} is empty", "give a file with at least two sentences")
    lines = chain([first], lines)
    notes: tuple[str, ...] = ()
    if suffix == ".json":
        header, rows = _json(lines, name)
    elif suffix == ".jsonl":
        header, rows = _jsonl(lines, name)
    elif suffix != ".txt" and _is_stsb(first[1]):
        header, rows = _stsb(lines, name)
        notes = (f"{name} has STS-B's published form: no header, score and sentences in columns 5-7",)
    elif suffix == ".csv":
        header, rows = _with_header(_csv(lines, name), name)
    elif suffix == ".tsv" or _is_sick(first[1]):
        header, rows = _with_header(_tsv(lines), name)
    else:
        header, rows = ["sentence"], ((number, (text.rstrip("\r\n"),)) for number, text in lines)
    return _collect(header, rows, name, limit, unit="row" if suffix == ".json" else "line", notes=notes)


def _collect(header: Sequence[str], rows: Rows, name: str, limit: int, unit: str, notes: tuple[str, ...]) -> Table:
    columns: list[list[Cell]] = [[] for _ in header]
    numbers = array("Q")
    for number, cells in islice(rows, limit or None):
        numbers.append(number)
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    if not numbers:
        raise DataError(f"{name} has no rows", "give a file with at least two rows below its column names")
    return Table(dict(zip(header, columns, strict=True)), (Part(name, numbers, unit),), notes)


def _with_header(rows: Rows, name: str) -> tuple[list[str], Rows]:
    _, cells = next(rows)
    header = [str(cell).strip() for cell in cells]
    return _distinct(header, name), _even(rows, len(header), name)


def _distinct(header: list[str], name: str) -> list[str]:
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise DataError(f"{name}, line 1: the column '{twice[0]}' occurs twice", "give every column a name of its own")
    return header


def _even(rows: Rows, width: int, name: str) -> Rows:
    for number, cells in rows:
        if len(cells) != width:
            what = f"{name}, line {number}: {len(cells)} fields where the header has {width}"
            raise DataError(what, "mend or delete the line; in a .csv, fields with commas stand in double quotes")
        yield number, cells


def _tsv(lines: Lines) -> Rows:
    return ((number, text.rstrip("\r\n").split("\t")) for number, text in lines)


def _csv(lines: Lines, name: str) -> Rows:
    record: list[str] = []  # the lines of the row being read: an unclosed quote is found only at the end

    def feed() -> Iterator[str]:
        for _, text in lines:
            record.append(text)
            yield text

    reader = csv.reader(feed(), strict=True)
    while True:
        record.clear()
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _bad_quotes(name, start, "".join(record), error) from None
        yield start, cells


def _bad_quotes(name: str, start: int, record: str, error: csv.Error) -> DataError:
    """What is wrong with a row that begins in line `start`, at the first field that is not well formed."""
    position = 0
    while position < len(record) and (field := _FIELD.match(record, position)):
        position = field.end() + 1
    line = start + record.rstrip("\n").count("\n", 0, position)
    rest = record[position:].split("\n")[0]
    if rest.startswith('"') and not _QUOTED.match(rest):
        return DataError(f"{name}, line {line}: a quote opens here and is not closed", 'close it; literal: write ""')
    return DataError(f"{name}, line {line}: {error}", 'in a quoted field a literal quote is written twice: ""')


_QUOTED = re.compile(r'"(?:[^"]|"")*+"')
_FIELD = re.compile(_QUOTED.pattern + r'(?=[,\r\n]|\Z)|(?!")[^,\r\n]*')


def _is_stsb(line: str) -> bool:
    fields = line.split("\t")
    return len(fields) >= 7 and _is_number(fields[4])


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _stsb(lines: Lines, name: str) -> tuple[list[str], Rows]:
    def rows() -> Rows:
        for number, fields in _tsv(lines):
            if len(fields) < 7:
                what = f"{name}, line {number}: {len(fields)} fields where STS-B has at least 7"
                raise DataError(what, "download the file again: genre, file, year, id, score and the two sentences")
            yield number, fields[4:7]

    return ["score", "sentence1", "sentence2"], rows()


def _is_sick(line: str) -> bool:
    return line.startswith("pair_ID\tsentence_A\tsentence_B\t")


def _jsonl(lines: Lines, name: str) -> tuple[list[str], Rows]:
    objects = ((number, _parse(text.rstrip("\r\n"), name, number)) for number, text in lines)
    return _keyed(objects, name, "line")


def _json(lines: Lines, name: str) -> tuple[list[str], Rows]:
    found = _parse("".join(text for _, text in lines), name, 1)
    items = found.get("data") if isinstance(found, dict) else found
    if not isinstance(items, list):
        raise DataError(f"{name} is not a list of objects", 'write [{"sentence": "…"}, …] or {"data": [{…}, …]}')
    if not items:
        raise DataError(f"{name} has no rows", "give a file with at least two rows")
    return _keyed(enumerate(items, 1), name, "row")


def _parse(text: str, name: str, number: int) -> object:
    """JSON that starts in line `number`."""
    try:
        found: object = _DECODER.decode(text)
        if "\\u" in text:  # only an escape can smuggle in what is not text
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        what = f"{name}, line {number + error.lineno - 1}: not JSON: {error.msg} (column {error.colno})"
        raise DataError(what, "mend or delete the line") from None
    except UnicodeEncodeError:
        raise DataError(f"{name}, line {number}: half of a surrogate pair", r"delete the \ud… escape") from None
    except (RecursionError, ValueError) as error:
        raise DataError(f"{name}, line {number}: JSON beyond reading: {error}", "mend or delete the line") from None
    except _RepeatedKey as error:
        raise DataError(f"{name}, line {number}: the key '{error}' occurs twice", "give each key once") from None
    return found


class _RepeatedKey(Exception):
    pass


def _distinct_keys(pairs: list[tuple[str, Cell]]) -> dict[str, Cell]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKey(next(key for key in keys if keys.count(key) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct_keys)  # one for all lines: json.loads would make one for each


def _keyed(objects: Iterable[tuple[int, object]], name: str, unit: str) -> tuple[list[str], Rows]:
    """The keys of the first object, and the values of all in that order."""
    source = iter(objects)
    first = next(source)
    header = list(first[1]) if isinstance(first[1], dict) else []

    def rows() -> Rows:
        for number, found in chain([first], source):
            if not isinstance(found, dict) or not found:
                raise DataError(f"{name}, {unit} {number}: not an object", 'write {"sentence": "…"}')
            if found.keys() != set(header):
                what = f"{name}, {unit} {number}: has the keys {', '.join(found)}; the first has {', '.join(header)}"
                raise DataError(what, "give every object the same keys")
            yield number, [found[key] for key in header]

    return header, rows()


def _read_parquet(path: Path, name: str, limit: int) -> Table:
    import datasets  # seconds to import
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{name} cannot be read as parquet: {reason}", "write or download it again") from None
    return from_dataset(datasets.Dataset(table), name, limit)


def from_dataset(dataset: Columnar, name: str, limit: int = 0) -> Table:
    """The first `limit` rows (0: all) of a `datasets.Dataset`, its class labels by their names and -1 as "-"."""
    columns = dataset[: limit or len(dataset)]
    for column, feature in dataset.features.items():
        classes = getattr(feature, "names", None)
        if classes:
            columns[column] = [classes[i] if isinstance(i, int) and i >= 0 else "-" for i in columns[column]]
    count = len(next(iter(columns.values()), []))
    if not count:
        raise DataError(f"{name} has no rows", "give data with at least two rows")
    return Table(columns, (Part(name, range(1, count + 1), "row"),))
