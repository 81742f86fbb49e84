"""`contrast query`: similarities of pairs and neighbours in a corpus; texts on stdin are answered as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar, cast

from contrastcli.data.formats import decode
from contrastcli.data.forms import LONGEST
from contrastcli.errors import DataError, UsageError
from contrastcli.model.locate import ModelRef
from contrastcli.runs.results import Nearest
from contrastcli.settings.sections import Pooling, Precision
from contrastcli.show import answers, console

T = TypeVar("T")

_BYTES = 1 << 16  # of stdin, read and answered together at most


def check(texts: Sequence[str], corpus: Path | None) -> None:
    """Raises UsageError unless there are two sentences, or `-` for pairs on stdin, or one for a corpus."""
    good = len(texts) == 1 if corpus else len(texts) == 2 or tuple(texts) == ("-",)
    if not good:
        raise UsageError("query takes two sentences, or one and --corpus FILE, or -", "see contrast query --help")
    if not all(text.strip() for text in texts):
        raise UsageError("a sentence is blank", "give each sentence as one word of the command line, in quotes")


def similarities(
    texts: Sequence[str], model: ModelRef, pooling: Pooling | None, precision: Precision, json: bool
) -> Iterator[str]:
    """The similarity of two sentences, or of the pairs on stdin, as blocks of text. Raises DataError."""
    from contrastcli.model import search  # torch is loaded only when a model is needed
    from contrastcli.model.folder import load_model

    encoder = load_model(model, pooling=pooling, precision=precision)
    for pairs in read_pairs(_stdin()) if len(texts) == 1 else [[(texts[0], texts[1])]]:
        yield answers.similarities(search.similarities(encoder, pairs, model.name), json)


def neighbours(
    texts: Sequence[str],
    model: ModelRef,
    corpus: Path,
    count: int,
    pooling: Pooling | None,
    precision: Precision,
    json: bool,
) -> Iterator[str]:
    """The sentences of a corpus that are nearest to a text, or to those on stdin, as text. Raises DataError."""
    from contrastcli.model.folder import load_model  # torch is loaded only when a model is needed
    from contrastcli.model.search import Index

    encoder = load_model(model, pooling=pooling, precision=precision)
    with console.progress() as advance:
        index = Index(encoder, corpus, partial(advance, "encoding"))
    for queries in read_questions(_stdin()) if texts[0] == "-" else [texts]:
        nearest = [Nearest(text, index.nearest(text, count), model.name) for text in queries]
        yield answers.neighbours(nearest, json)


def _stdin() -> BufferedIOBase:
    return cast(BufferedIOBase, sys.stdin.buffer)


def read_pairs(stream: BufferedIOBase) -> Iterator[list[tuple[str, str]]]:
    """TAB-separated pairs, in blocks of those that have arrived. Raises DataError."""
    return _parsed(_pair, _arriving(stream, "write A<TAB>B a line"))


def read_questions(stream: BufferedIOBase) -> Iterator[list[str]]:
    """Sentences, one a line, in blocks of those that have arrived. Raises DataError."""
    return _parsed(_question, _arriving(stream, "write a sentence a line"))


def _parsed(parse: Callable[[int, str], T], blocks: Iterable[Iterator[tuple[int, str]]]) -> Iterator[list[T]]:
    """The blocks, parsed. Before the error of a malformed line come the lines before it."""
    for lines in blocks:
        parsed = []
        try:
            for number, line in lines:
                parsed.append(parse(number, line))
        except DataError:
            if parsed:
                yield parsed
            raise
        yield parsed


def _arriving(stream: BufferedIOBase, hint: str) -> Iterator[Iterator[tuple[int, str]]]:
    """Numbered lines, in blocks of those that have arrived."""
    first, rest = 1, b""
    while data := stream.read1(_BYTES):
        *whole, rest = (rest + data).split(b"\n")
        if len(rest) > LONGEST:
            whole.append(rest)  # is refused
        if whole:
            yield decode(whole, "stdin", first)
        first += len(whole)
    if rest:
        yield decode([rest], "stdin", first)
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
