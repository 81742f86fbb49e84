"""Static word vectors as a baseline: a text file in GloVe's format → the average vector of a sentence's words.

    the 0.418 0.24968 -0.41242 …        a word and d numbers a line, plain or .gz
    400000 300                          word2vec's header, where there is one

Each text is lower-cased and split at white space; a token that the file lacks is tried without the ASCII punctuation
around it, as SBERT's average word embeddings do, but no stop word is left out: the papers average all tokens. Words
outside the file are skipped, and a text without any known word is the zero vector.

The file is read through once for each set of texts with new words, and only the vectors of those words are kept, so
that memory holds the vocabulary of the texts and not that of the file.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import string
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.errors import DataError, UsageError
from contrastcli.evaluation.result import Subject
from contrastcli.settings.sections import Pooling

Floats = NDArray[np.float32]

_SUFFIXES = (".txt", ".vec", ".txt.gz", ".vec.gz")
_FORMAT = "each line is a word and its numbers, separated by single spaces"


def is_word_vectors(name: str) -> bool:
    """Whether a model's name means a file of word vectors: it ends in .txt or .vec, or the .gz of these."""
    return name.endswith(_SUFFIXES) and Path(name).expanduser().is_file()


def load_subject(name: str, pooling: Pooling | None) -> Subject:
    """A file of word vectors as what a suite measures. Raises DataError, and UsageError for a pooling."""
    if pooling is not None:
        raise UsageError("word vectors are averaged and know no other pooling", "leave out --pooling")
    vectors = WordVectors(Path(name))
    return Subject(name, vectors.encode, "average of word vectors", vectors.fingerprint())


class WordVectors:
    """A file of word vectors that encodes texts. Raises DataError for a file that is not one, naming the line."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self._vectors: dict[str, Floats | None] = {}  # every form looked for so far; None for those not in the file
        self.width = self._read(set())[0]

    def encode(self, texts: Sequence[str]) -> Floats:
        """Averages (N, d) of the vectors of the texts' words; zeros for a text without a known word."""
        rows = [text.lower().split() for text in texts]
        self._look_up({form for row in rows for token in row for form in _forms(token)})
        means = np.zeros((len(texts), self.width), dtype=np.float32)  # (N, d)
        for mean, row in zip(means, rows, strict=True):
            known = [vector for token in row if (vector := self._vector(token)) is not None]
            if known:
                mean[:] = np.mean(known, axis=0)
        return means

    def fingerprint(self) -> str:
        """SHA-256 of the file, in hexadecimal."""
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _vector(self, token: str) -> Floats | None:
        vectors = (self._vectors[form] for form in _forms(token))
        return next((vector for vector in vectors if vector is not None), None)

    def _look_up(self, forms: set[str]) -> None:
        new = forms - self._vectors.keys()
        if new:
            vectors = self._read({form.encode() for form in new})[1]
            self._vectors |= {form: vectors.get(form.encode()) for form in new}

    def _read(self, wanted: set[bytes]) -> tuple[int, dict[bytes, Floats]]:
        """The width d of the vectors, and those of some words; without any, only the file's beginning is read."""
        try:
            with _open(self.path) as stream:
                return self._parse(enumerate(stream, 1), wanted)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{self.path} is not a whole gzip file: {error}", "copy or download it again") from None
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror}", "check the path") from None

    def _parse(self, lines: Iterator[tuple[int, bytes]], wanted: set[bytes]) -> tuple[int, dict[bytes, Floats]]:
        first = next(lines, (1, b""))[1]
        header = _header(first)
        width = header[1] if header else _width(first)
        if width < 1:
            raise DataError(f"{self.path}, line 1: not a word and its numbers", _FORMAT)
        if not wanted:
            return width, {}
        vectors, last = self._find(lines if header else chain([(1, first)], lines), width, wanted)
        if header and last - 1 != header[0]:
            what = f"{self.path} has {last - 1:,} words, its first line says {header[0]:,}"
            raise DataError(what, "copy or download it again")
        return width, vectors

    def _find(
        self, lines: Iterable[tuple[int, bytes]], width: int, wanted: set[bytes]
    ) -> tuple[dict[bytes, Floats], int]:
        """The vectors of the words that are wanted, the first of each, and the number of the last line."""
        vectors: dict[bytes, Floats] = {}
        number = 1
        for number, raw in lines:
            line = raw.rstrip()
            spaces = line.count(b" ")
            if spaces < width:
                what = f"{self.path}, line {number}: {spaces} numbers after the word where there should be {width}"
                raise DataError(what, _FORMAT)
            word = line[: line.index(b" ")]
            # A word that holds spaces, as some of GloVe's do, is in no text that is split at them.
            if spaces == width and word in wanted and word not in vectors:
                vectors[word] = self._numbers(line, number)
        return vectors, number

    def _numbers(self, line: bytes, number: int) -> Floats:
        cells = line.split(b" ")[1:]
        values = [_number(cell) for cell in cells]
        if not all(map(math.isfinite, values)):
            bad = next(cell for cell, value in zip(cells, values, strict=True) if not math.isfinite(value))
            raise DataError(f"{self.path}, line {number}: {bad.decode(errors='replace')!r:.40} is no number", _FORMAT)
        return np.array(values, dtype=np.float32)  # (d,)


def _forms(token: str) -> tuple[str, str]:
    """What a token may be in the file, the likelier first."""
    return token, token.strip(string.punctuation)


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.name.endswith(".gz") else open(path, "rb")


def _header(line: bytes) -> tuple[int, int] | None:
    """Words and width that word2vec's first line says."""
    cells = line.split()
    return (int(cells[0]), int(cells[1])) if len(cells) == 2 and all(cell.isdigit() for cell in cells) else None


def _width(line: bytes) -> int:
    """How many numbers end a line whose word may hold spaces or be a number itself."""
    cells = line.rstrip().split(b" ")
    numbers = 0
    while numbers < len(cells) - 1 and math.isfinite(_number(cells[-1 - numbers])):
        numbers += 1
    return numbers


def _number(cell: bytes) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
