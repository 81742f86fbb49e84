"""A similarity is one object: with it in the table it is a choice that trains, is drawn and has its margin's unit."""

import math
from pathlib import Path

import pytest

from contrastcli.runs.measured import Step
from contrastcli.settings.setting import Bounds
from contrastcli.settings.similarity import SIMILARITIES, Similarity
from contrastcli.show.curve import curve
from support.command import Contrast, refused
from support.command import train as train_words
from support.rounding import assert_near
from support.tiny import Tiny, known, told, train

CHORD = Similarity(
    name="chord",
    formula="(1 + cos θ) / 2 − m",
    source="Someone 2030, Eq. 1",
    from_cosine=lambda cosine, margin: (1 + cosine) / 2 - margin,
    value=lambda theta, margin: (1 + math.cos(theta)) / 2 - margin,
    slope=lambda theta, margin: math.sin(theta) / 2,
    margin=Bounds(0, 1, "chords"),
    default_margin=0.25,
)


@pytest.fixture(autouse=True)
def chord(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another similarity in the table, and nothing else."""
    monkeypatch.setitem(SIMILARITIES, CHORD.name, CHORD)


def test_it_trains_with_its_own_margin(tiny: Tiny, place: Path) -> None:
    losses = {}
    for name, margin in {"default": {}, "none": {"objective__margin": 0.0}}.items():
        changes: dict[str, object] = {"objective__similarity": "chord", "objective__tau": 1.0, "train__max_steps": 2}
        run = tiny.run(place.with_name(name), "dcl", "pairs", **changes | margin)
        train(run)
        losses[name] = known(event.loss for event in told(run, Step))
    assert len(losses["none"]) == 2
    # a margin that is subtracted adds a constant to this loss and leaves its gradient alone
    assert_near(losses["default"], [loss + 0.25 for loss in losses["none"]])


def test_its_curve_is_drawn() -> None:
    drawn = curve(CHORD, 0.25, 0.5)
    assert (drawn.value[0], drawn.value[180]) == pytest.approx((1.5, -0.5))
    assert (drawn.gradient[90], drawn.by_cosine[90]) == pytest.approx((1.0, 1.0))


def test_help_shows_its_formula(contrast: Contrast) -> None:
    shown = " ".join(contrast("help", "objectives").out.split())
    assert "chord (1 + cos θ) / 2 − m (Someone 2030, Eq. 1), m in chords, by default 0.25" in shown


def test_its_margin_has_its_unit_default_and_limits(contrast: Contrast) -> None:
    shown = contrast("config", "show", "--similarity", "chord").out
    (margin,) = (line.split() for line in shown.splitlines() if line.startswith("objective.margin"))
    assert margin == ["objective.margin", "0.25", "default", "m", "chords"]
    answer = contrast("config", "show", "--similarity", "chord", "--margin", "2")
    refused(answer, 2, "objective.margin is 2.0 (--margin)", "within 0 and 1 chords")


def test_it_is_among_the_choices(contrast: Contrast) -> None:
    refused(contrast(*train_words("--similarity", "dot")), 2, "'dot'", "one of angle, arc, cosine, rbf, chord")
