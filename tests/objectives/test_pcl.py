"""PCL against plain loops over its lists."""

import math
from collections.abc import Iterable, Mapping

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rows import Rows
from support.batches import MARGINS, Objective, batch, check, numbers, vectors
from support.by_loops import Ids, Views, contrast_by_loops, similarity_of

NAMES = ("anchor", "positive", "shuffle_1")
pcl = Objective("pcl", tau=0.3)

List = Mapping[str | int, float]
"""The probabilities of a row's own views by name, and of the other rows' positives by number."""


def peers(*names: str, rows: int) -> dict[str, Tensor]:
    """Views of the net and of its peer."""
    return batch(*names, *(f"peer_{name}" for name in names), rows=rows)


def list_of(i: int, asking: Views, answering: Views, ids: Ids, kind: str, tau: float, mask: bool) -> List:
    """SimACE Eq. 12."""
    own: dict[str | int, float] = {
        name: similarity_of(asking["anchor"][i], view[i], kind) for name, view in answering.items() if name != "anchor"
    }
    taken = {ids["anchor"][i], ids["positive"][i]} if mask else set()
    others: dict[str | int, float] = {
        j: similarity_of(asking["anchor"][i], other, kind)
        for j, other in enumerate(answering["positive"])
        if j != i and ids["positive"][j] not in taken
    }
    weights = {key: math.exp(s / tau) for key, s in (own | others).items()}
    return {key: weight / sum(weights.values()) for key, weight in weights.items()}


def group_by_loops(lists: Iterable[List]) -> float:
    """The mean of −log of the probabilities of a list's own views, summed over the lists."""
    total = 0.0
    for probabilities in lists:
        own = [name for name in probabilities if isinstance(name, str)]
        total -= sum(math.log(probabilities[name]) for name in own) / len(own)
    return total


def kl_by_loops(p: List, q: List) -> float:
    return sum(p[key] * math.log(p[key] / q[key]) for key in p)


def parts_by_loops(
    views: Views, ids: Ids, kind: str, margin: float, tau: float, mask: bool = False
) -> dict[str, float]:
    net = {name: view for name, view in views.items() if not name.startswith("peer_")}
    peer, rows = {name: views[f"peer_{name}"] for name in net}, range(len(views["anchor"]))

    def lists(asking: Views, answering: Views) -> list[List]:
        return [list_of(i, asking, answering, ids, kind, tau, mask) for i in rows]

    return {
        "contrast": contrast_by_loops(net, ids, kind, margin, tau, mask=mask),
        "peer": contrast_by_loops(peer, ids, kind, margin, tau, mask=mask),
        "group": group_by_loops([*lists(net, peer), *lists(peer, net)]) / len(rows),
        "across": sum(map(kl_by_loops, lists(peer, net), lists(net, peer))) / len(rows),
        "within": sum(map(kl_by_loops, lists(peer, peer), lists(net, net))) / len(rows),
    }


REPEATED = [0, 1, 2, 2, 1]


@pytest.mark.parametrize("names", [NAMES[:2], NAMES])
@pytest.mark.parametrize(
    ("kind", "margin", "texts", "mask"),
    [*((*how, [0, 1, 2], False) for how in MARGINS), *(("cosine", 0.0, REPEATED, mask) for mask in (False, True))],
)
def test_pcl_is_its_formula_in_value_and_gradient(
    kind: str, margin: float, texts: list[int], mask: bool, names: tuple[str, ...]
) -> None:
    """Duplicates are no negatives of either encoder when masked."""
    views = peers(*names, rows=len(texts))
    ids = {name: torch.tensor(texts) for name in ("anchor", "positive")}
    loss, parts = pcl(views, Rows(ids, mask_duplicates=mask), similarity=kind, margin=margin)
    expected = parts_by_loops(vectors(views), numbers(ids), kind, margin, 0.3, mask)
    assert {name: part.item() for name, part in parts.items()} == pytest.approx(expected, rel=1e-9)
    check(loss, lambda: sum(parts_by_loops(vectors(views), numbers(ids), kind, margin, 0.3, mask).values()), views)
