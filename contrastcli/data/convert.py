"""Training rows in other forms, several sets as one, and rows held out as dev data. Notes say what was done."""

import hashlib
import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, cycle, repeat

import numpy as np

from contrastcli.data.batching import scaled
from contrastcli.data.downloads import counted
from contrastcli.data.examples import Examples, ScoredPairs, dropped, require_different_scores, text_key
from contrastcli.data.forms import BECOMES, FORMS, LABELS
from contrastcli.data.texts import Texts, read_columns
from contrastcli.errors import DataError, Remedy, Use
from contrastcli.settings import catalogue, sections
from contrastcli.settings.objective import Form

_ENTAILMENT, _, _CONTRADICTION = range(3)
_SCORES_BY_LABEL = (1.0, 0.5, 0.0)
# Rows of each form may stand among those of the next.
_WIDENING = ("sentences", "pairs", "triplets")


def _mining(source: str, data: sections.Data | None, scores: Sequence[str]) -> str:
    """The command that adds negatives to pairs, with a teacher's scores or without, and how its rows are trained on."""
    how = {"--columns": data.columns, "--blank": data.blank.replace("error", "")} if data else {}
    typed = chain.from_iterable(option for option in how.items() if option[1])
    without = " without --columns" if how.get("--columns") else ""
    command = shlex.join(["contrast", "mine", source, *typed, *scores, "-o", "triplets.jsonl"])
    return f"{command}; then{without} --data triplets.jsonl"


def _targets(form: Form, needs: tuple[Form, ...]) -> list[Form]:
    """The forms of `needs` that rows of `form` can become, the one that keeps most first."""
    return [form] if form in needs else [target for target in BECOMES.get(form, ()) if target in needs]


def adapt(
    examples: Examples,
    needs: tuple[Form, ...],
    labels: tuple[int, ...],
    columns: Iterable[str] = (),
    data: sections.Data | None = None,
) -> Examples:
    """The rows in a form of `needs`; of labelled rows those whose label is in `labels` (all, if it is empty).

    Rows that already have a form of `needs` keep it. Otherwise scored triplets lose their scores, triplets become
    labelled pairs (the positive entails, the negatives contradict), these become pairs (the entailments), and any
    become sentences; labelled pairs become triplets if those are needed, a triplet for each entailment, with the
    contradictions of its premise in turn.
    Raises DataError, which names the `columns` of the rows, if they have and become no such form; also if no row is
    left, or only one sentence. What `data` sets is named where it is the cause.
    """
    all_rows = [Use("--limit", "0", "read all rows:")] if data and data.limit else []
    possible = _targets(examples.form, needs)
    if not possible:
        roles_are_given = data is not None and data.columns != ""
        content = FORMS[examples.read_as or examples.form]
        content += f" in the columns {', '.join(columns)}" if columns and not roles_are_given else ""
        what = f"{examples.source} holds {content}, where {FORMS[needs[0]]} are needed"
        near = next((FORMS[form] for form in FORMS if form not in needs and _targets(form, needs)), "")
        convertible = f", or {near}, which are converted" if near else ""
        takers = [spec.name for spec in catalogue.all_objectives() if _targets(examples.form, spec.needs)]
        remedy = f"give {FORMS[needs[0]]}{convertible}"
        remedy += "" if roles_are_given else "; --columns gives columns their roles, and a .txt has one column"
        others, key = [Use("--objective", name, "train these with") for name in takers[:1]], sections.OBJECTIVE.key
        if data and data.mine_every:
            others, key = [Use("--mine-every", "0", "mine none:")], "data.mine_every"
        scores = [] if (unscored := _targets("triplets", needs)) else ["--score-with", "MODEL"]
        if examples.form == "pairs" and (unscored or "scored-triplets" in needs):
            remedy += f", or add negatives: {_mining(examples.source, data, scores)}"
        raise DataError(what, [*others, remedy], key=key)
    for form in possible:
        converted = _with_labels(convert(examples, form), labels)
        if len(converted):
            return _contrastable(converted, all_rows)
    used = f"the labels it uses: {', '.join(LABELS[label] for label in labels)}" if labels else "it uses entailments"
    raise DataError(f"{examples.source}: no row is left that the objective can use", [*all_rows, used])


def _with_labels(examples: Examples, labels: tuple[int, ...]) -> Examples:
    if examples.labels is None or not labels:
        return examples
    keep = np.isin(examples.labels, labels)
    names = " and ".join(name for label, name in enumerate(LABELS) if label not in labels)
    return examples.take(keep, dropped(keep, f"labelled {names}"))


def _contrastable(examples: Examples, remedies: Sequence[Remedy]) -> Examples:
    row_hashes = np.zeros(len(examples), np.uint64)
    for texts in examples.views.values():
        row_hashes = row_hashes * np.uint64(3) + texts.hashes
    distinct = len(np.unique(row_hashes))
    if distinct < 2:
        kind = "sentence" if examples.form == "sentences" else "row"
        which = f"{len(examples):,} equal {kind}s were" if len(examples) > 1 else f"one {kind} only was"
        what = f"{examples.source}: {which} read, and nothing to contrast with"
        raise DataError(what, [*remedies, "give at least two different ones"])
    repeated = len(examples) - distinct
    notes = (f"{repeated:,} of {len(examples):,} rows repeat an earlier one",) if repeated else ()
    return replace(examples, notes=examples.notes + notes)


