"""Data by the name that a user gives: a path, `hf:…`, `senteval:DIR`, `starter`, `stsb`, `split:5%` or `none`.

Training data may be several sets, each with its weight: `a.csv=2,b.csv`.
"""

import difflib
import math
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from contrastcli.data import folders, hub
from contrastcli.data.convert import adapt, join
from contrastcli.data.downloads import named_by
from contrastcli.data.examples import Examples, from_frame
from contrastcli.data.formats import Frame, format_of, read_file
from contrastcli.data.forms import FORMS, LISTED
from contrastcli.data.lines import as_number
from contrastcli.data.relevance import documents_of
from contrastcli.data.roles import COLUMNS, listed, named, shape
from contrastcli.errors import DataError, UsageError, Use
from contrastcli.files import OF_A_PIPE
from contrastcli.settings import sections
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Blank
from contrastcli.settings.setting import join_items

STARTER = Path(__file__).parent.parent / "starter"
"""The texts of the package: nli.tsv to train on, dev.tsv with scored pairs."""

_NAMES: Mapping[folders.Split, tuple[str, ...]] = {"train": ("starter",), "validation": ("stsb", "starter", "none")}
SENTEVAL = "senteval:"
SPLIT = "split:"
_STSB = "hf:sentence-transformers/stsb"
_WEIGHTED = re.compile(r"([^=].*?)(?:(?<!config)(?<!split)=([\d.]+))?")


def read_sets(names: str) -> list[tuple[str, float]]:
    """The sets of "a.csv=2,b.parquet" with their weights, 1 where none is given. Raises UsageError.

    A name without a comma, or of a file or folder, is one set.
    """
    if "," not in names or os.path.exists(os.path.expanduser(names)):
        return [(names, 1.0)]
    matches = [_WEIGHTED.fullmatch(item.strip()) for item in names.split(",")]
    with suppress(ValueError):
        sets = [(match[1], float(match[2] or 1)) for match in matches if match]
        if len(sets) == len(matches) and all(weight > 0 for _, weight in sets):
            return sets
    raise UsageError(f"data.train is '{names}'", "write sets with commas between, and weights above 0: a.csv=2,b.csv")


def load_examples(data: sections.Data, needs: tuple[Form, ...], labels: tuple[int, ...]) -> Examples:
    """The training rows of `data.train` in a form of `needs`; of labelled rows those with these `labels`.

    `senteval:DIR` gives STS-B's training split: its scored pairs if those are needed, else its distinct sentences. A
    hub name without a split means `train`. Raises DataError if the data are missing, malformed or unsuitable,
    UsageError for a malformed name.
    """
    try:
        if not data.train:
            raise DataError("there is no training data", Use("--data", "FILE, hf:owner/name or starter", "give"))
        frames = [(name, open_frame(name, "train", data.limit)) for name, _ in read_sets(data.train)]
        # Columns are for the sets that have them; where none has, the first is the error.
        having = [name for name, frame in frames if named(data.columns) <= frame.columns.keys()]
        others = structs.replace(data, columns="") if having else data
        sets = [_load_set(frame, name, data if name in having else others, needs, labels) for name, frame in frames]
        return join(sets, data.train) if len(sets) > 1 else sets[0]
    except (DataError, UsageError) as error:
        error.key = error.key or "data.train"
        raise


def _load_set(
    frame: Frame, name: str, data: sections.Data, needs: tuple[Form, ...], labels: tuple[int, ...]
) -> Examples:
    if name.startswith(SENTEVAL) and "scored" not in needs:
        pairs = from_frame(frame, "anchor=sentence1,positive=sentence2", "", name, blank=data.blank)
        return adapt(adapt(pairs, ("sentences",), ()), needs, labels, ["sentence"], data)
    form, used = shape(frame, data.columns, name, needs)
    if form == "scored" and not {"scored", "scored-triplets"} & {*needs}:
        what = f"{name} holds scored pairs ('{used['score']}' is the score), which are not used here"
        negatives = (column for column, role in listed(frame, data.columns) if role == "negative")
        texts = map("=".join, zip(LISTED, (used["anchor"], used["positive"], *negatives), strict=False))
        texts_alone = Use("--columns", join_items(texts), "take the texts alone:")
        remedies = Use("--objective", "cosent or aoe", "train with"), texts_alone
        raise DataError(what, remedies, key=sections.OBJECTIVE.key)
    # Names of classes are no sentences to learn from.
    texts_only = form == "classes" and "pairs" not in needs and "sentences" in needs
    how = (data.columns, data.labels, name)
    examples = from_frame(frame, *how, blank=data.blank, texts_only=texts_only, needs=needs)
    return adapt(examples, needs, labels, frame.columns, data)


