"""Static word vectors as a baseline: a sentence is the average of the vectors of its words, from a file like GloVe's.

A line is a word and d numbers, after word2vec's header if there is one. Texts are lower-cased and split at white space.
A token that the file lacks is looked up without the ASCII punctuation around it, as SBERT's average word embeddings do;
no stop word is left out. Only the vectors of words in the texts are kept in memory.
"""

import codecs
import gzip
import hashlib
import math
import os
import string
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, takewhile
from pathlib import Path

import numpy as np

from contrastcli.data.lines import as_number
from contrastcli.errors import DataError, UsageError, Use
from contrastcli.evaluation.procedure import Subject
from contrastcli.model.metrics import Floats
from contrastcli.settings.sections import Kind, Pooling, Precision

_LONGEST_LINE_BYTES, _WIDEST_VECTOR = 1 << 22, 100_000
_LARGEST = 1e18
"""Of a vector's numbers: float32 holds its square."""
_LEAST_KNOWN = 0.1
"""The share of the words of texts below which a file is none of word vectors, or of another language."""
_FORMAT = "each line is a word and its numbers, separated by single spaces"


def load_subject(name: str, pooling: Pooling | None, dim: int | None = None, precision: Precision = "fp32") -> Subject:
    """A file of word vectors as a subject to measure. Raises DataError, and UsageError for what a model alone has."""
    if precision != "fp32":
        raise UsageError("word vectors are measured as the file has them", Use("--precision", verb="leave out"))
    if dim is not None:
        raise UsageError("word vectors are measured whole", Use("--dim", verb="leave out"))
    if pooling is not None:
        raise UsageError("word vectors are averaged and have no other pooling", Use("--pooling", verb="leave out"))
    vectors = WordVectors(Path(name))
    with open(vectors.path, "rb") as file:
        fingerprint = hashlib.file_digest(file, "sha256").hexdigest()
    return Subject(name, vectors.encode, "average of word vectors", fingerprint, prepare=vectors.prepare)


class WordVectors:
    """Encodes texts with a file of word vectors. Raises DataError, with the line, for a malformed file."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.expanduser(path))
        # None for the tokens that are not in the file.
        self._vectors: dict[str, Floats | None] = {}
        self.width = self._read(set())[0]

    def encode(self, texts: Sequence[str], kind: Kind | None = None) -> Floats:
        """Averages (N, d) of the vectors of the texts' words; zeros for a text without a known word."""
        self.add(texts)
        means = np.zeros((len(texts), self.width), dtype=np.float32)  # (N, d)
        for mean, text in zip(means, texts, strict=True):
            known = [vector for token in _tokens(text) if (vector := self._vectors[token]) is not None]
            if known:
                mean[:] = np.mean(known, axis=0)
        return means

    def prepare(self, texts: Iterable[str]) -> None:
        """Read the vectors of all words of a task. Raises DataError where the file has hardly any of them."""
        self.add(texts)
        known = sum(vector is not None for vector in self._vectors.values())
        if known < _LEAST_KNOWN * len(self._vectors):
            what = f"{self.path} has {known:,} of the {len(self._vectors):,} words of the texts"
            hint = "give word vectors of their language, of words in lower case, as glove.840B.300d.txt is"
            raise DataError(what, hint)

    def add(self, texts: Iterable[str]) -> None:
        """Read the vectors of the texts' words, in one pass over the file."""
        new = {token for text in texts for token in _tokens(text)} - self._vectors.keys()
        forms = {token: (token.encode(), token.strip(string.punctuation).encode()) for token in new}
        if new:
            vectors = self._read({form for both in forms.values() for form in both})[1]
            for token, (exact, stripped) in forms.items():
                self._vectors[token] = vectors.get(exact, vectors.get(stripped))

    def _read(self, words: set[bytes]) -> tuple[int, dict[bytes, Floats]]:
        """The width d of the vectors, and those of some words; without any word, only the first line is read."""
        try:
            with gzip.open(self.path) if self.path.suffix == ".gz" else open(self.path, "rb") as stream:
                return self._parse(enumerate(iter(partial(stream.readline, _LONGEST_LINE_BYTES), b""), 1), words)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = f"{self.path} is a damaged or truncated gzip file: {error}"
            raise DataError(what, "copy or download it again") from None
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror}", "check the path") from None

    def _parse(self, lines: Iterator[tuple[int, bytes]], words: set[bytes]) -> tuple[int, dict[bytes, Floats]]:
        first = next(lines, (1, b""))[1].removeprefix(codecs.BOM_UTF8)
        cells = first.split()
        header = len(cells) == 2 and all(cell.isdigit() and len(cell) < 16 for cell in cells)
        count, width = map(int, cells) if header else (0, _width(first))
        if not 1 <= width <= _WIDEST_VECTOR:
            raise DataError(f"{self.path}, line 1: not a word and its numbers", _FORMAT)
        vectors: dict[bytes, Floats] = {}
        if not words:
            return width, vectors
        number = 1
        for number, raw in lines if header else chain([(1, first)], lines):
            line = raw.rstrip()
            spaces = line.count(b" ")
            if spaces < width:
                what = f"{self.path}, line {number}: {spaces} numbers after the word where there should be {width}"
                raise DataError(what, _FORMAT)
            word = line[: line.index(b" ")]
            # A word that holds spaces, as some of GloVe's do, is in no text that is split at them.
            if spaces == width and word in words and word not in vectors:
                cells = line.split(b" ")[1:]
                if bad := [cell for cell in cells if not abs(as_number(cell)) <= _LARGEST]:
                    what = f"{self.path}, line {number}: {bad[0].decode(errors='replace')!r:.40} is no number"
                    raise DataError(what, f"{_FORMAT}, each from -{_LARGEST:g} to {_LARGEST:g}")
                vectors[word] = np.array([as_number(cell) for cell in cells], dtype=np.float32)
        if header and number - 1 != count:
            what = f"{self.path} has {number - 1:,} words, its first line says {count:,}"
            raise DataError(what, "copy or download it again")
        return width, vectors


def _tokens(text: str) -> list[str]:
    return text.lower().split()


def _width(line: bytes) -> int:
    """The number of numbers at the end of a line; the word before them may hold spaces or be a number."""
    cells = line.rstrip().split(b" ")[1:]
    return len(list(takewhile(lambda cell: math.isfinite(as_number(cell)), reversed(cells))))
