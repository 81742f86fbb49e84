"""Bytes as lines of text: their encoding, which is found out on the way, what lines may take, and cells as numbers."""

import codecs
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count, dropwhile
from pathlib import Path
from typing import Any, BinaryIO

from contrastcli.data.forms import LONGEST, NAMED
from contrastcli.errors import DataError

BYTES_OF_A_ROW = 64
"""What a row takes besides its text."""

LONGEST_NAME, _MOST_WORDS = 50, 4
"""Of the name of a column: what is longer is rather a cell."""
_MOST_BLANK = 100_000
"""Blank lines, one after the other; a small compressed file may hold millions."""
# Letters of Western languages with accents do not follow each other; those of other scripts do.
_OTHER_SCRIPT = re.compile(rb"[\x80-\xff]{5}")
_MARK = re.compile(
    rb"(?P<utf_8>\xef\xbb\xbf)|(?P<utf_32>\xff\xfe\0\0|\0\0\xfe\xff)|(?P<utf_16>\xff\xfe|\xfe\xff)"
    rb"|(?P<utf_16_le>[^\0]\0[^\0]\0)|(?P<utf_16_be>\0[^\0]\0[^\0])"
)
"""What text in a codec begins with: a mark, or of UTF-16 without one two letters of Western languages."""
_NOT_ASCII = re.compile(r".{,20}[^\0-\x7f].{,20}")
_ENCODINGS = [
    "cp1252",
    "cp932",
    "cp1251",
    "gb18030",
    "cp949",
    "big5",
    "cp1250",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "koi8_r",
]
"""Those that spreadsheets and older programs write, with the names that iconv has for them too."""
_BYTES_THAT_TELL = 1 << 16
_BYTES_BEFORE_TURKISH = 1 << 20
# The letters in which Windows-1254 differs from 1252, but not as first bytes in UTF-8.
_TURKISH = re.compile(rb"[\xd0\xdd\xde\xf0\xfd\xfe](?![\x80-\xbf])")
_ICELANDIC, _GERMAN = (re.compile(f"[{letters}]".encode("cp1252")) for letters in ("ÁÉÍÓÚÆáéíóúæ", "Ääß"))
"""Letters that Icelandic has beside those, and German beside a name that has them."""

_TO_CSV = "save it as .csv from the spreadsheet program"
_TO_PARQUET = """(sys.argv[1]).to_parquet("rows.parquet")' FILE"""
_NO_TEXT: Mapping[bytes, tuple[str, str]] = {
    b"PK\x03\x04": ("a workbook or another zip archive", f"{_TO_CSV}, or unpack the archive: unzip FILE"),
    b"\xd0\xcf\x11\xe0": ("a workbook of Excel", _TO_CSV),
    b"PAR1": ("a parquet file", "give it the ending .parquet: mv FILE FILE.parquet"),
    b"BZh": ("compressed by bzip2", "unpack it: bzip2 -dk FILE"),
    b"\xfd7zX": ("compressed by xz", "unpack it: xz -dk FILE"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "unpack it: zstd -d FILE"),
    b"ARRO": ("a file of Arrow", f"python -c 'import pandas, sys; pandas.read_feather{_TO_PARQUET}"),
    b"\xff" * 4: ("a stream of Arrow", f"python -c 'import datasets, sys; datasets.Dataset.from_file{_TO_PARQUET}"),
    b"%PDF": ("a PDF", "take its text: pdftotext FILE, and put each sentence or passage on a line"),
    b"<!DO": ("a page of HTML", "download the file that the page shows, or put its sentences on lines of a .txt"),
    b"SQLi": ("a database of SQLite", "sqlite3 -csv -header FILE 'select * from TABLE' > rows.csv"),
}
"""What a file is, and the remedy, by its first bytes, whatever its name says."""

QUOTED = re.compile(r'"(?:[^"]|"")*+"')
"""A field of a .csv in quotes."""
_LINE_FEEDS = "end its lines with line feeds, as editors and spreadsheet programs can"

Lines = Iterator[tuple[int, str]]
"""Lines with their line ends, counted from 1."""


