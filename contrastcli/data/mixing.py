"""Several sets of training rows as one: their names and weights, and their forms made alike."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, repeat

import numpy as np

from contrastcli.data.batching import scaled
from contrastcli.data.examples import Examples
from contrastcli.data.forms import FORMS
from contrastcli.data.texts import read_columns
from contrastcli.errors import DataError, UsageError

_WEIGHTED = re.compile(r"([^=].*?)(?:(?<!config)(?<!split)=([\d.]+))?")
# Rows of each form may stand among those of the next.
_WIDENING = ("sentences", "pairs", "triplets")


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


def join(sets: Sequence[Examples], source: str) -> Examples:
    """The rows of several sets, one set after the other, under one name.

    A sentence among pairs is its own positive, and a pair among triplets has no hard negative. Raises DataError for
    other forms that differ. Scores are shares of the range of their set.
    """
    forms = {one.form for one in sets}
    if len(forms) > 1 and not forms <= {*_WIDENING}:
        what = f"{source}: {' and '.join(sorted(FORMS[form] for form in forms))} cannot be trained on together"
        raise DataError(what, "train on sets of one form, or on one after the other")
    form = max(forms, key=lambda form: _WIDENING.index(form) if form in _WIDENING else 0)
    names = [*max((one.views for one in sets), key=len)]
    # Only a set of sentences has no positives.
    views_of = [{"positive": one.views["anchor"]} | one.views for one in sets]
    rows = chain.from_iterable(zip(*(views.get(v, repeat("")) for v in names), strict=False) for views in views_of)
    views = read_columns(names, chain.from_iterable(rows))
    labels = [*chain.from_iterable(one.labels or () for one in sets)] or None
    scores = [*chain.from_iterable(scaled(one.scores).tolist() for one in sets if one.scores)] or None
    taught = [one.candidate_scores for one in sets if one.candidate_scores is not None]
    if len({of.shape[1] for of in taught}) > 1:
        raise DataError(f"{source}: rows with scores have as many negatives in every set", "mine as many for each: -n")
    notes = tuple(f"{one.source}: {note}" for one in sets for note in one.notes)
    first, *others = {one.read_as or one.form for one in sets}
    sizes, read_as = tuple(map(len, sets)), None if others else first
    candidate_scores = np.concatenate(taught) if taught else None
    return Examples(form, views, labels, source, notes, scores, candidate_scores, sizes, read_as=read_as)
