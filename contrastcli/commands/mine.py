"""`contrast mine`: pairs to triplets, with hard negatives that a model finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

import contrastcli
from contrastcli.data.batching import Indices
from contrastcli.data.examples import Examples
from contrastcli.data.sources import load_examples, load_sentences
from contrastcli.data.writing import WRITERS
from contrastcli.errors import DataError, UsageError
from contrastcli.files import check_output, json_bytes, replaced, writing_to
from contrastcli.model.folder import load_model
from contrastcli.model.locate import resolve
from contrastcli.model.metrics import Floats
from contrastcli.model.mining import CLOSE, GUARDED, KEPT, SPARE, VERDICTS, Judged, Pool, Rule, mine, read_ranks
from contrastcli.model.vectors import cached_vectors, fingerprint
from contrastcli.runs.results import Candidate, Mined, MinedRow
from contrastcli.settings.sections import Data, Precision
from contrastcli.show import console

MADE = ".mined"
"""The suffix of the file next to the rows that says, in JSON, how they were made."""

_SHOWN = 4  # candidates of a row, besides those that are kept


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to mine: the options of the command."""

    source: str
    output: Path
    model: str | None
    precision: Precision
    corpus: str
    columns: str
    labels: str
    limit: int
    ranks: str
    below: float | None
    margin: float | None
    guard: str
    negatives: int
    show: int

    def rule(self) -> Rule:
        """The rule of the options. Raises UsageError."""
        first, last = read_ranks(self.ranks, "--ranks")
        if last - first + 1 < self.negatives:
            what = f"--ranks {self.ranks} leaves fewer than {self.negatives} negatives"
            raise UsageError(what, f"widen it, as --ranks {first}-{first + 10 * self.negatives}, or lower -n")
        below = 0.95 if self.below is None and self.margin is None else self.below
        return Rule(first, last, below, self.margin, self.negatives)


def mine_file(request: Request, runs_dir: Path) -> Mined:
    """Write the rows that have enough negatives, and next to them how they were made.

    Raises UsageError, DataError and RunError.
    """
    check_output(request.output, "rows", WRITERS)
    rule = request.rule()
    refs = [resolve(word, runs_dir) for word in (request.model, request.guard) if word != ""]
    data = Data(train=request.source, columns=request.columns, labels=request.labels, limit=request.limit)
    pairs = load_examples(data, ("pairs",), ())
    candidates = load_sentences(request.corpus) if request.corpus else pairs.views["positive"]
    texts = list(dict.fromkeys([*candidates, *pairs.views["anchor"], *pairs.views["positive"]]))
    with console.progress() as advance:
        vectors, prints = [], []
        for ref, what in zip(refs, ("encoding", "encoding by the guard"), strict=False):
            encoder = load_model(ref, precision=request.precision)
            vectors.append(cached_vectors(encoder, texts, partial(advance, what)))
            prints.append(fingerprint(encoder))
        guard = vectors[1] if request.guard else None
        tally = _Tally(pairs, texts, _pool(pairs, texts, candidates), rule, vectors[0], guard)
        tally.mine(partial(advance, "mining"))
    if not (rows := tally.rows()).size:
        raise DataError(f"no row of {request.source} has {rule.count} negatives by this rule", _MORE)
    _write(request.output, tally, rows, made := tally.summary(request, [ref.name for ref in refs], prints))
    return made


_MORE = "more candidates give more: --corpus FILE, wider --ranks, or a larger --below (or smaller --margin)"


def _pool(pairs: Examples, texts: list[str], candidates: list[str]) -> Pool:
    numbers = {text: number for number, text in enumerate(texts)}
    columns = (pairs.views["anchor"], pairs.views["positive"], candidates)
    return Pool.of(texts, *(np.array([numbers[text] for text in column], np.int64) for column in columns))


