"""What the list of objectives says of each."""

import re

import pytest

from contrastcli.settings import catalogue, presets, published
from contrastcli.settings.objective import ObjectiveSettings, Spec
from contrastcli.show import settings


@pytest.mark.parametrize(
    ("name", "needs", "setting", "published"),
    [
        ("simace", "sentences, triplets or pairs", "margin 10 (degrees)", "78.20 (one seed, simace-bert-base)"),
        ("met", "sentences or pairs", "margin 0.45 (distance)", "78.38 (mean of seeds, met-bert-base)"),
        ("pairsupcon", "labelled pairs", "hard_negatives importance", "80.8 (one seed, pairsupcon-base)"),
        ("softmax", "labelled pairs with neutral", "none", "74.89 (one seed, sbert-nli)"),
    ],
)
def test_an_objective_says_what_it_needs_takes_and_scored(name: str, needs: str, setting: str, published: str) -> None:
    shown = dict(settings.objectives())[name]
    assert f"Rows: {needs}. Settings: " in shown
    assert re.search(rf"Settings: (.*, )?{re.escape(setting)}(, .*)?\. Published: {re.escape(published)}", shown)


def test_a_published_score_is_that_of_a_preset_with_the_objective() -> None:
    for name, shown in settings.objectives():
        if scored := re.search(r"Published: (\S+(?: ± \S+)?) \(.*?, ([\w-]+)\)", shown):
            chosen = presets.find(scored[2]).config
            assert chosen.spec.name == name
            assert scored[1] in [str(row.average) for row in published.exact(chosen)]


def test_measured_scores_are_shown_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    about = "pushes a queue apart"
    spec = Spec("new", ObjectiveSettings, ("pairs",), "a:b", "Someone", about=about, measured=(56.13, 70.79))
    settings.objectives()  # reads the presets, whose objectives are no longer known below
    monkeypatch.setattr(catalogue, "all_objectives", lambda: (spec,))
    shown = "pushes a queue apart. Someone. Rows: pairs. Settings: none. Published: none. Measured: 56.1 → 70.8"
    assert settings.objectives() == [("new", shown)]
