"""Presets against the papers' settings, which are written down here a second time, and the rows of their tables."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from contrastcli.data import hub
from contrastcli.settings import presets, published
from contrastcli.settings.memory import Memory, estimate, gpu_hours, sizes_of
from contrastcli.settings.setting import Value

WIKI = "hf:princeton-nlp/datasets-for-simcse/wiki1m_for_simcse.txt"
NLI = "hf:princeton-nlp/datasets-for-simcse/nli_for_simcse.csv"

# preset, backbone, batch, lr, tau, margin in degrees
SIMCSE = """
simcse-bert-base          bert-base-uncased   64   3e-5  0.05  -
simcse-bert-large         bert-large-uncased  64   1e-5  0.05  -
simcse-roberta-base       roberta-base        512  1e-5  0.05  -
simcse-roberta-large      roberta-large       512  3e-5  0.05  -
simace-bert-base          bert-base-uncased   64   3e-5  0.06  10
simace-bert-large         bert-large-uncased  32   1e-5  0.06  10
simace-roberta-base       roberta-base        128  1e-5  0.05  10
simace-roberta-large      roberta-large       128  1e-5  0.05  10
arccon-bert-base          bert-base-uncased   64   3e-5  0.05  10
arccon-bert-large         bert-large-uncased  64   1e-5  0.05  10
arccon-roberta-base       roberta-base        64   3e-5  0.05  10
arccon-roberta-large      roberta-large       64   1e-5  0.05  10
simcse-bert-base-mlm      bert-base-uncased   64   3e-5  0.05  -
simace-bert-base-mlm      bert-base-uncased   64   3e-5  0.06  10
simcse-sup-bert-base      bert-base-uncased   512  5e-5  0.05  -
simcse-sup-bert-large     bert-large-uncased  512  1e-5  0.05  -
simcse-sup-roberta-base   roberta-base        512  5e-5  0.05  -
simcse-sup-roberta-large  roberta-large       512  1e-5  0.05  -
"""
SIMCSE_ROWS = [line.split() for line in SIMCSE.strip().splitlines()]
PAIRSUPCON = [f"pairsupcon-{size}{dev}" for size in ("distil", "base", "large") for dev in ("", "-stsb-dev")]
PAIRSUPCON_ABLATIONS: Mapping[str, tuple[str, Mapping[str, Value]]] = {
    # the method in the tables, and what is not PairSupCon's
    "classification": ("Classification", {"beta": 0.0}),
    "instancedisc": ("InstanceDisc", {"classification": False}),
    "instancedisc-uniform": (
        "InstanceDisc without hard negatives",
        {"classification": False, "hard_negatives": "uniform"},
    ),
    "uniform": ("PairSupCon without hard negatives", {"hard_negatives": "uniform"}),
}
SUPCON: Mapping[str, tuple[str, float | None, int, int]] = {  # the method in the tables, λ, N+, N-
    "supcon-medium": ("SCL allpalln, λ = 0.3", 0.3, 0, 0),
    "supcon-medium-transfer": ("SCL allpalln, λ = 0.1", 0.1, 0, 0),
    "supcon-medium-baseline": ("SBERT baseline", 0.0, 0, 0),
    "supcon-medium-3p3n": ("SCL 3p3n, λ = 0.5", 0.5, 3, 3),
    "supcon-medium-3palln": ("SCL 3palln, λ = 0.5", 0.5, 3, 0),
    "supcon-medium-contrast": ("SCL allpalln, λ = 1.0", 1.0, 0, 0),
    "augment-medium-3p3n": ("3p3n-Augment", None, 3, 3),
    "augment-medium-all": ("allpalln-Augment", None, 0, 0),
}
BACKBONES = ("bert-base", "bert-large", "roberta-base", "roberta-large")
OBJECTIVES_11: Mapping[str, Mapping[str, Value]] = {  # SimACE Table 11
    "rbf": {"name": "simcse", "similarity": "rbf", "tau": 0.05, "hard_negative_weight": 0.0, "mlm_weight": 0.0},
    "dcl": {"name": "dcl", "similarity": "cosine", "margin": 0.0, "tau": 0.05},
    "mpt": {"name": "mpt", "margin": 0.09},
    "met": {"name": "met", "margin": 0.45},
    "mat": {"name": "mat", "margin": 27.0},
}
RBF_11 = {  # SimACE Table 7: batch and rate
    "bert-base": (64, 3e-5),
    "bert-large": (32, 1e-5),
    "roberta-base": (128, 1e-5),
    "roberta-large": (128, 1e-5),
}
SYSTEMS_10 = {"pcl": "PCL", "rankcse-listnet": "RankCSE ListNet", "rankcse-listmle": "RankCSE ListMLE"}
ROWS_10 = [  # SimACE Tables 4 and 10: PCL is of base models alone
    (system, backbone, similarity)
    for system in SYSTEMS_10
    for backbone in BACKBONES
    for similarity in ("cosine", "angle")
    if system != "pcl" or backbone.endswith("-base")
]
TEACHERS = "voidism/diffcse-bert-base-uncased-sts:cls=0.33,princeton-nlp/unsup-simcse-bert-large-uncased:cls=0.67"
METHODS = {"simcse": "SimCSE", "simcse-sup": "SimCSE on NLI", "simace": "SimACE", "arccon": "ArcCon", **SYSTEMS_10}
METHODS |= {name: name.upper() for name in OBJECTIVES_11}
VARIANTS = {"": "", "-mlm": " with MLM", "-angle": " + angle"}


def name_10(system: str, backbone: str, similarity: str) -> str:
    """The preset of a cell of Table 10."""
    return f"{system}-{backbone}" + ("-angle" if similarity == "angle" else "")


def row_of(name: str) -> tuple[str, str]:
    """The method and the backbone of a preset in the papers' tables."""
    if name == "sbert-nli":
        return "SBERT", "BERT-base"
    if name in SUPCON:
        return SUPCON[name][0], "BERT-medium"
    if name.startswith("pairsupcon-"):
        _, size, *ablation = name.split("-", 2)
        methods = {key: method for key, (method, _) in PAIRSUPCON_ABLATIONS.items()}
        methods |= {"": "PairSupCon", "stsb-dev": "PairSupCon, STS-B as dev"}
        return methods["".join(ablation)], {"distil": "DistilBERT"}.get(size, f"BERT-{size}")
    backbone = next(one for one in BACKBONES if f"-{one}" in name)
    system, variant = name.split(f"-{backbone}")
    return METHODS[system] + VARIANTS[variant], backbone.replace("bert", "BERT").replace("ro", "Ro")


