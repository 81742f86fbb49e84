"""`contrast mine`: pairs to triplets, with hard negatives that a model finds."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from contrastcli.boundary import __version__, narrate, narrate_all
from contrastcli.data.batching import Indices
from contrastcli.data.examples import Examples, as_id
from contrastcli.data.relevance import documents_of
from contrastcli.data.roles import for_corpus
from contrastcli.data.sources import load_documents, load_examples, read_sets
from contrastcli.data.texts import Column, Texts
from contrastcli.data.tokens import Advance
from contrastcli.data.writing import WRITERS, check_cells, check_rows_output
from contrastcli.errors import DataError, UsageError, Use
from contrastcli.files import atomic_write, json_bytes, replaced, writing_to
from contrastcli.model import mining
from contrastcli.model.folder import load_model
from contrastcli.model.locate import resolve
from contrastcli.model.metrics import Floats
from contrastcli.model.vectors import fingerprint
from contrastcli.runs.results import Candidate, Mined, MinedRow
from contrastcli.settings.sections import Blank, Data, Precision
from contrastcli.show import console

MADE = ".mined"
"""The suffix of the file next to the rows that says, in JSON, how they were made."""

_MOST_DROPPED = 4
"""Dropped candidates that are shown of a row, besides those that are kept."""
_MORE = "more candidates give more: --corpus FILE, wider --ranks, a larger --below or smaller --margin"


def _make_rule(ranks: str, below: float | None, margin: float | None, negatives: int) -> mining.Rule:
    """The rule of the options; without `below` and `margin` that of `Rule`. Raises UsageError."""
    if below is not None and margin is not None:
        raise UsageError("--below and --margin exclude each other", "leave out one of them")
    first, last = mining.read_ranks(ranks, "--ranks")
    if last - first + 1 < negatives:
        what = f"--ranks {ranks} leaves fewer than {negatives} negatives"
        raise UsageError(what, f"widen it, as --ranks {first}-{first + 10 * negatives}, or lower -n")
    most = mining.Rule.below if below is None and margin is None else below or None
    return mining.Rule(first, last, most, margin, negatives)


def mine_file(
    source: str,
    output: Path,
    runs_dir: Path,
    *,
    ranks: str,
    below: float | None,
    margin: float | None,
    negatives: int,
    model: str | None,
    precision: Precision,
    corpus: str,
    columns: str,
    labels: str,
    blank: Blank,
    guard: str,
    score_with: str,
    show: int,
) -> Mined:
    """Write the rows with enough negatives and how they were made; `show` rows are described. Raises ContrastError."""
    rule = _make_rule(ranks, below, margin, negatives)
    check_rows_output(output, *(name for name, _ in read_sets(source)), corpus)
    encoders = [load_model(resolve(word, runs_dir), precision=precision) for word in (model, *filter(None, [guard]))]
    score, logits = mining.load_scorer(resolve(score_with, runs_dir), precision) if score_with else (None, False)
    pairs, documents = _read(output, source, corpus, columns, labels, blank)
    pool, among, texts, queries = mining.pool_of(pairs, documents)
    with console.progress() as advance:
        vectors = [mining.embed(encoder, texts, queries, partial(advance, "encoding")) for encoder in encoders]
        search = partial(mining.mine, vectors[0], pool, rule, vectors[1] if guard else None)
        chosen = _judge_all(search(), len(pairs), rule.count, partial(advance, "mining"))
        rows = _complete(chosen.negatives, source)
        mined = [*(one.take(rows) for one in pairs.views.values()), *map(texts.take, chosen.negatives[rows].T)]
        scores = score(mined[0], mined[1:], partial(advance, "scoring")) if score else []
    hardest = np.argsort(-chosen.cosines[2], kind="stable")[:show]
    judged = (one for block in search(only=hardest) for one in block)
    described = {int(one[0]): _describe(one, texts, pairs, documents, among) for one in judged}
    made = Mined(
        source=source,
        corpus=corpus,
        model=encoders[0].name,
        model_sha256=fingerprint(encoders[0]),
        guard=guard and encoders[1].name,
        candidates=int(among.max()) + 1,
        hardest=[described[row] for row in hardest.tolist()],
        teacher=score_with and resolve(score_with, runs_dir).name,
        logits=logits,
        **_counts(chosen, rows, rule),
    )
    _write(output, made, mined, scores, pairs.ids and pairs.ids.take(rows))
    return made


def _complete(negatives: Indices, source: str) -> Indices:
    """The rows that have enough negatives. Raises DataError where none has."""
    rows = np.flatnonzero(negatives[:, -1] >= 0)
    if rows.size:
        return rows
    most = int((negatives >= 0).sum(axis=1).max())
    fewer = [Use("-n", str(most))] if most else []
    raise DataError(f"no row of {source} has enough negatives by this rule: at most {most}", [*fewer, _MORE])


def _read(output: Path, source: str, corpus: str, columns: str, labels: str, blank: Blank) -> tuple[Examples, Examples]:
    """The pairs, and the texts that may be negatives; what was unusual is said. Raises DataError."""
    of_pairs, of_corpus = for_corpus(columns) if corpus else (columns, "")
    pairs = load_examples(Data(train=source, columns=of_pairs, labels=labels, blank=blank), ("pairs",), ())
    documents = load_documents(corpus, of_corpus, blank) if corpus else documents_of(pairs)
    if output.suffix == ".tsv":
        check_cells(chain(*pairs.views.values(), *documents.views.values()))
    narrate_all(dict.fromkeys((*pairs.notes, *documents.notes)))
    return pairs, documents


def _counts(chosen: "_Chosen", rows: Indices, rule: mining.Rule) -> dict[str, Any]:
    """The part of what is reported that follows from the rule and from what it chose."""
    positive, negative, _ = chosen.cosines[:, rows].mean(axis=1)
    return {
        "ranks": (rule.first, rule.last),
        "below": rule.below,
        "margin": rule.margin,
        "negatives": rule.count,
        "of": len(chosen.negatives),
        "rows": len(rows),
        "too_close": chosen.with_verdict[mining.CLOSE],
        "guarded": chosen.with_verdict[mining.GUARDED],
        "cosine_positive": round(float(positive), 6),
        "cosine_negative": round(float(negative), 6),
    }


class _Chosen(NamedTuple):
    """Of every row its negatives (N, n), and cosines to the anchor (3, N): positive, mean negative, nearest candidate.

    `with_verdict` counts the rows that have a candidate with that verdict.
    """

    negatives: Indices
    cosines: Floats
    with_verdict: Counter[int]


def _judge_all(blocks: Iterator[mining.JudgedBlock], rows: int, count: int, advance: Advance) -> _Chosen:
    chosen = _Chosen(np.full((rows, count), -1), np.zeros((3, rows)), Counter())
    done = 0
    for judged in blocks:
        chosen.negatives[judged.rows] = judged.negatives(count)
        negative = np.where(judged.verdicts == mining.KEPT, judged.cosines, 0).sum(axis=1) / count
        chosen.cosines[:, judged.rows] = judged.positive, negative, judged.cosines[:, 0]
        for verdict in (mining.CLOSE, mining.GUARDED):
            chosen.with_verdict[verdict] += int((judged.verdicts == verdict).any(axis=1).sum())
        advance(done := done + len(judged.rows), rows)
    return chosen


def _describe(judged: tuple[Any, ...], texts: Texts, pairs: Examples, documents: Examples, among: Indices) -> MinedRow:
    """A row with its nearest candidates and those that were kept. Of equal documents the first gives its id."""
    row, positive, numbers, cosines, verdicts = judged
    dropped = np.flatnonzero((verdicts != mining.KEPT) & (verdicts < mining.SPARE))[:_MOST_DROPPED]
    candidates = [
        Candidate(int(k) + 1, texts[text], round(float(cosines[k]), 6), mining.VERDICTS[verdicts[k]], of_text)
        for k in sorted([*dropped, *np.flatnonzero(verdicts == mining.KEPT)])
        for text in [numbers[k]]
        for of_text in [as_id(documents.ids, int(np.argmax(among == text)))]
    ]
    number, (anchor, own) = int(pairs.row_numbers[row]), (column[row] for column in pairs.views.values())
    return MinedRow(number, anchor, own, round(float(positive), 6), candidates, as_id(pairs.ids, row))


def _write(
    output: Path, made: Mined, texts: Sequence[Texts], scores: Sequence[Floats], ids: Column[object] | None
) -> None:
    """The rows appear last, so that none are there without the file that says how they were made."""
    ends = [f"_{n}" for n in range(1, made.negatives + 1)] if made.negatives > 1 else [""]
    names = ["anchor", "positive", *(f"negative{end}" for end in ends)]
    columns: dict[str, Iterable[Any]] = dict(zip(names, texts, strict=True))
    for name, numbers in zip(["score", *(f"negative_score{end}" for end in ends)], scores, strict=False):
        typed = output.suffix in (".jsonl", ".parquet")
        columns[name] = numbers.round(6).tolist() if typed else map("{:.6g}".format, numbers)
    if ids is not None:
        columns["id"] = ids
    record = {"contrast": __version__, **msgspec.to_builtins(made)}
    del record["hardest"]
    with writing_to(output, Use("-o", "FILE", "write elsewhere:")), replaced(output) as draft:
        WRITERS[output.suffix](draft, [*columns], zip(*columns.values(), strict=True))
        atomic_write(output.with_name(output.name + MADE), json_bytes(record))


def report(made: Mined, output: Path) -> None:
    """Say on stderr what was written, what was left out, and the next step."""
    each = "1 negative" if made.negatives == 1 else f"{made.negatives} negatives"
    narrate(f"wrote {output}: {made.rows:,} of {made.of:,} rows, each with {each}")
    if left := made.of - made.rows:
        narrate(f"{left:,} of {made.of:,} rows have fewer and were left out; {_MORE}")
    if made.too_close:
        rows = f"{made.too_close:,} row{'s'[: made.too_close - 1]}"
        close = f"of {rows} the nearest candidate is too close to be a negative"
        shown = "" if made.hardest else " (--show 20 prints such)"
        narrate(f"{close}{shown}; --ranks, --below, --margin and --guard decide")
    narrate(f"mean cosine to the anchor: positive {made.cosine_positive:.4f}, negative {made.cosine_negative:.4f}")
    objective = ["kl", *(["--teacher-tau", "1"] if made.logits else [])] if made.teacher else ["simcse"]
    words = ["--objective", *objective, "--backbone", made.model, "--data", str(output), "--dev", "split:5%"]
    narrate(f"next: {shlex.join(['contrast', 'train', *words])}")
