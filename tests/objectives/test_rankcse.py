"""RankCSE against plain loops over lists, and the slips that its lists invite."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rankcse import jensen_shannon, listmle, listnet
from contrastcli.objectives.rows import Rows
from contrastcli.settings.losses import Distillation
from support.batches import MARGINS, Objective, batch, check, distinct, numbers, vectors
from support.by_loops import Ids, Views, infonce_by_loops, similarity_of
from support.rounding import assert_near

TAU, TEACHER_TAU = 0.3, 0.1
infonce = Objective("simcse", tau=TAU)
rankcse = Objective("rankcse", tau=TAU, beta=0.7, gamma=1.3, teacher_tau=TEACHER_TAU)
DISTANCES: tuple[Distillation, ...] = ("listnet", "listmle")
DUPLICATES = {  # row 1's positive is row 0's anchor; row 3 is row 2 again
    "anchor": torch.tensor([0, 1, 2, 2, 8]),
    "positive": torch.tensor([4, 0, 6, 6, 9]),
}


def taught(*, rows: int = 5, width: int = 2, seed: int = 0) -> dict[str, Tensor]:
    """A student's views, which are trained, and a wider teacher's, which are not."""
    teacher = batch("teacher_anchor", "teacher_positive", rows=rows, width=3, seed=seed + 1)
    return batch("anchor", "positive", rows=rows, width=width, seed=seed) | {k: v.detach() for k, v in teacher.items()}


# ---- the formulas, by loops -----------------------------------------------------------------------------------------


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
@pytest.mark.parametrize(("kind", "margin"), MARGINS)
def test_rankcse_is_its_formula_in_value_and_gradient(kind: str, margin: float, how: Distillation) -> None:
    views = taught()
    ids = distinct(views)
    loss, parts = rankcse(views, Rows(ids), similarity=kind, margin=margin, distillation=how)

    def by_loops() -> float:
        now, texts = vectors(views), numbers(ids)
        contrast = infonce_by_loops(now, texts, kind, margin, 0.3)
        distance = distillation_by_loops(now, texts, kind, how)
        return contrast + 0.7 * consistency_by_loops(now, texts, kind) + 1.3 * distance

    check(loss, by_loops, views)
    expected = distillation_by_loops(vectors(views), numbers(ids), kind, how)
    assert parts.keys() == {"contrast", "consistency", "distillation"}
    assert parts["distillation"].item() == pytest.approx(expected)
    assert not any(part.requires_grad for part in parts.values())


@pytest.mark.parametrize("how", DISTANCES)
@pytest.mark.parametrize("mask", [True, False])
def test_duplicates_are_left_out_of_the_lists_only_when_asked(mask: bool, how: Distillation) -> None:
    views = taught()
    rows = Rows(DUPLICATES, mask_duplicates=mask)
    loss, _ = rankcse(views, rows, distillation=how)

    def by_loops() -> float:
        now, ids = vectors(views), numbers(DUPLICATES)
        contrast = infonce_by_loops(now, ids, "cosine", 0.0, 0.3, mask=mask)
        distance = distillation_by_loops(now, ids, "cosine", how, mask)
        return contrast + 0.7 * consistency_by_loops(now, ids, "cosine", mask) + 1.3 * distance

    check(loss, by_loops, views)


# ---- identities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "margin"), MARGINS)
def test_without_consistency_and_distillation_it_is_simcse(kind: str, margin: float) -> None:
    views = batch("anchor", "positive", rows=5)
    rows = Rows(distinct(views))
    loss, parts = rankcse(views, rows, similarity=kind, margin=margin, beta=0.0, gamma=0.0)
    gradients = torch.autograd.grad(loss, list(views.values()))
    plain, _ = infonce(views, rows, similarity=kind, margin=margin)
    assert loss == plain and parts.keys() == {"contrast", "consistency"}
    assert all(map(torch.equal, gradients, torch.autograd.grad(plain, list(views.values()))))


def test_a_margin_is_the_contrasts_alone() -> None:
    views = taught()
    rows = Rows(distinct(views))
    without, parts = (rankcse(views, rows, similarity="angle", margin=m)[1] for m in (0.0, 10.0))
    assert without["contrast"] < parts["contrast"]
    assert all(without[name] == parts[name] for name in ("consistency", "distillation"))


def test_a_teachers_list_is_of_cosines_whatever_the_students_is() -> None:
    """At τ2 = τ a student that is its own teacher agrees with it best under the cosine, not under the angle."""
    views = batch("anchor", "positive", rows=4, width=3)
    own = {f"teacher_{name}": view.detach() for name, view in views.items()}
    loss = partial(rankcse, views | own, Rows(distinct(views)), distillation="listnet", teacher_tau=0.3)

    def pull(kind: str) -> float:
        distance = loss(similarity=kind, gamma=1.0)[0] - loss(similarity=kind, gamma=0.0)[0]
        return torch.autograd.grad(distance, views["anchor"])[0].abs().max().item()

    assert pull("cosine") < 1e-12 < 1e-3 < pull("angle")


def test_a_teachers_views_get_no_gradient_and_their_length_does_not_matter() -> None:
    views = taught()
    longer = views | {name: 7 * views[name] for name in ("teacher_anchor", "teacher_positive")}
    for how in ("listnet", "listmle"):
        losses = [rankcse(now, Rows(distinct(now)), distillation=how)[0].item() for now in (views, longer)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert views["teacher_anchor"].grad is None


# ---- slips of released code -----------------------------------------------------------------------------------------


def test_equal_lists_are_consistent_and_opposite_ones_log_2_apart() -> None:
    """A mixture whose log is clamped to a positive constant would make this the negated entropy of the lists."""
    a, b = torch.tensor([[9.0, 2.0, 1.0]]), torch.tensor([[200.0, 0.0, 0.0]])
    assert_near(jensen_shannon(a, a), [0.0], scale=1)
    assert_near(jensen_shannon(b, b.flip(1)), [math.log(2)])
    assert 0 < jensen_shannon(a, b).item() < math.log(2)


def test_identical_views_are_consistent() -> None:
    views, ids = batch("anchor", rows=4, width=3), {name: torch.arange(4) for name in ("anchor", "positive")}
    _, parts = rankcse(views | {"positive": views["anchor"]}, Rows(ids), gamma=0.0)
    assert parts["consistency"].item() == pytest.approx(0.0, abs=1e-12)


def test_listmle_is_a_mean_over_places() -> None:
    """Alike logits draw each place from 4, 3, 2, 1 columns: not the sum of their logs, which is four times as much."""
    keep = torch.ones(1, 4, dtype=torch.bool)
    loss = listmle(torch.zeros(1, 4), torch.tensor([[0.3, 0.1, 0.9, 0.2]]), keep)
    assert_near(loss, [math.log(24) / 4])


def test_the_diagonal_is_a_place_of_listmle_and_not_of_listnet() -> None:
    """Of two rows each has one other: nothing for listnet to tell apart, two places for listmle."""
    views = taught(rows=2)
    distances = {how: rankcse(views, Rows(distinct(views)), distillation=how)[1] for how in ("listnet", "listmle")}
    assert distances["listnet"]["distillation"] == 0 < 0.01 < distances["listmle"]["distillation"]


def test_an_agreeing_student_is_more_likely_than_an_opposed_one() -> None:
    teacher = torch.tensor([[0.9, 0.1, 0.5, -0.3]])
    keep = torch.ones(1, 4, dtype=torch.bool)
    for distance in (listnet, listmle):
        assert distance(teacher, teacher, keep) < distance(0 * teacher, teacher, keep)
        assert distance(0 * teacher, teacher, keep) < distance(-teacher, teacher, keep)


def test_masked_columns_count_for_nothing() -> None:
    student, teacher = batch("s", "t", rows=3, width=6).values()
    keep = torch.tensor([True, False, True, True, False, True]).expand(3, 6)
    for distance in (listnet, listmle):
        alone = distance(student[:, keep[0]], teacher[:, keep[0]], torch.ones(3, 4, dtype=torch.bool))
        torch.testing.assert_close(distance(student, teacher, keep), alone)
    assert (listnet(student, teacher, keep & False) == 0).all()
