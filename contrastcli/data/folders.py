"""Folders of data files: the parts and splits of one set, or queries and documents in BEIR's layout.

These are corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and qrels/test.tsv (query-id,
corpus-id, score), else dev.tsv, else train.tsv. Each may also be .parquet, as on the hub, or a folder of such files.
To train, a query is the anchor of each document that qrels/train.tsv has for it.
"""

import os
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from contrastcli.data import hub
from contrastcli.data.formats import Frame, format_of, read_file
from contrastcli.data.forms import FORMATS
from contrastcli.data.lines import as_number
from contrastcli.data.relevance import Retrieval
from contrastcli.data.texts import Column
from contrastcli.errors import DataError, Use
from contrastcli.settings.metrics import DOCUMENTS, QUERIES

Split = Literal["train", "validation"]

TEXTS = ("corpus", "queries")
PARTS = (*TEXTS, "qrels")
_OF_SPLIT = re.compile(r"(train|test|(validation|valid|val|dev))(?![^-_.])", re.IGNORECASE)
_BESIDE_DATA = re.compile(r"\.|(readme|licen[cs]e|notice|citation|changelog)\b|.*\.(py|mined)$", re.IGNORECASE)
_LARGEST_GRADE = 1 << 31
_HINT = (
    "put there corpus.jsonl, queries.jsonl and qrels/test.tsv (train.tsv to train) with query-id, corpus-id and score",
    Use("--data-dir", verb="for NanoBEIR leave out"),
)


def data_files(folder: Path) -> list[Path]:
    """The data files of a folder in the order of their names, but for hidden ones, of which macOS leaves many."""
    files = (path for path in sorted(folder.iterdir()) if path.name[0] != "." and path.is_file())
    return [path for path in files if format_of(path)]


def split_of(path: Path) -> str:
    """The split that the name of a file begins with, as `datasets` calls it: train, validation or test; else ""."""
    match = _OF_SPLIT.match(path.name)
    return "validation" if match and match[2] else match[1].lower() if match else ""


def read_folder(folder: Path, name: str, split: Split, limit: int) -> Frame:
    """The data files of a folder, or of `data` in it, of several splits those of one; or the pairs of a retrieval set.

    Raises DataError.
    """
    if holds(folder, TEXTS):
        return _read_pairs(folder, limit)
    paths = data_files(folder)
    if not paths and os.path.isdir(folder / "data"):
        return read_folder(folder / "data", str(Path(name) / "data"), split, limit)
    if not paths:
        raise DataError(f"the folder {name} holds no data file", f"known: {', '.join(FORMATS)}")
    notes, found = _left_out(folder, name), {one: path.name for path in reversed(paths) if (one := split_of(path))}
    if len(found) > 1:
        hub.require_split(split, name, found)
        others = ", ".join(dict.fromkeys(split_of(path) or path.name for path in paths if split_of(path) != split))
        notes.append(f"of {name} the split {split} is read, not {others}")
        paths = [path for path in paths if split_of(path) == split]
    elif found.keys() - {split} and not all(map(split_of, paths)):
        notes.append(f"of {name} every file is read, {', '.join(found.values())} too")
    frame = read_files(paths, name, limit)
    return replace(frame, notes=(*frame.notes, *notes))


def _left_out(folder: Path, name: str) -> list[str]:
    """A note on files of other formats, but for those that come with data sets or that `contrast` writes."""
    paths = (path for path in folder.iterdir() if path.is_file() and not _BESIDE_DATA.match(path.name))
    endings = Counter(path.suffix or path.name for path in paths if not format_of(path))
    return [f"files of {name} that are not read: {endings.total():,} ({', '.join([*endings][:5])})"] * bool(endings)


def read_files(paths: Sequence[Path], name: str, limit: int = 0) -> Frame:
    """The rows of files in a folder of that name. Raises DataError if formats or columns differ."""
    if len({format_of(path) for path in paths}) > 1:
        names = ", ".join(path.name for path in paths)
        raise DataError(f"the folder {name} mixes formats: {names}", "name one file, or keep one format in the folder")
    frames: list[Frame] = []
    for path in paths:
        left = limit - sum(map(len, frames))
        if left or not limit:
            frames.append(read_file(path, str(Path(name) / path.name), max(0, left)))
    first = frames[0]
    for frame in frames:
        if frame.columns.keys() != first.columns.keys():
            these, those = (f"{one.files[0][0]} ({', '.join(one.columns)})" for one in (first, frame))
            raise DataError(f"the columns of {these} and {those} differ", "give all files of a folder the same columns")
    columns = {column: Column.join([frame.columns[column] for frame in frames]) for column in first.columns}
    places = np.concatenate([frame.places + np.array([number, 0], np.uint32) for number, frame in enumerate(frames)])
    notes = tuple(note for frame in frames for note in frame.notes)
    return replace(first, columns=columns, files=tuple(frame.files[0] for frame in frames), places=places, notes=notes)


