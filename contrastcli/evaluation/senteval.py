"""SentEval's folder of data sets: what senteval.tar of princeton-nlp/datasets-for-simcse unpacks to.

STS/STS12-en-test/   STS.input.X.txt (two sentences and a tab), STS.gs.X.txt (a score, or blank for an unscored pair)
STS/STSBenchmark/    sts-test.csv (tabs, no header)
SICK/                SICK_test_annotated.txt (tabs, header)
MR/ CR/ SUBJ/ …      the transfer tasks
"""

from __future__ import annotations

import math
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from contrastcli.config import cache_dir
from contrastcli.data import hub
from contrastcli.data.examples import ScoredPairs
from contrastcli.data.formats import Table, read_file
from contrastcli.errors import DataError

StsTask = Literal["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]

SUBSETS: Mapping[StsTask, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The parts of each year's task, by the names of their files. STS13's fourth, SMT, may not be passed on."""

ARCHIVE = "hf:princeton-nlp/datasets-for-simcse/senteval.tar"

_HOW = "unpack the hub's princeton-nlp/datasets-for-simcse/senteval.tar, and give --data-dir DIR"
_ABOVE = ("", "downstream", "data/downstream")  # where SentEval's own checkout keeps the sets
_SETS = ("STS", "SICK", "MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC")


def root(data_dir: Path | None) -> Path:
    """The folder that holds STS/, SICK/ and so on, at or below `data_dir`; without one, that of the hub's archive.

    The archive is downloaded and unpacked into the cache once. Raises DataError where there is no such folder.
    """
    if data_dir is None:
        return _from_hub(cache_dir() / "senteval")
    places = [data_dir.expanduser() / above for above in _ABOVE]
    for place in places:
        if any((place / name).is_dir() for name in _SETS):
            return place
    if not places[0].is_dir():
        raise DataError(f"there is no folder {data_dir}", _HOW)
    raise DataError(f"{data_dir} holds none of SentEval's sets ({', '.join(_SETS)})", _HOW)


def _from_hub(folder: Path) -> Path:
    if not folder.is_dir():
        archive = _download()
        try:
            _unpack(archive, folder)
        except (OSError, tarfile.TarError) as error:
            if folder.is_dir():
                return folder  # another process was faster
            raise DataError(f"{archive} cannot be unpacked to {folder}: {error}", _HOW) from None
    return folder


def _download() -> Path:
    try:
        hub.require_hub(ARCHIVE)
        return hub.download(hub.parse(ARCHIVE), ARCHIVE)
    except DataError as error:
        raise DataError(error.what, _HOW) from None


def _unpack(archive: Path, folder: Path) -> None:
    """All or nothing: an interruption leaves no half of a folder that the next call would take for the whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary, tarfile.open(archive) as tar:
        tar.extractall(Path(temporary) / folder.name, filter="data")
        os.rename(Path(temporary) / folder.name, folder)


def read_sts(folder: Path, task: StsTask) -> dict[str, ScoredPairs]:
    """The scored pairs of a task's test set, by subset; one subset, "test", where the task has no parts.

    Unscored pairs are left out. White space within sentences becomes single spaces, as SentEval splits and joins them;
    quotes are literal. `folder` is that of `root`. Raises DataError where the set is missing or malformed.
    """
    if task == "STS-B":
        path = folder / "STS" / "STSBenchmark" / "sts-test.csv"
        return {"test": _columns(path, "sentence1", "sentence2", "score")}
    if task == "SICK-R":
        path = folder / "SICK" / "SICK_test_annotated.txt"
        return {"test": _columns(path, "sentence_A", "sentence_B", "relatedness_score")}
    return {subset: _subset(folder / "STS" / f"{task}-en-test", subset) for subset in SUBSETS[task]}


def _columns(path: Path, first: str, second: str, gold: str) -> ScoredPairs:
    table = _read(path)
    if not {first, second, gold} <= table.columns.keys():
        raise DataError(f"{path} has not the columns {first}, {second} and {gold}", _HOW)
    return _scored(table, *(_texts(table, column) for column in (first, second, gold)))


def _subset(folder: Path, name: str) -> ScoredPairs:
    pairs, gold = (_read(folder / f"STS.{kind}.{name}.txt") for kind in ("input", "gs"))
    if len(pairs) != len(gold):
        what = f"{folder / f'STS.input.{name}.txt'} has {len(pairs)} lines, its STS.gs.{name}.txt has {len(gold)}"
        raise DataError(what, _HOW)
    fields = [line.split("\t") for line in _texts(pairs, "sentence")]
    for row, cells in enumerate(fields):
        if len(cells) < 2:
            raise DataError(f"{pairs.where(row)}: no tab between two sentences", _HOW)
    return _scored(gold, [cells[0] for cells in fields], [cells[1] for cells in fields], _texts(gold, "sentence"))


def _read(path: Path) -> Table:
    if not path.is_file():
        raise DataError(f"there is no file {path}", _HOW)
    return read_file(path, str(path))


def _texts(table: Table, column: str) -> list[str]:
    return [str(cell) for cell in table.columns[column]]


def _scored(table: Table, first: list[str], second: list[str], gold: list[str]) -> ScoredPairs:
    """The rows with a score; `table` is where the scores stand."""
    rows = [row for row, text in enumerate(gold) if text.strip()]
    if not rows:
        raise DataError(f"{table.parts[0].name} has no score", _HOW)
    return ScoredPairs(
        [" ".join(first[row].split()) for row in rows],
        [" ".join(second[row].split()) for row in rows],
        [_number(gold[row], table.where(row)) for row in rows],
        table.parts[0].name,
    )


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where}: the score is {text.strip()!r:.40}", "a score is a finite number; mend the line")
    return number
