"""Dev data, which choose the best checkpoint: scored pairs, or rows without scores for a retrieval metric."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import get_args

import numpy as np
from msgspec import structs

from contrastcli.data import folders
from contrastcli.data.convert import convert, hold_out, scored
from contrastcli.data.examples import Examples, ScoredPairs, from_frame, text_key
from contrastcli.data.forms import FORMS, GRADES
from contrastcli.data.lines import as_number
from contrastcli.data.relevance import Retrieval, documents_of, from_rows
from contrastcli.data.roles import COLUMNS, named, shape
from contrastcli.data.sources import SENTEVAL, SPLIT, load_documents, open_dev
from contrastcli.data.texts import Texts
from contrastcli.errors import DataError, Remedy, UsageError, Use
from contrastcli.settings.metrics import QUERIES, RANKINGS
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Blank, Data, Dev, Metric

DevData = ScoredPairs | Retrieval

_RANKINGS = tuple(name for name in RANKINGS if name in get_args(Metric))
_FITTING: Mapping[Form, tuple[str, ...]] = {
    "scored": ("spearman", *_RANKINGS),
    "labelled": ("spearman", *_RANKINGS, "accuracy"),
    "triplets": (*_RANKINGS, "accuracy", "spearman"),
    "scored-triplets": (*_RANKINGS, "accuracy", "spearman"),
    "pairs": _RANKINGS,
    "classes": _RANKINGS,
}
"""The metrics of each kind of rows, the usual one first."""
_OWN_NAMES = "call its columns sentence1, sentence2 and score in its first line: --columns is for the training rows too"


def resolve_dev(dev: Dev, train: Examples) -> tuple[Dev, tuple[str, ...]]:
    """The settings with a name for "auto", and a note on that: a folder's own dev set, a share of the rows, or STS-B.

    NLI is measured by STS-B in the papers, and sentences do not say which of them are similar.
    """
    if dev.data != "auto":
        return dev, ()
    form = train.form if train.form == "sentences" else train.read_as or train.form
    rows, name = FORMS[form], "stsb" if form in ("sentences", "labelled") else f"{SPLIT}5%"
    if "validation" in folders.judged_splits(train.source):
        rows, name = "a folder with dev judgements", train.source
    return structs.replace(dev, data=name), (f"dev.data is auto, which for {rows} is {name}",)


def load_dev(dev: Dev, data: Data, train: Examples) -> tuple[Examples, DevData | None]:
    """The rows left for training, and what chooses a checkpoint.

    "split:5%" holds out some of the training rows; every other name leaves them all. Its columns have their
    roles as in `read_dev` by name. Raises DataError and UsageError.
    """
    if dev.data == "none":
        return train, None
    try:
        if folders.holds(dev.data):
            made = _read_set(dev.data, dev.metric, to_choose=True)
            notes = f"the dev metric is {made} of {dev.data}", *(f"dev data: {note}" for note in made.notes)
            return replace(train, notes=(*train.notes, *notes)), made
        if dev.data.startswith(SPLIT):
            metric = _metric(dev.metric, train.form, train.source)
            most = math.inf if metric == "spearman" else QUERIES
            train, rows = hold_out(train, _share(dev.data), dev.split_seed, most)
        else:
            rows, metric = _read_rows(dev.data, data.columns, data.labels, dev.metric, data.blank, by_name=True)
            if rows.notes:
                train = replace(train, notes=(*train.notes, *(f"dev data: {note}" for note in rows.notes)))
        if metric == "spearman":
            return train, scored(rows)
    except DataError as error:
        remedies = *_for_dev(error, "--columns"), Use("--dev", "none", "train without dev data:")
        raise DataError(error.what, remedies, key="dev.data") from None
    # To sentences that are trained without their classes a class is no answer.
    others = rows if rows.read_as == "classes" != train.read_as else train
    documents = _read_corpus(dev.corpus, data.blank) if dev.corpus else documents_of(others)
    made = _ranked(rows, metric, documents.views["anchor"])
    return replace(train, notes=train.notes + made.notes), made


def _read_corpus(name: str, blank: Blank) -> Examples:
    try:
        return load_documents(name, blank=blank)
    except DataError as error:
        # The columns that a user names are those of the training rows.
        remedies = "call the column of its texts text", Use("--set", "dev.corpus=", "do without:")
        raise DataError(error.what, remedies if error.key == COLUMNS else error.remedies, key="dev.corpus") from None


def load_general(dev: Dev, data: Data) -> DevData | None:
    """The data that show what a training forgets, if any. Raises DataError and UsageError.

    "auto" are the starter's pairs, beside dev data of one's own; STS-B and the starter are as general themselves.
    Columns have their roles as in `read_dev` by name.
    """
    name = dev.general
    if name == "auto":
        is_general = dev.data in ("none", "stsb", "starter") or dev.data.startswith(SENTEVAL)
        name = "none" if is_general else "starter"
    if name != "none" and dev.data == "none":
        what = f"dev.general is {name}, and without dev data nothing is measured"
        raise UsageError(what, [Use("--dev", "split:5%", "give"), Use("--general", "none")], key="dev.general")
    try:
        words = name, data.columns, data.labels
        return None if name == "none" else read_dev(*words, blank=data.blank, by_name=True, to_choose=True)
    except DataError as error:
        remedies = *_for_dev(error, "--columns", "--dev"), Use("--general", "none, starter or FILE", "use")
        raise DataError(error.what, remedies, key="dev.general") from None


def _for_dev(error: DataError, *options: str) -> list[Remedy]:
    """The remedies of an error, but for options that are of other data too."""
    return [one for one in error.remedies if not (isinstance(one, Use) and one.option in options)] or [_OWN_NAMES]


def read_dev(
    source: str,
    columns: str = "",
    labels: str = "",
    metric: str = "auto",
    blank: Blank = "error",
    *,
    by_name: bool = False,
    to_choose: bool = False,
) -> DevData:
    """The rows of a file or data set, or a folder in BEIR's layout, with the metric that is meant for them.

    Raises DataError and UsageError. With `by_name`, `columns` are those of other rows, and count where all are there
    and no score or label is known by its name, or where the names of the columns do not give their roles. `to_choose` a
    model by them, a folder's test split is read only where it has no other.
    """
    if folders.holds(source):
        return _read_set(source, metric, to_choose=to_choose)
    rows, metric = _read_rows(source, columns, labels, metric, blank, by_name=by_name)
    return scored(rows) if metric == "spearman" else _ranked(rows, metric)


def _read_set(source: str, metric: str, *, to_choose: bool) -> Retrieval:
    """A folder in BEIR's layout; to choose a model, a part of it, and not what is kept for a test if it can."""
    metric = _choose(metric, _RANKINGS, f"{source} holds queries and judgements")
    splits = ("validation", "test", "train")
    made = folders.limited(folders.read_retrieval(source, splits)) if to_choose else folders.read_retrieval(source)
    return replace(made, metric=metric)


