"""Data by the name that a user gives: a path, `hf:…`, `senteval:DIR`, `starter`, `stsb`, `split:5%` or `none`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from contrastcli.data import hub
from contrastcli.data.convert import hold_out, suit
from contrastcli.data.examples import FORMS, Examples, ScoredPairs, from_table, scored_from_table
from contrastcli.data.formats import FORMATS, Table, format_of, read_file
from contrastcli.errors import DataError, UsageError
from contrastcli.settings import sections
from contrastcli.settings.catalogue import Form

STARTER = Path(__file__).parent.parent / "starter"
"""The texts that come with the package: nli.tsv to train on, dev.tsv with scored pairs."""

_SENTEVAL = "senteval:"
_SPLIT = "split:"
_STSB = "hf:sentence-transformers/stsb"


def load_examples(data: sections.Data, needs: tuple[Form, ...], labels: tuple[int, ...]) -> Examples:
    """The training rows that `data` names, in a form of `needs`; of labelled ones those with a label in `labels`.

    `senteval:DIR` gives the distinct sentences of STS-B's training split. A hub name without a split means `train`.
    Raises DataError where they are missing, malformed or unsuitable, UsageError for a malformed name.
    """
    name = data.train
    if not name:
        raise DataError("there is no training data", "give --data FILE, --data hf:owner/name or --data starter")
    if name.startswith(_SENTEVAL):
        return suit(_sentences_of_stsb(name, data.limit), needs, labels, ["sentence"])
    table = _starter("nli.tsv", data.limit) if name == "starter" else _open(name, "train", data.limit)
    return suit(from_table(table, data.columns, data.labels, name), needs, labels, table.columns)


def load_sentences(name: str) -> list[str]:
    """The sentences of a file or data set, one a row, as they stand. Raises DataError where it holds something else."""
    rows = _open(name, "train", 0)
    examples = from_table(rows, "", "", name)
    if examples.form != "sentences":
        raise DataError(f"{name} holds {FORMS[examples.form]}", "give sentences: one a line, or a column 'sentence'")
    return examples.views["anchor"]


def load_scored(name: str, columns: str = "") -> ScoredPairs | None:
    """The scored pairs of that name; None for "none".

    `stsb` is the dev split of STS-B: of the SentEval folder that CONTRAST_SENTEVAL names, else of the hub.
    `senteval:DIR` means the same in that folder. A hub name without a split means `validation`. `split:` needs
    training rows: see `load_dev`. Raises DataError and UsageError.
    """
    if name == "none":
        return None
    if name == "starter":
        return scored_from_table(_starter("dev.tsv", 0), "", name)
    if name == "stsb":
        return _stsb_dev()
    if name.startswith(_SENTEVAL):
        path = _stsb_file(_folder_of(name), "sts-dev.csv")
        return scored_from_table(read_file(path, str(path)), "", name)
    if name.startswith(_SPLIT):
        raise UsageError(f"'{name}' needs training rows to hold out", "name scored pairs: a file, stsb or starter")
    return scored_from_table(_open(name, "validation", 0), columns, name)


def load_dev(name: str, train: Examples, seed: int) -> tuple[Examples, ScoredPairs | None]:
    """The rows that stay for training, and the scored pairs that choose a checkpoint.

    "split:5%" holds some of the training rows out; every other name leaves them as they are, see `load_scored`.
    """
    if name.startswith(_SPLIT):
        return hold_out(train, _share(name), seed)
    return train, load_scored(name)


def _share(name: str) -> float:
    number = name.removeprefix(_SPLIT).removesuffix("%")
    try:
        percent = float(number) if name.endswith("%") else 0.0
    except ValueError:
        percent = 0.0
    if not 0 < percent < 100:
        raise UsageError(f"dev.data is '{name}'", "write the share of rows to hold out as split:5%")
    return percent / 100


def _stsb_dev() -> ScoredPairs:
    folder = os.environ.get("CONTRAST_SENTEVAL")
    if folder:
        path = _stsb_file(Path(folder), "sts-dev.csv")
        return scored_from_table(read_file(path, str(path)), "", "stsb")
    try:
        return scored_from_table(hub.read(_STSB, "validation"), "", "stsb")
    except DataError as error:
        hint = "give --dev FILE or --dev none, or name a SentEval folder in CONTRAST_SENTEVAL"
        raise DataError(f"stsb: {error.what}", hint) from None


def _folder_of(name: str) -> Path:
    return Path(name.removeprefix(_SENTEVAL)).expanduser()


def _stsb_file(folder: Path, file: str) -> Path:
    """A file of STS-B under SentEval's root, or under a folder above it."""
    places = [folder / above / "STS" / "STSBenchmark" / file for above in ("", "downstream", "data/downstream")]
    for place in places:
        if place.is_file():
            return place
    raise DataError(f"there is no file {places[0]}", "give the folder that SentEval's data was unpacked to")


def _sentences_of_stsb(name: str, limit: int) -> Examples:
    path = _stsb_file(_folder_of(name), "sts-train.csv")
    pairs = from_table(read_file(path, str(path), limit), "anchor=sentence1,positive=sentence2", "", name)
    return suit(pairs, ("sentences",), ())


def _starter(file: str, limit: int) -> Table:
    return read_file(STARTER / file, f"starter/{file}", limit)


def _open(name: str, split: str, limit: int) -> Table:
    """The table of a path or of a hub name; of a data set on the hub, `split` where the name says none."""
    if name.startswith(hub.PREFIX):
        return hub.read(name, split, limit)
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):  # unlike Path.is_dir, not an error for a name that is too long
        return _read_folder(path, name, limit)
    if not os.path.isfile(path):
        raise DataError(f"there is no file or folder {name}", _near(path))
    return read_file(path, name, limit)


def _near(path: Path) -> str:
    """A hint that names the data files of that folder most like a missing path."""
    if not os.path.isdir(path.parent):
        return f"there is no folder {path.parent} either; a data set of the hub is written hf:owner/name"
    names = sorted(name for name in os.listdir(path.parent) if format_of(Path(name)))
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"the folder holds {', '.join(names[:5]) or 'no data file; see --data in the help'}"


def _read_folder(folder: Path, name: str, limit: int) -> Table:
    """All data files of a folder, in the order of their names. Raises DataError where formats or columns differ."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and format_of(path))
    if not paths:
        raise DataError(f"the folder {name} holds no data file", f"known: {', '.join(FORMATS)}")
    if len({format_of(path) for path in paths}) > 1:
        names = ", ".join(path.name for path in paths)
        raise DataError(f"the folder {name} mixes formats: {names}", "name one file, or keep one format in the folder")
    tables: list[Table] = []
    for path in paths:
        left = limit - sum(map(len, tables))
        if limit and not left:
            break
        tables.append(read_file(path, str(Path(name) / path.name), max(left, 0)))
    return _joined(tables)


def _joined(tables: Sequence[Table]) -> Table:
    first = tables[0]
    for table in tables:
        if table.columns.keys() != first.columns.keys():
            one, other = (f"{t.parts[0].name} ({', '.join(t.columns)})" for t in (first, table))
            raise DataError(f"the columns of {one} and {other} differ", "give all files of a folder the same columns")
    columns = {column: list(chain.from_iterable(t.columns[column] for t in tables)) for column in first.columns}
    parts = tuple(chain.from_iterable(table.parts for table in tables))
    return Table(columns, parts, tuple(chain.from_iterable(table.notes for table in tables)))
