"""Rows to train on and scored pairs: what they are, and how the columns of a table become them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress

from contrastcli.data import roles
from contrastcli.data.formats import Table
from contrastcli.data.roles import LABELS
from contrastcli.errors import DataError
from contrastcli.settings.catalogue import Form

FORMS: Mapping[Form, str] = {
    "sentences": "sentences",
    "pairs": "pairs (anchor, positive)",
    "triplets": "triplets (anchor, positive, negative)",
    "labelled": "labelled pairs (premise, hypothesis, label)",
}
"""Each form in words."""


@dataclass(frozen=True)
class Examples:
    """Training rows: texts by view, all views of one length.

    sentences: anchor · pairs: anchor, positive · triplets: anchor, positive, negative · labelled: anchor (premise),
    positive (hypothesis) and `labels`, 0 entailment, 1 neutral, 2 contradiction. `source` is what the user called
    them; `notes` tell people what was converted, dropped and found.
    """

    form: Form
    views: dict[str, list[str]]
    labels: list[int] | None
    source: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.views["anchor"])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of form, texts and labels, in hexadecimal: equal exactly where the rows are."""
        columns = [*self.views.values(), map(str, self.labels or ())]
        return _digest(self.form, *self.views, columns=columns)


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences with a score of their similarity, larger for more alike; the scale is the source's own."""

    first: list[str]
    second: list[str]
    scores: list[float]
    source: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of texts and scores, in hexadecimal."""
        return _digest("scored", columns=[self.first, self.second, map(repr, self.scores)])


def _digest(*words: str, columns: Iterable[Iterable[str]]) -> str:
    found = hashlib.sha256()
    for column in chain([words], columns):
        for text in column:
            found.update(text.encode() + b"\0")
        found.update(b"\1")  # so that texts cannot move from one column to the next unnoticed
    return found.hexdigest()


def preview(examples: Examples, count: int = 3) -> list[dict[str, str]]:
    """The first rows, each a text by role; `label` by its name."""
    heads = [texts[:count] for texts in examples.views.values()]
    rows = [dict(zip(examples.views, row, strict=True)) for row in zip(*heads, strict=True)]
    if examples.labels is not None:
        for row, label in zip(rows, examples.labels, strict=False):
            row["label"] = LABELS[label]
    return rows


def from_table(table: Table, columns: str, labels: str, source: str) -> Examples:
    """The rows of a table in the form that its columns make; `columns` and `labels` as in `sections.Data`.

    Raises DataError, among others for scored pairs, and UsageError for malformed `columns` and `labels`.
    """
    names = roles.label_names(labels)
    form, used = roles.shape(roles.assign(table, columns, source), table, source)
    if form == "scored":
        pair = f"anchor={used['anchor']},positive={used['positive']}"
        what = f"{source} holds scored pairs ('{used['score']}' is the score), which do not train"
        raise DataError(what, f"give it as --dev, or train on the pairs alone: --columns {pair}")
    notes = (*table.notes, *_unused(table, used))
    views = {_view(role): roles.texts(table, column) for role, column in used.items() if role != "label"}
    if form != "labelled":
        return Examples(form, views, None, source, notes)
    found = roles.labels(table, used["label"], names)
    gold = [label is not None for label in found]
    kept = [label for label in found if label is not None]
    views = {view: list(compress(texts, gold)) for view, texts in views.items()}
    return Examples(form, views, kept, source, notes + dropped(gold, "without a gold label"))


def dropped(kept: list[bool], which: str) -> tuple[str, ...]:
    """A note on the rows that are not kept, if there are any."""
    count = len(kept) - sum(kept)
    return (f"{count:,} of {len(kept):,} rows {which} were dropped",) if count else ()


def _view(role: str) -> str:
    return "anchor" if role == "sentence" else role


def _unused(table: Table, used: Mapping[roles.Role, str]) -> tuple[str, ...]:
    rest = [column for column in table.columns if column not in used.values()]
    return (f"columns not used: {', '.join(rest)}",) if rest else ()


def scored_from_table(table: Table, columns: str, source: str) -> ScoredPairs:
    """The scored pairs of a table. Raises DataError where it has none."""
    form, used = roles.shape(roles.assign(table, columns, source), table, source)
    if form != "scored":
        what = f"{source} holds {FORMS[form]}, not scored pairs"
        raise DataError(what, "dev data has the columns sentence1, sentence2 and score; without any: --dev none")
    first, second = (roles.texts(table, used[role]) for role in ("anchor", "positive"))
    notes = (*table.notes, *_unused(table, used))
    return rankable(ScoredPairs(first, second, roles.scores(table, used["score"]), source, notes))


def rankable(pairs: ScoredPairs) -> ScoredPairs:
    """The same pairs. Raises DataError where all have one score, since a rank correlation then says nothing."""
    if len(set(pairs.scores)) < 2:
        what = f"{pairs.source}: all {len(pairs):,} scores are {pairs.scores[0]:g}, so that nothing can be ranked"
        raise DataError(what, "give pairs of different scores, or --dev none")
    return pairs
