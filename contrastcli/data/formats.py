"""Files as named columns, read strictly: an error names the file and the line.

Two published forms are recognised by their content: STS-B (tabs, no header), and SICK and NLI (tabs, in a .txt).
"""

import csv
import gzip
import io
import json
import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.downloads import reading
from contrastcli.data.forms import DELIMITERS, FORMATS, LARGEST_JSON, LISTED, LONGEST, NAMES, OTHER_SUFFIXES
from contrastcli.data.lines import (
    BYTES_OF_A_ROW,
    QUOTED,
    Decoder,
    Lines,
    as_number,
    check_text,
    limit_memory,
    sentences,
    with_first,
    without_blank_end,
)
from contrastcli.data.texts import Column, read_columns
from contrastcli.errors import DataError, error_text
from contrastcli.files import check_regular

_PARQUET_ROWS_AT_ONCE = 1_000
_PARQUET_BUFFER_BYTES = 1 << 20
UNPACKED_BYTES = 1 << 26
"""What the rows of a compressed file may take, however small it is; of a .parquet eight times that."""
MOST_EXPANSION = 50
"""Bytes for each byte of a larger file; text takes fewer than 20."""

_LIST = re.compile(r"\s*\[\s*(\{|$)")
_STATED = re.compile(r"sep=([^\r\n])\r?\n?")
"""The first line of Excel's .csv that says what separates the fields."""

_GZIP = b"\x1f\x8b"
_FROM_PYTHON = "these are objects of Python: write them with json.dumps(row, ensure_ascii=False), a line each"
_SHOWN_ROWS, _FIRST_OBJECTS = 5, 1_000

Records = Iterator[tuple[int, Sequence[object] | DataError]]
"""Rows, or what is wrong with them, each with the number of its first line. The first are the names of the columns."""