def _read_rows(
    source: str, columns: str, labels: str, metric: str, blank: Blank, *, by_name: bool
) -> tuple[Examples, str]:
    """The rows of a name, and the metric that is meant for them; `by_name` as in `read_dev`."""
    frame = open_dev(source)
    if by_name:
        with suppress(DataError):
            _, by = shape(frame, "", source)
            others = ("positive" in by and {"score", "label"} & by.keys()) or not named(columns) <= frame.columns.keys()
            # Sentences are trained on, and pairs measured.
            if others or ("positive" in by and "positive" not in shape(frame, columns, source)[1]):
                columns = ""
        if missing := named(columns) - frame.columns.keys():
            what = f"{source} has no column '{min(missing)}', but {', '.join(frame.columns):.200}"
            raise DataError(what, _OWN_NAMES)
    form, used = shape(frame, columns, source)
    if metric == "auto" and form == "scored" and used["score"].lower() in GRADES:
        metric = _RANKINGS[0]
    metric = _metric(metric, form, source, is_list=len(frame.columns) == 1)
    return from_frame(frame, columns, labels, source, blank=blank), metric


def _ranked(rows: Examples, metric: str, documents: Texts | None = None) -> Retrieval:
    """Rows as queries, and what is relevant to each of them among the texts of all, as `from_rows` has it."""
    if rows.form == "labelled":
        rows = convert(rows, "triplets" if metric == "accuracy" else "pairs")
        if not len(rows):
            what = f"{rows.source}: no anchor has a row of entailment and one of contradiction, of which accuracy is"
            raise UsageError(what, Use("--metric", "auto", "choose another:"), key="dev.metric")
    return from_rows(rows, documents, metric)


def named_pairs(dev: Dev, data: Data) -> ScoredPairs | None:
    """The scored pairs that `dev.data` names; None for `split:…` and for rows to rank."""
    if dev.data.startswith(SPLIT):
        return None
    made = read_dev(dev.data, data.columns, data.labels, dev.metric, data.blank, by_name=True)
    return made if isinstance(made, ScoredPairs) else None


def unseen(data: DevData, train: Examples) -> DevData:
    """The pairs or queries whose text is no anchor of the training rows, ignoring case and white space."""
    first, anchors = (Texts.of(map(text_key, texts)) for texts in (data.columns[0], train.views["anchor"]))
    rows = np.flatnonzero(~np.isin(first.hashes, anchors.hashes)).tolist()
    if isinstance(data, ScoredPairs):
        pairs = [[column[row] for row in rows] for column in data.columns]
        return replace(data, first=pairs[0], second=pairs[1], scores=[data.scores[row] for row in rows])
    return data.take(rows)


def _metric(metric: str, form: Form, source: str, *, is_list: bool = False) -> str:
    """The metric of rows of that form. Raises DataError where none fits, UsageError where the given one does not."""
    if form not in _FITTING:
        what = f"{source} holds {FORMS[form]}, and nothing says which of them are similar"
        columns = Use("--columns", "anchor=A,positive=B", "name the columns of pairs:")
        pairs = "give pairs, scored or not, or triplets: a .tsv or .csv below a line such as sentence1<TAB>sentence2"
        pairs += ", or texts with their classes, below text<TAB>label"
        raise DataError(what, pairs if is_list else [pairs, columns])
    return _choose(metric, _FITTING[form], f"{source} holds {FORMS[form]}")


def _choose(metric: str, fitting: Sequence[str], holds: str) -> str:
    """The metric, of "auto" the first that fits. Raises UsageError for one that does not."""
    if metric not in ("auto", *fitting):
        hint = f"choose of {', '.join(('auto', *fitting))}"
        raise UsageError(f"the metric is '{metric}', and {holds}", hint, key="dev.metric")
    return fitting[0] if metric == "auto" else metric


def _share(name: str) -> float:
    """The share, 0 to 1, of "split:5%". Raises UsageError."""
    percent = as_number(name.removeprefix(SPLIT).removesuffix("%")) if name.endswith("%") else math.nan
    if not 0 < percent < 100:
        hint = "write a share above 0 and below 100 %, such as split:5%"
        raise UsageError(f"dev.data is '{name}'", hint, key="dev.data")
    return percent / 100
