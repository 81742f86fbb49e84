"""More of the objectives from their formulas, as in `by_loops`: DCL, the triplets of the hardest anchor, Augment."""

import math

from by_loops import cross_entropy_by_loops, directed, dot, similarity_of


def decoupled_by_loops(views, ids, kind, margin, tau, mask=False) -> float:
    anchors, positives, negatives = views["anchor"], views["positive"], views.get("negative", [])
    total = 0.0
    for i, anchor in enumerate(anchors):
        taken = {ids["anchor"][i], ids["positive"][i]} if mask else set()
        others = [y for j, y in enumerate(positives) if j != i and ids["positive"][j] not in taken]
        others += [y for j, y in enumerate(negatives) if ids["negative"][j] not in taken]
        if others:
            total -= similarity_of(anchor, positives[i], kind, margin) / tau
            total += math.log(sum(math.exp(similarity_of(anchor, y, kind) / tau) for y in others))
    return total / len(anchors)


def farness(a, b, measure: str) -> float:
    """What a triplet measures, larger for what is less alike: −cos, ‖a − b‖ of unit vectors, or the angle."""
    a, b = directed(a), directed(b)
    if measure == "mpt":
        return -dot(a, b)
    if measure == "met":
        return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    return math.acos(dot(a, b))


def triplet_by_loops(views, ids, measure, margin, mask=False) -> float:
    """`margin` in cosine units, in distance, or in degrees, as `measure` has it."""
    anchors, positives = views["anchor"], views["positive"]
    shift = margin * math.pi / 180 if measure == "mat" else margin
    total = 0.0
    for j, y in enumerate(positives):
        taken = {ids["anchor"][j], ids["positive"][j]} if mask else set()
        others = [x for i, x in enumerate(anchors) if i != j and ids["anchor"][i] not in taken]
        if others:
            nearest = min(farness(x, y, measure) for x in others)
            total += max(0.0, shift + farness(anchors[j], y, measure) - nearest)
    return total / len(positives)


def augmented_rows(ids, label, mask=False) -> list[tuple[int, list[tuple[int, int]], list[tuple[int, int]]]]:
    """Each entailed row with the (hypothesis, label) of its positives, and those of its negatives."""
    rows = range(len(label))
    found = []
    for i in rows:
        if label[i] != 0:
            continue
        ours = [j for j in rows if label[j] == 0 and ids["anchor"][j] == ids["anchor"][i]]
        taken = {ids["anchor"][i], *(ids["positive"][j] for j in ours)} if mask else set()
        others = [j for j in rows if j not in ours and ids["positive"][j] not in taken]
        labelled = [(j, label[j] if ids["anchor"][j] == ids["anchor"][i] else 2) for j in others]
        found.append((i, [(j, 0) for j in ours], labelled))
    return found


def augmented_by_loops(views, ids, label, layers, mask=False, choose=lambda ours, others: (ours, others)) -> float:
    """`choose` may thin out an anchor's (positives, negatives)."""
    pairs = [(i, i, label[i]) for i in range(len(label))]
    for i, ours, others in augmented_rows(ids, label, mask):
        kept, against = choose(ours, others)
        pairs += [(i, j, y) for j, y in [*kept, *against]]
    rows = {
        "anchor": [views["anchor"][i] for i, _, _ in pairs],
        "positive": [views["positive"][j] for _, j, _ in pairs],
    }
    return cross_entropy_by_loops(rows, layers, [y for _, _, y in pairs])