PUBLISHED = [
    *(row[0] for row in SIMCSE_ROWS),
    *PAIRSUPCON,
    *(f"pairsupcon-base-{name}" for name in PAIRSUPCON_ABLATIONS),
    *SUPCON,
    *(f"{loss}-{backbone}" for loss in OBJECTIVES_11 for backbone in BACKBONES),
    *(name_10(*row) for row in ROWS_10),
    "sbert-nli",
]
RELEASED = ["cosent-stsb-bert-base", "aoe-stsb-bert-base"]
"""Settings of released code, on other data or another backbone than those of any published score."""

SHAPES = {  # vocabulary, positions, token types, layers, width
    "bert-base-uncased": (30522, 512, 2, 12, 768),
    "bert-large-uncased": (30522, 512, 2, 24, 1024),
    "roberta-base": (50265, 514, 1, 12, 768),
    "roberta-large": (50265, 514, 1, 24, 1024),
    "distilbert-base-uncased": (30522, 512, 0, 6, 768),
    "google/bert_uncased_L-8_H-512_A-8": (30522, 512, 2, 8, 512),
}
RECIPE = {
    *("objective.name", "model.backbone", "model.pooling", "model.head", "model.max_length"),
    *("data.train", "data.mask_duplicates", "dev.data", "train.batch_size", "train.epochs", "train.lr"),
    *("train.optimizer", "train.schedule", "train.warmup", "train.weight_decay", "train.clip", "train.seed"),
}


def run_of(name: str) -> dict[str, Value]:
    """The whole run that the preset alone describes, by key."""
    return presets.find(name).config.flat()


def assert_holds(run: Mapping[str, Value], **sections: Mapping[str, Value]) -> None:
    for section, wanted in sections.items():
        assert {key: run[f"{section}.{key}"] for key in wanted} == wanted


def parameters(backbone: str) -> int:
    """Weights of an encoder without its pooler, from its sizes."""
    vocabulary, positions, types, layers, d = SHAPES[backbone]
    embeddings = (vocabulary + positions + types + 2) * d
    return embeddings + layers * (12 * d * d + 13 * d)


