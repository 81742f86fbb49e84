"""Training rows in other forms, and rows held out as dev data. The notes of the result say what was done."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate, chain, compress

from contrastcli.data.examples import FORMS, Examples, ScoredPairs, dropped, rankable
from contrastcli.data.roles import LABELS
from contrastcli.errors import DataError
from contrastcli.settings import catalogue
from contrastcli.settings.objective import Form

_ENTAILMENT, _, _CONTRADICTION = range(3)
_SCORES = (1.0, 0.5, 0.0)  # of a held-out pair, by its label

BECOMES: Mapping[Form, tuple[Form, ...]] = {
    "triplets": ("labelled", "pairs", "sentences"),
    "labelled": ("triplets", "pairs", "sentences"),
    "pairs": ("sentences",),
    "sentences": (),
    "scored": (),
}


def _targets(form: Form, needs: tuple[Form, ...]) -> list[Form]:
    """The forms of `needs` that rows of `form` can become, the one that keeps most first."""
    return [form] if form in needs else [target for target in BECOMES[form] if target in needs]


def suit(examples: Examples, needs: tuple[Form, ...], labels: tuple[int, ...], columns: Iterable[str] = ()) -> Examples:
    """The rows in a form of `needs`; of labelled rows those whose label is in `labels` (all, if it is empty).

    Rows that already have a form of `needs` keep it. Otherwise triplets become labelled pairs (the positive entails,
    the negatives contradict), these become pairs (the entailments), and any become sentences; labelled pairs become
    triplets if those are needed, a triplet for each entailment, with the contradictions of its premise in turn.
    Raises DataError, which names the `columns` of the rows, if they have and become no such form; also if no row is
    left, or only one sentence.
    """
    possible = _targets(examples.form, needs)
    if not possible:
        content = FORMS[examples.form] + (f" in the columns {', '.join(columns)}" if columns else "")
        what = f"the objective needs {FORMS[needs[0]]}; {examples.source} holds {content}"
        others = [FORMS[form] for form in FORMS if form not in needs and _targets(form, needs)]
        convertible = f", or {' or '.join(others)}, which are converted" if others else ""
        takers = [spec.name for spec in catalogue.every() if _targets(examples.form, spec.needs)]
        instead = f", or choose --objective {takers[0]}, which takes these" if takers else ""
        raise DataError(what, f"give {FORMS[needs[0]]}{convertible}; data.columns gives columns their roles{instead}")
    for form in possible:
        converted = _with_labels(convert(examples, form), labels)
        if len(converted):
            return _contrastable(converted)
    used = f"the labels it uses: {', '.join(LABELS[label] for label in labels)}" if labels else "it uses entailments"
    raise DataError(f"{examples.source}: no row is left that the objective can use", used)


def _with_labels(examples: Examples, labels: tuple[int, ...]) -> Examples:
    if examples.labels is None or not labels:
        return examples
    keep = [label in labels for label in examples.labels]
    names = " and ".join(name for label, name in enumerate(LABELS) if label not in labels)
    return select(examples, keep, dropped(keep, f"labelled {names}"))


def select(examples: Examples, keep: list[bool], notes: tuple[str, ...] = ()) -> Examples:
    """The rows to keep, with more notes."""
    views = {view: list(compress(texts, keep)) for view, texts in examples.views.items()}
    labels = None if examples.labels is None else list(compress(examples.labels, keep))
    scores = None if examples.scores is None else list(compress(examples.scores, keep))
    ends = list(accumulate(examples.sets))
    sets = tuple(sum(keep[end - size : end]) for size, end in zip(examples.sets, ends, strict=True))
    return replace(examples, views=views, labels=labels, scores=scores, notes=examples.notes + notes, sets=sets)


def _contrastable(examples: Examples) -> Examples:
    columns = list(examples.views.values())
    distinct = len(set(columns[0] if len(columns) == 1 else zip(*columns, strict=True)))
    if distinct < 2:
        kind = "sentence" if examples.form == "sentences" else "row"
        what = f"{examples.source} holds one {kind} only, and nothing to contrast it with"
        raise DataError(what, "give at least two different ones")
    repeated = len(examples) - distinct
    notes = (f"{repeated:,} of {len(examples):,} rows repeat an earlier one",) if repeated else ()
    return replace(examples, notes=examples.notes + notes)


def convert(examples: Examples, form: Form) -> Examples:
    """The rows in a form that theirs becomes, or has already."""
    if form == examples.form:
        return examples
    views, labels = examples.views, None
    if form == "sentences":
        distinct = dict.fromkeys(chain.from_iterable(zip(*views.values(), strict=True)))
        views = {"anchor": [text for text in distinct if text]}
    elif form == "pairs":
        if examples.labels is not None:
            views = select(examples, [label == _ENTAILMENT for label in examples.labels]).views
        views = {view: views[view] for view in ("anchor", "positive")}
    elif form == "labelled":
        anchors, *columns = views.values()
        pairs = [
            (anchor, text, _CONTRADICTION if place else _ENTAILMENT)
            for anchor, *texts in zip(anchors, *columns, strict=True)
            for place, text in enumerate(texts)
            if text
        ]
        views = {"anchor": [pair[0] for pair in pairs], "positive": [pair[1] for pair in pairs]}
        labels = [label for _, _, label in pairs]
    else:
        views = _triplets(examples)
    converted = replace(examples, form=form, views=views, labels=labels)
    note = f"{len(examples):,} {FORMS[examples.form]} became {len(converted):,} {FORMS[form]}"
    return replace(converted, notes=(*examples.notes, note))


def _triplets(examples: Examples) -> dict[str, list[str]]:
    rows = list(zip(examples.views["anchor"], examples.views["positive"], examples.labels or (), strict=True))
    contradictions: defaultdict[str, list[str]] = defaultdict(list)
    for premise, hypothesis, label in rows:
        if label == _CONTRADICTION:
            contradictions[premise].append(hypothesis)
    used: Counter[str] = Counter()
    views: dict[str, list[str]] = {"anchor": [], "positive": [], "negative": []}
    for premise, hypothesis, label in rows:
        if label == _ENTAILMENT and (negatives := contradictions.get(premise)):
            views["anchor"].append(premise)
            views["positive"].append(hypothesis)
            views["negative"].append(negatives[used[premise] % len(negatives)])
            used[premise] += 1
    return views


def hold_out(examples: Examples, share: float, seed: int, most: float = math.inf) -> tuple[Examples, Examples]:
    """The rows left for training, and those held out: at least `share` (0..1) of all, but of `most` anchors at most.

    All rows of one anchor go to the same side, chosen by its text and the seed alone. Raises DataError if too little
    is left to train on.
    """
    anchors = examples.views["anchor"]
    sizes = Counter(anchors)
    held: set[str] = set()
    count = 0
    for anchor in sorted(sizes, key=lambda text: hashlib.sha256(f"{seed}\0{text}".encode()).digest()):
        if count >= share * len(anchors) or len(held) >= most:
            break
        held.add(anchor)
        count += sizes[anchor]
    note = f"{count:,} of {len(anchors):,} rows were held out as dev data"
    rest = select(examples, [anchor not in held for anchor in anchors], (note,))
    if len(rest) < 2:
        raise DataError(f"{examples.source}: {note}, {len(rest)} are left to train on", "hold out less")
    dev = select(examples, [anchor in held for anchor in anchors])
    return rest, replace(dev, source=f"{100 * share:g}% of {examples.source}")


def scored(examples: Examples) -> ScoredPairs:
    """Rows with negatives as scored pairs.

    Labelled pairs score 1, 0.5 and 0 for entailment, neutral and contradiction; the positive of a triplet scores 1, the
    negative 0; scored pairs keep their scores. Raises DataError if all have the same score.
    """
    rows = examples if examples.scores else convert(examples, "labelled")
    scores = rows.scores or [_SCORES[label] for label in rows.labels or ()]
    return rankable(ScoredPairs(rows.views["anchor"], rows.views["positive"], scores, examples.source))
