"""The similarity of pairs of sentences, and the nearest sentences of a corpus."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from contrastcli.data.batching import Indices
from contrastcli.data.examples import as_id
from contrastcli.data.sources import load_documents, load_sentences
from contrastcli.data.tokens import CHARACTERS, Advance
from contrastcli.errors import Hint
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.metrics import Floats, cosine, degrees
from contrastcli.model.vectors import Joined, Stored, cached_vectors, check_own, dequantise, stored_vectors
from contrastcli.objectives.similarity import SHORTEST, unit
from contrastcli.runs.results import Neighbour, Similarity
from contrastcli.settings.sections import Blank

ROWS = 16_384
"""Vectors of a corpus that are compared at once."""


def similarities(encoder: SentenceEncoder, pairs: Sequence[tuple[str, str]], model: str = "") -> list[Similarity]:
    """The similarity of each pair; identical sentences have 1.0 and 0.0°. `model` names the encoder in the results."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    vectors = dict(zip(texts, encoder.encode(texts), strict=True))
    ids = encoder.tokenizer.encode([encoder.contract.prompt() + text for text in texts], CHARACTERS)  # cut nowhere
    counts, limit = dict(zip(texts, map(len, ids), strict=True)), encoder.max_length
    return [Similarity(a, b, *_compare(vectors[a], vectors[b]), model, (counts[a], counts[b]), limit) for a, b in pairs]


def _compare(a: Floats, b: Floats) -> tuple[float, float]:
    """Cosine and angle in degrees of two vectors (d,), in float64; exactly 1 and 0 for equal ones."""
    angle = degrees(*(torch.from_numpy(vector.astype(np.float64)) for vector in (a, b))).item()
    return float(cosine(a, b).clip(-1, 1)) if angle else 1.0, angle


class Index:
    """A corpus to search, with vectors cached for each model, or those of files that `contrast encode` wrote.

    Raises DataError if it cannot be read, and where the vectors are not its own by this model.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        corpus: Path,
        on_progress: Advance | None = None,
        columns: str = "",
        blank: Blank = "error",
        vectors: Sequence[Path] = (),
    ) -> None:
        load = load_sentences if vectors else partial(load_documents, with_negatives=False)
        rows = load(str(corpus), columns, blank)
        self.notes = rows.notes
        self._encoder = encoder
        self._rows, self._texts = rows, rows.views["anchor"]
        self._vectors: Stored | Joined  # (N, d)
        self._from: tuple[str, Hint] | None = None
        self._compared = set[int]()
        self._lengths: torch.Tensor | None = None  # (N,)
        if vectors:
            self._from = ", ".join(map(str, vectors)), _remedies(encoder, corpus, columns, blank, vectors)
            self._vectors, note = stored_vectors(vectors, encoder, self._texts, self._from[1])
            self.notes = (*self.notes, note) if note else self.notes
        else:
            self._vectors = cached_vectors(encoder, self._texts, on_progress, "document")

    def nearest(self, query: str, k: int) -> list[Neighbour]:
        """The k nearest sentences, by exact search, nearest first; all if there are fewer."""
        vector = self._encoder.encode([query], "query")[0]  # (d,)
        if self._lengths is None:
            self._lengths = _lengths(self._vectors, len(vector))
        rows, nearest = self._rows, top(self._vectors, vector[None], k, lengths=self._lengths)[1][0].tolist()
        if self._from and (new := [n for n in nearest if n not in self._compared]):
            # A file may be of a corpus in which some texts were others; what is shown is what it says.
            check_own(self._vectors[new], self._encoder, [self._texts[n] for n in new], *self._from)
            self._compared.update(new)
        near = dequantise(self._vectors[nearest], len(vector))  # (k, d)
        neighbours = [
            Neighbour(int(rows.row_numbers[n]), self._texts[n], *_compare(vector, its), as_id(rows.ids, n))
            for n, its in zip(nearest, near, strict=True)
        ]
        return sorted(neighbours, key=lambda n: (n.angle_deg, n.row))


def _remedies(encoder: SentenceEncoder, corpus: Path, columns: str, blank: Blank, vectors: Sequence[Path]) -> list[str]:
    """What helps where vectors are not the corpus's: the order of several files, and the command that makes them."""
    words = ["contrast", "encode", corpus, "-o", "FILE.npy", "--model", encoder.name]
    words += ["--as", "document"] * bool(encoder.contract.prompts) + ["--dim", encoder.dim] * bool(encoder.dim)
    words += ["--columns", columns] * bool(columns) + ["--blank", blank] * (blank != "error")
    again = f"{shlex.join(map(str, words))}; then --vectors FILE.npy --model {shlex.quote(encoder.name)}"
    return ["name parts in the order of their texts"] * (len(vectors) > 1) + [again]


def _lengths(vectors: Stored | Joined, width: int) -> torch.Tensor:
    """The length of each stored vector (N,), of zeros infinity, so that they have the cosine 0."""
    blocks = (dequantise(vectors[start : start + ROWS], width) for start in range(0, len(vectors), ROWS))
    lengths = np.concatenate([np.linalg.norm(block.astype(np.float64), axis=1) for block in blocks])
    return torch.from_numpy(np.where(lengths > SHORTEST, lengths, np.inf).astype(np.float32))


def top(
    vectors: Stored | Joined,
    queries: Floats,
    k: int,
    among: Indices | None = None,
    excluded: Indices | None = None,
    lengths: torch.Tensor | None = None,
) -> tuple[Floats, Indices]:
    """Cosines and rows of the k nearest of (N, d) stored vectors to each of (Q, d) queries, nearest first: two (Q, k).

    They are the rows `among` (M,), or all, but not those of the pairs `excluded` (E, 2) of a query and a place in
    `among`. The search is exact, block by block; where fewer than k are left, the rest have the cosine −∞. With the
    `lengths` (N,) of all vectors a search of few queries takes an eighth of the time.
    """
    count = len(vectors) if among is None else len(among)
    unit_queries = unit(torch.from_numpy(queries))
    best = torch.empty(len(queries), 0)
    places = torch.empty(len(queries), 0, dtype=torch.long)
    for start in range(0, count, ROWS):
        rows = slice(start, start + ROWS) if among is None else among[start : start + ROWS]
        block = torch.from_numpy(dequantise(vectors[rows], queries.shape[1]))  # (rows, d)
        scores = unit_queries @ (block if lengths is not None else unit(block)).T
        if lengths is not None:
            scores /= lengths[rows]
        if excluded is not None:
            inside = torch.from_numpy(excluded[(excluded[:, 1] >= start) & (excluded[:, 1] < start + ROWS)])
            scores[inside[:, 0], inside[:, 1] - start] = -torch.inf
        near, columns = scores.topk(min(k, len(block)), dim=1)
        best, chosen = torch.cat([best, near], dim=1).topk(min(k, best.shape[1] + near.shape[1]), dim=1)
        places = torch.cat([places, columns + start], dim=1).gather(1, chosen)
    nearest = places.numpy()
    return best.numpy(), nearest if among is None else among[nearest]
