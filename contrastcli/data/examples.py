"""Training rows and scored pairs, and how they are made from the columns of a frame."""

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress
from typing import ClassVar, Self
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from contrastcli.data import roles
from contrastcli.data.formats import Frame
from contrastcli.data.forms import LABELS
from contrastcli.data.texts import Column, Texts, read_columns
from contrastcli.errors import DataError, Use
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Blank, Kind
from contrastcli.settings.setting import join_items


@dataclass(frozen=True)
class Examples:
    """Training rows: texts by view, all views of one length.

    sentences: anchor · pairs: anchor, positive · triplets: anchor, positive, negative, negative_2 … ("" where a row has
    fewer) · labelled: anchor (premise), positive (hypothesis) and `labels`, 0 entailment, 1 neutral, 2 contradiction ·
    scored: anchor, positive and `scores` on the scale of the source, a larger one for texts more alike ·
    scored-triplets: triplets and `candidate_scores` (N, C), a teacher's of the positive and of each negative.
    `source` is the user's name for them; `notes` tell the user what was converted and dropped; `sets` are the rows of
    each set where there are several, one set after the other; `ids` are the user's names of the rows, where they have
    some and are as they were read, and `numbers` those in the source, from 1, where rows were left out; `read_as`
    is the form that they were read in, where it was another.
    """

    form: Form
    views: dict[str, Texts]
    labels: list[int] | None
    source: str
    notes: tuple[str, ...] = ()
    scores: list[float] | None = None
    candidate_scores: NDArray[np.float32] | None = None
    sets: tuple[int, ...] = ()
    ids: Column[object] | None = None
    read_as: Form | None = None
    numbers: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.views["anchor"])

    @cached_property
    def row_numbers(self) -> NDArray[np.int64]:
        """The number of each row in its source, from 1: (N,)."""
        return np.arange(1, len(self) + 1) if self.numbers is None else self.numbers

    def take(self, kept: NDArray[np.bool_], notes: tuple[str, ...] = ()) -> Self:
        """The rows under a mask, with more notes."""
        sizes = tuple(int(part.sum()) for part in np.split(kept, np.cumsum(self.sets))[:-1]) if self.sets else ()
        return replace(
            self,
            views={view: texts.take(kept) for view, texts in self.views.items()},
            labels=None if self.labels is None else list(compress(self.labels, kept)),
            notes=self.notes + notes,
            scores=None if self.scores is None else list(compress(self.scores, kept)),
            candidate_scores=None if self.candidate_scores is None else self.candidate_scores[kept],
            sets=sizes,
            ids=self.ids and self.ids.take(kept),
            numbers=self.row_numbers[kept],
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of form, texts, labels and scores, in hexadecimal: equal only for equal rows."""
        scores = self.scores if self.candidate_scores is None else self.candidate_scores.tolist()
        columns = [*self.views.values(), map(str, self.labels or map(repr, scores or ()))]
        return digest(self.form, *self.views, columns=columns)

    @property
    def has_logits(self) -> bool:
        """Whether a teacher's scores are no cosines, which are above 1 by rounding alone."""
        return self.candidate_scores is not None and bool((np.abs(self.candidate_scores) > 1.01).any())

    def row(self, row: int) -> dict[str, str]:
        """The texts of a row, and the name of its label or its scores, as words by role."""
        texts = {view: column[row] for view, column in self.views.items() if column[row]}
        label = {} if self.labels is None else {"label": LABELS[self.labels[row]]}
        scores = [] if self.scores is None else [self.scores[row]]
        scores = scores if self.candidate_scores is None else self.candidate_scores[row].tolist()
        return texts | label | ({"score": ", ".join(f"{score:g}" for score in scores)} if scores else {})


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences with a score of their similarity, on the scale of the source; larger is more similar."""

    first: Sequence[str]
    second: Sequence[str]
    scores: list[float]
    source: str
    notes: tuple[str, ...] = ()
    read_as: Form = "scored"

    metric: ClassVar[str] = "spearman"
    kinds: ClassVar[tuple[Kind | None, ...]] = (None, None)
    """What the texts of each column are."""

    def __len__(self) -> int:
        return len(self.scores)

    def __str__(self) -> str:
        return f"{len(self):,} {'labelled' if self.read_as == 'labelled' else 'scored'} pairs"

    @property
    def columns(self) -> tuple[Sequence[str], Sequence[str]]:
        """Both texts of each pair."""
        return self.first, self.second

    @property
    def texts(self) -> Iterable[str]:
        """Texts that training should not see."""
        return chain(self.first, self.second)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of texts and scores, in hexadecimal."""
        return digest("scored", columns=[self.first, self.second, map(repr, self.scores)])


def digest(*words: str, columns: Iterable[Iterable[str]]) -> str:
    """SHA-256 of words and columns of texts, in hexadecimal."""
    hashed = hashlib.sha256()
    for column in chain([words], columns):
        for text in column:
            hashed.update(text.encode() + b"\0")
        # The end of a column.
        hashed.update(b"\1")
    return hashed.hexdigest()


def as_id(ids: Column[object] | None, row: int) -> str | None:
    """The user's name of a row as text; None where there is none."""
    return None if ids is None or ids[row] is None else str(ids[row])


def text_key(text: str) -> str:
    """A text without its case and its extra white space, its accents composed."""
    text = " ".join(text.split())
    # A Turkish İ is an i with a dot above it in lower case.
    return text.lower() if text.isascii() else normalize("NFC", text).casefold().replace("i\u0307", "i")


def preview(examples: Examples) -> list[dict[str, str]]:
    """The first three rows, each as words by role."""
    return [examples.row(row) for row in range(min(3, len(examples)))]


def from_frame(
    frame: Frame,
    columns: str,
    labels: str,
    source: str,
    *,
    blank: Blank = "error",
    texts_only: bool = False,
    needs: Collection[Form] = (),
) -> Examples:
    """The rows of a frame in the form that its columns make; `columns`, `labels` and `blank` as in `sections.Data`.

    With `texts_only` labels and scores are not read; `needs` are the forms that an objective takes. Raises DataError,
    and UsageError for malformed `columns` and `labels`.
    """
    form, used = roles.shape(frame, columns, source, needs)
    named = roles.named_labels(labels)
    if texts_only:
        used = {role: column for role, column in used.items() if role != "label" and "score" not in role}
    unused = [column for column in frame.columns if column not in used.values()]
    label, score, row_id = (used.pop(role, None) for role in ("label", "score", "id"))
    taught = [used.pop(role) for role in list(used) if role.startswith("negative_score")]
    hard = [used.pop(role) for role in list(used) if role.startswith("negative")]
    # One that each row has is a text as others are; of several, or without a teacher's score, a row may have fewer.
    cells = [frame.columns[name] for name in hard]
    if len(cells) == 1 and not are_lists(cells[0]) and (score or not roles.are_blank(cells[0]).any()):
        used["negative"] = hard.pop()
    frame = one_each(frame, [*used.values(), *([label] if label and form == "classes" else [])], score)
    frame = roles.complete_rows(frame, [*used.values()], blank)
    notes = (*frame.notes, f"columns not used: {', '.join(unused)}") if unused else frame.notes
    views = {"anchor" if role == "sentence" else role: roles.texts(frame, column) for role, column in used.items()}
    if hard:
        widened = several(frame, hard, "negative", roles.MISSING if blank == "drop" else ())
        views |= {name: roles.texts(widened, name) for name in widened.columns}
        notes += _count_negatives(views)
    rows = Examples("sentences" if form == "classes" else form, views, None, source, notes, numbers=frame.numbers)
    rows = replace(rows, ids=frame.columns[row_id]) if row_id else rows
    rows = _with_scores(rows, frame, [score, *taught], blank) if score else rows
    if label and form == "classes":
        return _with_classes(rows, frame, [*used.values(), label], named, blank)
    return _with_gold(rows, roles.labels(frame, label, roles.label_names(named), blank)) if label else rows


def are_lists(cells: Column[object]) -> bool:
    """Whether a column has lists among its cells, of texts or of passages, not of the turns of a chat."""
    lists = (cell for cell in cells.take(~cells.is_text) if isinstance(cell, list))
    return any(not any(isinstance(one, dict) for one in _values(cell)) for cell in lists)


def _values(cell: object) -> list[object]:
    """A cell as a list of its values, a passage as its text after its title.

    DPR and Tevatron write passages so: [{"title": "…", "text": "…"}, …].
    """
    if not isinstance(cell, list):
        return [cell]
    are_passages = all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in cell)
    return [f"{one.get('title') or ''} {one['text']}".strip() for one in cell] if are_passages else cell