@dataclass(frozen=True)
class Frame:
    """Columns by name, all of one length, and where their rows come from."""

    columns: Mapping[str, Column[object]]
    files: tuple[tuple[str, str], ...]
    """Each by its name for the user, and what its rows are counted in."""
    places: NDArray[np.uint32]
    """For each row the number of its file, and the line in which it starts: (N, 2)."""
    notes: tuple[str, ...] = ()
    numbers: NDArray[np.int64] | None = None
    """Those of the rows as they were read, from 1, where some were left out."""
    delimiter: str = ","
    """What separates the fields of its .csv."""
    is_marked: bool = False
    """Whether a spreadsheet takes another encoding than UTF-8 where a .csv has no mark, as that of these rows tells."""

    def __len__(self) -> int:
        return len(self.places)

    def where(self, *rows: int) -> str:
        """The file and line of a row, in words, or of the first of several."""
        words = []
        for number, places in groupby(self.places[[*rows[:_SHOWN_ROWS]]].tolist(), itemgetter(0)):
            name, unit = self.files[number]
            words.append(f"{name}, {_numbered(unit, [line for _, line in places])}")
        return "; ".join(words) + (" …" if len(rows) > _SHOWN_ROWS else "")

    def take(self, counts: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """The rows under a mask, or each so often, with their lines."""
        rows = np.repeat(np.arange(len(self)), counts)
        columns = {name: cells.take(rows) for name, cells in self.columns.items()}
        numbers = rows + 1 if self.numbers is None else self.numbers[rows]
        return replace(self, columns=columns, places=self.places[rows], numbers=numbers)


def _numbered(unit: str, numbers: Sequence[int]) -> str:
    """The first numbers, as in "line 3" and "lines 3, 7"."""
    shown = ", ".join(map(str, numbers[:_SHOWN_ROWS]))
    return f"{unit}{'s'[: len(numbers) - 1]} {shown}" + (" …" if len(numbers) > _SHOWN_ROWS else "")


def format_of(path: Path) -> str:
    """The format of a file by its name, or "" for an unknown one."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    suffix = OTHER_SUFFIXES.get(ending, ending)
    known = suffix in FORMATS and not (suffix == ".parquet" and path.suffix.lower() == ".gz")
    return suffix if known else ""


def read_file(path: Path, name: str, limit: int = 0, *, strict: bool = False) -> Frame:
    """The first `limit` rows of a file (0: all), with `strict` in UTF-8. Raises DataError, which calls it `name`."""
    suffix = format_of(path)
    try:
        check_regular(path)
        memory = max(UNPACKED_BYTES * (8 if suffix == ".parquet" else 1), MOST_EXPANSION * path.stat().st_size)
        with reading(path) as stream:
            start = stream.peek(4)[:4]
            if suffix != ".parquet":
                check_text(start, name)
            if not suffix:
                known = f"give it the ending of what it holds: {' '.join(FORMATS)}, and .gz of each but .parquet"
                raise DataError(f"{name} has an unknown format", known)
            if suffix == ".parquet":
                return collect(_parquet(stream, name, limit, memory), name, limit)
            # Not by its name: a browser unpacks what it downloads.
            if not start.startswith(_GZIP):
                return read_stream(stream, suffix, name, limit, strict=strict)
            # A buffer reads lines without a call into Python for each.
            with io.BufferedReader(cast(io.RawIOBase, gzip.open(stream))) as unpacked:
                return read_stream(unpacked, suffix, name, limit, memory, strict=strict)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name} is a damaged or truncated gzip file: {error}", "copy or download it again") from None
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}", "check the path and its permissions") from None


def read_stream(
    stream: BinaryIO, suffix: str, name: str, limit: int = 0, memory: int = 0, *, strict: bool = False
) -> Frame:
    """The first `limit` rows (0: all) of text in the format of a suffix, of at most that memory (0: any)."""
    decoder = Decoder(name, strict=strict)
    lines = decoder.lines(stream, longest=LARGEST_JSON if suffix == ".json" else LONGEST)
    lines = limit_memory(lines, memory, name) if memory else lines
    frame = _read_text(suffix, without_blank_end(lines, name), name, limit)
    form = "; ".join(filter(None, [*frame.notes, decoder.encoding]))
    notes = (f"{name} was read as: {form}",) if form else ()
    return replace(frame, notes=notes, is_marked=bool(decoder.encoding))


def _read_text(suffix: str, lines: Lines, name: str, limit: int) -> Frame:
    first, lines = with_first(lines, suffix, name)
    unit, notes, separator = "line", list[str](), ","
    usual = "," if suffix == ".csv" else "\t"
    # What separates most fields of the header, the usual one where others do not more, or in a .tsv at all.
    others = () if suffix == ".tsv" and usual in first else DELIMITERS
    delimiter = max([usual, *others], key=QUOTED.sub("", first).count)
    if suffix == ".csv" and (stated := _STATED.fullmatch(first)):
        delimiter = stated[1]
        next(lines)
    rows: Records = _tsv(lines, notes)
    if suffix == ".json" or (suffix == ".jsonl" and _LIST.match(first)):
        notes += ["one list in JSON"] if suffix == ".jsonl" else []
        unit, rows = "row", _json(lines, name)
    elif suffix == ".jsonl":
        rows = _objects(_parsed(lines, name), name, unit)
    elif suffix != ".txt" and _is_stsb(first):
        notes.append("STS-B's published form: no header, score and sentences in columns 5-7")
        rows = _stsb(lines, name)
    elif suffix == ".csv" or (suffix == ".tsv" and delimiter != usual):
        rows, separator = _csv(lines, name, delimiter), delimiter
        if delimiter != usual:
            notes.append(f"fields separated by {DELIMITERS.get(delimiter, delimiter)}")
    elif suffix == ".txt" and sum(name in NAMES for name in first.lower().rstrip("\r\n").split("\t")) < 2:
        rows = sentences(lines, notes)
    return replace(collect(rows, name, limit, unit, notes), delimiter=separator)


def collect(rows: Records, name: str, limit: int, unit: str = "row", notes: Iterable[str] = ()) -> Frame:
    """The frame of the first `limit` rows (0: all). Raises DataError if there are none, or not of one length.

    The rows may add to the `notes` as they are read.
    """
    header = _header(rows, name)
    numbers, bad = array("I"), array("I")
    first: list[DataError] = []

    def cells() -> Iterator[object]:
        for number, row in islice(rows, limit or None):
            if not isinstance(row, DataError) and len(row) != len(header):
                # A line without any text is a row of blanks.
                row = [""] * len(header) if not "".join(map(str, row)).strip() else _ragged(row, header, name, number)
            if isinstance(row, DataError):
                bad.append(number)
                if len(bad) == 1:
                    first.append(row)
            else:
                numbers.append(number)
                yield from row

    columns = read_columns(header, cells())
    if first:
        more = f"; {len(bad):,} of {len(bad) + len(numbers):,} rows cannot be read: {_numbered(unit, bad)}"
        raise DataError(first[0].what + (more if len(bad) > 1 else ""), first[0].remedies)
    if not numbers:
        raise DataError(f"{name} has no rows", "give data with at least two rows")
    places = np.column_stack([np.zeros_like(numbers), numbers])
    return Frame(columns, ((name, unit),), places, tuple(notes))


def _header(rows: Records, name: str) -> list[str]:
    line, names = next(rows, (0, ()))
    if isinstance(names, DataError):
        raise names
    header = [str(cell).strip() or f"column {number}" for number, cell in enumerate(names, 1)]
    if len(set(header)) < len(header):
        repeated = Counter(header).most_common(1)[0][0]
        what = f"{name}, line {line or 1}: the column '{repeated}' occurs twice"
        raise DataError(what, "give each column its own name")
    return header


def _ragged(row: Sequence[object], header: Sequence[str], name: str, number: int) -> DataError:
    what = f"{name}, line {number}: {len(row)} fields where the header has {len(header)}"
    tabs = ", and in a .tsv quotes are literal: with fields in quotes, name it .csv" if ".tsv" in name else ""
    return DataError(what, f"fix or delete the line; in a .csv, fields with commas stand in double quotes{tabs}")


def _tsv(lines: Lines, notes: list[str]) -> Records:
    """Rows in which quotes are literal; of fields that a spreadsheet has quoted there is a note once all are read."""
    quoted = 0
    for number, text in lines:
        fields = text.rstrip("\r\n").split("\t")
        if '""' in text:
            quoted += sum(field[:1] == field[-1:] == '"' and '""' in field[1:-1] for field in fields)
        yield number, fields
    if quoted:
        notes.append(f"quotes are literal; to read quoted fields, of which it has {quoted:,}, name it .csv")


def _csv(lines: Lines, name: str, delimiter: str) -> Records:
    # Of the current row: an unclosed quote shows only at the end of the file.
    start = length = 0

    def feed() -> Iterator[str]:
        nonlocal start, length
        for number, text in lines:
            start, length = start or number, length + len(text)
            if length > LONGEST:
                raise csv.Error(f"not closed within {LONGEST:,} characters")
            yield text

    # This limit is the whole process's and one field's, so that rows are counted above.
    csv.field_size_limit(LONGEST)
    reader = csv.reader(feed(), delimiter=delimiter, strict=True)
    while True:
        start = length = 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = f"{name}, line {start}: a quoted field of the row that begins here is malformed: {error}"
            hint = 'close each quote; a literal one is written twice, in a quoted field: "say ""we"" here"'
            raise DataError(what, hint) from None
        yield start, cells


def _is_stsb(line: str) -> bool:
    fields = line.split("\t")
    return len(fields) >= 7 and math.isfinite(as_number(fields[4]))


def _stsb(lines: Lines, name: str) -> Records:
    yield 1, ["score", "sentence1", "sentence2"]
    for number, text in lines:
        fields = text.rstrip("\r\n").split("\t")
        if len(fields) < 7:
            what = f"{name}, line {number}: {len(fields)} fields where STS-B has at least 7"
            hint = "download the file again: genre, file, year, id, score and the two sentences"
            yield number, DataError(what, hint)
        else:
            yield number, fields[4:7]


def _json(lines: Lines, name: str) -> Records:
    text = "".join(text for _, text in limit_memory(lines, LARGEST_JSON, name, 0))
    content = _parse(text, name, 1, "correct it there; with one object a line it is a .jsonl")
    items = content.get("data") if isinstance(content, dict) else content
    if not isinstance(items, list):
        raise DataError(f"{name} is not a list of objects", 'write [{"sentence": "…"}, …] or {"data": [{…}, …]}')
    return _objects(enumerate(items, 1), name, "row")


def _objects(objects: Iterable[tuple[int, object]], name: str, unit: str) -> Records:
    """The values of JSON objects, by the keys of the first of them, or of lists: anchor, positive, negatives."""

    def as_object(item: object) -> object:
        return dict(zip(LISTED, item, strict=False)) if isinstance(item, list) and len(item) <= len(LISTED) else item

    items = ((number, as_object(item)) for number, item in objects)
    first = list(islice(items, _FIRST_OBJECTS))
    header = list(dict.fromkeys(key for _, item in first if isinstance(item, dict) for key in item))
    if header:
        yield first[0][0], header
    for number, item in chain(first, items):
        if isinstance(item, DataError):
            yield number, item
        elif not header or not isinstance(item, dict):
            yield number, DataError(f"{name}, {unit} {number}: not an object", 'write {"sentence": "…"}')
        elif more := item.keys() - set(header):
            what = f"{name}, {unit} {number}: the first {_FIRST_OBJECTS:,} objects have no key '{min(more)}'"
            yield number, DataError(what, f'write "{min(more)}": null in the first object, or delete the key here')
        else:
            yield number, [item.get(key) for key in header]


def _parsed(lines: Lines, name: str) -> Iterator[tuple[int, object]]:
    """The value of each line, an empty object of a blank one; a DataError in place of what cannot be parsed."""
    for number, text in lines:
        try:
            yield number, {} if text.isspace() else _parse(text.rstrip("\r\n"), name, number)
        except DataError as error:
            yield number, error


def _parse(text: str, name: str, number: int, remedy: str = "fix or delete the line") -> object:
    """The value of a JSON text that starts in line `number`."""
    try:
        value: object = _DECODER.decode(text)
        # An escape may be half of a character.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        what = f"{name}, line {number + error.lineno - 1}: not JSON: {error.msg} (column {error.colno})"
        raise DataError(what, _FROM_PYTHON if re.match(r"[\[{]+'", text) else remedy) from None
    except UnicodeEncodeError:
        raise DataError(f"{name}, line {number}: half of a surrogate pair", r"delete the \ud… escape") from None
    except (RecursionError, ValueError):
        what = f"{name}, line {number}: JSON nested too deeply, or a number too large"
        raise DataError(what, remedy) from None
    except KeyError as error:
        raise DataError(f"{name}, line {number}: the key {error} occurs twice", "give each key once") from None
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object. Raises KeyError for a repeated key."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise KeyError(next(key for key in keys if keys.count(key) > 1))
    return value


# json.loads would make a decoder for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def _parquet(stream: BinaryIO, name: str, limit: int, memory: int) -> Records:
    from pyarrow import parquet

    try:
        # With its defaults all of the file would be in memory.
        with parquet.ParquetFile(stream, pre_buffer=False, buffer_size=_PARQUET_BUFFER_BYTES) as file:
            size = min(limit or _PARQUET_ROWS_AT_ONCE, _PARQUET_ROWS_AT_ONCE)
            batches = _decoded(file.iter_batches(size), memory, name)
            yield from of_batches(batches, file.schema_arrow)
    except DataError:
        raise
    # Those of pyarrow, and of metadata of other types than datasets writes.
    except Exception as error:
        malformed = isinstance(error, TypeError | AttributeError | LookupError)
        reason = "its metadata are malformed" if malformed else error_text(error)
        what = f"{name} cannot be read as parquet: {reason}"
        raise DataError(what, "write or download it again") from None


def _decoded(batches: Iterable[Any], memory: int, name: str) -> Iterator[Mapping[str, Sequence[object]]]:
    import pyarrow

    rows = 0
    for batch in batches:
        rows += len(batch)
        columns = (c.dictionary_decode() if pyarrow.types.is_dictionary(c.type) else c for c in batch.columns)
        memory -= sum(column.nbytes + len(column) * BYTES_OF_A_ROW for column in columns)
        if memory < 0:
            what = f"{name}: more than {rows:,} rows of {batch.num_columns:,} columns would fill the disk"
            raise DataError(what, "set data.limit, or give the rows in several files")
        yield batch.to_pydict()


def _class_names(schema: Any) -> dict[str, Sequence[str]]:
    """The names of the classes of labels by column, which `datasets` records in a schema."""
    import pyarrow

    recorded = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = recorded.get("info", {}).get("features") or {}
    numbered = {field.name for field in schema if pyarrow.types.is_integer(field.type)}
    columns = ((name, kind) for name, kind in features.items() if name in numbered and isinstance(kind, dict))
    return {name: kind["names"] for name, kind in columns if kind.get("_type") == "ClassLabel"}


def _class_name(names: Sequence[str], label: object) -> str:
    """The name of a class label; "-" for −1 and for none."""
    if not isinstance(label, int) or label < 0:
        return "-"
    if label >= len(names):
        raise ValueError(f"the class label {label} is not one of {len(names)}")
    return names[label]


def of_batches(batches: Iterable[Mapping[str, Sequence[object]]], schema: Any) -> Records:
    """The rows of batches of columns with a schema of Arrow, class labels by their names and −1 as "-"."""
    yield 0, schema.names
    class_names, numbers = _class_names(schema), count(1)
    for batch in batches:
        columns = []
        for name in schema.names:
            cells, classes = batch[name], class_names.get(name)
            columns.append([_class_name(classes, cell) for cell in cells] if classes else cells)
        yield from ((next(numbers), row) for row in zip(*columns, strict=True))
