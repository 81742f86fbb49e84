"""The role of each column, by its name or by `data.columns`, and the cells of a role as checked values."""

import math
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from contrastcli.data.formats import Frame
from contrastcli.data.forms import DIFFERENCE, FORMS, LABELS, LISTED, LONGEST, NAMED, NAMES, SHAPES
from contrastcli.data.lines import LONGEST_NAME, as_number, cut_name, taken_out, with_header
from contrastcli.data.texts import Column, Texts
from contrastcli.errors import DataError, Hint, Remedy, UsageError, Use, nearest
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Blank
from contrastcli.settings.setting import join_items, split_items

COLUMNS = "data.columns"
"""The setting that errors about roles have for their key."""

_LABEL_WORDS = {word: label for label, name in enumerate(LABELS) for word in (name, name[0])}
_NUMBERED = re.compile(r"(negative|hard_neg|negative_score|neg_score)_(\d+)")
_LIST_AS_TEXT = re.compile(r"""\[\s*(["']).*\1\s*\]""", re.DOTALL)
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+\s*")
_LABELS_KEY = "data.labels"
_LABELS_EXAMPLE = "0=entailment,1=neutral,2=contradiction"
_LETTERS = 10
"""Of a text, at least, next to which an anchor is half of a pair."""
MOST_SEARCHED = 1_000
"""Rows whose cells tell what a column holds."""
_SHOWN_VALUES, _MOST_NAMED = 3, 20
MISSING = ("N/A", "n/a", "#N/A", "#NV", "#N/D", "NaN", "nan", "NULL", "null")
"""What spreadsheets and programs write into a cell without a value."""
# In SNLI and MNLI: the annotators disagreed.
_NO_GOLD, _BLANK = {"-", "-1"}, {"", "none", "nan"}
"""Words in place of a label, as files and as Python have them."""


def shape(frame: Frame, columns: str, source: str, needs: Collection[Form] = ()) -> tuple[Form, dict[str, str]]:
    """The form of a frame's rows and the column of each role; hard negatives in the order of their numbers.

    Roles come from `columns` ("anchor=a,positive=b") alone if it names texts, else from the names of the columns, as
    does that of ids. The one score of a triplet is its pair's, unless the `needs` of an objective have differences.
    Raises UsageError for malformed `columns`, DataError for columns that are missing or ambiguous.
    """
    given = _parse_columns(columns, frame, source) if columns else {}
    ids = [column for column in frame.columns if _role_of(column) == "id"]
    roles = dict(zip(["id"], ids, strict=False)) | given
    if not {_kind(role) for role in given} & {"sentence", "anchor", "positive", "negative"}:
        roles = _roles_by_name(frame, source, given) | roles
    if "sentence" in roles and {"anchor", "positive"} & roles.keys():
        raise _two_forms(roles, source)
    in_order = sorted(roles, key=lambda role: (len(role), role))  # negative_2 before negative_10
    for form, needed in (one for one in SHAPES if one[1] != DIFFERENCE or one[0] in needs):
        may_be_half = needed == ("anchor",) or (form == "classes" and "sentence" not in given)
        if set(needed) <= {_kind(role) for role in roles} and not (may_be_half and _is_half(frame, roles, given)):
            if unfit := [role for role in given if _kind(role) not in (*needed, "id")]:
                what = f"{source}: {FORMS[form]} have no {unfit[0]}, which data.columns names"
                raise UsageError(what, _without(unfit, given), key=COLUMNS)
            return form, {role: roles[role] for kind in (*needed, "id") for role in in_order if _kind(role) == kind}
    raise _without_form(frame, roles, given, source)


def _without(unfit: list[str], given: Mapping[str, str]) -> list[Use]:
    """The given roles without those that do not fit, or, of a label and a score, without the score."""
    ways = {"leave it out:": unfit}
    if {"label", "score"} <= given.keys():
        ways["keep it without the score:"] = ["score"]
    kept = {verb: {role: given[role] for role in given if role not in left} for verb, left in ways.items()}
    return [Use("--columns", _spelled(**roles), verb) for verb, roles in kept.items()]


def _two_forms(roles: Mapping[str, str], source: str) -> DataError:
    """The error for columns of sentences and of pairs, with what makes either."""
    sentence = roles["sentence"]
    other = roles.get("anchor") or roles["positive"]
    what = f"{source}: '{sentence}' makes rows of one sentence, '{other}' makes pairs"
    halves = {role: roles.get(role, sentence) for role in ("anchor", "positive")}
    pair = halves | {role: column for role, column in roles.items() if role not in ("sentence", "id")}
    choices = {"for sentences": _spelled(text=sentence), "for pairs": _spelled(**pair)}
    return DataError(what, [Use("--columns", columns, verb) for verb, columns in choices.items()], key=COLUMNS)


