"""RankCSE against plain loops over lists, and what its lists are at their ends."""

import math

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rankcse import listnet
from contrastcli.objectives.rows import Rows
from contrastcli.settings.losses import Distillation
from support.batches import MARGINS, Objective, batch, check, distinct, numbers, vectors
from support.by_loops import Ids, Views, contrast_by_loops, similarity_of

TAU, TEACHER_TAU = 0.3, 0.1
rankcse = Objective("rankcse", tau=TAU, beta=0.7, gamma=1.3, teacher_tau=TEACHER_TAU)
DISTANCES: tuple[Distillation, ...] = ("listnet", "listmle")
DUPLICATES = {  # row 1's positive is row 0's anchor; row 3 is row 2 again
    "anchor": torch.tensor([0, 1, 2, 2, 8]),
    "positive": torch.tensor([4, 0, 6, 6, 9]),
}


def taught() -> dict[str, Tensor]:
    """A student's views, which are trained, and a wider teacher's, which are not."""
    teacher = batch("teacher_anchor", "teacher_positive", rows=5, width=3, seed=1)
    return batch("anchor", "positive", rows=5) | {name: view.detach() for name, view in teacher.items()}


def softmax_of(logits: dict[int, float]) -> dict[int, float]:
    total = sum(math.exp(x) for x in logits.values())
    return {j: math.exp(x) / total for j, x in logits.items()}


def candidates(ids: Ids, i: int, mask: bool) -> list[int]:
    own = {ids["anchor"][i], ids["positive"][i]} if mask else set()
    rest = range(len(ids["anchor"]))
    return [j for j in rest if j == i or not {ids["anchor"][j], ids["positive"][j]} & own]


def consistency_by_loops(views: Views, ids: Ids, kind: str, mask: bool = False) -> float:
    total = 0.0
    for i in range(len(views["anchor"])):
        columns = candidates(ids, i, mask)
        p = softmax_of({j: similarity_of(views["anchor"][i], views["positive"][j], kind) / TAU for j in columns})
        q = softmax_of({j: similarity_of(views["positive"][i], views["anchor"][j], kind) / TAU for j in columns})
        for j in columns:
            m = (p[j] + q[j]) / 2
            total += (p[j] * math.log(p[j] / m) + q[j] * math.log(q[j] / m)) / 2
    return total / len(views["anchor"])


def distillation_by_loops(views: Views, ids: Ids, kind: str, how: Distillation, mask: bool = False) -> float:
    total = 0.0
    for i in range(len(views["anchor"])):
        columns = candidates(ids, i, mask)
        student = {j: similarity_of(views["anchor"][i], views["positive"][j], kind) / TAU for j in columns}
        teacher = {
            j: similarity_of(views["teacher_anchor"][i], views["teacher_positive"][j], "cosine") for j in columns
        }
        if how == "listnet":
            del student[i], teacher[i]
            wanted, actual = softmax_of({j: t / TEACHER_TAU for j, t in teacher.items()}), softmax_of(student)
            total -= sum(wanted[j] * math.log(actual[j]) for j in wanted)
        else:
            order = sorted(columns, key=lambda j: -teacher[j])
            places = [softmax_of({j: student[j] for j in order[k:]})[order[k]] for k in range(len(order))]
            total -= sum(math.log(chance) for chance in places) / len(places)
    return total / len(views["anchor"])


@pytest.mark.parametrize("how", DISTANCES)
@pytest.mark.parametrize(
    ("kind", "margin", "ids", "mask"),
    [*((*how, None, False) for how in MARGINS), ("cosine", 0.0, DUPLICATES, False), ("cosine", 0.0, DUPLICATES, True)],
)
def test_rankcse_is_its_formula_in_value_and_gradient(
    kind: str, margin: float, ids: dict[str, Tensor] | None, mask: bool, how: Distillation
) -> None:
    """Duplicates are left out of the lists only when asked."""
    views = taught()
    ids = ids or distinct(views)
    rows = Rows(ids, mask_duplicates=mask)
    loss, parts = rankcse(views, rows, similarity=kind, margin=margin, distillation=how)

    def distance() -> float:
        return distillation_by_loops(vectors(views), numbers(ids), kind, how, mask)

    def by_loops() -> float:
        now, texts = vectors(views), numbers(ids)
        contrast = contrast_by_loops(now, texts, kind, margin, 0.3, mask=mask)
        return contrast + 0.7 * consistency_by_loops(now, texts, kind, mask) + 1.3 * distance()

    check(loss, by_loops, views)
    assert parts.keys() == {"contrast", "consistency", "distillation"}
    assert parts["distillation"].item() == pytest.approx(distance())


def test_without_a_valid_column_a_list_is_no_distance_away() -> None:
    student, teacher = batch("s", "t", rows=3, width=6).values()
    assert (listnet(student, teacher, torch.zeros(3, 6, dtype=torch.bool)) == 0).all()
