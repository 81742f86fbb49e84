"""Retrieval: the sets of NanoBEIR, and any set in the layout of BEIR.

A set NAME is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and qrels/*.tsv (query-id,
corpus-id, score), of which test.tsv is read if there are several. Each may also be .parquet, as on the hub, or a folder
of such files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from contrastcli.data.formats import Table
from contrastcli.data.hub import PREFIX
from contrastcli.data.retrieval import Retrieval
from contrastcli.data.sources import open_table
from contrastcli.errors import DataError
from contrastcli.evaluation import ranking
from contrastcli.evaluation.measure import Context, Procedure, in_words
from contrastcli.evaluation.result import TaskScores
from contrastcli.evaluation.suites import RETRIEVAL

_NAMES = (
    "ClimateFEVER DBPedia FEVER FiQA2018 HotpotQA MSMARCO NFCorpus NQ QuoraRetrieval SCIDOCS ArguAna SciFact Touche2020"
)
NANO = tuple(f"Nano{name}" for name in _NAMES.split())
"""The sets of NanoBEIR, 50 queries each (zeta-alpha-ai on the hub)."""

_PARTS = ("corpus", "queries", "qrels")
_OWNER = f"{PREFIX}zeta-alpha-ai/"
_METRICS = tuple(path for path in RETRIEVAL.columns.values() if path not in ("queries", "documents"))
_HINT = "put DIR/NAME/corpus.jsonl, queries.jsonl and qrels/test.tsv, or leave out --data-dir for NanoBEIR"
_PROTOCOL = (
    "all documents by the cosine, pooling: {pooling}, titles before texts; nDCG with the grades as gains and MAP over "
    "the whole ranking, as trec_eval; of equal cosines the relevant document comes last; a document with the id of the "
    "query is left out; all × 100, means over the queries that are judged"
)


def _find(context: Context) -> Mapping[str, Callable[[], Retrieval]]:
    """Of the tasks that are named, or of all: the sets of --data-dir or its folder `retrieval`, else of NanoBEIR."""
    names, folder = context.options.tasks, context.options.data_dir
    if folder is None:
        return {name: partial(_read_hub, name) for name in names or NANO}
    places = [folder.expanduser(), folder.expanduser() / "retrieval"]
    sets = {path.name: path for place in places if place.is_dir() for path in sorted(place.iterdir()) if _is_set(path)}
    if _is_set(places[0]) or not sets:
        sets = {places[0].resolve().name: places[0]}
    return {name: partial(_read_folder, sets.get(name, places[0] / name)) for name in names or sets}


def _is_set(path: Path) -> bool:
    return path.is_dir() and any(_stem(part) == "corpus" for part in path.iterdir())


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _read_hub(name: str) -> Retrieval:
    repo = name if name.startswith(PREFIX) else _OWNER + name
    return read(name, *(open_table(f"{repo}?config={part}", "train") for part in _PARTS))


def _read_folder(folder: Path) -> Retrieval:
    """A set of a folder. Raises DataError where a part of it is missing or malformed."""
    tables = []
    for part in _PARTS:
        paths = sorted(path for path in folder.iterdir() if _stem(path) == part) if folder.is_dir() else []
        if not paths:
            raise DataError(f"{folder} has no {part}", _HINT)
        test = paths[0] / "test.tsv"
        tables.append(open_table(str(test if test.is_file() else paths[0]), "train"))
    return read(str(folder), *tables)


def read(source: str, corpus: Table, queries: Table, qrels: Table) -> Retrieval:
    """A set from its tables. Raises DataError for missing columns, and for judgements of what the set lacks."""
    ids, titles, texts = (_cells(corpus, name, source) for name in ("_id", "title", "text"))
    documents = {id: f"{title} {text}".strip() for id, title, text in zip(ids, titles, texts, strict=True)}
    asked = dict(zip(_cells(queries, "_id", source), _cells(queries, "text", source), strict=True))
    rows = {name: n for n, name in enumerate(documents)}
    judged_queries = _cells(qrels, "query-id", source)
    numbers = {name: n for n, name in enumerate(dict.fromkeys(judged_queries))}
    grades = {(numbers[name], rows[name]): 0 for name in numbers if name in rows}
    scores = _cells(qrels, "score", source)
    for query, document, score in zip(judged_queries, _cells(qrels, "corpus-id", source), scores, strict=True):
        if query not in asked or document not in rows:
            what = f"{source}: qrels judge the query {query} and the document {document}, of which one is missing"
            raise DataError(what, "complete the set, or remove the line")
        grade = _grade(score, source)
        if grade > 0 and query != document:
            grades[numbers[query], rows[document]] = grade
    judged = np.array(sorted((*pair, grade) for pair, grade in grades.items()), dtype=np.int64).reshape(-1, 3)
    none = np.empty((0, 3), dtype=np.int64)
    return Retrieval([asked[name] for name in numbers], list(documents.values()), judged, none, source)


def _cells(table: Table, column: str, source: str) -> list[str]:
    """The texts of a column, "" where it is blank; of `title` and `score` also where there is none."""
    if column not in table.columns:
        if column in ("title", "score"):
            return [""] * len(table)
        raise DataError(f"{source}: {table.where(0)} has no column '{column}'", _HINT)
    return ["" if cell is None else str(cell).strip() for cell in table.columns[column]]


def _grade(cell: str, source: str) -> int:
    """A grade of relevance, 1 where none is written."""
    try:
        return int(float(cell or 1))
    except (ValueError, OverflowError):
        raise DataError(f"{source}: qrels have the score '{cell:.40}'", "a score is a whole number") from None


def _score(context: Context, task: str, data: Retrieval) -> TaskScores:
    queries, documents = (torch.from_numpy(context.vectors(texts)) for texts in data.columns)
    places = ranking.ranks(data.judged, queries, documents)
    context.options.on_progress(f"retrieval {task}", 1, 1)
    means = {name: float(ranking.score(name, data.judged, places, len(data)).mean()) for name in _METRICS}
    sizes = {"queries": len(data.queries), "documents": len(data.documents)}
    return {**{name: 100 * mean for name, mean in means.items()}, **sizes, "partial": False}


PROCEDURE = Procedure(_find, _score, in_words(_PROTOCOL), lambda data: chain.from_iterable(data.columns))
