"""Sets of queries and documents in BEIR's layout, for dev data and the suite of retrieval.

A set is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and qrels/test.tsv (query-id,
corpus-id, score), else dev.tsv, else train.tsv. Each may also be .parquet, as on the hub, or a folder of such files.
"""

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from contrastcli.data.formats import Frame
from contrastcli.data.lines import as_number
from contrastcli.data.relevance import Retrieval
from contrastcli.data.sources import data_files, read_files, split_of, titled
from contrastcli.errors import DataError, Use
from contrastcli.settings.metrics import DOCUMENTS, QUERIES

PARTS = ("corpus", "queries", "qrels")
_LARGEST_GRADE = 1 << 31
_HINT = (
    "put there corpus.jsonl, queries.jsonl and qrels/test.tsv with query-id, corpus-id and score",
    Use("--data-dir", verb="for NanoBEIR leave out"),
)


def holds(name: str | Path, parts: Sequence[str] = PARTS) -> bool:
    """Whether what has this name is a folder that seems to be a set."""
    folder = os.path.expanduser(name)
    return os.path.isdir(folder) and all(any(_named(Path(folder), part)) for part in parts)


def _named(folder: Path, stem: str) -> Iterator[Path]:
    """What has that name in a folder, whatever its suffix; nothing where the folder cannot be read."""
    return (path for path in sorted(folder.glob(f"{stem}*")) if path.name.partition(".")[0] == stem)


def read_folder(name: str | Path, splits: Sequence[str] = ("test", "validation", "train")) -> Retrieval:
    """A set of a folder, with the first of the splits that its judgements have.

    Raises DataError where a part of it is missing or malformed.
    """
    folder, tables = Path(os.path.expanduser(name)), []
    for part in PARTS:
        path = next(_named(folder, part), None)
        files = data_files(path) if path and path.is_dir() else [path] if path else []
        if not files:
            raise DataError(f"{folder} has no {part}", _HINT)
        # Texts of all splits are one corpus.
        files = _of_one_split(files, splits) if part == "qrels" else files
        tables.append(read_files(files, str(files[0].parent)))
    return read(str(folder), *tables)


def _of_one_split(files: Sequence[Path], splits: Sequence[str]) -> list[Path]:
    """Those of the first of the splits that is there. Raises DataError where none is known of several files."""
    found = {split_of(file) for file in files}
    split = next((split for split in splits if split in found), "")
    files = [file for file in files if split_of(file) == split]
    if files[1:] and not split:
        what = f"{files[0].parent} holds files of no known split: {', '.join(file.name for file in files)}"
        raise DataError(what, "name them test, dev or train, as test.tsv")
    return files


def read(source: str, corpus: Frame, queries: Frame, qrels: Frame) -> Retrieval:
    """A set from its tables, of several grades of a pair the highest; notes count those and texts that it lacks.

    Raises DataError for missing columns, ids that are blank or occur twice, and a set without a relevant document.
    """
    documents, asked = _by_id(titled(corpus)), _by_id(queries)
    judgements = list(zip(*(_cells(qrels, column) for column in ("query-id", "corpus-id", "score")), strict=True))
    rows = [row for row, (query, _, _) in enumerate(judgements) if query in asked]
    numbers = {name: n for n, name in enumerate(dict.fromkeys(judgements[row][0] for row in rows))}
    places = {name: n for n, name in enumerate(documents)}
    # A document with the id of the query has grade 0: it is left out of the ranking.
    grades = {(numbers[name], places[name]): 0 for name in numbers if name in places}
    for row in rows:
        query, document, score = judgements[row]
        grade = _grade(score, qrels, row)
        if grade > 0 and query != document:
            # Documents that the corpus lacks are numbered −1, −2 and so on.
            place = places.setdefault(document, len(documents) - len(places) - 1)
            grades[numbers[query], place] = max(grade, grades.get((numbers[query], place), 0))
    if not any(grade and place >= 0 for (_, place), grade in grades.items()):
        raise DataError(f"{source}: no document of the corpus is relevant to a query", "compare the ids with the qrels")
    judged = np.array(sorted((*pair, grade) for pair, grade in grades.items()), dtype=np.int64)
    unknown = sum(query not in asked or document not in documents for query, document, _ in judgements)
    lower = len({*judgements}) - len({judgement[:2] for judgement in judgements})
    counts = {
        "are of texts that the set lacks; such documents are not found": unknown,
        "are of pairs with a higher grade, and are left out": lower,
    }
    notes = tuple(f"{n:,} of {len(judgements):,} judgements {what}" for what, n in counts.items() if n)
    texts, none = [asked[name] for name in numbers], np.empty((0, 3), dtype=np.int64)
    return Retrieval(texts, list(documents.values()), judged, none, source, notes=notes)


def _by_id(table: Frame) -> dict[str, str]:
    named: dict[str, str] = {}
    for row, (name, text) in enumerate(zip(_cells(table, "_id"), _cells(table, "text"), strict=True)):
        if not name or name in named:
            what = f"the _id '{name}' occurs twice" if name else "the _id is blank"
            raise DataError(f"{table.where(row)}: {what}", "give each text its own _id")
        named[name] = text
    return named


def _cells(table: Frame, column: str) -> list[str]:
    """The texts of a column, "" where it is blank; of `score` also where there is none."""
    if column not in table.columns:
        if column == "score":
            return [""] * len(table)
        raise DataError(f"{table.where(0)}: there is no column '{column}'", _HINT)
    return ["" if cell is None else str(cell).strip() for cell in table.columns[column]]


def _grade(cell: str, table: Frame, row: int) -> int:
    """The grade of relevance in a cell of a row, 1 where none is written."""
    grade = as_number(cell or 1)
    if not (grade.is_integer() and abs(grade) < _LARGEST_GRADE):
        what = f"{table.where(row)}: the score is '{cell:.40}'"
        raise DataError(what, "a score is a whole number, 0 where nothing is relevant")
    return int(grade)


def limited(data: Retrieval) -> Retrieval:
    """The same with at most QUERIES queries, and so many documents that all judged ones are there, or DOCUMENTS.

    Both are drawn at random, always alike; a note says of how many.
    """
    drawn = random.Random(0)
    some = data.take(sorted(drawn.sample(range(len(data)), min(len(data), QUERIES))))
    is_there = some.judged[:, 1] >= 0
    kept = np.unique(some.judged[is_there, 1])
    others = np.setdiff1d(np.arange(len(data.documents)), kept)
    room = max(0, min(len(others), DOCUMENTS - len(kept)))
    kept = np.sort(np.append(kept, np.array(drawn.sample(others.tolist(), room), dtype=np.int64)))
    if len(kept) == len(data.documents) and len(some) == len(data):
        return data
    some.judged[is_there, 1] = np.searchsorted(kept, some.judged[is_there, 1])
    note = f"of {len(data):,} queries {len(some):,}, of {len(data.documents):,} documents {len(kept):,} are used"
    return replace(some, documents=[data.documents[n] for n in kept.tolist()], notes=(*data.notes, note))