def load_sentences(name: str, columns: str = "", blank: Blank = "error") -> Examples:
    """The sentences of a file or data set, one for each row. Raises DataError if it holds other rows."""
    return sentences_of(_open_texts(name, columns), name, columns, blank)


def sentences_of(frame: Frame, name: str, columns: str, blank: Blank) -> Examples:
    """The sentences of a frame. Raises DataError if it holds other rows."""
    try:
        examples = from_frame(frame, columns, "", name, blank=blank, texts_only=True)
    except DataError as error:
        # Pairs are of no use here; a first line that is a row is told first.
        if error.key == COLUMNS and len(frame.columns) > 1 and isinstance(error.remedies[0], Use):
            raise DataError(error.what, _choices(frame), key=COLUMNS) from None
        raise
    if examples.form != "sentences":
        raise DataError(f"{name} holds {FORMS[examples.form]}", _choices(frame), key=COLUMNS)
    return examples


def _choices(frame: Frame) -> list[Use]:
    """The columns that sentences may be read from, that with the most text first."""
    firsts = {name: cells[0] for name, cells in frame.columns.items() if not isinstance(cells[0], dict | list)}
    texts = [name for name, cell in firsts.items() if math.isnan(as_number(cell))]
    longest = sorted(texts or frame.columns, key=lambda column: -frame.columns[column].sizes.sum())
    return [
        Use("--columns", join_items([f"text={column}"]), "" if n else "choose one:")
        for n, column in enumerate(longest[:3])
    ]


def load_documents(name: str, columns: str = "", blank: Blank = "error", *, with_negatives: bool = True) -> Examples:
    """What a search ranks: sentences, or the texts of pairs and triplets but their anchors. Raises DataError.

    Without negatives none is found under the id of a row that it is wrong for.
    """
    rows = from_frame(_open_texts(name, columns), columns, "", name, blank=blank, texts_only=True)
    if not with_negatives and "negative" in rows.views:
        views = {view: rows.views[view] for view in ("anchor", "positive")}
        rows = replace(rows, views=views, notes=(*rows.notes, f"hard negatives of {name} are not searched"))
    return documents_of(rows)


def _open_texts(name: str, columns: str) -> Frame:
    """A frame whose texts alone are read; the titles of a corpus are part of them, unless `columns` say otherwise."""
    path = Path(os.path.expanduser(name))
    if not columns and folders.holds(path, folders.TEXTS):
        return folders.read_corpus(path)
    frame = open_frame(name, "train")
    return frame if columns else folders.titled(frame)


def open_dev(name: str) -> Frame:
    """The rows of dev data. Raises DataError and UsageError.

    `stsb` is the dev split of STS-B: of the SentEval folder in CONTRAST_SENTEVAL if it is set, else of the hub.
    `senteval:DIR` means the same in that folder. A hub name without a split means `validation`. `split:` needs
    training rows: see `dev.load_dev`.
    """
    if name == "none" or name.startswith(SPLIT):
        raise UsageError(f"'{name}' is for the dev data of a training", "name scored pairs: a file, stsb or starter")
    if name != "stsb":
        return open_frame(name, "validation")
    if named := named_senteval():
        return _open_stsb(named, "validation")
    try:
        return hub.read(_STSB, "validation")
    except DataError as error:
        others = Use("--dev", "starter", "take the package's pairs:"), Use("--dev", "FILE", "give")
        folder = "name SentEval's folder before the command: CONTRAST_SENTEVAL=DIR"
        raise DataError(f"stsb: {error.what}", [*others, folder]) from None


