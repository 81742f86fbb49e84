"""The objectives once more, written from the formulas: plain loops over lists in float64, no tensors, no log-sum-exp.

Views and ids are lists by name, heads are read as lists of weights.
Labels are 0 entailment, 1 neutral, 2 contradiction.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product

from torch import nn

Vector = list[float]
Views = Mapping[str, Sequence[Vector]]
Ids = Mapping[str, Sequence[int]]

Weigh = Callable[[int, str, int], float]
"""The factor of the negative in a view and a row, for an anchor's row."""


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(a: Vector) -> Vector:
    length = math.sqrt(dot(a, a))
    return [x / length for x in a]


def similarity_of(a: Vector, b: Vector, kind: str, margin: float = 0.0) -> float:
    """objectives' table of similarities, as a positive where there is a margin."""
    a, b = unit(a), unit(b)
    theta = math.acos(dot(a, b))
    if kind == "cosine":
        return math.cos(theta) - margin
    if kind == "angle":
        return math.pi / 2 - theta - margin * math.pi / 180
    if kind == "arc":
        return math.cos(min(max(theta + margin * math.pi / 180, 0.0), math.pi))
    return math.exp(-sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / 2)


def rows_apart(ids: Ids, i: int, mask: bool) -> list[int]:
    """The rows but row i, and with `mask` but those that have one of its texts in the same place."""
    rows = [j for j in range(len(ids["anchor"])) if j != i]
    return [j for j in rows if not mask or all(ids[view][j] != ids[view][i] for view in ("anchor", "positive"))]


def contrast_by_loops(
    views: Views,
    ids: Ids,
    kind: str,
    margin: float,
    tau: float,
    *,
    of: str = "anchor",
    mask: bool = False,
    same_side: bool = False,
    guides: Views | None = None,
    weigh: Weigh = lambda i, name, j: 1.0,
    decoupled: bool = False,
    rows: Sequence[int] = (),
) -> float:
    """InfoNCE or DCL, the mean over the anchors, which are some rows of a view. Where there is no text, the id is −1.

    The negatives of anchors are the other positives and the views negative …, those of positives the other anchors.
    """
    names = [name for name in views if name.startswith(("positive", "negative"))] if of == "anchor" else ["anchor"]
    columns = [*names, of] if same_side else names
    anchors, losses = views[of], []
    for i in rows or range(len(anchors)):
        apart = rows_apart(ids, i, mask)
        own = math.exp(similarity_of(anchors[i], views[names[0]][i], kind, margin) / tau)
        taken = {ids["anchor"][i], ids["positive"][i], -1} if mask else {-1}
        others = 0.0
        for name, j in product(columns, range(len(anchors))):
            if ids[name][j] in taken or (not name.startswith("negative") and j not in apart):
                continue
            if guides:
                nearest = similarity_of(guides[of][i], guides[names[0]][i], "cosine")
                if similarity_of(guides[of][i], guides[name][j], "cosine") > nearest:
                    continue
            others += weigh(i, name, j) * math.exp(similarity_of(anchors[i], views[name][j], kind) / tau)
        below = own + others if not decoupled else others or own
        losses.append(math.log(below / own))
    return sum(losses) / len(losses)