def one_each(frame: Frame, columns: Sequence[str], score: str | None) -> Frame:
    """A row for each text, where texts in some columns are lists, such as the positives of an anchor, with its score.

    Raises DataError for lists of several lengths in a row.
    """
    of_lists = [column for column in columns if are_lists(frame.columns[column])]
    if not of_lists:
        return frame
    if columns[1:] and columns[0] in of_lists:
        what = f"{frame.files[0][0]}: the anchors in the column '{columns[0]}' are lists"
        hint = "write one text in the place of each list, and of several a row for each"
        raise DataError(what, hint, key=roles.COLUMNS)
    if score and are_lists(frame.columns[score]):
        of_lists.append(score)
    rows = [[*map(_values, frame.columns[column])] for column in of_lists]
    counts = np.array([[len(cell) for cell in cells] for cells in rows])
    if bad := np.flatnonzero((counts != counts[0]).any(axis=0)).tolist():
        what = f"{roles.quoted(of_lists)} have lists of several lengths"
        raise roles.bad_rows(frame, bad, what, "give as many in each")
    # A row without any stays, as one that is blank.
    spread = frame.take(counts[0].clip(min=1))
    values = (zip(*(cell or [""] for cell in cells), strict=True) for cells in zip(*rows, strict=True))
    flat = chain.from_iterable(chain.from_iterable(values))
    made = {**spread.columns, **read_columns(of_lists, flat)}
    note = f"{len(frame):,} rows with lists in {roles.quoted(of_lists)} are {len(spread):,} rows, one for each value"
    return replace(spread, columns=made, notes=(*spread.notes, note) if len(spread) > len(frame) else spread.notes)


