"""Anchors that are violated again and again, against counts and angles by plain loops over the batches of a run."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from contrastcli.api import ObjectiveSettings, Spec
from contrastcli.objectives.functional import Result
from contrastcli.objectives.rows import Rows
from contrastcli.runs.directory import Run
from contrastcli.runs.measured import Violated
from contrastcli.training.auxiliaries import violations
from contrastcli.training.auxiliaries.violations import Violations, hardest_negatives
from contrastcli.training.batch import Batch
from support.degrees import degrees, negatives_by_loops
from support.packages import bring_objective
from support.tiny import Tiny, on_step, told, train

Found = tuple[int, int, int, float, float]
"""An anchor, its positive and its hardest negative, and the angles to both."""


def by_loops(views: Mapping[str, Tensor], rows: Rows) -> list[Found]:
    """Each positive pair with the closest of its negatives."""
    found = []
    for i, negatives in negatives_by_loops(views, rows).items():
        angle, negative = min(negatives, default=(180.0, -1))
        own = degrees(views["anchor"][i], views["positive"][i])
        found.append((int(rows.ids["anchor"][i]), int(rows.ids["positive"][i]), negative, own, angle))
    return found


@pytest.mark.parametrize("block", [256, 4])
@pytest.mark.parametrize("kind", ["pairs", "several", "labelled"])
def test_the_hardest_negative_is_that_of_loops(kind: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violations, "BLOCK", block)
    names = ["anchor", "positive", *(["negative", "negative_2"] if kind == "several" else [])]
    generator = torch.Generator().manual_seed(3)
    views = {name: torch.randn(14, 3, generator=generator) for name in names}
    ids = {name: torch.randint(20, (14,), generator=generator) for name in names}
    if kind == "several":
        ids["negative_2"][3:9] = -1
    rows = Rows(ids, torch.arange(14) % 3 if kind == "labelled" else None)
    texts, cosines = hardest_negatives(views, rows)
    angles = cosines.clamp(-1, 1).arccos().rad2deg().numpy()
    expected = by_loops(views, rows)
    assert texts.tolist() == [list(one[:3]) for one in expected]
    assert angles == pytest.approx(np.array([one[3:] for one in expected]), abs=2e-2)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[Found]]:
    """What loops find in each batch of the runs that are trained from now on."""
    recorded: list[list[Found]] = []
    after_step = Violations.after_step

    def record(self: Violations, batch: Batch, views: Mapping[str, Tensor]) -> None:
        recorded.append(by_loops(views, batch.rows))
        after_step(self, batch, views)

    monkeypatch.setattr(Violations, "after_step", record)
    return recorded


def small(tiny: Tiny, folder: Path, rows: int, **settings: object) -> Run:
    """A run of many epochs on few triplets, without a dev set."""
    usual = {"data__limit": rows, "train__epochs": 99, "dev__data": "none"}
    return tiny.run(folder, "simcse", "triplets", **usual, **settings)


def test_an_evaluation_tells_who_was_violated_again_and_three_times_or_more(
    tiny: Tiny, place: Path, batches: list[list[Found]]
) -> None:
    run = small(tiny, place, 16, train__max_steps=22, dev__every=4, train__log_every=5)
    train(run)
    rows = [line.split('"')[3::4] for line in tiny.data["triplets"].read_text().splitlines()[:16]]
    texts = list(dict.fromkeys(text for column in zip(*rows, strict=True) for text in column))
    events = {event.step: event.anchors for event in told(run, Violated)}
    violated = [[one for one in batch if one[4] < one[3]] for batch in batches]
    for step in (4, 8, 12, 16, 20, 22):
        since = {one[0] for batch in violated[(step - 1) // 4 * 4 : step] for one in batch}
        known: dict[str, list[Found]] = defaultdict(list)
        for one in [one for batch in violated[:step] for one in batch if one[0] in since]:
            known[texts[one[0]]].append(one)
        expected = {anchor: found for anchor, found in known.items() if len(found) >= 3}
        anchors = events.get(step, [])
        assert [event.times for event in anchors] == sorted(map(len, expected.values()), reverse=True)
        for event in anchors:
            found = expected.pop(event.anchor)
            assert event.times == len(found)
            assert (event.positive, event.negative) == tuple(texts[n] for n in found[-1][1:3])
            assert event.angles == [pytest.approx(pair, abs=0.05) for *_, a, b in found[-8:] for pair in [(a, b)]]
        assert not expected
    assert len(events) > 3 and max(one.times for one in events[22]) > 8
    often = Counter(one[0] for batch in violated for one in batch)
    last, total = told(run, Violated)[-1], sum(times >= 3 for times in often.values())
    assert last.total == total and f"{total} anchors have a closer negative again and again: " in last.line()


def test_of_the_anchors_of_a_large_corpus_the_most_violated_are_kept_with_exact_counts(
    tiny: Tiny, place: Path, batches: list[list[Found]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(violations, "ANCHORS", 6)
    run = small(tiny, place, 32, train__max_steps=20, dev__every=20)
    train(run)
    times = Counter(one[0] for batch in batches for one in batch if one[4] < one[3])
    [event] = told(run, Violated)
    assert [one.times for one in event.anchors] == [count for _, count in times.most_common(6)]


def test_what_is_told_does_not_depend_on_what_is_logged_or_on_a_resume(tiny: Tiny, tmp_path: Path) -> None:
    runs = [small(tiny, tmp_path / f"{n}", 16, dev__every=5, train__log_every=n, train__max_steps=12) for n in (1, 7)]
    train(runs[0], on_step(4, runs[0].stop_path.touch))
    events = []
    for run in runs:
        train(run)
        events.append([(event.step, event.anchors) for event in told(run, Violated)])
    assert events[0] == events[1] != []


def spread(views: Mapping[str, Tensor], rows: Rows, heads: nn.ModuleDict) -> Result:
    return torch.pdist(views["anchor"]).neg().exp().mean(), {}


def test_a_sentence_without_a_copy_has_no_positive_to_be_further_than(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Spec("spread", ObjectiveSettings, ("sentences",), f"{__name__}:spread", "Someone 2030", copies=False)
    bring_objective(monkeypatch, spec.name, lambda: spec)
    assert train(tiny.run(place, spec.name, "sentences", train__max_steps=2)).status == "finished"
