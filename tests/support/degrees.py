"""The angles of a batch by plain loops over its rows, in float64 and degrees."""

import math
from collections.abc import Mapping

from torch import Tensor

from contrastcli.objectives.rows import Rows


def degrees(a: Tensor, b: Tensor) -> float:
    """The angle between two vectors."""
    a, b = a.double(), b.double()
    return math.degrees(math.acos(max(-1.0, min(1.0, float(a @ b / a.norm() / b.norm())))))


def negatives_by_loops(views: Mapping[str, Tensor], rows: Rows) -> dict[int, list[tuple[float, int]]]:
    """By the row of each positive pair its negatives: the angle to the anchor, and the text.

    They are all texts but the pair's own two and, of the second sentences, other positives of the anchor.
    """
    ids = {view: texts.tolist() for view, texts in rows.ids.items()}
    count = len(ids["anchor"])
    is_positive = [True] * count
    if rows.label is not None:
        is_positive = [label == 0 for label in rows.label.tolist()]
    elif rows.score is not None:
        is_positive = [score > 0.8 for score in rows.score.tolist()]
    negatives: dict[int, list[tuple[float, int]]] = {}
    for i in [i for i in range(count) if is_positive[i]]:
        own = (ids["anchor"][i], ids["positive"][i], -1)
        negatives[i] = []
        for view in [view for view in views if view != "anchor"]:
            for j, text in enumerate(ids[view]):
                is_other_positive = view == "positive" and ids["anchor"][j] == own[0] and is_positive[j]
                if text not in own and not is_other_positive:
                    negatives[i].append((degrees(views["anchor"][i], views[view][j]), text))
    return negatives
