"""Asking a model: which one is meant, how alike two sentences are, what is nearest in a corpus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from contrastcli.data.formats import decode
from contrastcli.errors import DataError
from contrastcli.model.cache import OnProgress, cached_vectors
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import here, locate
from contrastcli.runs import directory as runs
from contrastcli.settings.sections import Pooling

Floats = NDArray[np.floating]

_BYTES = 1 << 16  # of stdin, read and answered together at most
_ROWS = 16_384  # of a corpus, compared at once


def resolve_model(word: str | None, runs_dir: Path, environ: Mapping[str, str]) -> str:
    """What `load_model` takes for a user's word: `--model`, else CONTRAST_MODEL, else the newest run that has ended.

    A word may be a folder, a run (a name, an unambiguous part of one, or `last`), or a name on the hub. Raises
    DataError where there is no model, or the word means several runs.
    """
    word = word or environ.get("CONTRAST_MODEL")
    if not word:
        return _newest(runs_dir)
    named = [run for run in runs.list_runs(runs_dir) if run.name == word]
    if named or word == "last":
        return str(runs.find(word, runs_dir).path)
    if here(word) is None and any(word in run.name for run in runs.list_runs(runs_dir)):
        return str(runs.find(word, runs_dir).path)
    return word


def _newest(runs_dir: Path) -> str:
    for run in runs.list_runs(runs_dir):
        if run.status().state in ("finished", "stopped") and run.checkpoints():
            return str(run.path)
    raise DataError(f"there is no model: no run in {runs_dir} has ended", "contrast train --preset starter --no-ui")


def load_model(name: str, *, pooling: Pooling | None = None, device: str = "auto") -> SentenceEncoder:
    """The model of a run directory (its best checkpoint, else its last), a folder or a hub name.

    A `pooling` given overrides the model's own. Raises DataError and UsageError.
    """
    from contrastcli.model.devices import choose_device

    return load_encoder(folder_of(name), pooling).to(choose_device(device)).eval()


def folder_of(name: str) -> Path:
    """The model folder of a name that `load_model` takes. Raises DataError."""
    run = runs.Run(Path(name))
    return run.checkpoint() if run.config_path.is_file() else locate(name)


@dataclass(frozen=True)
class Similarity:
    """How alike two sentences are: cosine in −1..1 and the angle in degrees."""

    a: str
    b: str
    cosine: float
    angle_deg: float


def similarity(encoder: SentenceEncoder, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
    """The similarity of each pair, each distinct sentence encoded once. Identical sentences have 1.0 and 0.0°."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    vectors = dict(zip(texts, encoder.encode(texts), strict=True))
    return [Similarity(a, b, *_compare(vectors[a], vectors[b])) for a, b in pairs]


def _compare(a: Floats, b: Floats) -> tuple[float, float]:
    """Cosine and angle in degrees of two vectors, in float64; by half chords, which keep their digits at 0°."""
    u, v = _unit(a), _unit(b)
    if np.array_equal(u, v):
        return 1.0, 0.0
    angle = 2 * math.atan2(float(np.linalg.norm(u - v)), float(np.linalg.norm(u + v)))
    return min(max(float(u @ v), -1.0), 1.0), math.degrees(angle)


def _unit(vector: Floats) -> NDArray[np.float64]:
    wide = vector.astype(np.float64)
    unit: NDArray[np.float64] = wide / max(float(np.linalg.norm(wide)), 1e-12)
    return unit


def read_pairs(stream: BufferedIOBase) -> Iterator[list[tuple[str, str]]]:
    """TAB-separated pairs in their order, those together that have come by then.

    Raises DataError, naming the line that is none, or where there is no line at all.
    """
    for lines in _arriving(stream, "write A<TAB>B a line"):
        yield [_pair(number, line) for number, line in lines]


def read_questions(stream: BufferedIOBase) -> Iterator[list[str]]:
    """Sentences, one a line, in their order, those together that have come by then. Raises DataError as above."""
    for lines in _arriving(stream, "write a sentence a line"):
        yield [_question(number, line) for number, line in lines]


def _arriving(stream: BufferedIOBase, hint: str) -> Iterator[list[tuple[int, str]]]:
    """Numbered lines as they come, so that a program may wait for each answer."""
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


@dataclass(frozen=True)
class Neighbour:
    """A sentence of a corpus near to the query; `row` counts the corpus' sentences from 1."""

    row: int
    text: str
    cosine: float
    angle_deg: float


class Index:
    """A corpus to search: each sentence encoded once and kept in the cache, for each model."""

    def __init__(self, encoder: SentenceEncoder, corpus: Path, on_progress: OnProgress | None = None) -> None:
        """Raises DataError where the corpus cannot be read."""
        from contrastcli.data.sources import load_sentences

        self._encoder = encoder
        self._texts = load_sentences(str(corpus))
        self._vectors = cached_vectors(encoder, self._texts, on_progress)  # (N, d)

    def nearest(self, query: str, k: int) -> list[Neighbour]:
        """The k nearest sentences, exactly, nearest first; all where there are fewer."""
        asked = self._encoder.encode([query])[0]  # (d,)
        rows = _top(self._vectors, asked, k)
        found = [Neighbour(row + 1, self._texts[row], *_compare(asked, self._vectors[row])) for row in rows]
        return sorted(found, key=lambda n: (n.angle_deg, n.row))


def _top(vectors: Floats, asked: Floats, k: int) -> list[int]:
    """Rows of the k largest cosines, block by block."""
    best = torch.empty(0)
    rows = torch.empty(0, dtype=torch.long)
    unit = torch.nn.functional.normalize(torch.from_numpy(asked), dim=0)
    for start in range(0, len(vectors), _ROWS):
        block = torch.from_numpy(np.array(vectors[start : start + _ROWS]))  # (rows, d), read from disk here
        cosine = torch.nn.functional.normalize(block, dim=1) @ unit
        best, rows = torch.cat([best, cosine]), torch.cat([rows, torch.arange(start, start + len(block))])
        best, chosen = best.topk(min(k, len(best)))
        rows = rows[chosen]
    return [int(row) for row in rows]
