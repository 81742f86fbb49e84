"""The rules of `contrast suggest`: a value for each setting, recomputed here by hand, and the numbers of its reason."""

from dataclasses import replace

import pytest

from contrastcli.settings import suggestions
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import all_settings
from contrastcli.settings.setting import Value
from contrastcli.settings.suggestions import Facts

PAIRS = Facts(
    form="pairs",
    counts={"pairs": 10_000},
    anchors={"pairs": 10_000},
    p50=20,
    p95=60,
    p99=90,
    longest=120,
    limit=256,
    cut=0.0,
    backbone="a/minilm",
    is_chosen=True,
    is_embedder=True,
    parameters=22_700_000,
    on_gpu=False,
    memory=16_000_000_000,
    has_stsb=False,
    max_steps=0,
)
SENTENCES = replace(
    PAIRS,
    form="sentences",
    counts={"sentences": 1_000_000},
    anchors={"sentences": 1_000_000},
    is_embedder=False,
    parameters=109_000_000,
)
LARGE = replace(
    PAIRS, form="triplets", counts={"triplets": 200_000}, anchors={"triplets": 50_000}, on_gpu=True,
    parameters=335_000_000, p99=70, longest=900, limit=512, cut=0.004,
)  # fmt: skip
SCORED = replace(
    PAIRS, form="scored", counts={"scored": 5_749}, anchors={"scored": 5_000}, is_embedder=False, parameters=109_000_000
)
FEW = replace(PAIRS, counts={"pairs": 40}, anchors={"pairs": 40})
DECODER = replace(PAIRS, parameters=600_000_000, backbone="a/decoder")


def suggested(facts: Facts) -> dict[str, Value]:
    return {one.key: one.value for one in suggestions.suggest(facts)}


def reason(facts: Facts, key: str) -> str:
    return next(one.reason for one in suggestions.suggest(facts) if one.key == key)


@pytest.mark.parametrize(("cut", "words"), [(0.0005, "under 0.1 %"), (0.001, "0.1 %"), (0.256, "25.6 %")])
def test_a_share_of_long_texts_is_no_more_exact_than_its_sample(cut: float, words: str) -> None:
    assert reason(replace(PAIRS, cut=cut), "model.max_length").endswith(f"; {words} have more")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        # 1,537 of 10,000 are 16 %, above 10; 9,000 left / 25 = 360, and 128 is the most; 71 steps an epoch.
        # An evaluation encodes 11,780 texts, the starter's 780 among them, and four take a quarter of 3 * 72,000.
        (PAIRS, ["simcse", 0, 0, "split:10%", 128, 4, 71, 7.1e-5]),
        # A raw encoder of BERT's size as the paper trains it: 64 rows at 3e-5, once.
        (SENTENCES, ["simcse", 0, 0, "starter", 64, 1, 1563, 3e-5]),
        # 4 % of 50,000 anchors are 2,000, with 8,000 rows; 99 % have at most 70 tokens; large: 1e-5 twice.
        (LARGE, ["simcse", 0, 72, "split:4%", 512, 1, 38, 2e-5]),
        # 10 % of the rows at most; 5,174 / 25 = 207, and 128 is the most.
        (SCORED, ["cosent", 0, 0, "split:10%", 128, 4, 17, 4.2e-5]),
        # All 40 rows are a batch; the rate times the root of 40 / 64.
        (FEW, ["simcse", 0, 0, "starter", 40, 10, 4, 4e-5]),
        # 9.6 of 16 GB are for the weights, their gradients and Adam: LoRA, at ten times the rate of a large model.
        (DECODER, ["simcse", 16, 0, "split:10%", 128, 4, 71, 1.4e-4]),
    ],
    ids=["pairs", "sentences", "large", "scored", "few", "decoder"],
)
def test_the_values_are_those_of_the_rules_by_hand(facts: Facts, expected: list[Value]) -> None:
    keys = ["objective.name", "model.lora", "model.max_length", "dev.data", "train.batch_size", "train.epochs"]
    values = suggested(facts)
    assert [values[key] for key in [*keys, "dev.every", "train.lr"]] == expected
    assert values["train.warmup"] == 0.1 and values["data.mine_every"] == 0 and values["dev.metric"] == "auto"


@pytest.mark.parametrize(
    ("triplets", "pairs", "labelled", "objective", "words"),
    [
        (900, 1_000, 2_000, "simcse", "900 of 1,000 entailments"),
        (300, 1_000, 2_000, "pairsupcon", "300 of 1,000 entailments"),
        (0, 1_000, 1_000, "simcse", "1,000 entailments without a contradiction"),
    ],
)
def test_labelled_pairs_become_triplets_where_most_can(
    triplets: int, pairs: int, labelled: int, objective: str, words: str
) -> None:
    counts: dict[Form, int] = {"labelled": labelled, "triplets": triplets, "pairs": pairs}
    facts = replace(PAIRS, form="labelled", counts=counts, anchors=counts)
    assert suggested(facts)["objective.name"] == objective
    assert reason(facts, "objective.name").startswith(words)


def test_reasons_tell_of_the_batches_and_steps_that_are_made() -> None:
    assert reason(replace(PAIRS, counts={"pairs": 320}, anchors={"pairs": 320}), "train.batch_size").startswith(
        "about 288 rows left to train on make 5 batches"
    )
    few = replace(PAIRS, max_steps=7)
    assert "71 steps, 7 in all" in reason(few, "train.epochs") and "1 steps" in reason(few, "train.warmup")
    assert suggested(few)["dev.every"] == 3 and reason(few, "dev.every").startswith("about 3 evaluations in 7 steps")


@pytest.mark.parametrize("anchors", [60, 400, 2_500, 40_000, 3_000_000])
def test_the_split_tells_a_point_from_chance_where_there_are_rows_for_it(anchors: int) -> None:
    facts = replace(PAIRS, counts={"pairs": anchors}, anchors={"pairs": anchors})
    share = int(str(suggested(facts)["dev.data"]).removeprefix("split:").removesuffix("%")) / 100
    held = min(2_000, share * anchors)
    points = 100 * 1.96 * 0.2 / held**0.5
    assert share == 0.1 or points <= 1.0
    assert share <= 0.1 and f"enough to see {points:.1f} points" in reason(facts, "dev.data")


def test_sentences_are_measured_on_stsb_where_it_can_be_read() -> None:
    assert suggested(replace(SENTENCES, has_stsb=True))["dev.data"] == "stsb"


def test_a_folder_with_its_own_dev_judgements_is_measured_by_them() -> None:
    facts = replace(PAIRS, own_dev="./fiqa")
    assert suggested(facts)["dev.data"] == "./fiqa" and reason(facts, "dev.metric").startswith("nDCG@10")
    assert reason(facts, "train.batch_size").startswith("10,000 rows left"), "none is held out"
    assert "starter's pairs beside them" in reason(facts, "dev.general")


def test_every_rule_is_of_a_setting_and_has_a_source_and_a_short_reason() -> None:
    for facts in (PAIRS, SENTENCES, LARGE, SCORED, FEW, DECODER):
        for one in suggestions.suggest(facts):
            assert all_settings()[one.key].check(one.value) == one.value
            assert one.source and 0 < len(one.reason) <= 120, one.reason