class Decoder:
    """Lines of bytes as text: UTF-16 with its mark, or each of them UTF-8 or else Windows-1252 or 1254.

    `name` is that of the source in errors. With `strict` it is UTF-8 alone.
    """

    def __init__(self, name: str, *, strict: bool = False) -> None:
        self.name = name
        self._strict = strict
        self._marked = self._windows = self._codec = ""
        self._has_utf8 = False
        self._raws: Iterator[bytes] = iter(())

    @property
    def encoding(self) -> str:
        """A note on the encoding of the lines until here, "" for UTF-8 without a mark."""
        unicode = self._marked or "UTF-8" * (self._has_utf8 and self._windows != "")
        return " and ".join(filter(None, [unicode, self._windows]))

    def lines(self, source: BinaryIO | Sequence[bytes], first: int = 1, longest: int = LONGEST) -> Lines:
        """The lines, numbered from `first`. They end at line feeds only: other separators occur within sentences.

        Raises DataError for what is no text and for a line of more than `longest` bytes, which may be one without end.
        """
        raws = iter(source) if isinstance(source, Sequence) else iter(partial(source.readline, longest + 1), b"")
        start = next(raws, b"")
        raws = chain([start] if start else [], raws)
        if first == 1 and (mark := _MARK.match(start)) and mark.lastgroup:
            codec = mark.lastgroup.replace("_", "-")
            if self._strict and codec != "utf-8":
                raise DataError(f"{self.name} is {codec.upper()}", f"… | iconv -f {codec} -t utf-8 | contrast …")
            self._marked = f"{codec.upper()} {'without' if codec.endswith('e') else 'with'} its mark"
            raws = raws if codec == "utf-8" else self._recoded(raws, longest, codec)
        self._raws = raws
        for number in count(first):
            if (raw := next(self._raws, None)) is None:
                return
            if len(raw) > longest:
                what = f"{self.name}, line {number}: longer than {longest:,} bytes"
                hint = "put each sentence or row on a line, and many positives of one anchor in rows of their own"
                raise DataError(what, _LINE_FEEDS if b"\r" in raw else hint)
            text = self._decode(raw, number)
            if "\0" in text:
                what = f"{self.name}, line {number}: holds a NUL byte"
                raise DataError(what, "is it a text file? Delete the byte if so")
            yield number, text

    def _decode(self, raw: bytes, number: int) -> str:
        """Raises DataError for bytes that are neither."""
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            self._codec = self._codec or self._windows_codec(raw)
            text = "" if self._strict or _OTHER_SCRIPT.search(raw) else raw.decode(self._codec, "replace")
            if not text or "\ufffd" in text:
                what = f"{self.name}, line {number}: not UTF-8 (byte 0x{raw[error.start]:02x})"
                raise DataError(what, self._conversion(raw, number)) from None
            if not self._windows and (found := _NOT_ASCII.search(text)):
                self._windows = f"Windows-{self._codec[2:]}, as in line {number}: '{found[0].strip()}'"
            return text
        self._has_utf8 = self._has_utf8 or not text.isascii()
        return text

    def _from(self, raw: bytes, most: int) -> bytes:
        """A line with those that follow, up to some bytes; they are still to be read."""
        ahead = []
        while most > 0 and (more := next(self._raws, b"")):
            ahead.append(more)
            most -= len(more)
        self._raws = chain(ahead, self._raws)
        return b"".join([raw, *ahead])

    def _windows_codec(self, raw: bytes) -> str:
        """That of Turkish, where its letters are not those of Icelandic, or of a name in German; else the Western."""
        sample = self._from(raw, _BYTES_BEFORE_TURKISH)
        turkish, icelandic, german = (len(one.findall(sample)) for one in (_TURKISH, _ICELANDIC, _GERMAN))
        return "cp1254" if turkish > max(10 * icelandic, german) else "cp1252"

    def _recoded(self, parts: Iterable[bytes], longest: int, codec: str) -> Iterator[bytes]:
        """The lines in UTF-8. Raises DataError for what is no UTF-16."""
        rest = ""
        try:
            for text in codecs.iterdecode(parts, codec):
                *whole, rest = (rest + text).split("\n")
                yield from (f"{line}\n".encode() for line in whole)
                if len(rest) > longest:
                    break  # to be refused
            yield from [rest.encode()] if rest else []
        except UnicodeError:
            raise DataError(f"{self.name}: damaged {codec.upper()}", "copy or save it again") from None

    def _conversion(self, raw: bytes, number: int) -> str:
        """A hint with the command that converts from the likely encoding, and what a line is in it."""
        from charset_normalizer import from_bytes

        likely = from_bytes(self._from(raw, _BYTES_THAT_TELL), cp_isolation=_ENCODINGS).best()
        codec = likely.encoding if likely else "cp1251"
        found = _NOT_ASCII.search(raw.decode(codec, "replace"))
        convert = f"iconv -f {codec.replace('_', '-')} -t utf-8"
        text = f"it may be {codec}, where line {number} has '{found[0].strip()}'" if found else "give it in UTF-8"
        if self.name == "stdin":
            return f"{text}: … | {convert} | contrast …"
        plain = Path(self.name.removesuffix(".gz"))
        target = shlex.quote(str(plain.with_stem(f"{plain.stem}-utf8")))
        return f"{text}: {_as_command(convert, self.name, target)}, and use {target}"