def test_every_published_setting_has_a_preset() -> None:
    assert set(presets.names()) - {"starter"} == {*PUBLISHED, *RELEASED}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_is_one_row_of_the_papers_tables(name: str) -> None:
    config = presets.find(name).config
    rows = published.exact(config)
    assert {(row.method, row.backbone) for row in rows} == {row_of(name)}
    assert any(row.average for row in rows if row.table.suite in ("sts", "transfer"))
    nearest = [row for row in published.nearest("sts", config) if not row.differs]
    assert [row for row in rows if row.table.suite == "sts" and row.table.mark != "not comparable"] == nearest


@pytest.mark.parametrize("name", [*PUBLISHED, *RELEASED])
def test_a_preset_is_a_run_without_reservations(name: str) -> None:
    assert presets.find(name).config.notes == ()


@pytest.mark.parametrize("name", [*PUBLISHED, *RELEASED])
def test_a_preset_spells_its_recipe_out(name: str) -> None:
    stated = presets.find(name).values
    assert set(stated) >= RECIPE
    assert stated["data.mask_duplicates"] is False


@pytest.mark.parametrize("name", [*PUBLISHED, *RELEASED])
def test_a_preset_spells_out_every_active_setting_of_its_objective(name: str) -> None:
    preset = presets.find(name)
    active = set(preset.config.spec.describe()) - preset.config.objective.inactive().keys()
    left_out = {key for key in active if f"objective.{key}" not in preset.values}
    assert not [key for key in left_out if run_of(name)[f"objective.{key}"]]  # what is left out is off


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_says_what_it_is_and_which_paper_has_it(name: str) -> None:
    about = presets.find(name).about
    assert about.what and not about.what.endswith(".") and ". " not in about.what
    assert any(word in about.paper for word in ("Table ", "Tables "))


@pytest.mark.parametrize("row", SIMCSE_ROWS, ids=lambda row: row[0])
def test_simcse_and_its_kin_are_the_table(row: list[str]) -> None:
    name, backbone, batch, lr, tau, margin = row
    supervised, objective = "-sup-" in name, name.split("-")[0]
    similarity = {"simcse": "cosine", "simace": "angle", "arccon": "arc"}[objective]
    assert_holds(
        run_of(name),
        objective={
            "name": objective,
            "similarity": similarity,
            "tau": float(tau),
            "margin": 0.0 if margin == "-" else float(margin),
            "mlm_weight": 0.1 if name.endswith("-mlm") else 0.0,
            "mlm_probability": 0.15,
            "hard_negative_weight": 0.0,
        },
        model={
            "backbone": backbone,
            "pooling": "cls",
            "head": "keep" if supervised else "train-only",
            "max_length": 32,
        },
        data={"train": NLI if supervised else WIKI, "limit": 0},
        dev={"data": "stsb", "every": 125, "patience": 0},
        train={"batch_size": int(batch), "lr": float(lr), "epochs": 3 if supervised else 1, "max_steps": 0},
    )
    assert_holds(
        run_of(name),
        train={"optimizer": "adamw", "schedule": "linear", "warmup": 0.0, "weight_decay": 0.0, "clip": 1.0},
    )


@pytest.mark.parametrize("name", PAIRSUPCON)
def test_pairsupcon_is_the_paper_and_its_code(name: str) -> None:
    size = name.split("-")[1]
    backbone = "distilbert-base-uncased" if size == "distil" else f"bert-{size}-uncased"
    assert_holds(
        run_of(name),
        objective={"name": "pairsupcon", "similarity": "cosine", "margin": 0.0, "tau": 0.05, "beta": 1.0},
        model={"backbone": backbone, "pooling": "mean", "head": "none", "max_length": 32},
        data={"train": NLI},
        dev={"data": "stsb" if name.endswith("-stsb-dev") else "none"},
        train={"batch_size": 1024, "epochs": 3, "lr": 5e-6, "head_lr": 5e-4, "seed": 0},
    )
    assert_holds(
        run_of(name),
        objective={"hard_negatives": "importance", "classification": True},
        train={"optimizer": "adam", "schedule": "constant", "warmup": 0.0, "weight_decay": 0.0, "clip": 0.0},
    )


@pytest.mark.parametrize("ablation", PAIRSUPCON_ABLATIONS)
def test_pairsupcons_ablations_are_its_preset_but_for_what_they_ablate(ablation: str) -> None:
    _, changes = PAIRSUPCON_ABLATIONS[ablation]
    name = f"pairsupcon-base-{ablation}"
    assert run_of(name) == run_of("pairsupcon-base") | {f"objective.{key}": value for key, value in changes.items()}


