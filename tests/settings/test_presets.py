"""Presets against the papers' settings, which paper_settings.toml has a second time, and the rows of their tables."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from contrastcli.data import hub
from contrastcli.settings import presets, published
from contrastcli.settings.memory import estimate, gpu_hours, sizes_of
from contrastcli.settings.setting import Value

FILE = tomllib.loads(Path(__file__).with_name("paper_settings.toml").read_text(encoding="utf-8"))


class Recipe(NamedTuple):
    """A preset as paper_settings.toml has it: its method and backbone in the papers' tables, and settings by key."""

    method: str
    backbone: str
    settings: Mapping[str, Value]


def by_key(tables: Mapping[str, Mapping[str, Value]]) -> dict[str, Value]:
    return {f"{section}.{name}": value for section, table in tables.items() for name, value in table.items()}


def recipes() -> Iterator[tuple[str, Recipe]]:
    for family in FILE["family"]:
        for name, method, backbone, *values in family["rows"]:
            own = dict(zip(family.get("columns", ()), values, strict=True))
            tables = {key: own.pop(key) for key in [*own] if isinstance(own[key], dict)}
            settings = by_key(family["settings"]) | by_key(tables) | own
            yield name, Recipe(method, backbone, settings | {"model.backbone": FILE["backbones"][backbone]})


RECIPES = dict(recipes())
PUBLISHED = [name for name, recipe in RECIPES.items() if recipe.method]
"""Those that a table of a paper has. The others are of released code, on other data or another backbone."""

RECIPE = {
    *("objective.name", "model.backbone", "model.pooling", "model.head", "model.max_length"),
    *("data.train", "data.mask_duplicates", "dev.data", "train.batch_size", "train.epochs", "train.lr"),
    *("train.optimizer", "train.schedule", "train.warmup", "train.weight_decay", "train.clip", "train.seed"),
}


def run_of(name: str) -> dict[str, Value]:
    """The whole run that the preset alone describes, by key."""
    return presets.find(name).config.flat()


def test_every_published_setting_has_a_preset() -> None:
    assert set(presets.names()) - {"starter"} == RECIPES.keys()


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_is_one_row_of_the_papers_tables(name: str) -> None:
    config, about = presets.find(name).config, presets.find(name).about
    rows = published.exact(config)
    assert {(row.method, row.backbone) for row in rows} == {RECIPES[name][:2]}
    assert any(row.average for row in rows if row.table.suite in ("sts", "transfer"))
    nearest = [row for row in published.nearest("sts", config) if not row.differs]
    assert [row for row in rows if row.table.suite == "sts" and row.table.mark != "not comparable"] == nearest
    assert about.what and not about.what.endswith(".") and ". " not in about.what
    assert any(word in about.paper for word in ("Table ", "Tables "))
    if name.startswith(("supcon", "augment")):
        assert "padded length" in about.settled["scale"]


@pytest.mark.parametrize("name", RECIPES)
def test_a_preset_has_the_settings_of_the_paper_or_of_released_code_and_spells_them_out(name: str) -> None:
    preset, wanted, run = presets.find(name), RECIPES[name].settings, run_of(name)
    assert {key: run[key] for key in wanted} == wanted
    assert set(preset.values) >= RECIPE and preset.values["data.mask_duplicates"] is False
    active = set(preset.config.spec.describe()) - preset.config.objective.inactive().keys()
    left_out = {key for key in active if f"objective.{key}" not in preset.values}
    assert not [key for key in left_out if run[f"objective.{key}"]]  # what is left out is off
    assert preset.config.notes == ()


def test_training_data_is_a_name_that_the_hub_reader_understands() -> None:
    for name in PUBLISHED:
        reference = hub.parse(str(run_of(name)["data.train"]))
        assert reference.name and (reference.file or reference.split), name


@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("simace-margins", ["SimACE", "SimACE, m = 0", "SimACE, m = -10"]),
        ("simace-seeds", ["SimCSE", "ArcCon", "SimACE"]),
        ("pairsupcon-beta", ["PairSupCon, β = 0.5", "PairSupCon", "PairSupCon, β = 2", "PairSupCon, β = 4"]),
        (
            "pairsupcon-negatives",
            [
                *("PairSupCon", "PairSupCon without hard negatives"),
                *("InstanceDisc", "InstanceDisc without hard negatives"),
            ],
        ),
        ("supcon-lambda", [f"SCL allpalln, λ = {weight}" for weight in (0.1, 0.3, 0.5, 0.7, 0.9)]),
        ("supcon-tau", [*(f"SCL allpalln, τ = {tau}" for tau in (0.1, 0.3, 0.5, 0.7, 0.9)), "SCL allpalln, λ = 0.5"]),
    ],
)
def test_the_points_of_a_grid_are_the_rows_of_the_tables(name: str, methods: list[str]) -> None:
    rows = [row for point in presets.find(name).points() for row in published.exact(point)]
    assert list(dict.fromkeys(row.method for row in rows if row.table.suite == "sts" and row.average)) == methods


@pytest.mark.parametrize(
    ("name", "encoders", "views"),
    [("simace-roberta-large", 1, 2), ("pcl-bert-base", 2, 20), ("pairsupcon-large", 1, 2)],
)
@pytest.mark.parametrize("budget", [65_536, 8_192])
def test_the_memory_estimate_follows_from_the_sizes(name: str, encoders: int, views: int, budget: int) -> None:
    preset = presets.find(name)
    model, batch = preset.config.model, preset.config.train.batch_size
    vocabulary, positions, types, layers, d = FILE["shapes"][model.backbone]
    parameters = (vocabulary + positions + types + 2) * d + layers * (12 * d * d + 13 * d)
    needs = estimate(preset.config, preset.about.texts, budget)
    assert needs and needs.tokens == min(batch * views * model.max_length, budget)
    assert needs.weights == pytest.approx(encoders * 16 * parameters / 1e9)
    # 28 activations of the width in each layer, two bytes each
    assert needs.activations == pytest.approx(needs.tokens * layers * 28 * d * 2 / 1e9)
    assert 0.4 < needs.total - needs.weights - needs.activations < 2.5  # CUDA, bf16 copies, rounding up


def test_the_hours_grow_with_the_texts_that_are_encoded() -> None:
    names = ("simcse-bert-base", "pcl-bert-base")
    simcse, pcl = (gpu_hours(presets.find(name).config, 1e6, presets.find(name).about.texts) for name in names)
    assert simcse and pcl and pcl / simcse == pytest.approx(20 / 2)  # two encoders, ten texts each


def test_the_memory_of_any_backbone_follows_from_its_config() -> None:
    preset, starter = presets.find("simcse-bert-base"), presets.find("starter")
    bert = {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu"}
    sizes = sizes_of(bert | {"num_hidden_layers": 12, "hidden_size": 768})
    known = estimate(preset.config, preset.about.texts)
    assert known and estimate(preset.config, preset.about.texts, sizes=sizes) == known
    assert sizes_of({"vocab_size": 9, "n_layers": 6, "dim": 32, "max_position_embeddings": 64}) == (9, 64, 0, 6, 32)
    assert sizes_of(bert) is None and estimate(starter.config, starter.about.texts) is None