def linears(module: nn.Module) -> list[nn.Linear]:
    """The linear layers of a head, in their order."""
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def linear(layer: nn.Linear, x: Vector) -> Vector:
    bias = [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist()
    return [dot(row, x) + b for row, b in zip(layer.weight.tolist(), bias, strict=True)]


def cross_entropy_by_loops(views: Views, classifier: nn.Module, targets: Sequence[int]) -> float:
    total = 0.0
    for u, v, target in zip(views["anchor"], views["positive"], targets, strict=True):
        x = u + v + [abs(a - b) for a, b in zip(u, v, strict=True)]
        for layer in linears(classifier):
            x = linear(layer, x)
        total -= math.log(math.exp(x[target]) / sum(math.exp(logit) for logit in x))
    return total / len(targets)


def weighed_by_loops(similarities: list[float], tau: float, hard_negatives: str) -> float:
    """Σ_j α_j e^(s_j/τ), or Σ_j e^(α_j s_j/τ) as Eq. 3 prints it."""
    if not similarities:
        return 0.0
    average = sum(math.exp(s / tau) for s in similarities) / len(similarities)
    alphas = [math.exp(s / tau) / average for s in similarities]
    if hard_negatives == "importance":
        return sum(alpha * math.exp(s / tau) for alpha, s in zip(alphas, similarities, strict=True))
    if hard_negatives == "exponent":
        return sum(math.exp(alpha * s / tau) for alpha, s in zip(alphas, similarities, strict=True))
    return sum(math.exp(s / tau) for s in similarities)


def discrimination_by_loops(
    views: Views,
    ids: Ids,
    label: Sequence[int],
    projection: nn.Module,
    kind: str,
    margin: float,
    tau: float,
    hard_negatives: str,
    mask: bool,
    excluded: Collection[tuple[int, int]] = (),
) -> float:
    """`excluded` are pairs of a text and one that is no negative of it."""
    size = len(label)
    texts = [*ids["anchor"], *ids["positive"]]
    first, second = linears(projection)
    z = [linear(second, [max(x, 0.0) for x in linear(first, u)]) for u in [*views["anchor"], *views["positive"]]]
    losses = []
    for i in range(size):
        if label[i] != 0:
            continue
        for anchor, partner in [(i, i + size), (i + size, i)]:
            taken = {texts[anchor], texts[partner]} if mask else set()
            taken |= {other for own, other in excluded if own in (texts[anchor], texts[partner])}
            # Another entailed pair that shares a text is none either.
            shares = [any(ids[v][j] == ids[v][i] for v in ("anchor", "positive")) for j in range(size)]
            apart = [j for j in range(size) if j != i and not (mask and shares[j] and label[j] == 0)]
            rest = [j for one in apart for j in (one, one + size) if texts[j] not in taken]
            own = math.exp(similarity_of(z[anchor], z[partner], kind, margin) / tau)
            others = weighed_by_loops([similarity_of(z[anchor], z[j], kind) for j in rest], tau, hard_negatives)
            losses.append(-math.log(own / (own + others)))
    return sum(losses) / len(losses)


def entailed_and_others(ids: Ids, label: Sequence[int], i: int, mask: bool) -> tuple[list[int], list[int]]:
    """The rows of the hypotheses that the premise of row i entails, and with `mask` of those that no such row has."""
    rows = range(len(label))
    entailed = [j for j in rows if label[j] == 0 and ids["anchor"][j] == ids["anchor"][i]]
    taken = {ids["anchor"][i], *(ids["positive"][j] for j in entailed)} if mask else set()
    return entailed, [j for j in rows if j not in entailed and ids["positive"][j] not in taken]


def supervised_contrast_by_loops(
    views: Views,
    ids: Ids,
    label: Sequence[int],
    tau: float,
    kind: str | None,
    margin: float,
    mask: bool,
) -> float:
    """Kind None compares by dot products."""
    premises, hypotheses = views["anchor"], views["positive"]
    losses = []
    for i in range(len(label)):
        if label[i] != 0:
            continue
        positives, negatives = entailed_and_others(ids, label, i, mask)
        logit = {}
        for j in [*positives, *negatives]:
            if kind is None:
                logit[j] = dot(premises[i], hypotheses[j]) / tau
            else:
                logit[j] = similarity_of(premises[i], hypotheses[j], kind, margin if j in positives else 0.0) / tau
        below = sum(math.exp(x) for x in logit.values())
        losses.append(-sum(math.log(math.exp(logit[p]) / below) for p in positives) / len(positives))
    return sum(losses) / len(losses)


def distance(a: Vector, b: Vector, measure: str) -> float:
    """How far apart two embeddings of a triplet are: −cos, ‖a − b‖ of unit vectors, or the angle."""
    a, b = unit(a), unit(b)
    if measure == "mpt":
        return -dot(a, b)
    if measure == "met":
        return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    return math.acos(dot(a, b))


def triplet_by_loops(views: Views, ids: Ids, measure: str, margin: float, mask: bool = False) -> float:
    """`margin` in the unit of `measure`: cosine, distance, or degrees."""
    anchors, positives = views["anchor"], views["positive"]
    shift = margin * math.pi / 180 if measure == "mat" else margin
    total = 0.0
    for j, y in enumerate(positives):
        taken = {ids["anchor"][j], ids["positive"][j]} if mask else set()
        others = [anchors[i] for i in rows_apart(ids, j, mask) if ids["anchor"][i] not in taken]
        if others:
            nearest = min(distance(x, y, measure) for x in others)
            total += max(0.0, shift + distance(anchors[j], y, measure) - nearest)
    return total / len(positives)


def augmented_by_loops(
    views: Views, ids: Ids, label: Sequence[int], classifier: nn.Module, mask: bool = False
) -> float:
    rows = range(len(label))
    pairs = [(i, i, label[i]) for i in rows]
    for i in rows:
        if label[i] != 0:
            continue
        entailed, others = entailed_and_others(ids, label, i, mask)
        pairs += [(i, j, 0) for j in entailed]
        pairs += [(i, j, label[j] if ids["anchor"][j] == ids["anchor"][i] else 2) for j in others]
    by_pair = {
        "anchor": [views["anchor"][i] for i, _, _ in pairs],
        "positive": [views["positive"][j] for _, j, _ in pairs],
    }
    return cross_entropy_by_loops(by_pair, classifier, [y for _, _, y in pairs])
