"""PCL against plain loops over its lists, its identities, and the slips of its released code."""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.pcl import divergence
from contrastcli.objectives.rows import Rows
from support.batches import MARGINS, Objective, batch, check, numbers, vectors
from support.by_loops import Ids, Views, infonce_by_loops, similarity_of
from support.rounding import assert_near

NAMES = ("anchor", "positive", "shuffle_1", "delete_1")
infonce, pcl = Objective("simcse", tau=0.3), Objective("pcl", tau=0.3)

List = Mapping[str | int, float]
"""The probabilities of a row's own views by name, and of the other rows' positives by number."""


def peers(*names: str, rows: int = 4, width: int = 2) -> dict[str, Tensor]:
    """Views of the net and of its peer."""
    return batch(*names, *(f"peer_{name}" for name in names), rows=rows, width=width)


def ids_of(rows: int) -> dict[str, Tensor]:
    """Distinct sentences, each its own positive."""
    return {name: torch.arange(rows) for name in ("anchor", "positive")}


def of_net(views: Views) -> Views:
    return {name: view for name, view in views.items() if not name.startswith("peer_")}


def of_peer(views: Views) -> Views:
    return {name.removeprefix("peer_"): view for name, view in views.items() if name.startswith("peer_")}


# ---- the formulas, by loops -----------------------------------------------------------------------------------------


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


def group_by_loops(views: Views, ids: Ids, kind: str, tau: float, mask: bool = False) -> float:
    total, rows = 0.0, len(views["anchor"])
    for asking, answering in [(of_net(views), of_peer(views)), (of_peer(views), of_net(views))]:
        for i in range(rows):
            probabilities = list_of(i, asking, answering, ids, kind, tau, mask)
            own = [name for name in probabilities if isinstance(name, str)]
            total -= sum(math.log(probabilities[name]) for name in own) / len(own)
    return total / rows


def kl_by_loops(p: List, q: List) -> float:
    return sum(p[key] * math.log(p[key] / q[key]) for key in p)


def across_by_loops(views: Views, ids: Ids, kind: str, tau: float, mask: bool = False) -> float:
    net, peer, rows = of_net(views), of_peer(views), len(views["anchor"])
    lists = [[list_of(i, a, b, ids, kind, tau, mask) for i in range(rows)] for a, b in [(peer, net), (net, peer)]]
    return sum(map(kl_by_loops, *lists)) / rows


def within_by_loops(views: Views, ids: Ids, kind: str, tau: float, mask: bool = False) -> float:
    net, peer, rows = of_net(views), of_peer(views), len(views["anchor"])
    lists = [[list_of(i, a, a, ids, kind, tau, mask) for i in range(rows)] for a in (peer, net)]
    return sum(map(kl_by_loops, *lists)) / rows


def parts_by_loops(
    views: Views, ids: Ids, kind: str, margin: float, tau: float, mask: bool = False
) -> dict[str, float]:
    return {
        "contrast": infonce_by_loops(of_net(views), ids, kind, margin, tau, mask=mask),
        "peer": infonce_by_loops(of_peer(views), ids, kind, margin, tau, mask=mask),
        "group": group_by_loops(views, ids, kind, tau, mask),
        "across": across_by_loops(views, ids, kind, tau, mask),
        "within": within_by_loops(views, ids, kind, tau, mask),
    }


@pytest.mark.parametrize("names", [NAMES[:2], NAMES[:3]])
@pytest.mark.parametrize(("kind", "margin"), MARGINS)
def test_pcl_is_its_formula_in_value_and_gradient(kind: str, margin: float, names: tuple[str, ...]) -> None:
    views, ids = peers(*names, rows=3), ids_of(3)
    loss, parts = pcl(views, Rows(ids), similarity=kind, margin=margin)
    expected = parts_by_loops(vectors(views), numbers(ids), kind, margin, 0.3)
    assert {name: part.item() for name, part in parts.items()} == pytest.approx(expected, rel=1e-9)
    assert not any(part.requires_grad for part in parts.values())
    check(loss, lambda: sum(parts_by_loops(vectors(views), numbers(ids), kind, margin, 0.3).values()), views)