def several(frame: Frame, columns: Sequence[str], role: str, missing: Sequence[str] = ()) -> Frame:
    """The values of a role, of several columns or of lists, a column each by number (negative, negative_2 …).

    A row that has fewer than others, as without those that are `missing`, is filled up with "". Raises DataError where
    no row has any.
    """
    cells = [frame.columns[column] for column in columns]
    width = max(map(len, _given(cells, missing)), default=0)
    if not width:
        what = f"no row has a {role.replace('_', ' ')} in {', '.join(columns)}"
        raise DataError(what, "fill one in, or delete the columns", key=roles.COLUMNS)
    names = [role, *(f"{role}_{number}" for number in range(2, width + 1))]
    filled = chain.from_iterable([*row, *[""] * (width - len(row))] for row in _given(cells, missing))
    return replace(frame, columns=read_columns(names, filled))


def _given(columns: Sequence[Column[object]], missing: Sequence[str]) -> Iterator[list[object]]:
    """The values of each row that are neither blank nor `missing`; lists count as several."""
    for row in zip(*columns, strict=True):
        values = chain.from_iterable(map(_values, row))
        yield [value for value in values if value is not None and str(value).strip() not in ("", *missing)]


def _with_scores(rows: Examples, frame: Frame, columns: Sequence[str], blank: Blank) -> Examples:
    """The rows with the scores of their pairs or, where those of negatives follow, of all candidates."""
    scores, taught = [roles.scores(frame, columns[0], blank)], columns[1:]
    if any(are_lists(frame.columns[column]) for column in taught):
        frame = several(frame, taught, "negative_score")
        taught = [*frame.columns]
    scores += [roles.scores(frame, column, blank) for column in taught]
    is_taught = rows.form == "scored-triplets"
    if is_taught and not taught:
        note = f"{columns[0]} is read as the difference of the positive's and the negative's score"
        rows = replace(rows, notes=(*rows.notes, note))
        scores.append([0.0] * len(frame))
    candidates = [texts for view, texts in rows.views.items() if view != "anchor"]
    if is_taught and (len(scores) != len(candidates) or any((texts.sizes == 0).any() for texts in candidates)):
        what = f"{rows.source}: not every negative has a score, in {', '.join(columns)}"
        raise DataError(what, "give each row as many negatives as scores of them", key=roles.COLUMNS)
    table = np.column_stack(scores)
    has_scores = np.isfinite(table).all(axis=1)
    rows, table = rows.take(has_scores, dropped(has_scores, "without a number as score")), table[has_scores]
    if is_taught:
        return replace(rows, candidate_scores=table.astype(np.float32))
    require_different_scores(only := table[:, 0].tolist(), rows.source)
    return replace(rows, scores=only)


