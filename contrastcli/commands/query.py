"""`contrast query -`: pairs or questions on stdin, read as they come, so that a program may wait for each answer."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedIOBase

from contrastcli.data.formats import decode
from contrastcli.errors import DataError

_BYTES = 1 << 16  # of stdin, read and answered together at most


def read_pairs(stream: BufferedIOBase) -> Iterator[list[tuple[str, str]]]:
    """TAB-separated pairs in their order, those together that have come.

    Raises DataError for a line that is no pair, and for an empty stream.
    """
    for lines in _arriving(stream, "write A<TAB>B a line"):
        yield [_pair(number, line) for number, line in lines]


def read_questions(stream: BufferedIOBase) -> Iterator[list[str]]:
    """Sentences, one a line, in their order, those together that have come. Raises DataError."""
    for lines in _arriving(stream, "write a sentence a line"):
        yield [_question(number, line) for number, line in lines]


def _arriving(stream: BufferedIOBase, hint: str) -> Iterator[list[tuple[int, str]]]:
    """Numbered lines, those together that have come."""
    first, rest = 1, b""
    while data := stream.read1(_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        if whole:
            yield list(decode(whole, "stdin", first))
        first += len(whole)
    if rest:
        yield list(decode([rest], "stdin", first))
    elif first == 1:
        raise DataError("stdin is empty", hint)


def _pair(number: int, line: str) -> tuple[str, str]:
    cells = [cell.strip() for cell in line.rstrip("\r").split("\t")]
    if len(cells) != 2 or not all(cells):
        raise DataError(f"stdin, line {number}: not two sentences with a TAB between them", "write A<TAB>B a line")
    return cells[0], cells[1]


def _question(number: int, line: str) -> str:
    if not line.strip():
        raise DataError(f"stdin, line {number}: blank", "write a sentence a line")
    return line.strip()
