"""Rows to train on and scored pairs: what they are, how one form becomes another, and how some are held out."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress

from contrastcli.catalogue import Form
from contrastcli.data import roles
from contrastcli.data.formats import Table
from contrastcli.data.roles import LABELS
from contrastcli.errors import DataError

_ENTAILMENT, _, _CONTRADICTION = range(3)
_SCORES = (1.0, 0.5, 0.0)  # of a held-out pair, by its label

FORMS: Mapping[Form, str] = {
    "sentences": "sentences",
    "pairs": "pairs (anchor, positive)",
    "triplets": "triplets (anchor, positive, negative)",
    "labelled": "labelled pairs (premise, hypothesis, label)",
}
"""Each form in words."""

_BECOMES: Mapping[Form, tuple[Form, ...]] = {
    "triplets": ("labelled", "pairs", "sentences"),
    "labelled": ("triplets", "pairs", "sentences"),
    "pairs": ("sentences",),
    "sentences": (),
}


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
    rows = [dict(zip(examples.views, row, strict=True)) for row in zip(*_heads(examples, count), strict=True)]
    if examples.labels is not None:
        for row, label in zip(rows, examples.labels, strict=False):
            row["label"] = LABELS[label]
    return rows


def _heads(examples: Examples, count: int) -> list[list[str]]:
    return [texts[:count] for texts in examples.views.values()]


def from_table(table: Table, columns: str, labels: str, source: str) -> Examples:
    """The rows of a table in the form that its columns make; `columns` and `labels` as in `config.Data`.

    Raises DataError, among others for scored pairs, and UsageError for malformed `columns` and `labels`.
    """
    names = roles.label_names(labels)
    form, used = roles.shape(roles.assign(table, columns, source), table, source)
    if form == "scored":
        pair = f"anchor={used['anchor']},positive={used['positive']}"
        what = f"{source} holds scored pairs ('{used['score']}' is the score), which choose checkpoints and do not train"
        raise DataError(what, f"give it as --dev, or train on the pairs without their scores: --columns {pair}")
    notes = (*table.notes, *_unused(table, used))
    views = {_view(role): roles.texts(table, column) for role, column in used.items() if role != "label"}
    if form != "labelled":
        return Examples(form, views, None, source, notes)
    found = roles.labels(table, used["label"], names)
    gold = [label is not None for label in found]
    notes += _dropped(gold, "without a gold label")
    kept = [label for label in found if label is not None]
    return Examples(form, {view: list(compress(texts, gold)) for view, texts in views.items()}, kept, source, notes)


def _view(role: str) -> str:
    return "anchor" if role == "sentence" else role


def _unused(table: Table, used: Mapping[roles.Role, str]) -> tuple[str, ...]:
    rest = [column for column in table.columns if column not in used.values()]
    return (f"columns not used: {', '.join(rest)}",) if rest else ()


def _dropped(kept: list[bool], which: str) -> tuple[str, ...]:
    count = len(kept) - sum(kept)
    return (f"{count:,} of {len(kept):,} rows {which} were dropped",) if count else ()


def scored_from_table(table: Table, columns: str, source: str) -> ScoredPairs:
    """The scored pairs of a table. Raises DataError where it has none."""
    form, used = roles.shape(roles.assign(table, columns, source), table, source)
    if form != "scored":
        what = f"{source} holds {FORMS[form]}, not scored pairs"
        raise DataError(what, "dev data has the columns sentence1, sentence2 and score; without any: --dev none")
    first, second = (roles.texts(table, used[role]) for role in ("anchor", "positive"))
    notes = (*table.notes, *_unused(table, used))
    return _rankable(ScoredPairs(first, second, roles.scores(table, used["score"]), source, notes))


def _rankable(pairs: ScoredPairs) -> ScoredPairs:
    if len(set(pairs.scores)) < 2:
        what = f"{pairs.source}: all {len(pairs):,} scores are {pairs.scores[0]:g}, so that nothing can be ranked"
        raise DataError(what, "give pairs of different scores, or --dev none")
    return pairs


def targets(form: Form, needs: tuple[Form, ...]) -> list[Form]:
    """The forms of `needs` that rows of `form` can become, the one that keeps most first."""
    return [form] if form in needs else [target for target in _BECOMES[form] if target in needs]


def suit(examples: Examples, needs: tuple[Form, ...], labels: tuple[int, ...]) -> Examples:
    """The rows in a form of `needs`, and of labelled ones those whose label is in `labels` (all, where it is empty).

    Rows that already have a form of `needs` keep it. Otherwise triplets become labelled pairs (the positive entails,
    the negative contradicts), these become pairs (the entailments), and any become sentences; labelled pairs become
    triplets where those are needed, a triplet for each entailment, the contradictions of its premise taken in turn.
    Raises DataError where none can be had, no row is left, or only one sentence.
    """
    possible = targets(examples.form, needs)
    if not possible:
        sources = [FORMS[form] for form in FORMS if targets(form, needs)]
        what = f"the objective needs {FORMS[needs[0]]}; {examples.source} holds {FORMS[examples.form]}"
        raise DataError(what, f"give {' or '.join(sources)}: the conversion happens by itself; see --columns for roles")
    for form in possible:
        found = _with_labels(_convert(examples, form), labels)
        if len(found):
            return _contrastable(found)
    used = f"the labels it uses: {', '.join(LABELS[label] for label in labels)}" if labels else "it uses entailments"
    raise DataError(f"{examples.source}: no row is left that the objective can use", used)


def _with_labels(examples: Examples, labels: tuple[int, ...]) -> Examples:
    if examples.labels is None or not labels:
        return examples
    wanted = [label in labels for label in examples.labels]
    names = " and ".join(name for label, name in enumerate(LABELS) if label not in labels)
    notes = examples.notes + _dropped(wanted, f"labelled {names}")
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
    used: defaultdict[str, int] = defaultdict(int)
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
        raise DataError(f"{examples.source}: holding out {share:.0%} leaves {len(rest)} rows to train on", "hold out less")
    return rest, _rankable(_as_scored(_select(examples, out), f"{share:.3%} of {examples.source}"))


def _held_anchors(anchors: list[str], share: float, seed: int) -> set[str]:
    sizes: defaultdict[str, int] = defaultdict(int)
    for anchor in anchors:
        sizes[anchor] += 1
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