def check_text(start: bytes, name: str) -> None:
    """Raises DataError for a file that is no text by its first bytes."""
    for mark, (what, remedy) in _NO_TEXT.items():
        if start.startswith(mark):
            raise DataError(f"{name} is {what}", remedy.replace("FILE", shlex.quote(name)))


def _as_command(program: str, name: str, target: str) -> str:
    """The shell's command by which a program reads a file of text, and writes another."""
    source = shlex.quote(name)
    return f"gzip -dcf {source} | {program} > {target}" if name.endswith(".gz") else f"{program} {source} > {target}"


def taken_out(cell: dict[str, object] | list[object], column: str, name: str) -> str:
    """A hint with the command that takes the text out of objects in a column, or a pair out of a chat; else ""."""
    inner = cell[0] if isinstance(cell, list) else cell
    found = {key: value for key, value in inner.items() if isinstance(value, str)} if isinstance(inner, dict) else {}
    who = next((key for key in ("role", "from") if key in found), "")
    if not found or (isinstance(cell, list) and not who) or name.endswith((".parquet", ".pq")):
        return ""
    key = max(found, key=lambda key: (key in ("content", "value", "text"), len(found[key])))
    made = f'.["{column}"] = .["{column}"]["{key}"]'
    if isinstance(cell, list):
        turns = f'.["{column}"] | map(select(.{who} != "system"))'
        made = f'{{anchor: {turns}[0]["{key}"], positive: {turns}[1]["{key}"]}}'
    rows = "(.data? // .)[] | " if name.lower().removesuffix(".gz").endswith(".json") else ""
    return f"take the texts out of it: {_as_command(f'jq -c {shlex.quote(rows + made)}', name, 'texts.jsonl')}"


def as_number(cell: Any) -> float:
    """The number that a cell of a table is or holds as text; NaN where there is none."""
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def with_header(cells: Sequence[str], name: str) -> str:
    """A hint for a table without names of its columns, whose first cells are rather those of a row; else ""."""
    is_table = name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".tab", ".txt"))
    named = f"if the first line is a row, write one above it with a name for each column: {NAMED}, or any other"
    return named if is_table and any(map(_is_cell, cells)) else ""


def _is_cell(name: str) -> bool:
    """Whether the name of a column is rather a text or a number: the first line is a row."""
    return len(name) > LONGEST_NAME or len(name.split()) > _MOST_WORDS or math.isfinite(as_number(name))


def cut_name(name: str) -> str:
    """The name of a column to show, or the beginning of what is rather a cell."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def limit_memory(lines: Lines, memory: int, name: str, row_bytes: int = BYTES_OF_A_ROW) -> Lines:
    """The lines. Raises DataError where they take more memory: a small compressed file may unpack without end."""
    for number, text in lines:
        memory -= len(text) + row_bytes
        if memory < 0:
            what = f"{name}, line {number}: its lines would fill the memory"
            raise DataError(what, "give the text in several files; to train on its first rows, set data.limit")
        yield number, text


def with_first(lines: Lines, suffix: str, name: str) -> tuple[str, Lines]:
    """The first line, of a table the first that is not blank, and all from it on.

    Raises DataError where there is none, and where lines do not end with a line feed.
    """
    if suffix in (".csv", ".tsv"):
        lines = dropwhile(lambda line: line[1].isspace(), lines)
    number, first = next(lines, (0, ""))
    if not number:
        raise DataError(f"{name} is empty", "give a file with sentences or pairs")
    if "\r" in QUOTED.sub("", first).rstrip("\r\n") and suffix in (".csv", ".tsv", ".txt"):
        raise DataError(f"{name}, line {number}: a carriage return without a line feed", _LINE_FEEDS)
    return first, chain([(number, first)], lines)


def without_blank_end(lines: Lines, name: str) -> Lines:
    """The lines up to the last that is not blank. Raises DataError where very many in a row are."""
    waiting: list[tuple[int, str]] = []
    for line in lines:
        waiting.append(line)
        if not line[1].isspace():
            yield from waiting
            waiting.clear()
        elif len(waiting) > _MOST_BLANK:
            what = f"{name}: more than {_MOST_BLANK:,} lines from line {waiting[0][0]} on are blank"
            raise DataError(what, "is it a text file? Delete them")


def sentences(lines: Lines, notes: list[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Lines as rows of one column, below its name; a note where one looks like a row of a table."""
    yield 1, ["sentence"]
    for number, text in lines:
        if "\t" in text and not notes:
            notes.append(f"one sentence a line, though line {number} has a TAB; a table is a .tsv")
        yield number, [text.rstrip("\r\n")]