@pytest.mark.parametrize("name", SUPCON)
def test_supcon_its_ablations_and_baselines_are_the_papers_tables(name: str) -> None:
    _, weight, positives, negatives = SUPCON[name]
    objective: dict[str, Value] = {"name": name.split("-")[0], "positives": positives, "negatives": negatives}
    objective |= {} if weight is None else {"lambda": weight, "tau": 1.0, "normalize": False}
    objective["padded_length"] = True
    assert_holds(
        run_of(name),
        objective=objective,
        model={"backbone": "google/bert_uncased_L-8_H-512_A-8", "pooling": "mean-no-cls", "head": "none"},
        data={"train": "hf:stanfordnlp/snli?split=train"},
        dev={"data": "none"},
        train={"batch_size": 64, "epochs": 1, "lr": 2e-5, "optimizer": "adamw", "weight_decay": 0.0},
    )
    assert_holds(run_of(name), model={"max_length": 128}, train={"schedule": "linear", "warmup": 0.1, "clip": 0.0})
    assert "padded length" in presets.find(name).about.settled["scale"]
    rest = {key: value for key, value in run_of("supcon-medium").items() if not key.startswith("objective.")}
    assert rest.items() <= run_of(name).items()


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("loss", OBJECTIVES_11)
def test_other_objectives_are_simaces_table(loss: str, backbone: str) -> None:
    name = f"{loss}-{backbone}"
    batch, lr = RBF_11[backbone] if loss == "rbf" else (128, 1e-5)
    like = run_of(f"simcse-{backbone}")
    same = {key: value for key, value in like.items() if not key.startswith("objective.")}
    assert_holds(run_of(name), objective=OBJECTIVES_11[loss])
    assert same | {"train.batch_size": batch, "train.lr": lr} == {key: run_of(name)[key] for key in same}


@pytest.mark.parametrize("row", ROWS_10, ids=lambda row: name_10(*row))
def test_pcl_and_rankcse_are_simaces_tables(row: tuple[str, str, str]) -> None:
    system, backbone, similarity = row
    name, (objective, _, how) = name_10(*row), system.partition("-")
    run = run_of(name)
    margin, hub_name = 10.0 if similarity == "angle" else 0.0, backbone + "-uncased" * backbone.startswith("bert")
    assert_holds(run, objective={"name": objective, "similarity": similarity, "margin": margin, "tau": 0.05})
    if how:
        own: dict[str, Value] = {
            "beta": 1.0,
            "gamma": 1.0,
            "distillation": how,
            "teachers": TEACHERS,
            "teacher_tau": 0.05,
        }
        assert_holds(run, objective=own)
    assert_holds(
        run,
        model={"backbone": hub_name, "pooling": "cls", "head": "train-only", "max_length": 32},
        data={"train": WIKI, "limit": 0},
        dev={"data": "stsb", "every": 125, "patience": 0},
        train={"batch_size": 64, "epochs": 4 if how else 1, "optimizer": "adamw", "schedule": "linear", "seed": 42},
    )
    assert run["train.lr"] == (3e-5 if not how or backbone == "bert-base" else 1e-5)


def test_scored_pairs_train_as_in_the_released_code() -> None:
    cosent, aoe = (run_of(name) for name in RELEASED)
    data: dict[str, Value] = {"train": "hf:sentence-transformers/stsb", "mask_duplicates": False}
    every = {"batch_size": 32, "epochs": 5, "lr": 2e-5, "warmup": 0, "weight_decay": 0}
    assert_holds(cosent, objective={"name": "cosent", "tau": 1 / 20}, data=data, model={"pooling": "cls"}, train=every)
    assert_holds(cosent, model={"max_length": 64}, train={"schedule": "constant", "clip": 0})
    weights = {"order_weight": 1, "contrast_weight": 1, "angle_weight": 0.02}
    assert_holds(aoe, objective={"name": "aoe", "tau": 1 / 20, "angle_tau": 1 / 20, **weights}, data=data, train=every)
    assert_holds(aoe, model={"pooling": "cls", "max_length": 128}, train={"schedule": "linear", "clip": 1})


