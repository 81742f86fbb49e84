"""What the list of objectives says of each."""

import re

import pytest

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
    after = rf"\. Published: {re.escape(published)}\. Measured: 56\.\d → \d\d\.\d$"
    assert re.search(rf"Settings: (.*, )?{re.escape(setting)}(, .*)?{after}", shown)