@pytest.mark.parametrize("mask", [True, False])
def test_duplicates_are_no_negatives_of_either_encoder_when_masked(mask: bool) -> None:
    views = peers(*NAMES[:3], rows=5)
    ids = {name: torch.tensor([0, 1, 2, 2, 1]) for name in ("anchor", "positive")}
    _, parts = pcl(views, Rows(ids, mask_duplicates=mask))
    expected = parts_by_loops(vectors(views), numbers(ids), "cosine", 0.0, 0.3, mask)
    assert {name: part.item() for name, part in parts.items()} == pytest.approx(expected, rel=1e-9)


# ---- identities -----------------------------------------------------------------------------------------------------


def test_identical_peers_agree_and_their_divergences_are_zero() -> None:
    net = batch(*NAMES, rows=4)
    views = net | {f"peer_{name}": view for name, view in net.items()}
    _, parts = pcl(views, Rows(ids_of(4)))
    assert parts["across"] == parts["within"] == 0
    assert parts["contrast"] == parts["peer"] > 0


def test_with_the_dropout_copy_alone_the_group_is_infonce_across_the_encoders() -> None:
    views = peers("anchor", "positive")
    _, parts = pcl(views, Rows(ids_of(4)))
    there = {"anchor": views["anchor"], "positive": views["peer_positive"]}
    back = {"anchor": views["peer_anchor"], "positive": views["positive"]}
    both = [infonce(now, Rows(ids_of(4)), similarity="cosine", margin=0.0)[0].item() for now in (there, back)]
    assert parts["group"].item() == pytest.approx(sum(both))


def test_a_margin_is_the_contrasts_alone() -> None:
    views = peers(*NAMES)
    parts = [pcl(views, Rows(ids_of(4)), similarity="angle", margin=m)[1] for m in (0.0, 10.0)]
    assert all(parts[0][name] < parts[1][name] for name in ("contrast", "peer"))
    assert all(parts[0][name] == parts[1][name] for name in ("group", "across", "within"))


def test_the_peer_is_the_first_of_both_divergences() -> None:
    """KL is not symmetric: a peer that is sure of what the net is not costs more than the reverse."""
    sure, unsure = torch.tensor([[0.98, 0.01, 0.01]]).log(), torch.tensor([[0.4, 0.3, 0.3]]).log()
    assert_near(divergence(sure, unsure), [0.98 * math.log(2.45) + 0.02 * math.log(1 / 30)])
    views = peers(*NAMES)
    swapped = {
        ("peer_" + name if not name.startswith("peer_") else name.removeprefix("peer_")): v for name, v in views.items()
    }
    parts, other = (pcl(now, Rows(ids_of(4)))[1] for now in (views, swapped))
    assert parts["group"].item() == pytest.approx(other["group"].item())
    assert abs(parts["across"] - other["across"]) > 1e-3 and abs(parts["within"] - other["within"]) > 1e-3


# ---- slips of released code -----------------------------------------------------------------------------------------


def test_the_group_contrast_is_the_log_of_the_softmax() -> None:
    """Rows told apart completely leave log K for each encoder. A sigmoid loss of the softmax's outputs, which all lie
    between 0 and 1, would instead be −log σ(1/K), and still have a gradient."""
    apart = torch.eye(4, 6, dtype=torch.float64).requires_grad_()
    views = dict.fromkeys([*NAMES, *(f"peer_{name}" for name in NAMES)], apart)
    loss, parts = pcl(views, Rows(ids_of(4)), tau=0.01)
    assert parts["group"].item() == pytest.approx(2 * math.log(3))
    assert torch.autograd.grad(loss, apart)[0].abs().max() < 1e-9


def test_divergence_is_a_sum_over_a_list_and_a_mean_over_rows() -> None:
    """A mean over all entries would shrink with the size of the batch."""
    p, q = torch.tensor([[0.7, 0.2, 0.1]] * 5).log(), torch.tensor([[0.1, 0.2, 0.7]] * 5).log()
    assert_near(divergence(p, q), [0.6 * math.log(7)] * 5)
