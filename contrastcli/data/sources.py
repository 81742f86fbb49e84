"""Data by the name that a user gives: a file, a folder, `hf:…`, `senteval:DIR`, `starter`, `stsb`, `split:5%`, `none`."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from pathlib import Path

from contrastcli import config
from contrastcli.catalogue import Form
from contrastcli.data import hub
from contrastcli.data.examples import FORMS, Examples, ScoredPairs, from_table, hold_out, scored_from_table, suit
from contrastcli.data.formats import FORMATS, Part, Table, format_of, read_file
from contrastcli.errors import DataError, UsageError, nearest

STARTER = Path(__file__).parent.parent / "starter"
"""The texts that come with the package: nli.tsv to train on, dev.tsv with scored pairs."""

_SENTEVAL = "senteval:"
_SPLIT = "split:"
_STSB = "hf:sentence-transformers/stsb"


def load_examples(data: config.Data, needs: tuple[Form, ...], labels: tuple[int, ...]) -> Examples:
    """The training rows that `data` names, in a form of `needs`; of labelled ones those with a label in `labels`.

    `senteval:DIR` gives the distinct sentences of STS-B's training split. A hub name without a split means `train`.
    Raises DataError where they are missing, malformed or unsuitable, UsageError for a malformed name.
    """
    name = data.train
    if not name:
        raise DataError("there is no training data", "give --data FILE, --data hf:owner/name or --data starter")
    if name.startswith(_SENTEVAL):
        rows = _sentences_of_stsb(name, data.limit)
    elif name == "starter":
        rows = from_table(_starter("nli.tsv", data.limit), "", "", name)
    else:
        rows = from_table(_open(name, "train", data.limit), data.columns, data.labels, name)
    return suit(rows, needs, labels)


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
    pairs = scored_from_table(read_file(path, str(path), limit), "", name)
    texts = list(dict.fromkeys(chain.from_iterable(zip(pairs.first, pairs.second, strict=True))))
    note = f"{len(texts):,} distinct sentences of {len(pairs):,} pairs of STS-B's training split"
    return Examples("sentences", {"anchor": texts}, None, name, (note,))


def _starter(file: str, limit: int) -> Table:
    return read_file(STARTER / file, f"starter/{file}", limit)


def _open(name: str, split: str, limit: int) -> Table:
    """The table of a path or of a hub name; of a data set on the hub, `split` where the name says none."""
    if name.startswith(hub.PREFIX):
        return hub.read(name, split, limit)
    path = Path(name).expanduser()
    if path.is_dir():
        return _read_folder(path, name, limit)
    if not path.is_file():
        raise DataError(f"there is no file or folder {name}", _near(path))
    return read_file(path, name, limit)


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either; a data set of the hub is written hf:owner/name"
    names = [entry.name for entry in path.parent.iterdir() if entry.is_dir() or format_of(entry)]
    return nearest(path.name, names) if names else f"no data file is in {path.parent}; known: {', '.join(FORMATS)}"


def _read_folder(folder: Path, name: str, limit: int) -> Table:
    """All data files of a folder, in the order of their names. Raises DataError where formats or columns differ."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and format_of(path))
    if not paths:
        raise DataError(f"the folder {name} holds no data file", f"known: {', '.join(FORMATS)}")
    if len({format_of(path) for path in paths}) > 1:
        names = ", ".join(path.name for path in paths)
        raise DataError(f"the folder {name} mixes formats: {names}", "name one file, or keep one format in the folder")
    found: Table | None = None
    for path in paths:
        left = limit - len(found) if found and limit else limit
        if found and limit and not left:
            break
        part = read_file(path, str(Path(name) / path.name), left)
        found = _joined(found, part) if found else part
    assert found is not None
    return found


def _joined(first: Table, second: Table) -> Table:
    if first.columns.keys() != second.columns.keys():
        one, other = (f"{t.parts[-1].name} ({', '.join(t.columns)})" for t in (first, second))
        raise DataError(f"the columns of {one} and {other} differ", "give all files of a folder the same columns")
    columns = {column: cells + second.columns[column] for column, cells in first.columns.items()}
    return Table(columns, first.parts + second.parts, first.notes + second.notes)