def _with_gold(rows: Examples, labels: Sequence[int | None]) -> Examples:
    """The rows that have a label."""
    has_gold = np.array([label is not None for label in labels])
    gold = [label for label in labels if label is not None]
    return replace(rows.take(has_gold, dropped(has_gold, "without a gold label")), labels=gold)


def _with_classes(
    rows: Examples, frame: Frame, columns: Sequence[str], names: Mapping[str, str], blank: Blank
) -> Examples:
    """The sentences that have a class, each with its name as the positive; `columns` are that of texts, and of labels.

    Raises DataError for blank labels, unless `blank` is "drop", and where there are no two classes.
    """
    text, label = columns
    alone = Use("--columns", join_items([f"text={text}"]), "take the texts alone:")
    cells = (None if isinstance(cell, float) and math.isnan(cell) else cell for cell in frame.columns[label])
    words = ["" if cell is None else str(cell).strip() for cell in cells]
    if blank == "error" and (bad := [row for row, word in enumerate(words) if not word]):
        remedies = Use("--blank", "drop", "leave them out with"), alone
        raise roles.bad_rows(frame, bad, f"the label in the column '{label}' is blank", remedies, "data.blank")
    # "1.0" is what pandas makes of 1 next to a blank cell, and "-" what datasets has for none.
    codes = ["" if word == "-" else word.removesuffix(".0") if word[:-2].isdecimal() else word for word in words]
    classes = [names.get(code, code) for code in codes]
    if (count := len({*classes} - {""})) < 2:
        raise DataError(f"{rows.source}: the labels in the column '{label}' are no two classes", alone)
    has_class = np.array([*map(bool, classes)])
    note = f"the positive of each sentence is its class, of {count:,} in '{label}'; to {alone.words(alone.option)}"
    bare = sorted(filter(str.isdecimal, {*codes} - names.keys()), key=int)
    unnamed = [
        f"classes that are numbers without a name: {len(bare):,}; --labels {one}=NAME,… names them" for one in bare[:1]
    ]
    unnamed += [f"no row has the label {code} that --labels names" for code in sorted(names.keys() - {*codes})]
    kept = rows.take(has_class, (*dropped(has_class, "without a gold label"), note, *unnamed))
    views = kept.views | {"positive": Texts.of(filter(None, classes))}
    return replace(kept, form="pairs", views=views, read_as="classes")


def _count_negatives(views: Mapping[str, Texts]) -> tuple[str, ...]:
    """A note on how many hard negatives a row has, if it has several, and on rows without one."""
    columns = [texts for view, texts in views.items() if view.startswith("negative")]
    counts = np.sum([texts.sizes > 0 for texts in columns], axis=0)
    fewest, without = int(counts.min()), int((counts == 0).sum())
    count = f"{fewest} to {len(columns)}" if fewest < len(columns) else f"{fewest}"
    each = (f"each row has {count} hard negatives",) if len(columns) > 1 else ()
    return (*each, f"{without:,} of {len(counts):,} rows have no hard negative") if without else each


def dropped(keep: NDArray[np.bool_], which: str) -> tuple[str, ...]:
    """A note on how many rows were dropped, if any were."""
    count = len(keep) - int(keep.sum())
    return (f"{count:,} of {len(keep):,} rows {which} were dropped",) if count else ()


def require_different_scores(scores: list[float], source: str) -> None:
    """Raises DataError where all scores are the same."""
    if len(set(scores)) < 2:
        what = f"{source}: all {len(scores):,} scores are {scores[0]:g}, so that they rank nothing"
        raise DataError(what, "give pairs of different scores")
