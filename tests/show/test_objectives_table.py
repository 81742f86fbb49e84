"""The README's table of objectives is what the catalogue and the presets say."""

from pathlib import Path

import pytest

from contrastcli.settings import catalogue, presets, published
from contrastcli.show import settings

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def cells() -> dict[str, list[str]]:
    """The cells of each objective's line."""
    lines = [line.strip("| ").split(" | ") for line in settings.objectives_table().splitlines()[2:]]
    return {name.strip("`"): rest for name, *rest in lines}


def test_the_readme_has_the_table_of_today() -> None:
    remedy = "print it: python -c 'from contrastcli.show import settings; print(settings.objectives_table())'"
    assert settings.objectives_table() in README, remedy


def test_every_built_in_objective_has_a_line_of_six_cells() -> None:
    assert list(cells()) == [spec.name for spec in catalogue.BUILT_IN]
    assert {len(rest) for rest in cells().values()} == {5}


@pytest.mark.parametrize(
    ("name", "needs", "setting", "published"),
    [
        ("simace", "sentences, triplets or pairs", "margin 10 (degrees)", "78.20 (one seed, `simace-bert-base`)"),
        ("met", "sentences or pairs", "margin 0.45 (distance)", "78.38 (mean of seeds, `met-bert-base`)"),
        ("pairsupcon", "labelled pairs", "hard_negatives importance", "80.80 (one seed, `pairsupcon-base`)"),
        ("softmax", "labelled pairs with neutral", "–", "74.89 (one seed, `sbert-nli`)"),
    ],
)
def test_a_line_says_what_it_needs_takes_and_scored(name: str, needs: str, setting: str, published: str) -> None:
    found = cells()[name]
    assert found[0] == needs and setting in found[1].split(", ")
    assert found[3] == published


def test_a_published_score_is_that_of_a_preset_with_the_objective() -> None:
    for name, (*_, best, _) in cells().items():
        if best != "–":
            score, _, preset = best.partition(" (")
            chosen = presets.find(preset.split("`")[1]).config
            assert chosen.spec.name == name
            assert score in [str(row.average) for row in published.exact(chosen)]


def test_measured_scores_are_shown_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = catalogue.Spec("new", catalogue.Softmax, ("pairs",), "a:b", "Someone", measured=(56.13, 70.79))
    monkeypatch.setattr(catalogue, "BUILT_IN", (spec,))
    assert settings.objectives_table().splitlines()[2] == "| `new` | pairs | – | Someone | – | 56.1 → 70.8 |"
