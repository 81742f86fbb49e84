"""`contrast query`: similarities of pairs and neighbours in a corpus; texts on stdin are answered as they come."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import TypeVar, cast

from contrastcli.boundary import narrate_all
from contrastcli.data.forms import LONGEST
from contrastcli.data.lines import Decoder
from contrastcli.errors import DataError, UsageError, Use
from contrastcli.model.locate import resolve
from contrastcli.runs.results import Nearest
from contrastcli.settings.sections import Blank, Pooling, Precision
from contrastcli.show import answers, console
from contrastcli.show.format import as_json_lines

T = TypeVar("T")

_BLOCK_BYTES = 1 << 16
"""Most bytes of stdin that are read, and answered, together."""


def answer(
    texts: Sequence[str],
    corpus: Path | None,
    runs_dir: Path,
    *,
    columns: str,
    blank: Blank,
    model: str | None,
    pooling: Pooling | None,
    precision: Precision,
    dim: int | None,
    vectors: Sequence[Path],
    count: int,
    json: bool,
) -> Iterator[str]:
    """The similarity of two sentences, or the `count` sentences of a corpus that are nearest to one, as text.

    With `-` in place of sentences come the answers to those on stdin, in blocks. Raises UsageError and DataError.
    """
    _check(texts, corpus, vectors)
    stdin = cast(BufferedIOBase, sys.stdin.buffer)
    # Here, so that torch is loaded only when a model is needed.
    from contrastcli.model import search
    from contrastcli.model.folder import load_model

    ref = resolve(model, runs_dir)
    encoder = load_model(ref, pooling=pooling, precision=precision, dim=dim)
    if corpus is None:
        for pairs in read_pairs(stdin) if len(texts) == 1 else [[(texts[0], texts[1])]]:
            measured = search.similarities(encoder, pairs, ref.name)
            if len(texts) == 2 and not json:
                narrate_all([*measured[0].cuts, *_files_among(texts)])
            yield as_json_lines(measured) if json else answers.similarities(measured)
        return
    with console.progress() as advance:
        index = search.Index(encoder, corpus, partial(advance, "encoding"), columns, blank, vectors)
    narrate_all(index.notes)
    for queries in read_questions(stdin) if texts[0] == "-" else [texts]:
        nearest = [Nearest(text, index.nearest(text, count), ref.name) for text in queries]
        yield as_json_lines(nearest) if json else answers.neighbours(nearest)


def _check(texts: Sequence[str], corpus: Path | None, vectors: Sequence[Path]) -> None:
    """Raises UsageError for texts and files that do not go together."""
    if vectors and not corpus:
        raise UsageError("--vectors are those of a corpus", Use("--corpus", "FILE", "name it too:"))
    if "-" in texts and len(texts) > 1:
        raise UsageError("- is the pairs of stdin", "give - alone, with a TAB between the two of a line")
    if not (len(texts) == 1 if corpus else len(texts) == 2 or tuple(texts) == ("-",)):
        searched = f"contrast query {shlex.quote(' '.join(texts))} --corpus FILE"
        hint = f"put each sentence in quotes, or search a file: {searched}"
        raise UsageError("query takes two sentences, or one and --corpus FILE, or -", hint)
    if not all(text.strip() for text in texts):
        raise UsageError("a sentence is blank", "give each sentence as one word of the command line, in quotes")


def _files_among(texts: Sequence[str]) -> Iterator[str]:
    """A note for each of two sentences that is the name of a file."""
    for file, other in zip(texts, reversed(texts), strict=True):
        if os.path.isfile(file):
            command = shlex.join(["contrast", "query", other, "--corpus", file])
            yield f"'{file}' was compared as a sentence; to search the file: {command}"


def read_pairs(stream: BufferedIOBase) -> Iterator[list[tuple[str, str]]]:
    """TAB-separated pairs, in blocks of those that have arrived. Raises DataError."""
    return _read(stream, _pair, "not two sentences with a TAB between them", "write A<TAB>B a line")


def read_questions(stream: BufferedIOBase) -> Iterator[list[str]]:
    """Sentences, one a line, in blocks of those that have arrived. Raises DataError."""
    return _read(stream, str.strip, "blank", "write a sentence a line")


def _read(stream: BufferedIOBase, parse: Callable[[str], T | None], wrong: str, hint: str) -> Iterator[list[T]]:
    """The lines, parsed, in blocks of those that have arrived. Before the error of a malformed line come the others."""
    decoder, first, rest, is_open = Decoder("stdin", strict=True), 1, b"", True
    while is_open:
        is_open = bool(data := stream.read1(_BLOCK_BYTES))
        *lines, rest = (rest + data).split(b"\n")
        # The last line, or one that is too long and refused.
        if rest and (not is_open or len(rest) > LONGEST):
            lines.append(rest)
        block: list[T] = []
        try:
            for number, line in decoder.lines(lines, first):
                if not (parsed := parse(line)):
                    raise DataError(f"stdin, line {number}: {wrong}", hint)
                block.append(parsed)
        finally:
            if block:
                yield block
        first += len(lines)
    if first == 1:
        raise DataError("stdin is empty", hint)


def _pair(line: str) -> tuple[str, str] | None:
    cells = [cell.strip() for cell in line.rstrip("\r").split("\t")]
    return (cells[0], cells[1]) if len(cells) == 2 and all(cells) else None
