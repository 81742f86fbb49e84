"""The angles that are logged, against plain loops over pairs of rows."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.rows import Rows
from contrastcli.runs.measured import Angles
from contrastcli.settings import config
from contrastcli.settings.config import Layer
from contrastcli.settings.similarity import SIMILARITIES
from contrastcli.training import angles
from contrastcli.training.angles import Scale
from support.degrees import degrees, negatives_by_loops

MARGIN = 10.0
SCALE = Scale(MARGIN, similarity=SIMILARITIES["angle"], tau=0.06)


def by_loops(views: dict[str, Tensor], rows: Rows) -> dict[str, list[float]]:
    """Every anchor, its positive and its negatives, one after another."""
    expected: dict[str, list[float]] = {name: [] for name in ("positive", "negative", "hardest", "satisfied")}
    for i, negatives in negatives_by_loops(views, rows).items():
        own, against = degrees(views["anchor"][i], views["positive"][i]), [angle for angle, _ in negatives]
        expected["positive"].append(own)
        expected["negative"] += against
        expected["hardest"] += [min(against)] if against else []
        expected["satisfied"].append(not against or own + MARGIN < min(against))
    return expected


def measure(views: dict[str, Tensor], rows: Rows) -> Angles:
    return angles.measure(3, views, rows, SCALE)


def batch(count: int, *names: str, texts: int = 1000) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Random embeddings of dimension 3 and text ids; few `texts` make duplicates."""
    generator = torch.Generator().manual_seed(count)
    ids = {name: torch.randint(texts, (count,), generator=generator) for name in names}
    return {name: torch.randn(count, 3, generator=generator) for name in names}, ids