def open_frame(name: str, split: folders.Split, limit: int = 0) -> Frame:
    """The first `limit` rows (0: all) of a name; `split` is that of a data set whose name does not say one."""
    if name == "starter":
        file = "nli.tsv" if split == "train" else "dev.tsv"
        return read_file(STARTER / file, f"starter/{file}", limit)
    if name.startswith(SENTEVAL):
        return _open_stsb(Path(os.path.expanduser(name.removeprefix(SENTEVAL))), split, limit)
    if name.startswith(hub.PREFIX):
        return hub.read(name, split, limit)
    path = Path(os.path.expanduser(name))
    # Path.is_dir raises OSError for a name that is too long.
    if os.path.isdir(path):
        read = hub.read_saved if hub.is_saved(path) else folders.read_folder
        return read(path, name, split, limit)
    if not os.path.exists(path):
        raise DataError(f"there is no file or folder {name}", _near(name, split))
    return read_file(path, name, limit)


def named_senteval() -> Path | None:
    """The folder that CONTRAST_SENTEVAL names, if it does."""
    folder = os.environ.get("CONTRAST_SENTEVAL")
    return Path(os.path.expanduser(folder)) if folder else None


def senteval_places(folder: Path) -> list[Path]:
    """Where SentEval's sets may be: in the folder, where its own checkout has them, or in any folder in it."""
    below = sorted(folder.glob("*/")) if os.path.isdir(folder) else []
    return [folder, folder / "downstream", folder / "data" / "downstream", *below]


def stsb_file(folder: Path, split: folders.Split) -> Path:
    """The file of STS-B under SentEval's root or under a folder above it; where there is none, that of the root."""
    file = "sts-train.csv" if split == "train" else "sts-dev.csv"
    paths = [place / "STS" / "STSBenchmark" / file for place in senteval_places(folder)]
    return next(filter(os.path.isfile, paths), paths[0])


def _open_stsb(folder: Path, split: folders.Split, limit: int = 0) -> Frame:
    path = stsb_file(folder, split)
    if not os.path.isfile(path):
        raise DataError(f"there is no file {path}", "give the folder that SentEval's data was unpacked to")
    return read_file(path, str(path), limit)


def _meant(name: str, split: folders.Split) -> str:
    """A hint for what is no path: stdin, an address, a share of the rows; else ""."""
    if name == "-":
        return OF_A_PIPE
    if "://" in name:
        if any(parts := named_by(name)):
            return f"did you mean {shlex.quote(hub.PREFIX + '/'.join(filter(None, parts)))}?"
        fetch = f"curl -LO {shlex.quote(name)}" if name.startswith("http") else "copy it here"
        return f"{fetch}, and name the file"
    if split != "train" and (share := re.fullmatch(r"(0?\.\d+)|(\d+)%", name)):
        return f"use --dev {SPLIT}{share[2] or format(100 * float(share[1]), 'g')}%"
    return ""


def _near(name: str, split: folders.Split) -> str:
    """A hint for a missing path: a name that means data, or files with similar names in its folder."""
    if meant := _meant(name, split):
        return meant
    path = Path(os.path.expanduser(name))
    if not os.path.isdir(path.parent):
        return f"there is no folder {path.parent} either; a data set of the hub is written hf:owner/name"
    names = sorted(one for one in os.listdir(path.parent) if format_of(Path(one)))
    # Without the endings, which are alike where the names are not.
    stems = [one.partition(".")[0].lower() for one in names]
    similar = difflib.get_close_matches(path.name.partition(".")[0].lower(), stems, 9, 0.7)
    close = [
        os.path.join(os.path.dirname(name), one) for one, stem in zip(names, stems, strict=True) if stem in similar
    ]
    if not format_of(path):
        close = difflib.get_close_matches(name.lower(), _NAMES[split], 1) + close
    if close:
        return f"did you mean {' or '.join(map(shlex.quote, close))}?"
    held = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
    return f"the folder holds {held}" if held else "contrast help data lists what has a name"