def titled(frame: Frame) -> Frame:
    """A corpus in BEIR's layout (_id, title, text) with the titles before the texts; any other frame as it is."""
    if not {"_id", "title", "text"} <= frame.columns.keys():
        return frame
    columns = dict(frame.columns)
    both = zip(columns.pop("title"), columns["text"], strict=True)
    columns["text"] = Column.of(" ".join(str(cell) for cell in cells if cell) or None for cells in both)
    return replace(frame, columns=columns, notes=(*frame.notes, "titles are read before their texts"))


def holds(name: str | Path, parts: Sequence[str] = PARTS) -> bool:
    """Whether what has this name is a folder that seems to be a set."""
    folder = os.path.expanduser(name)
    return os.path.isdir(folder) and all(any(_named(Path(folder), part)) for part in parts)


def _named(folder: Path, stem: str) -> Iterator[Path]:
    """What has that name in a folder, whatever its suffix; nothing where the folder cannot be read."""
    return (path for path in sorted(folder.glob(f"{stem}*")) if path.name.partition(".")[0] == stem)


def read_retrieval(name: str | Path, splits: Sequence[str] = ("test", "validation", "train")) -> Retrieval:
    """A set of a folder, with the first of the splits that its judgements have.

    Raises DataError where a part of it is missing or malformed.
    """
    folder = Path(os.path.expanduser(name))
    return retrieval_of(str(folder), *(_read_part(folder, part, splits if part == "qrels" else ()) for part in PARTS))


def read_corpus(folder: Path) -> Frame:
    """The documents of a folder, with their titles. Raises DataError."""
    return titled(_read_part(folder, "corpus"))


def _read_part(folder: Path, part: str, splits: Sequence[str] = ()) -> Frame:
    """A table of a folder; without splits, which texts have none of, all its files."""
    if not (files := _files(folder, part)):
        raise DataError(f"{folder} has no {part}" if folder.is_dir() else f"there is no folder {folder}", _HINT)
    files = _of_one_split(folder, files, splits) if splits else files
    return read_files(files, str(files[0].parent))


def _files(folder: Path, part: str) -> list[Path]:
    path = next(_named(folder, part), None)
    return data_files(path) if path and path.is_dir() else [path] if path else []


def judged_splits(name: str | Path) -> set[str]:
    """The splits of which a folder has judgements."""
    return {split_of(file) for file in _files(Path(os.path.expanduser(name)), "qrels")}


def _of_one_split(folder: Path, files: Sequence[Path], splits: Sequence[str]) -> list[Path]:
    """Those of the first of the splits that is there. Raises DataError where none is, or is known of several."""
    found = {split_of(file) for file in files}
    split = next((split for split in splits if split in found), "")
    files = [file for file in files if split_of(file) == split]
    if files[1:] and not split:
        what = f"{files[0].parent} holds files of no known split: {', '.join(file.name for file in files)}"
        raise DataError(what, "name them test, dev or train, as test.tsv")
    if not files:
        what = f"{folder} has judgements for {' and '.join(sorted(found))}, and none to train on"
        raise DataError(what, f"measure with them: contrast eval MODEL --data {shlex.quote(str(folder))}")
    return files


def _read_pairs(folder: Path, limit: int) -> Frame:
    """The first `limit` pairs of a query and a document that is relevant to it (0: all), of the split to train on."""
    data = read_retrieval(folder, ["train"])
    rows = data.judged[(data.judged[:, 2] > 0) & (data.judged[:, 1] >= 0)][: limit or None]
    texts = {"query": (data.queries, rows[:, 0]), "document": (data.documents, rows[:, 1])}
    columns = {name: Column.of(every[n] for n in its.tolist()) for name, (every, its) in texts.items()}
    places = np.stack([np.zeros(len(rows)), np.arange(1, len(rows) + 1)], axis=1).astype(np.uint32)
    return Frame(columns, ((str(folder), "pair"),), places, data.notes)


def retrieval_of(source: str, corpus: Frame, queries: Frame, qrels: Frame) -> Retrieval:
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