def _is_half(frame: Frame, roles: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Whether anchors have a pair in another column: they are given among others, or stand next to other texts."""
    others = [cells for column, cells in frame.columns.items() if column not in roles.values()]
    return bool(others) if "anchor" in given else "negative" in roles or any(map(_holds_texts, others))


def _holds_texts(cells: Column[object]) -> bool:
    """Whether most of the first cells are phrases, lists or objects: no dates, links or names of classes."""
    heads = [cell for cell in cells[:MOST_SEARCHED] if cell]
    return sum(isinstance(cell, dict | list) or _is_phrase(str(cell)) for cell in heads) * 2 > len(heads)


def _is_phrase(cell: str) -> bool:
    return sum(map(str.isalpha, cell)) >= _LETTERS and (" " in cell or not cell.isascii())


def _without_form(frame: Frame, roles: Mapping[str, str], given: Mapping[str, str], source: str) -> DataError:
    """The error for rows that are neither sentences nor pairs, with the likely columns of both."""
    half = {role: column for role, column in roles.items() if role in ("anchor", "positive")}
    free = [column for column in frame.columns if column not in roles.values() and not _is_record(frame, column)]
    ranks = {name: (not its.is_text.any(), -its.sizes.sum()) for name, its in frame.columns.items()}
    longest = sorted(free, key=ranks.__getitem__)[: 2 - len(half)]
    likely = iter([column for column in free if column in longest])
    pair = {role: column for role in ("anchor", "positive") if (column := half.get(role) or next(likely, ""))}
    texts = [*half.values(), *longest] or [*frame.columns]
    pairs = [Use("--columns", _spelled(**pair | {**roles}), "for pairs")] if len(pair) == 2 else []
    sentences = Use("--columns", _spelled(text=texts[0]), "for sentences")
    nested = next(filter(None, (_taken_out(frame, column) for column in texts)), "")
    hint: Hint = [nested] if nested else [*pairs, sentences, f"name the columns {NAMED}"]
    heads = [cell for column in texts for cell in frame.columns[column][:MOST_SEARCHED] if cell is not None]
    if not nested and all(isinstance(cell, int | float) for cell in heads):
        hint = ["give a file with a column of texts: these hold numbers"]
    hint = with_header([*frame.columns], frame.files[0][0]) or hint
    shown = ", ".join([f"'{cut_name(column)}'" for column in frame.columns][:_MOST_NAMED])
    shown += f" and {len(frame.columns) - _MOST_NAMED:,} more" if len(frame.columns) > _MOST_NAMED else ""
    what = f"its columns {shown} make neither sentences nor pairs"
    what = "data.columns gives half of a pair" if half.keys() & given else what
    return DataError(f"{source}: {what}", hint, key=COLUMNS)


def _is_record(frame: Frame, column: str) -> bool:
    """Whether the first cell that is not blank is an object without a text, of which no command makes one."""
    cell = next(filter(None, frame.columns[column][:MOST_SEARCHED]), None)
    return isinstance(cell, dict) and not _taken_out(frame, column)


def named(columns: str) -> set[str]:
    """The columns to which `columns` gives roles."""
    return {(item.partition("=")[2] or item).strip() for item in split_items(columns)}


def listed(frame: Frame, columns: str) -> Iterator[tuple[str, str]]:
    """Each column with its role, "" for none; an item of `columns` that cannot be read gives none."""
    items = (item.partition("=") for item in split_items(columns))
    given = {column.strip(): _role_of(role) for role, _, column in items}
    for column in frame.columns:
        role = given.get(column) if given else _role_of(column)
        yield column, _kind(role or "")


def _spelled(**roles: str) -> str:
    return join_items(f"{role}={column}" for role, column in roles.items())


def _role_of(name: str) -> str | None:
    """The role that a name stands for, with the number of a hard negative or of its score: `negative_2`."""
    numbered = _NUMBERED.fullmatch(name.strip().lower())
    return f"{NAMES[numbered[1]]}_{int(numbered[2])}" if numbered else NAMES.get(name.strip().lower())


def _kind(role: str) -> str:
    """A role without its number."""
    return role.rstrip("_0123456789")


def _roles_by_name(frame: Frame, source: str, given: Mapping[str, str]) -> dict[str, str]:
    """The roles that names of columns stand for, but for those that are given."""
    roles: dict[str, str] = {}
    second: dict[str, str] = {}
    # Scores would take the place of labels.
    without = {"id", *given} | ({"score"} if "label" in given else set())
    for column in frame.columns:
        role = _role_of(column)
        if role and role not in without and roles.setdefault(role, column) != column:
            second.setdefault(role, column)
    for role, column in second.items():
        what = f"{source}: {roles[role]!r} and {column!r} could both be the {role}"
        raise DataError(what, Use("--columns", _spelled(**roles), "choose one:"), key=COLUMNS)
    # GLUE's STS-B calls its scores so.
    if "label" in roles and "score" not in roles and _has_fractions(frame.columns[roles["label"]]):
        roles["score"] = roles.pop("label")
    return roles


def _has_fractions(cells: Column[object]) -> bool:
    numbers = map(as_number, cells[:MOST_SEARCHED])
    return any(math.isfinite(number) and not number.is_integer() for number in numbers)


def _parse_columns(columns: str, frame: Frame, source: str) -> dict[str, str]:
    roles: dict[str, str] = {}
    names = [name.strip() for name in split_items(columns)]
    typed = names if {*names} <= frame.columns.keys() else [*frame.columns][:2]
    of_pairs = names[1:] or "=" in columns or _role_of(columns)
    example = join_items(map("=".join, zip(LISTED[:3] if of_pairs else ("text",), typed, strict=False)))
    for key, column in _parse_items(COLUMNS, columns, example).items():
        role = _role_of(key)
        if role is None:
            what = f"data.columns: there is no role '{key}'"
            raise UsageError(what, nearest(key, {*NAMES.values()}), key=COLUMNS)
        if role in roles:
            what = f"data.columns gives the role '{role}' twice"
            raise UsageError(what, "give each role one column", key=COLUMNS)
        if column not in frame.columns:
            raise _without_column(column, frame, source)
        roles[role] = column
    return roles


def _without_column(column: str, frame: Frame, source: str) -> DataError:
    what = f"{source} has no column '{column}', but {', '.join([*map(cut_name, frame.columns)][:_MOST_NAMED])}"
    hint = nearest(column, frame.columns)
    if [*frame.columns] == ["sentence"] and frame.files[0][0].endswith(".txt"):
        hint = "a .txt has a sentence a line: if it is a table, name it .tsv"
    # A cell is no name to write.
    if max(map(len, frame.columns)) > LONGEST_NAME:
        hint = with_header([*frame.columns], frame.files[0][0]) or hint
    return DataError(what, hint, key=COLUMNS)


def for_corpus(columns: str) -> tuple[str, str]:
    """The items of `columns` for pairs, and those for other texts: `text=` and `id=`."""
    items = split_items(columns)
    others = [item for item in items if _role_of(item.partition("=")[0]) in ("sentence", "id")]
    return join_items(item for item in items if item not in others), join_items(others)


def _parse_items(key: str, text: str, example: str) -> dict[str, str]:
    """The items of a setting such as "a=1,b=2". Raises UsageError, which shows the example."""
    items: dict[str, str] = {}
    for item in split_items(text):
        name, _, value = (part.strip() for part in item.partition("="))
        if not (name and value):
            raise UsageError(f"{key} is {text!r}", Use(f"--{key.partition('.')[2]}", example, "write it as"), key=key)
        if name in items:
            raise UsageError(f"{key} gives '{name}' twice", f"write it as {example}", key=key)
        items[name] = value
    return items


def complete_rows(frame: Frame, columns: Sequence[str], blank: Blank) -> Frame:
    """The rows with a text in each of some columns, and a note on others.

    Blank ones are left out if `blank` is "drop", else DataError counts them. So are cells such as N/A, which else are
    texts.
    """
    cells = [frame.columns[column] for column in columns]
    missing_words = Texts.of(MISSING).hashes
    if digits := [column for column, one in zip(columns, cells, strict=True) if _are_digits(one)]:
        frame = replace(frame, notes=(*frame.notes, f"the texts in {quoted(digits)} are numbers, as of ids"))
    is_blank = np.any([are_blank(one) for one in cells], axis=0)
    is_missing = np.any([np.isin(one.hashes, missing_words) for one in cells], axis=0)
    blanks, missing = (np.flatnonzero(rows).tolist() for rows in (is_blank, is_missing))
    if blank == "drop":
        gone = is_blank | is_missing
        note = f"{gone.sum():,} of {len(frame):,} rows without a text in {quoted(columns)} were left out"
        if gone.all():
            raise DataError(note, "give data with at least two rows")
        return replace(frame.take(~gone), notes=(*frame.notes, note)) if gone.any() else frame
    if blanks:
        # Only those that are blank somewhere.
        names = [column for column, one in zip(columns, cells, strict=True) if are_blank(one).any()]
        what = f"the sentence in the column {quoted(names)} is blank"
        remedies = Use("--blank", "drop", "leave them out with"), "fill them in"
        raise bad_rows(frame, blanks, what, remedies, "data.blank")
    if missing:
        what = f"{frame.where(*missing)}: a text is {MISSING[0]} or the like ({len(missing):,} of {len(frame):,} rows)"
        return replace(frame, notes=(*frame.notes, f"{what}; --blank drop leaves them out"))
    return frame


def _are_digits(cells: Column[object]) -> bool:
    heads = [cell for cell in cells[:MOST_SEARCHED] if cell]
    return bool(heads) and all(isinstance(cell, str) and cell.strip().isdecimal() for cell in heads)


def are_blank(cells: Column[object]) -> NDArray[np.bool_]:
    """Which cells hold no text."""
    blank: NDArray[np.bool_] = cells.sizes == 0
    others = np.flatnonzero(~cells.is_text)
    blank[others] = [cell is None for cell in cells.take(others)]
    return blank


def quoted(names: Sequence[str]) -> str:
    """Names of columns, of which an error is about one."""
    return " or ".join(f"'{name}'" for name in names)


def bad_rows(frame: Frame, rows: Sequence[int], what: str, hint: Hint, key: str = "") -> DataError:
    """The one error for all rows that are malformed alike."""
    count = f" ({len(rows):,} of {len(frame):,} rows)" if len(rows) > 1 else ""
    return DataError(f"{frame.where(*rows)}: {what}{count}", hint, key=key)


def texts(frame: Frame, column: str) -> Texts:
    """A column of sentences, some of which may be blank. Raises DataError for other values."""
    cells = frame.columns[column]
    others = [row for row in np.flatnonzero(~cells.is_text).tolist() if cells[row] is not None]
    if others:
        what = f"the column '{column}' holds {cells[others[0]]!r:.40}, which is not text"
        hint = "write sentences as text, or choose another column: --columns anchor=a,positive=b"
        raise bad_rows(frame, others, what, _taken_out(frame, column) or hint, COLUMNS)
    heads = [cell for cell in cells[:MOST_SEARCHED] if cell]
    if heads and all(_LIST_AS_TEXT.fullmatch(cast(str, cell)) for cell in heads):
        what = f"{frame.files[0][0]}: the column '{column}' holds lists written as text, such as {heads[0]:.40}"
        hint = "write the rows as .jsonl, where a list is one: df.to_json(…, orient='records', lines=True)"
        raise DataError(what, hint)
    long = [row for row in np.flatnonzero(cells.sizes > LONGEST).tolist() if len(cast(str, cells[row])) > LONGEST]
    if long:
        what = f"the sentence in the column '{column}' is longer than {LONGEST:,} characters"
        raise bad_rows(frame, long, what, "is it a sentence? Shorten it or delete the row")
    return cast(Texts, cells)


def _taken_out(frame: Frame, column: str) -> str:
    """A hint with the command that makes texts of a column of objects; "" for other columns."""
    cells = (cell for cell in frame.columns[column][:MOST_SEARCHED] if isinstance(cell, dict | list) and cell)
    return next((taken_out(cell, column, frame.files[0][0]) for cell in cells), "")


def scores(frame: Frame, column: str, blank: Blank) -> list[float]:
    """A column of finite numbers, whose decimals stand behind a point, or a comma that cannot be of thousands.

    NaN for others if `blank` is "drop", but where all are; else DataError.
    """
    cells = frame.columns[column]
    commas = [row for row, cell in enumerate(cells) if isinstance(cell, str) and "," in cell]
    # A decimal comma has other digits behind it somewhere, or a 0 before it.
    grouped = bool(commas) and all(_THOUSANDS.fullmatch(cast(str, cells[row])) for row in commas)
    if grouped and any(map(math.isfinite, map(as_number, cells))):
        what = f"the score in the column '{column}' is {_values(frame, column, commas)}"
        raise bad_rows(frame, commas, what, "write thousands without a comma, or decimals behind a point", COLUMNS)
    numbers = [as_number(cell.replace(",", ".") if isinstance(cell, str) else cell) for cell in cells]
    bad = [row for row, value in enumerate(numbers) if not math.isfinite(value)]
    if bad and (blank == "error" or len(bad) == len(numbers)):
        what = f"the score in the column '{column}' is {_values(frame, column, bad)}"
        fixed, left_out = "write a finite number into each row", Use("--blank", "drop", "leave them out with")
        raise bad_rows(frame, bad, what, (fixed, left_out) if len(bad) < len(numbers) else fixed, "data.blank")
    return numbers


def _values(frame: Frame, column: str, rows: Sequence[int]) -> str:
    """The first different values of some rows."""
    values = dict.fromkeys(f"{frame.columns[column][row]!r:.40}" for row in rows[:MOST_SEARCHED])
    return " or ".join([*values][:_SHOWN_VALUES])


def named_labels(text: str) -> dict[str, str]:
    """What `data.labels` names, "0=entailment,2=contradiction" by the label. Raises UsageError."""
    return _parse_items(_LABELS_KEY, text, _LABELS_EXAMPLE) if text else {}


def label_names(names: Mapping[str, str]) -> dict[str, int]:
    """The labels that are named, {"0": "entailment", "2": "contradiction"} as {"0": 0, "2": 2}. Raises UsageError."""
    for name in names.values():
        if name.lower() not in _LABEL_WORDS:
            what = f"data.labels: there is no label '{name}'"
            raise UsageError(what, _naming(sorted(names), {}), key=_LABELS_KEY)
    return {word.lower(): _LABEL_WORDS[name.lower()] for word, name in names.items()}


def labels(frame: Frame, column: str, names: Mapping[str, int], blank: Blank) -> list[int | None]:
    """A column of labels as 0, 1 and 2, None for a row without a gold label. `names` are added to the known words.

    A blank one is none if `blank` is "drop". Raises DataError for other words and numbers than `names` explains.
    """
    no_gold = _NO_GOLD | _BLANK if blank == "drop" else _NO_GOLD
    # Parquet gives integers with gaps as floats.
    cells = (int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in frame.columns[column])
    words = [sys.intern(str(cell).strip().lower()) for cell in cells]
    known: dict[str, int | None] = {**dict.fromkeys(no_gold, None), **_LABEL_WORDS}
    letters = {word for word in {*words} if len(word) == 1 and word.isalpha()}
    # Next to other letters, or to words, they mean something else: Y and N are yes and no.
    if not letters <= known.keys() | names.keys() or {"yes", "no"} & {*words}:
        known = {word: label for word, label in known.items() if word not in letters}
    known |= names
    if bad := {row: word for row, word in enumerate(words) if word not in known}:
        what = f"the label in the column '{column}' is {_values(frame, column, [*bad])}"
        unknown = sorted({*bad.values()} - _BLANK)
        are_classes = len(unknown) > len(LABELS) and not names
        remedies: list[Remedy] = [_of_classes(column) if are_classes else _naming(unknown, names)]
        roles = {role: name for name in frame.columns if (role := _role_of(name)) in ("anchor", "positive")}
        if len(roles) == 2 and all(math.isfinite(as_number(word)) for word in bad.values()):
            remedies.append(Use("--columns", _spelled(**roles, score=column), "if they say how alike the two are:"))
        raise bad_rows(frame, [*bad], what, remedies, _LABELS_KEY)
    return [known[word] for word in words]


def _of_classes(column: str) -> str:
    """What trains on the classes of texts."""
    one = f"--columns {shlex.quote(_spelled(text='TEXT', label=column))}"
    pairs = "pairs labelled 1 for one class and 0 for two, --labels 0=contradiction,1=entailment"
    return f"a class is no relation of two texts: give one of them with it, {one}, or {pairs}"


def _naming(words: Sequence[str], names: Mapping[str, int]) -> Remedy:
    """How labels are named that are not in `names`: for the user to fill in, but for the usual numbers."""
    if not words:
        return Use("--blank", "drop", "write a label into each row, or leave these out with")
    if [*words] == ["0", "1", "2"]:
        return Use("--labels", _LABELS_EXAMPLE, "explain the labels:")
    if [*words] == ["0", "1"] and not names:
        return Use("--labels", "0=contradiction,1=entailment", "if 1 says that the two mean the same:")
    items = [*(f"{word}={LABELS[label]}" for word, label in names.items()), *(f"{word}=…" for word in words)]
    return Use("--labels", join_items(items[:_MOST_NAMED]), f"with {', '.join(LABELS[:2])} or {LABELS[2]} for each …:")
