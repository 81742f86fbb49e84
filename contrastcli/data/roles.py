"""What each column is for, by its name or by the user's word, and the cells of a role as checked values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from contrastcli.data.formats import Table
from contrastcli.errors import DataError, UsageError, nearest
from contrastcli.settings.catalogue import Form

Role = Literal["sentence", "anchor", "positive", "negative", "label", "score"]

Shape = Form | Literal["scored"]
"""What the rows of a file are: a form to train on, or scored pairs."""

NAMES: Mapping[str, Role] = {
    "sentence": "sentence",
    "text": "sentence",
    "anchor": "anchor",
    "premise": "anchor",
    "sentence1": "anchor",
    "sent0": "anchor",
    "sentence_a": "anchor",
    "positive": "positive",
    "hypothesis": "positive",
    "sentence2": "positive",
    "sent1": "positive",
    "sentence_b": "positive",
    "negative": "negative",
    "hard_neg": "negative",
    "label": "label",
    "score": "score",
    "relatedness_score": "score",
}
"""Column names, in lower case, that say the role."""

LABELS: tuple[str, ...] = ("entailment", "neutral", "contradiction")
"""Names of the labels 0, 1 and 2."""

_LABEL_WORDS = {word: label for label, name in enumerate(LABELS) for word in (name, name[0])}
_NO_GOLD = {"-", "-1"}  # how SNLI and MNLI mark a row whose annotators disagreed

SHAPES: tuple[tuple[Shape, tuple[Role, ...]], ...] = (
    ("scored", ("anchor", "positive", "score")),
    ("triplets", ("anchor", "positive", "negative")),
    ("labelled", ("anchor", "positive", "label")),
    ("pairs", ("anchor", "positive")),
    ("sentences", ("sentence",)),
    ("sentences", ("anchor",)),
)

_HINT = (
    "name the columns sentence | anchor, positive, negative | premise, hypothesis, label | sentence1, sentence2, "
    "score, or --columns anchor=a,positive=b"
)


def assign(table: Table, columns: str, source: str) -> dict[Role, str]:
    """The column of each role: by `columns` ("anchor=a,positive=b") alone where it is given, else by name.

    Raises UsageError where `columns` is malformed, DataError where columns are missing or ambiguous.
    """
    if columns:
        return _by_word(columns, list(table.columns), source)
    candidates: dict[Role, list[str]] = {}
    for column in table.columns:
        role = NAMES.get(column.strip().lower())
        if role:
            candidates.setdefault(role, []).append(column)
    found = {role: named[0] for role, named in candidates.items()}
    for role, named in candidates.items():
        if len(named) > 1:
            what = f"{source}: {' and '.join(map(repr, named))} could both be the {role}"
            choice = ",".join(f"{role}={column}" for role, column in found.items())
            raise DataError(what, f"say which: --columns {choice}")
    return found


def _by_word(columns: str, known: Sequence[str], source: str) -> dict[Role, str]:
    found: dict[Role, str] = {}
    for key, column in _settings("data.columns", columns, "anchor=a,positive=b").items():
        role = NAMES.get(key.lower())
        if role is None:
            raise UsageError(f"data.columns: there is no role '{key}'", nearest(key, set(NAMES.values())))
        if role in found:
            raise UsageError(f"data.columns gives the role '{role}' twice", "give each role one column")
        if column not in known:
            raise DataError(f"{source} has no column '{column}'", nearest(column, known))
        found[role] = column
    return found


def _settings(key: str, text: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise UsageError(f"{key} is {text!r}", f"write it as {example}")
        if name in found:
            raise UsageError(f"{key} gives '{name}' twice", f"write it as {example}")
        found[name] = value
    return found


def shape(roles: Mapping[Role, str], table: Table, source: str) -> tuple[Shape, dict[Role, str]]:
    """What rows these roles make, and the columns that it takes. Raises DataError where they make none, or two."""
    if "sentence" in roles and "anchor" in roles:
        what = f"{source}: '{roles['sentence']}' makes rows of one sentence, '{roles['anchor']}' makes pairs"
        raise DataError(what, f"say which: --columns sentence={roles['sentence']}")
    for form, needed in SHAPES:
        if all(role in roles for role in needed):
            return form, {role: roles[role] for role in needed}
    have = ", ".join(f"'{column}'" for column in table.columns)
    what = f"{source}: its columns {have} make neither sentences nor pairs"
    tabs = any("\t" in column for column in table.columns)
    raise DataError(what, "its fields are separated by tabs: name the file .tsv" if tabs else _HINT)


def texts(table: Table, column: str) -> list[str]:
    """A column of sentences, without the white space around them. Raises DataError for blanks and non-text."""
    cells = table.columns[column]
    for row, cell in enumerate(cells):
        if type(cell) is not str and cell is not None:
            what = f"{table.where(row)}: the column '{column}' holds {cell!r:.40}, which is not text"
            raise DataError(what, "write sentences as text, or choose another column by data.columns")
    stripped = [cast(str, cell).strip() if cell else "" for cell in cells]
    if "" in stripped:
        what = f"{table.where(stripped.index(''))}: the sentence in the column '{column}' is blank"
        raise DataError(what, "fill it in or delete the row")
    return stripped


def scores(table: Table, column: str) -> list[float]:
    """A column of finite numbers. Raises DataError."""
    found = []
    for row, cell in enumerate(table.columns[column]):
        try:
            number = float(cell) if isinstance(cell, str | int | float) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            what = f"{table.where(row)}: the score in the column '{column}' is {cell!r:.40}"
            raise DataError(what, "a score is a finite number; mend or delete the row")
        found.append(number)
    return found


def label_names(text: str) -> dict[str, int]:
    """What `data.labels` says: "0=entailment,2=contradiction" as {"0": 0, "2": 2}. Raises UsageError."""
    if not text:
        return {}
    example = "0=entailment,1=neutral,2=contradiction"
    found = {}
    for word, name in _settings("data.labels", text, example).items():
        if name.lower() not in _LABEL_WORDS:
            raise UsageError(f"data.labels: there is no label '{name}'", f"write it as {example}")
        found[word.lower()] = _LABEL_WORDS[name.lower()]
    return found


def labels(table: Table, column: str, names: Mapping[str, int]) -> list[int | None]:
    """A column of labels as 0, 1 and 2, None for a row without a gold label. `names` add to the words that are known.

    Raises DataError for other words, and for numbers that `names` does not explain.
    """
    known: dict[str, int | None] = {**dict.fromkeys(_NO_GOLD, None), **_LABEL_WORDS, **names}
    found = []
    for row, cell in enumerate(table.columns[column]):
        word = _word(cell)
        if word not in known:
            what = f"{table.where(row)}: the label in the column '{column}' is {cell!r:.40}"
            raise DataError(what, "say what labels mean: --labels 0=entailment,1=neutral,2=contradiction")
        found.append(known[word])
    return found


def _word(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # a column of integers with gaps comes out of parquet as floats
    return str(cell).strip().lower()