@dataclass
class _Tally:
    """The negatives of each row, and counts of what was judged."""

    pairs: Examples
    texts: list[str]
    pool: Pool
    rule: Rule
    vectors: Floats
    guard: Floats | None = None
    negatives: Indices = field(init=False)  # (N, n) texts; −1 where there are too few
    positive: Floats = field(init=False)  # (N,) cosines
    nearest: Floats = field(init=False)  # (N,) cosine of the nearest candidate
    negative: Floats = field(init=False)  # (N,) mean cosine of the negatives
    too_close: int = 0
    guarded: int = 0

    def __post_init__(self) -> None:
        count = len(self.pairs)
        self.negatives = np.full((count, self.rule.count), -1)
        self.positive, self.nearest, self.negative = np.zeros((3, count))

    def mine(self, advance: partial[None]) -> None:
        done = 0
        for judged in mine(self.vectors, self.pool, self.rule, self.guard):
            kept = judged.verdicts == KEPT
            full = kept.sum(axis=1) == self.rule.count
            rows = judged.rows[full]
            self.negatives[rows] = judged.candidates[full][kept[full]].reshape(-1, self.rule.count)
            self.negative[rows] = judged.cosines[full][kept[full]].reshape(-1, self.rule.count).mean(axis=1)
            self.positive[judged.rows], self.nearest[judged.rows] = judged.positive, judged.cosines[:, 0]
            self.too_close += int((judged.verdicts[:, 0] == CLOSE).sum())
            self.guarded += int((judged.verdicts == GUARDED).any(axis=1).sum())
            advance(done := done + len(judged.rows), len(self.pairs))

    def rows(self) -> Indices:
        """The rows that have enough negatives."""
        return np.flatnonzero(self.negatives[:, -1] >= 0)

    def triplets(self, rows: Indices) -> Iterator[list[str]]:
        views = self.pairs.views
        for row in rows:
            yield [views["anchor"][row], views["positive"][row], *(self.texts[n] for n in self.negatives[row])]

    def hardest(self, count: int) -> list[MinedRow]:
        """The rows with the nearest candidates, kept or not."""
        chosen = np.argsort(-self.nearest, kind="stable")[:count]
        judged = mine(self.vectors, self.pool, self.rule, self.guard, chosen)
        rows = {row.row: row for block in judged for row in self._described(block)}
        return [rows[int(row) + 1] for row in chosen]

    def _described(self, judged: Judged) -> Iterator[MinedRow]:
        views = self.pairs.views
        for i, row in enumerate(judged.rows):
            kept = np.flatnonzero(judged.verdicts[i] == KEPT)
            dropped = np.flatnonzero((judged.verdicts[i] != KEPT) & (judged.verdicts[i] < SPARE))[:_SHOWN]
            candidates = [
                Candidate(
                    rank=int(k) + 1,
                    text=self.texts[judged.candidates[i, k]],
                    cosine=round(float(judged.cosines[i, k]), 6),
                    verdict=VERDICTS[judged.verdicts[i, k]],
                )
                for k in sorted([*dropped, *kept])
            ]
            cosine = round(float(judged.positive[i]), 6)
            yield MinedRow(int(row) + 1, views["anchor"][row], views["positive"][row], cosine, candidates)

    def summary(self, request: Request, models: list[str], prints: list[str]) -> Mined:
        rows = self.rows()
        return Mined(
            output=str(request.output),
            source=request.source,
            corpus=request.corpus,
            model=models[0],
            model_sha256=prints[0],
            guard=request.guard and models[1],
            ranks=request.ranks,
            below=self.rule.below,
            margin=self.rule.margin,
            negatives=self.rule.count,
            of=len(self.pairs),
            rows=len(rows),
            candidates=len(self.pool.candidates),
            too_close=self.too_close,
            guarded=self.guarded,
            cosine_positive=round(float(self.positive[rows].mean()), 6),
            cosine_negative=round(float(self.negative[rows].mean()), 6),
            hardest=self.hardest(request.show) if request.show else [],
        )


def _write(output: Path, tally: _Tally, rows: Indices, made: Mined) -> None:
    """The rows appear last, so that none are there without the file that says how they were made."""
    count = tally.rule.count
    columns = ["anchor", "positive", *([f"negative_{n}" for n in range(1, count + 1)] if count > 1 else ["negative"])]
    record = {"contrast": contrastcli.__version__, **msgspec.to_builtins(made)}
    del record["hardest"]
    beside = output.with_name(output.name + MADE)
    with writing_to(output), replaced(output) as draft:
        WRITERS[output.suffix](draft, columns, tally.triplets(rows))
        with replaced(beside) as note:
            note.write_bytes(json_bytes(record))


def report(made: Mined) -> None:
    """Say on stderr what was written, what was left out, and the next step."""
    each = "1 negative" if made.negatives == 1 else f"{made.negatives} negatives"
    console.narrate(f"wrote {made.output}: {made.rows:,} of {made.of:,} rows, each with {each}")
    if left := made.of - made.rows:
        console.narrate(f"{left:,} rows have fewer and were left out; {_MORE}")
    if made.too_close:
        close = f"of {made.too_close:,} rows the nearest candidate is too close to be a negative"
        console.narrate(f"{close} (--show 20 prints such); --ranks, --below, --margin and --guard decide")
    console.narrate(
        f"mean cosine to the anchor: positive {made.cosine_positive:.4f}, negative {made.cosine_negative:.4f}"
    )
    console.narrate(f"next: contrast train --objective simcse --data {made.output}")
