"""How one form of training rows becomes another, and how some rows are held out. What happens is said in the notes."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, compress

from contrastcli.data.examples import FORMS, Examples, ScoredPairs, dropped, rankable
from contrastcli.data.roles import LABELS
from contrastcli.errors import DataError
from contrastcli.settings.catalogue import Form

_ENTAILMENT, _, _CONTRADICTION = range(3)
_SCORES = (1.0, 0.5, 0.0)  # of a held-out pair, by its label

BECOMES: Mapping[Form, tuple[Form, ...]] = {
    "triplets": ("labelled", "pairs", "sentences"),
    "labelled": ("triplets", "pairs", "sentences"),
    "pairs": ("sentences",),
    "sentences": (),
}


def _targets(form: Form, needs: tuple[Form, ...]) -> list[Form]:
    """The forms of `needs` that rows of `form` can become, the one that keeps most first."""
    return [form] if form in needs else [target for target in BECOMES[form] if target in needs]


def suit(examples: Examples, needs: tuple[Form, ...], labels: tuple[int, ...], columns: Iterable[str] = ()) -> Examples:
    """The rows in a form of `needs`, and of labelled ones those whose label is in `labels` (all, where it is empty).

    Rows that already have a form of `needs` keep it. Otherwise triplets become labelled pairs (the positive entails,
    the negative contradicts), these become pairs (the entailments), and any become sentences; labelled pairs become
    triplets where those are needed, a triplet for each entailment, the contradictions of its premise taken in turn.
    Raises DataError, which names the `columns` that the rows came from, where no such form can be had; also where no
    row is left, or only one sentence.
    """
    possible = _targets(examples.form, needs)
    if not possible:
        raise _unsuitable(examples, needs, columns)
    for form in possible:
        found = _with_labels(_convert(examples, form), labels)
        if len(found):
            return _contrastable(found)
    used = f"the labels it uses: {', '.join(LABELS[label] for label in labels)}" if labels else "it uses entailments"
    raise DataError(f"{examples.source}: no row is left that the objective can use", used)


def _unsuitable(examples: Examples, needs: tuple[Form, ...], columns: Iterable[str]) -> DataError:
    found = f"{FORMS[examples.form]} in the columns {', '.join(columns)}" if columns else FORMS[examples.form]
    what = f"the objective needs {FORMS[needs[0]]}; {examples.source} holds {found}"
    others = [FORMS[form] for form in FORMS if form not in needs and _targets(form, needs)]
    convert = f", or {' or '.join(others)}, which become these by themselves" if others else ""
    return DataError(what, f"give {FORMS[needs[0]]}{convert}; data.columns says what a column is")


def _with_labels(examples: Examples, labels: tuple[int, ...]) -> Examples:
    if examples.labels is None or not labels:
        return examples
    wanted = [label in labels for label in examples.labels]
    names = " and ".join(name for label, name in enumerate(LABELS) if label not in labels)
    notes = examples.notes + dropped(wanted, f"labelled {names}")
    return replace(_select(examples, wanted), notes=notes)


def _select(examples: Examples, wanted: list[bool]) -> Examples:
    views = {view: list(compress(texts, wanted)) for view, texts in examples.views.items()}
    labels = None if examples.labels is None else list(compress(examples.labels, wanted))
    return replace(examples, views=views, labels=labels)


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


def _convert(examples: Examples, form: Form) -> Examples:
    if form == examples.form:
        return examples
    found = _CONVERSIONS[form](examples)
    note = f"{len(examples):,} {FORMS[examples.form]} became {len(found):,} {FORMS[form]}"
    return replace(found, form=form, notes=(*examples.notes, note))


def _to_sentences(examples: Examples) -> Examples:
    distinct = dict.fromkeys(chain.from_iterable(zip(*examples.views.values(), strict=True)))
    return replace(examples, views={"anchor": list(distinct)}, labels=None)


def _to_pairs(examples: Examples) -> Examples:
    if examples.labels is not None:
        examples = _select(examples, [label == _ENTAILMENT for label in examples.labels])
    return replace(examples, views={view: examples.views[view] for view in ("anchor", "positive")}, labels=None)


def _to_labelled(examples: Examples) -> Examples:
    anchor, positive, negative = (examples.views[view] for view in ("anchor", "positive", "negative"))
    premises = list(chain.from_iterable(zip(anchor, anchor, strict=True)))
    hypotheses = list(chain.from_iterable(zip(positive, negative, strict=True)))
    labels = [_ENTAILMENT, _CONTRADICTION] * len(anchor)
    return replace(examples, views={"anchor": premises, "positive": hypotheses}, labels=labels)


def _to_triplets(examples: Examples) -> Examples:
    rows = list(zip(examples.views["anchor"], examples.views["positive"], examples.labels or (), strict=True))
    contradictions: defaultdict[str, list[str]] = defaultdict(list)
    for premise, hypothesis, label in rows:
        if label == _CONTRADICTION:
            contradictions[premise].append(hypothesis)
    used: Counter[str] = Counter()
    views: dict[str, list[str]] = {"anchor": [], "positive": [], "negative": []}
    for premise, hypothesis, label in rows:
        if label == _ENTAILMENT and (against := contradictions.get(premise)):
            views["anchor"].append(premise)
            views["positive"].append(hypothesis)
            views["negative"].append(against[used[premise] % len(against)])
            used[premise] += 1
    return replace(examples, views=views, labels=None)


_CONVERSIONS: Mapping[Form, Callable[[Examples], Examples]] = {
    "sentences": _to_sentences,
    "pairs": _to_pairs,
    "labelled": _to_labelled,
    "triplets": _to_triplets,
}


def hold_out(examples: Examples, share: float, seed: int) -> tuple[Examples, ScoredPairs]:
    """The rows that stay for training, and at least `share` (0..1) of them held out as scored pairs.

    All rows of one anchor go to the same side. Which ones is a function of their texts and the seed alone. Labelled
    pairs score 1, 0.5 and 0 for entailment, neutral and contradiction; of a triplet the positive scores 1, the
    negative 0. Raises DataError for forms that know no negatives, and where too little is left on either side.
    """
    if examples.form not in ("labelled", "triplets"):
        what = f"{FORMS[examples.form]} cannot be held out as dev data: all would have the same score"
        raise DataError(what, "give scored pairs with --dev FILE, or --dev none")
    held = _held_anchors(examples.views["anchor"], share, seed)
    out = [anchor in held for anchor in examples.views["anchor"]]
    note = f"{sum(out):,} of {len(out):,} rows were held out as dev data"
    rest = replace(_select(examples, [not held_out for held_out in out]), notes=(*examples.notes, note))
    if len(rest) < 2:
        raise DataError(f"{examples.source}: {note}, {len(rest)} are left to train on", "hold out less")
    return rest, rankable(_as_scored(_select(examples, out), f"{100 * share:g}% of {examples.source}"))


def _held_anchors(anchors: list[str], share: float, seed: int) -> set[str]:
    sizes = Counter(anchors)
    held: set[str] = set()
    count = 0
    for anchor in sorted(sizes, key=lambda text: hashlib.sha256(f"{seed}\0{text}".encode()).digest()):
        if count >= share * len(anchors):
            break
        held.add(anchor)
        count += sizes[anchor]
    return held


def _as_scored(examples: Examples, source: str) -> ScoredPairs:
    labelled = _convert(examples, "labelled")
    scores = [_SCORES[label] for label in labelled.labels or ()]
    return ScoredPairs(labelled.views["anchor"], labelled.views["positive"], scores, source)
