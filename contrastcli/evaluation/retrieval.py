"""Retrieval: the sets of NanoBEIR, and any set in the layout of BEIR.

A set NAME is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and qrels/test.tsv (query-id,
corpus-id, score), else dev.tsv, else train.tsv. Each may also be .parquet, as on the hub, or a folder of such files.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from contrastcli.data.formats import Frame, format_of
from contrastcli.data.hub import PREFIX
from contrastcli.data.lines import as_number
from contrastcli.data.relevance import Retrieval
from contrastcli.data.sources import open_frame
from contrastcli.errors import DataError, nearest
from contrastcli.evaluation import ranking
from contrastcli.evaluation.procedure import Options, Procedure, SuiteContext, TaskScores, by_kind

_NAMES = (
    "ClimateFEVER DBPedia FEVER FiQA2018 HotpotQA MSMARCO NFCorpus NQ QuoraRetrieval SCIDOCS ArguAna SciFact Touche2020"
)
NANO = tuple(f"Nano{name}" for name in _NAMES.split())
"""The sets of NanoBEIR, 50 queries each (zeta-alpha-ai on the hub)."""

_LARGEST_GRADE = 1 << 31
_PARTS = ("corpus", "queries", "qrels")
_SPLITS = ("test", "dev", "train")
"""Of qrels; the first that there is."""
_OWNER = f"{PREFIX}zeta-alpha-ai/"
_HINT = (
    "put DIR/NAME/corpus.jsonl, queries.jsonl and qrels/test.tsv with query-id, corpus-id and score, or leave out "
    "--data-dir for NanoBEIR"
)
_PROTOCOL = (
    "all documents by the cosine, pooling: {pooling}, titles before texts; nDCG with the grades as gains and MAP over "
    "the whole ranking, as trec_eval; of equal cosines the relevant document comes last; a document with the id of the "
    "query is left out; all × 100, means over the queries that are judged"
)


def _find(tasks: Sequence[str], options: Options) -> Mapping[str, Callable[[], Retrieval]]:
    """Of the tasks that are named, or of all: the sets of --data-dir or its folder `retrieval`, else of NanoBEIR."""
    if (folder := options.data_dir) is None:
        return {name: partial(_read_hub, name) for name in tasks or NANO}
    places = [folder.expanduser(), folder.expanduser() / "retrieval"]
    sets = {path.name: path for place in places for path in sorted(place.glob("*")) if any(_named(path, "corpus"))}
    if all(any(_named(places[0], part)) for part in _PARTS) or not sets:
        sets = {places[0].resolve().name: places[0]}
    return {name: partial(_read_folder, sets.get(name, places[0] / name)) for name in tasks or sets}


def _named(folder: Path, *stems: str) -> Iterator[Path]:
    """What has one of these names in a folder, whatever its suffix; nothing where the folder cannot be read."""
    return (path for stem in stems for path in sorted(folder.glob(f"{stem}*")) if path.name.partition(".")[0] == stem)


def _read_hub(name: str) -> Retrieval:
    """A set of the hub. Raises DataError where it cannot be reached or has no such set."""
    if name not in NANO and not name.startswith(PREFIX):
        raise DataError(f"NanoBEIR has no set '{name}'", nearest(name, NANO))
    repo = name if name.startswith(PREFIX) else _OWNER + name
    return read(name, *(open_frame(f"{repo}?config={part}", "train") for part in _PARTS))


def _read_folder(folder: Path) -> Retrieval:
    """A set of a folder. Raises DataError where a part of it is missing or malformed."""
    tables = []
    for part in _PARTS:
        path = next(_named(folder, part), None)
        if path is None or (path.is_dir() and not any(map(format_of, path.iterdir()))):
            raise DataError(f"{folder} has no {part}", _HINT)
        split = next(_named(path, *_SPLITS), path) if part == "qrels" else path
        tables.append(open_frame(str(split), "train"))
    return read(str(folder), *tables)


def read(source: str, corpus: Frame, queries: Frame, qrels: Frame) -> Retrieval:
    """A set from its tables; judgements of texts that it lacks are counted in a note.

    Raises DataError for missing columns, ids that are blank or occur twice, and a set without a relevant document.
    """
    titled = (" ".join(words).strip() for words in zip(_cells(corpus, "title"), _cells(corpus, "text"), strict=True))
    documents, asked = _by_id(corpus, titled), _by_id(queries, _cells(queries, "text"))
    judgements = list(zip(*(_cells(qrels, column) for column in ("query-id", "corpus-id", "score")), strict=True))
    rows = [row for row, (query, _, _) in enumerate(judgements) if query in asked]
    numbers = {name: n for n, name in enumerate(dict.fromkeys(judgements[row][0] for row in rows))}
    places = {name: n for n, name in enumerate(documents)}
    # A document with the id of the query has grade 0: it is left out of the ranking.
    grades = {(numbers[name], places[name]): 0 for name in numbers if name in places}
    for row in rows:
        query, document, score = judgements[row]
        grade = _grade(score, qrels.where(row))
        if grade > 0 and query != document:
            # Documents that the corpus lacks are numbered −1, −2 and so on.
            place = places.setdefault(document, len(documents) - len(places) - 1)
            grades[numbers[query], place] = grade
    if not any(grade and place >= 0 for (_, place), grade in grades.items()):
        raise DataError(f"{source}: no document of the corpus is relevant to a query", "compare the ids with the qrels")
    judged = np.array(sorted((*pair, grade) for pair, grade in grades.items()), dtype=np.int64)
    unknown = sum(query not in asked or document not in documents for query, document, _ in judgements)
    what = (
        f"{unknown:,} of {len(judgements):,} judgements are of texts that the set lacks; such documents are not found"
    )
    notes = (what,) if unknown else ()
    texts, none = [asked[name] for name in numbers], np.empty((0, 3), dtype=np.int64)
    return Retrieval(texts, list(documents.values()), judged, none, source, notes=notes)


def _by_id(table: Frame, texts: Iterable[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for row, (name, text) in enumerate(zip(_cells(table, "_id"), texts, strict=True)):
        if not name or name in named:
            what = f"the _id '{name}' occurs twice" if name else "the _id is blank"
            raise DataError(f"{table.where(row)}: {what}", "give each text its own _id")
        named[name] = text
    return named


def _cells(table: Frame, column: str) -> list[str]:
    """The texts of a column, "" where it is blank; of `title` and `score` also where there is none."""
    if column not in table.columns:
        if column in ("title", "score"):
            return [""] * len(table)
        raise DataError(f"{table.where(0)}: there is no column '{column}'", _HINT)
    return ["" if cell is None else str(cell).strip() for cell in table.columns[column]]


def _grade(cell: str, where: str) -> int:
    """A grade of relevance, 1 where none is written."""
    grade = as_number(cell or 1)
    if not (grade.is_integer() and abs(grade) < _LARGEST_GRADE):
        raise DataError(f"{where}: the score is '{cell:.40}'", "a score is a whole number, 0 where nothing is relevant")
    return int(grade)


def _score(context: SuiteContext, task: str, data: Retrieval) -> TaskScores:
    scores = ranking.means(data, *map(torch.from_numpy, map(context.vectors, data.columns, data.kinds)))
    context.options.on_progress(f"retrieval {task}", 1, 1)
    return {**scores, "note": ", ".join(data.notes), "partial": False}


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    notes = (f"; {task}: {entry['note']}" for task, entry in scores.items() if entry.get("note"))
    return _PROTOCOL.format(pooling=context.subject.pooling) + "".join(notes)


PROCEDURE = Procedure(_find, _score, _protocol, by_kind)
