"""The role of each column, by its name or by `data.columns`, and the cells of a role as checked values."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import cast

import numpy as np

from contrastcli.data.formats import Frame
from contrastcli.data.forms import LABELS, LONGEST, NAMES, SHAPES
from contrastcli.data.texts import Column, Texts, read_columns
from contrastcli.errors import DataError, Hint, UsageError, Use, nearest
from contrastcli.settings.objective import Form

_LABEL_WORDS = {word: label for label, name in enumerate(LABELS) for word in (name, name[0])}
_NUMBERED = re.compile(r"(?:negative|hard_neg)_(\d+)")
_LABELS_EXAMPLE = "0=entailment,1=neutral,2=contradiction"
# In SNLI and MNLI: the annotators disagreed.
_NO_GOLD = {"-", "-1"}

_NAMED = "sentence | anchor, positive, negative | premise, hypothesis, label | sentence1, sentence2, score"
_HINT = (f"name the columns {_NAMED}", Use("--columns", "anchor=a,positive=b"))


def shape(frame: Frame, columns: str, source: str) -> tuple[Form, dict[str, str]]:
    """The form of a frame's rows and the column of each role; hard negatives in the order of their numbers.

    Roles come from `columns` ("anchor=a,positive=b") alone if it is set, else from the names of the columns. Raises
    UsageError for malformed `columns`, DataError for columns that are missing or ambiguous.
    """
    roles = _parse_columns(columns, frame, source) if columns else _roles_by_name(frame, source)
    if "sentence" in roles and "anchor" in roles:
        what = f"{source}: '{roles['sentence']}' makes rows of one sentence, '{roles['anchor']}' makes pairs"
        raise DataError(what, Use("--columns", f"sentence={roles['sentence']}", "choose one:"))
    in_order = sorted(roles, key=lambda role: (len(role), role))  # negative_2 before negative_10
    for form, needed in SHAPES:
        if set(needed) <= {_kind(role) for role in roles}:
            return form, {role: roles[role] for kind in needed for role in in_order if _kind(role) == kind}
    names = ", ".join(f"'{column}'" for column in frame.columns)
    what = f"{source}: its columns {names} make neither sentences nor pairs"
    hint: Hint = _HINT
    if any("\t" in column for column in frame.columns):
        hint = "its fields are separated by tabs: name the file .tsv"
    elif any(";" in column for column in frame.columns):
        hint = "its fields are separated by semicolons: write it with commas, as .csv, or with tabs, as .tsv"
    raise DataError(what, hint)


def _role_of(name: str) -> str | None:
    """The role that a name stands for, with the number of a hard negative: `negative_2`."""
    numbered = _NUMBERED.fullmatch(name.strip().lower())
    return f"negative_{int(numbered[1])}" if numbered else NAMES.get(name.strip().lower())


def _kind(role: str) -> str:
    """A role without the number of a hard negative."""
    return role.partition("_")[0]


def _roles_by_name(frame: Frame, source: str) -> dict[str, str]:
    roles: dict[str, str] = {}
    second: dict[str, str] = {}
    for column in frame.columns:
        role = _role_of(column)
        if role and roles.setdefault(role, column) != column:
            second.setdefault(role, column)
    for role, column in second.items():
        what = f"{source}: {roles[role]!r} and {column!r} could both be the {role}"
        named = ",".join(f"{role}={column}" for role, column in roles.items())
        raise DataError(what, Use("--columns", named, "choose one:"))
    return roles


def _parse_columns(columns: str, frame: Frame, source: str) -> dict[str, str]:
    roles: dict[str, str] = {}
    for key, column in _parse_items("data.columns", columns, "anchor=a,positive=b").items():
        role = _role_of(key)
        if role is None:
            raise UsageError(f"data.columns: there is no role '{key}'", nearest(key, set(NAMES.values())))
        if role in roles:
            raise UsageError(f"data.columns gives the role '{role}' twice", "give each role one column")
        if column not in frame.columns:
            raise DataError(f"{source} has no column '{column}'", nearest(column, frame.columns))
        roles[role] = column
    return roles


def _parse_items(key: str, text: str, example: str) -> dict[str, str]:
    """The items of a setting such as "a=1,b=2". Raises UsageError, which shows the example."""
    items: dict[str, str] = {}
    for item in text.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if not (name and value):
            raise UsageError(f"{key} is {text!r}", f"write it as {example}")
        if name in items:
            raise UsageError(f"{key} gives '{name}' twice", f"write it as {example}")
        items[name] = value
    return items


def texts(frame: Frame, column: str, *, blank: bool = False) -> Texts:
    """A column of sentences. Raises DataError for other values and, unless `blank` allows them, for blanks."""
    cells = frame.columns[column]
    others = np.flatnonzero(~cells.is_text).tolist()
    for row in others:
        if cells[row] is not None:
            what = f"{frame.where(row)}: the column '{column}' holds {cells[row]!r:.40}, which is not text"
            raise DataError(what, "write sentences as text, or choose another column by data.columns")
    sizes = cells.sizes
    blanks = sorted([*others, *np.flatnonzero(sizes == 0).tolist()])
    if blanks and not blank:
        what = f"{frame.where(blanks[0])}: the sentence in the column '{column}' is blank"
        raise DataError(what, "fill it in or delete the row")
    for row in np.flatnonzero(sizes > LONGEST).tolist():
        if len(cast(str, cells[row])) > LONGEST:
            what = f"{frame.where(row)}: the sentence in the column '{column}' is longer than {LONGEST:,} characters"
            raise DataError(what, "is it a sentence? Shorten it or delete the row")
    return cast(Texts, cells)


def negatives(frame: Frame, columns: Sequence[str]) -> dict[str, Texts]:
    """The hard negatives of columns of texts or of lists of texts, by view (negative, negative_2 …).

    A row that has fewer than others is filled up with "". Raises DataError, for one column of texts also for blanks.
    """
    cells = [frame.columns[column] for column in columns]
    if len(columns) == 1 and not any(isinstance(cell, list) for cell in cells[0].take(~cells[0].is_text)):
        return {"negative": texts(frame, columns[0])}
    width = max(map(len, _given(cells)), default=0)
    if not width:
        raise DataError(f"no row has a hard negative in {', '.join(columns)}", "fill one in, or delete the columns")
    names = ["negative", *(f"negative_{number}" for number in range(2, width + 1))]
    filled = chain.from_iterable([*row, *[""] * (width - len(row))] for row in _given(cells))
    frame = replace(frame, columns=read_columns(names, filled))
    return {name: texts(frame, name, blank=True) for name in names}


def _given(columns: Sequence[Column[object]]) -> Iterator[list[object]]:
    """The values of each row that are not blank; lists count as several."""
    for row in zip(*columns, strict=True):
        flat = chain.from_iterable(cell if isinstance(cell, list) else [cell] for cell in row)
        yield [cell for cell in flat if cell is not None and str(cell).strip()]


def scores(frame: Frame, column: str) -> list[float]:
    """A column of finite numbers. Raises DataError."""
    numbers = []
    for row, cell in enumerate(frame.columns[column]):
        try:
            number = float(cell) if isinstance(cell, str | int | float) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            what = f"{frame.where(row)}: the score in the column '{column}' is {cell!r:.40}"
            raise DataError(what, "a score is a finite number; fix or delete the row")
        numbers.append(number)
    return numbers


def label_names(text: str) -> dict[str, int]:
    """The labels of `data.labels`, "0=entailment,2=contradiction" as {"0": 0, "2": 2}. Raises UsageError."""
    names = _parse_items("data.labels", text, _LABELS_EXAMPLE) if text else {}
    for name in names.values():
        if name.lower() not in _LABEL_WORDS:
            raise UsageError(f"data.labels: there is no label '{name}'", f"write it as {_LABELS_EXAMPLE}")
    return {word.lower(): _LABEL_WORDS[name.lower()] for word, name in names.items()}


def labels(frame: Frame, column: str, names: Mapping[str, int]) -> list[int | None]:
    """A column of labels as 0, 1 and 2, None for a row without a gold label. `names` are added to the known words.

    Raises DataError for other words, and for numbers that `names` does not explain.
    """
    known: dict[str, int | None] = {**dict.fromkeys(_NO_GOLD, None), **_LABEL_WORDS, **names}
    values = []
    for row, cell in enumerate(frame.columns[column]):
        if isinstance(cell, float) and cell.is_integer():
            # Parquet gives integers with gaps as floats.
            cell = int(cell)
        word = str(cell).strip().lower()
        if word not in known:
            what = f"{frame.where(row)}: the label in the column '{column}' is {cell!r:.40}"
            example = _LABELS_EXAMPLE if word.isdecimal() or not word else f"{word}=entailment,…"
            raise DataError(what, Use("--labels", example, "explain the labels:"))
        values.append(known[word])
    return values
