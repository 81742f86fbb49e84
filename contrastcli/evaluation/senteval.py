"""SentEval's folder of data sets, as in senteval.tar of princeton-nlp/datasets-for-simcse.

STS/STS12-en-test/: STS.input.X.txt (two sentences, tab-separated), STS.gs.X.txt (a score, blank for an unscored pair)
STS/STSBenchmark/sts-test.csv (tabs, no header) · SICK/SICK_test_annotated.txt (tabs, header)
MR/ CR/ SUBJ/ MPQA/: a file of sentences for each class · SST/binary/ SST/fine/ TREC/ MRPC/: a file for each split
"""

import hashlib
import io
import math
import os
import re
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from contrastcli.data import hub
from contrastcli.data.examples import ScoredPairs
from contrastcli.data.formats import read_file
from contrastcli.data.lines import Decoder, as_number
from contrastcli.data.sources import named_senteval, senteval_places
from contrastcli.errors import DataError, Use
from contrastcli.files import cache_dir, read_bytes

SUBSETS: Mapping[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The parts of each year's task, by the names of their files. STS13's fourth, SMT, may not be distributed."""

ARCHIVE = "hf:princeton-nlp/datasets-for-simcse/senteval.tar"

_GET = "hf download --repo-type dataset --local-dir . princeton-nlp/datasets-for-simcse senteval.tar"
_HINT = f"unpack what this fetches and give --data-dir DIR: {_GET}", Use("--data", "FILE", "measure your own pairs:")
_SETS = ("STS", "SICK", "MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC")


def root(data_dir: Path | None) -> Path:
    """The folder with STS/, SICK/ and so on: `data_dir` or a folder in it, else CONTRAST_SENTEVAL's, else the hub's.

    The archive is downloaded and unpacked once. Raises DataError if there is no such folder.
    """
    if data_dir is None:
        named = named_senteval()
        return root(named) if named else _from_hub(cache_dir() / "senteval")
    for place in senteval_places(data_dir):
        if any((place / name).is_dir() for name in _SETS):
            return place
    if not data_dir.is_dir():
        raise DataError(f"there is no folder {data_dir}", _HINT)
    raise DataError(f"{data_dir} holds none of SentEval's sets ({', '.join(_SETS)})", _HINT)


def _from_hub(folder: Path) -> Path:
    if folder.is_dir():
        return folder
    try:
        archive = hub.download(hub.parse(ARCHIVE))
    except DataError as error:
        raise DataError(error.what, _HINT) from None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary, tarfile.open(archive) as tar:
            tar.extractall(Path(temporary) / folder.name, filter="data")
            # An interruption leaves no incomplete folder.
            os.rename(Path(temporary) / folder.name, folder)
    except (OSError, tarfile.TarError) as error:
        # Another process may have unpacked it.
        if not folder.is_dir():
            raise DataError(f"{archive} cannot be unpacked to {folder}: {error}", _HINT) from None
    return folder


@dataclass(frozen=True)
class Labelled:
    """Texts, or pairs of texts where `second` is not empty, each with its class, counted from 0; maybe their names."""

    first: list[str]
    second: list[str]
    labels: list[int]
    names: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of texts and classes, in hexadecimal."""
        return hashlib.sha256(repr((*filter(None, (self.first, self.second)), self.labels)).encode()).hexdigest()

    def take(self, rows: Iterable[int]) -> Self:
        chosen = [int(row) for row in rows]
        first, second = ([texts[n] for n in chosen] if texts else [] for texts in (self.first, self.second))
        return replace(self, first=first, second=second, labels=[self.labels[n] for n in chosen])


P = TypeVar("P", ScoredPairs, Labelled)


class Parts(dict[str, P]):
    """The parts of a task's data by name: subsets of a test set, or splits."""

    @property
    def sizes(self) -> dict[str, int]:
        """The rows of each."""
        return {name: len(part) for name, part in self.items()}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all parts, in hexadecimal."""
        return hashlib.sha256(repr([part.fingerprint for part in self.values()]).encode()).hexdigest()


def read_sts(folder: Path, task: str) -> Parts[ScoredPairs]:
    """Read the test set of a task by subset from the folder of `root`, without unscored pairs.

    A task without subsets has one, "test". White space within sentences becomes single spaces, as in SentEval; quotes
    are literal. Raises DataError if the set is missing or malformed.
    """
    if task == "STS-B":
        path = folder / "STS" / "STSBenchmark" / "sts-test.csv"
        return Parts(test=_scored(path, _columns(path, "sentence1", "sentence2", "score")))
    if task == "SICK-R":
        path = folder / "SICK" / "SICK_test_annotated.txt"
        return Parts(test=_scored(path, _columns(path, "sentence_A", "sentence_B", "relatedness_score")))
    return Parts({subset: _subset(folder / "STS" / f"{task}-en-test", subset) for subset in SUBSETS[task]})


def _columns(path: Path, *names: str) -> Iterator[tuple[str, ...]]:
    """The file and line of each row, and its cells in some columns."""
    if not path.is_file():
        raise DataError(f"there is no file {path}", _HINT)
    table = read_file(path, str(path), strict=True)
    if not table.columns.keys() >= set(names):
        raise DataError(f"{path} lacks the columns {', '.join(names)}", _HINT)
    for row, cells in enumerate(zip(*(table.columns[name] for name in names), strict=True)):
        yield table.where(row), *map(str, cells)


def _subset(folder: Path, name: str) -> ScoredPairs:
    paths = [folder / f"STS.{kind}.{name}.txt" for kind in ("input", "gs")]
    pairs, scores = ([*read_lines(path, blank=True)] for path in paths)
    if len(pairs) != len(scores):
        raise DataError(f"{paths[0]} has {len(pairs)} lines, its {paths[1].name} has {len(scores)}", _HINT)
    rows = []
    for (number, line), (_, score) in zip(pairs, scores, strict=True):
        cells = line.split("\t")
        if len(cells) < 2:
            raise DataError(f"{paths[0]}, line {number}: no tab between two sentences", _HINT)
        rows.append((f"{paths[1]}, line {number}", cells[0], cells[1], score))
    return _scored(paths[1], rows)


def _scored(path: Path, rows: Iterable[tuple[str, ...]]) -> ScoredPairs:
    """The pairs of the rows that have a score: file and line, two sentences, score."""
    firsts, seconds, scores = list[str](), list[str](), list[float]()
    for where, first, second, text in rows:
        if not text.strip():
            continue
        score = as_number(text)
        if not math.isfinite(score):
            raise DataError(f"{where}: the score is {text.strip()!r:.40}", "a score is a finite number; fix the line")
        firsts.append(" ".join(first.split()))
        seconds.append(" ".join(second.split()))
        scores.append(score)
    if not scores:
        raise DataError(f"{path} has no score", _HINT)
    return ScoredPairs(firsts, seconds, scores, str(path))


_POLARITY: Mapping[str, tuple[str, str]] = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
"""The files of both classes."""


@dataclass(frozen=True)
class _Format:
    """A folder, the file of each split in it, the pattern of a row, and the names of the classes."""

    folder: str
    files: Mapping[str, str]
    line: str
    classes: tuple[str, ...]
    header: bool = False
    latin: bool = False


_SST = {"train": "sentiment-train", "valid": "sentiment-dev", "test": "sentiment-test"}
_TREC = {"train": "train_5500.label", "test": "TREC_10.label"}
_MRPC = {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"}
_QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_PARAPHRASES = r"(?P<label>.)\t[^\t]*\t[^\t]*\t(?P<first>[^\t]*)\t(?P<second>[^\t]*)"
_FORMATS: Mapping[str, _Format] = {
    "SST2": _Format("SST/binary", _SST, r"(?P<first>.*)\t(?P<label>.*)", tuple("01")),
    "SST5": _Format("SST/fine", _SST, r"(?P<label>[^ ]*) (?P<first>.*)", tuple("01234")),
    "TREC": _Format("TREC", _TREC, r"(?P<label>[^:]*):[^ ]* (?P<first>.*)", _QUESTIONS, latin=True),
    "MRPC": _Format("MRPC", _MRPC, _PARAPHRASES, tuple("01"), header=True),
}
_MIN_CLASS_ROWS = 20
"""Enough for ten folds within ten folds, and for 16 to train on and some to test on."""


def read_transfer(folder: Path, task: str) -> Parts[Labelled]:
    """Read a transfer task from the folder of `root` in its published splits; without a split "test", all is "train".

    White space within sentences becomes single spaces; quotes are literal; blank lines are left out. Raises DataError
    if the set is missing or malformed, or a class has too few rows to train on.
    """
    if task in _POLARITY:
        classes = [[text for _, text in read_lines(folder / file, latin=True)] for file in _POLARITY[task]]
        texts = [" ".join(text.split()) for part in classes for text in part]
        splits = Parts(train=Labelled(texts, [], [label for label, part in enumerate(classes) for _ in part]))
    else:
        form = _FORMATS[task]
        splits = Parts({split: _labelled(folder / form.folder / file, form) for split, file in form.files.items()})
    rows = Counter(splits["train"].labels)
    if len(rows) < 2 or min(rows.values()) < _MIN_CLASS_ROWS:
        raise DataError(f"{task} in {folder} has fewer than {_MIN_CLASS_ROWS} rows of some class to train on", _HINT)
    return splits


def _labelled(path: Path, form: _Format) -> Labelled:
    labelled = Labelled([], [], [])
    for number, line in read_lines(path, latin=form.latin):
        if form.header and number == 1:
            continue
        match = re.match(form.line, line)
        if match is None or match["label"] not in form.classes:
            raise DataError(f"{path}, line {number}: not a row of this set: {line!r:.60}", _HINT)
        labelled.labels.append(form.classes.index(match["label"]))
        labelled.first.append(" ".join(match["first"].split()))
        labelled.second.extend(" ".join(text.split()) for text in match.groups()[2:])
    if not labelled.labels:
        raise DataError(f"{path} has no rows", _HINT)
    return labelled


def read_lines(path: Path, *, latin: bool = False, blank: bool = False) -> Iterator[tuple[int, str]]:
    """The stripped lines, with `blank` also blank ones, and their numbers.

    With `latin` a file that is not UTF-8 is read as Latin-1. Raises DataError if the file is missing or not text.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}", _HINT)
    data = read_bytes(path)
    try:
        data.decode()
    except UnicodeDecodeError:
        if latin:
            data = data.decode("latin-1").encode()
    lines = Decoder(str(path), strict=True).lines(io.BytesIO(data))
    return ((n, text.strip()) for n, text in lines if blank or text.strip())