def convert(examples: Examples, form: Form) -> Examples:
    """The rows in another form, one that theirs can become; unchanged if they have it."""
    if form == examples.form:
        return examples
    views, labels, ids, numbers = examples.views, None, None, None
    joined = Texts.join(list(views.values()))
    places = np.arange(len(joined)).reshape(len(views), -1).T  # (N, V)
    if form == "sentences":
        texts = joined.take(places.ravel())
        views = {"anchor": texts.take(texts.sizes > 0).distinct()[0]}
    elif form == "pairs":
        kept = examples if examples.labels is None else examples.take(np.equal(examples.labels, _ENTAILMENT))
        views = {view: kept.views[view] for view in ("anchor", "positive")}
        ids, numbers = kept.ids, kept.numbers
    elif form == "labelled":
        row, place = np.nonzero((joined.sizes > 0)[places[:, 1:]])
        views = {"anchor": joined.take(places[row, 0]), "positive": joined.take(places[row, place + 1])}
        labels = np.where(place, _CONTRADICTION, _ENTAILMENT).tolist()
    elif examples.labels is not None:
        views = _triplets(examples)
    read_as = examples.read_as or examples.form
    note = f"{len(examples):,} {FORMS[examples.form]} became {len(views['anchor']):,} {FORMS[form]}"
    notes = (*examples.notes, note)
    return Examples(form, views, labels, examples.source, notes, ids=ids, read_as=read_as, numbers=numbers)


def _triplets(examples: Examples) -> dict[str, Texts]:
    premises, hypotheses, labels = *examples.views.values(), examples.labels or ()
    numbers = premises.distinct()[1].tolist()
    contradictions: defaultdict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(np.equal(labels, _CONTRADICTION)).tolist():
        contradictions[numbers[row]].append(row)
    turns = {premise: cycle(rows) for premise, rows in contradictions.items()}
    entailments = np.flatnonzero(np.equal(labels, _ENTAILMENT)).tolist()
    # The row of each entailment, and of a contradiction of the same premise.
    rows = [(row, next(turns[numbers[row]])) for row in entailments if numbers[row] in turns]
    own, other = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return {"anchor": premises.take(own), "positive": hypotheses.take(own), "negative": hypotheses.take(other)}


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


def hold_out(examples: Examples, share: float, seed: int, most: float = math.inf) -> tuple[Examples, Examples]:
    """The rows left for training, and those held out: at least `share` (0..1) of all, but of `most` anchors at most.

    All rows of one anchor, whatever its case and white space, go to the same side, chosen by its text and the seed
    alone. An anchor with more rows than the share stays in training, and the share is one of the others; where all
    have more, it is one of the smallest. Raises DataError if too little is left to train on.
    """
    spellings, numbers = examples.views["anchor"].distinct()
    anchors, anchor_of = Texts.of(map(text_key, counted("holding out dev data", spellings))).distinct()
    numbers = anchor_of[numbers]
    digests = (
        hashlib.sha256(f"{seed}\0{spelling}".encode()).digest()[:8]
        for spelling in counted("holding out dev data", spellings)
    )
    smallest = np.full(len(anchors), np.iinfo(np.uint64).max)
    np.minimum.at(smallest, anchor_of, np.fromiter((int.from_bytes(digest) for digest in digests), np.uint64))
    order = np.argsort(smallest, kind="stable")
    sizes = np.bincount(numbers)[order]
    largest = max(int(share * len(examples)), sizes.min())
    fits = sizes <= largest
    rows = np.cumsum(sizes * fits)
    is_held = np.zeros(len(anchors), bool)
    is_held[order] = fits & (rows - sizes < share * rows[-1]) & (np.cumsum(fits) <= most)
    held = is_held[numbers]
    note = f"{held.sum():,} of {len(examples):,} rows were held out as dev data"
    note += "" if fits.all() else f", of anchors with at most {largest:,}"
    if is_held.sum() == most:
        note += f" ({most:,} anchors at most)"
    rest = examples.take(~held, (note,))
    if len(rest) < 2:
        what = f"{examples.source}: {note}, {len(rest)} are left to train on"
        raise DataError(what, "hold out less")
    return rest, replace(examples.take(held), source=f"{100 * share:g}% of {examples.source}")


def scored(examples: Examples) -> ScoredPairs:
    """Rows with negatives as scored pairs.

    Labelled pairs score 1, 0.5 and 0 for entailment, neutral and contradiction; the positive of a triplet scores 1, the
    negative 0; scored pairs keep their scores. Raises DataError if all have the same score.
    """
    if examples.labels and not any(examples.labels):
        what = f"{examples.source}: all labels are entailment, so that they rank nothing"
        ranked = [Use("--metric", "ndcg@10", "rank them:"), Use("--set", "dev.metric=ndcg@10", "rank them:")]
        raise DataError(what, [*ranked, "give rows of different labels"])
    rows = examples if examples.scores else convert(examples, "labelled")
    scores = rows.scores or [_SCORES_BY_LABEL[label] for label in rows.labels or ()]
    require_different_scores(scores, examples.source)
    views = rows.views["anchor"], rows.views["positive"]
    return ScoredPairs(*views, scores, examples.source, rows.notes, examples.form)