def test_sbert_is_the_paper() -> None:
    assert_holds(
        run_of("sbert-nli"),
        objective={"name": "softmax"},
        model={"backbone": "bert-base-uncased", "pooling": "mean", "head": "none"},
        train={"batch_size": 16, "epochs": 1, "lr": 2e-5, "optimizer": "adamw", "schedule": "linear", "warmup": 0.1},
    )
    assert hub.parse(str(run_of("sbert-nli")["data.train"])) == hub.Reference(
        "sentence-transformers/all-nli", config="pair-class", split="train"
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_training_data_is_a_name_that_the_hub_reader_understands(name: str) -> None:
    reference = hub.parse(str(run_of(name)["data.train"]))
    assert reference.repo and (reference.file or reference.split)


@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("simace-margins", ["SimACE", "SimACE, m = 0", "SimACE, m = -10"]),
        ("simace-seeds", ["SimCSE", "ArcCon", "SimACE"]),
        ("pairsupcon-beta", ["PairSupCon, β = 0.5", "PairSupCon", "PairSupCon, β = 2", "PairSupCon, β = 4"]),
        (
            "pairsupcon-negatives",
            [
                "PairSupCon",
                *(PAIRSUPCON_ABLATIONS[name][0] for name in ("uniform", "instancedisc", "instancedisc-uniform")),
            ],
        ),
        ("supcon-lambda", [f"SCL allpalln, λ = {weight}" for weight in (0.1, 0.3, 0.5, 0.7, 0.9)]),
        ("supcon-tau", [*(f"SCL allpalln, τ = {tau}" for tau in (0.1, 0.3, 0.5, 0.7, 0.9)), "SCL allpalln, λ = 0.5"]),
    ],
)
def test_the_points_of_a_grid_are_the_rows_of_the_tables(name: str, methods: list[str]) -> None:
    rows = [row for point in presets.find(name).points() for row in published.exact(point)]
    assert list(dict.fromkeys(row.method for row in rows if row.table.suite == "sts" and row.average)) == methods


def memory(name: str, budget: int = 65_536) -> Memory:
    """The estimate of a preset."""
    preset = presets.find(name)
    needs = estimate(preset.config, preset.about.texts, budget)
    assert needs
    return needs


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_memory_estimate_follows_from_the_sizes(name: str) -> None:
    run, views = run_of(name), 20 if name.startswith("pcl-") else 3 if "-sup-" in name else 2
    encoders = 2 if name.startswith("pcl-") else 1
    backbone, batch, length = run["model.backbone"], run["train.batch_size"], run["model.max_length"]
    assert isinstance(backbone, str) and isinstance(batch, int) and isinstance(length, int)
    _, _, _, layers, width = SHAPES[backbone]
    for budget in (65_536, 8_192):
        needs = memory(name, budget)
        assert needs.tokens == min(batch * views * length, budget)
        assert needs.weights == pytest.approx(encoders * 16 * parameters(backbone) / 1e9)
        # 28 activations of the width in each layer, two bytes each
        assert needs.activations == pytest.approx(needs.tokens * layers * 28 * width * 2 / 1e9)
        assert 0.4 < needs.total - needs.weights - needs.activations < 2.5  # CUDA, bf16 copies, rounding up


def test_the_hours_grow_with_the_texts_that_are_encoded() -> None:
    hours = {
        name: gpu_hours(presets.find(name).config, 1e6, presets.find(name).about.texts)
        for name in ("simcse-bert-base", "pcl-bert-base")
    }
    assert hours["simcse-bert-base"] and hours["pcl-bert-base"]
    assert hours["pcl-bert-base"] / hours["simcse-bert-base"] == pytest.approx(20 / 2)  # two encoders, ten texts each


def test_a_smaller_token_budget_takes_less_memory_and_an_unknown_backbone_has_no_estimate() -> None:
    assert (memory("pairsupcon-large").total, memory("pairsupcon-large", 8_192).total) == (97, 18)
    starter = presets.find("starter")
    assert estimate(starter.config, starter.about.texts) is None


def test_the_memory_of_any_backbone_follows_from_its_config() -> None:
    preset = presets.find("simcse-bert-base")
    bert = {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu"}
    sizes = sizes_of(bert | {"num_hidden_layers": 12, "hidden_size": 768})
    known = estimate(preset.config, preset.about.texts)
    assert known and estimate(preset.config, preset.about.texts, sizes=sizes) == known
    assert sizes_of({"vocab_size": 9, "n_layers": 6, "dim": 32, "max_position_embeddings": 64}) == (9, 64, 0, 6, 32)
    assert sizes_of(bert) is None


def test_the_wheel_ships_the_presets() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert shipped == {"presets": "contrastcli/presets"}
    assert presets.folder() in (root / "presets", Path(presets.__file__).parents[1] / "presets")