@pytest.mark.parametrize("block", [256, 4])
@pytest.mark.parametrize("texts", [1000, 12])
@pytest.mark.parametrize("kind", ["pairs", "triplets", "several", "labelled", "scored"])
def test_angles_are_those_of_loops_over_pairs(
    kind: str, texts: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(angles, "BLOCK", block)
    hard = {"triplets": ["negative"], "several": ["negative", "negative_2"]}.get(kind, [])
    views, ids = batch(14, "anchor", "positive", *hard, texts=texts)
    if kind == "several":
        ids["negative_2"][3:9] = -1
    rows = Rows(ids, torch.arange(14) % 3 if kind == "labelled" else None)
    if kind == "scored":
        rows = Rows(ids, score=torch.arange(14) / 13)
    expected = by_loops(views, rows)
    event = measure(views, rows)
    for name, values in expected.items():
        assert getattr(event, name) == pytest.approx(sum(values) / len(values), abs=2e-3), name
    for name in ("positive", "negative"):
        counts = [0] * 36
        for angle in expected[name]:
            counts[min(35, int(angle // 5))] += 1
        assert getattr(event, f"{name}_histogram") == counts


def test_the_hardest_negatives_are_told_as_texts_each_two_once() -> None:
    views, ids = batch(40, "anchor", "positive", texts=60)
    texts = [f"text {number} " + "word " * 60 for number in range(60)]
    event = angles.measure(3, views, Rows(ids), SCALE, texts)
    pairs: dict[frozenset[int], tuple[float, float]] = {}
    for i, negatives in negatives_by_loops(views, Rows(ids)).items():
        near, text = min(negatives)
        pair = frozenset((int(ids["anchor"][i]), text))
        pairs[pair] = min(pairs.get(pair, (180.0, 0.0)), (near, degrees(views["anchor"][i], views["positive"][i])))
    expected = sorted(pairs.items(), key=lambda item: item[1])[:5]
    assert len(event.closest) == 5
    for one, (pair, (negative, positive)) in zip(event.closest, expected, strict=True):
        assert {int(text.split()[1]) for text in (one.anchor, one.negative)} == pair
        assert (one.negative_deg, one.positive_deg) == pytest.approx((negative, positive), abs=0.02)
        assert len(one.negative) == 200 and one.negative.endswith("…")
    assert measure(views, Rows(ids)).closest == []


def test_a_batch_without_positives_or_negatives_has_no_mean() -> None:
    views, ids = batch(4, "anchor", "positive")
    contradictions = measure(views, Rows(ids, torch.full((4,), 2)))
    assert (contradictions.positive, contradictions.hardest, contradictions.satisfied) == (None, None, None)
    alone = measure(views, Rows({name: torch.zeros(4, dtype=torch.long) for name in ids}))
    assert (alone.negative, alone.hardest, alone.satisfied) == (None, None, 1.0)
    single = measure({"anchor": views["anchor"]}, Rows({"anchor": ids["anchor"]}))
    assert (single.positive, single.satisfied, single.closest, sum(single.positive_histogram)) == (None, None, [], 0)
    assert single.negative and single.hardest


@pytest.mark.parametrize(
    ("scale", "shifted"),
    [
        (Scale(15.0), lambda angle: angle + 15),
        (Scale(0.2, "cosine"), lambda angle: math.degrees(math.acos(max(-1.0, math.cos(math.radians(angle)) - 0.2)))),
        (
            Scale(0.3, "distance"),
            lambda angle: math.degrees(2 * math.asin(min(1.0, math.sin(math.radians(angle) / 2) + 0.15))),
        ),
    ],
)
def test_a_margin_in_any_unit_is_the_angle_that_negatives_must_exceed(
    scale: Scale, shifted: Callable[[float], float]
) -> None:
    views, ids = batch(12, "anchor", "positive")
    event = angles.measure(3, views, Rows(ids), scale)
    own = [degrees(views["anchor"][i], views["positive"][i]) for i in range(12)]
    against = [min(negatives)[0] for negatives in negatives_by_loops(views, Rows(ids)).values()]
    limits = [min(180.0, shifted(angle)) for angle in own]
    assert event.with_margin == pytest.approx(sum(limits) / 12, abs=2e-3)
    assert event.satisfied == pytest.approx(sum(a < b for a, b in zip(limits, against, strict=True)) / 12, abs=1e-4)


@pytest.mark.parametrize("same_side", [False, True])
def test_effective_negatives_are_e_to_the_entropy_of_the_softmax_over_them(same_side: bool) -> None:
    views, ids = batch(9, "anchor", "positive", "negative", texts=14)
    tau, found = 0.3, []
    scale = Scale(similarity=SIMILARITIES["cosine"], tau=tau, same_side=same_side)
    given = 0
    for i in range(9):
        own = {int(ids["anchor"][i]), int(ids["positive"][i])}
        names = ["positive", "negative", *(["anchor"] if same_side else [])]
        apart = [ids["anchor"][j] != ids["anchor"][i] and ids["positive"][j] != ids["positive"][i] for j in range(9)]
        others = [
            views[name][j] for name in names for j in range(9)
            if int(ids[name][j]) not in own and (name == "negative" or apart[j])
        ]  # fmt: skip
        given += len(others)
        weights = [math.exp(math.cos(math.radians(degrees(views["anchor"][i], other))) / tau) for other in others]
        shares = [weight / sum(weights) for weight in weights]
        found.append(math.exp(-sum(share * math.log(share) for share in shares)))
    event = angles.measure(3, views, Rows(ids), scale)
    assert event.effective == pytest.approx(sum(found) / 9, rel=1e-4)
    assert event.negatives == pytest.approx(given / 9, abs=0.01)
    assert angles.measure(3, views, Rows(ids), Scale()).effective is None


def test_the_scale_is_that_of_the_objective() -> None:
    def scale(name: str, **settings: object) -> Scale:
        values = {"objective.name": name} | {f"objective.{key}": value for key, value in settings.items()}
        return Scale.of(config.resolve([Layer.of(values, "test")]))

    assert (scale("simace").margin, scale("simace").unit, scale("simace").tau) == (10.0, "degrees", 0.06)
    assert scale("simcse", margin=0.1).unit == "cosine" and not scale("simcse").same_side
    assert scale("pairsupcon").same_side and scale("simcse", same_side=True).same_side
    assert scale("met").unit == "distance" and scale("met").similarity is None
    assert scale("supcon").similarity is None, "it compares by dot products"
