"""What a setting declares of itself drives the options, the resume, the grouping of seeds, the form and the errors."""

import re

import pytest

from contrastcli.errors import UsageError
from contrastcli.runs.methods import Member, group
from contrastcli.settings import catalogue, config, sections
from contrastcli.settings.config import Layer
from contrastcli.settings.objective import Spec
from contrastcli.settings.setting import Setting, Value, spell
from contrastcli.tui.setup.draft import Draft
from support.command import Contrast

SETTINGS = sections.settings_of(*catalogue.built_in())
SIMCSE = sections.settings_of(catalogue.find_objective("simcse"))
ALERTS = {f"alerts.{name}" for name in ("webhook", "evaluations", "collapse", "disk", "gpu", "ring")}
EXECUTION = {f"train.{name}" for name in ("seed", "device", "token_budget", "log_every", "save_every", "keep")} | {
    "dev.probes",
    "track.to",
    *ALERTS,
}
RESUMABLE = EXECUTION - {"train.seed"} | {"train.epochs", "train.max_steps", "data.train", "dev.patience"}
# Whose rows are those that the run began with, wherever they are.
RESUMABLE |= {"dev.data", "dev.corpus", "dev.general", "data.false_negatives"}


def other(setting: Setting) -> Value:
    """Another value than the default."""
    default = setting.default
    if isinstance(default, bool):
        return not default
    if isinstance(default, str):
        formed = {"alerts.webhook": "https://another", "dev.probes": "a | b"}.get(setting.key, "8")
        return next((choice for choice in setting.choices if choice != default), formed if setting.form else "another")
    return default + (1 if isinstance(default, int) else 0.5)


# What is declared


def test_roles_and_what_may_be_resumed() -> None:
    assert {key for key, setting in SETTINGS.items() if setting.role == "execution"} == EXECUTION
    assert {key for key, setting in SETTINGS.items() if setting.resumable} == RESUMABLE
    data = {key for key, setting in SETTINGS.items() if setting.role == "data" and setting.section != "data"}
    counts = {"train.batch_size", "train.epochs", "train.max_steps"}
    dev = {"dev.data", "dev.split_seed", "dev.metric", "dev.corpus", "dev.general"}
    assert data == counts | dev | {"model.backbone", "objective.teachers", "objective.guide"}


def test_a_list_or_a_table_of_a_file_is_what_is_typed_with_commas() -> None:
    assert SETTINGS["data.train"].check(["a.csv", "b.csv"]) == "a.csv,b.csv"
    prompts = {"anchor": "query: ", "positive": "passage: "}
    assert SETTINGS["model.prompts"].check(prompts) == "anchor=query: ,positive=passage: "
    assert SETTINGS["data.train"].check({"a.csv": 2, "b.csv": 1}) == "a.csv=2,b.csv=1"


def test_every_setting_that_may_be_0_to_no_effect_says_so_in_its_help() -> None:
    meanings = {key: setting.zero for key, setting in SETTINGS.items() if setting.zero}
    assert meanings["train.max_steps"] == "by epochs" and meanings["dev.patience"] == "off"
    assert all(SETTINGS[key].help.endswith(f"; 0: {meaning}") for key, meaning in meanings.items())
    assert not [key for key, setting in SETTINGS.items() if "0:" in setting.help and not setting.zero]


# Spelling


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (3e-5, "3e-05"), (20.0, "20"), (1e6, "1000000"), (64, "64"), ("", "")],
)
def test_a_value_is_spelt_as_one_types_it(value: Value, text: str) -> None:
    assert spell(value) == text


@pytest.mark.parametrize("value", [1.23456789e-05, 2 / 3, 0.1 + 0.2, 3e-5, 1.0, 5e-324, 9.999999999999998])
def test_a_number_keeps_its_last_digit_from_the_settings_of_a_run_to_a_flag(value: float, contrast: Contrast) -> None:
    assert SETTINGS["train.lr"].parse(spell(value)) == value
    shown = contrast("config", "show", "--lr", spell(value)).out
    (line,) = (line.split() for line in shown.splitlines() if line.startswith("train.lr "))
    assert float(line[1]) == value


# What is made of it


def test_train_has_the_option_of_each_setting_that_has_one_and_no_other(contrast: Contrast) -> None:
    text = contrast("train", "--help").out
    below = text[text.index("Objective:") :]
    shown = re.findall(r"^  (--[a-z-]+)", below, re.M)
    assert sorted(shown) == sorted(setting.flag for setting in SETTINGS.values() if setting.flag)
    unnamed = {key for key, setting in SETTINGS.items() if not setting.flag}
    assert unnamed == ALERTS | {"track.to", "dev.metric", "dev.corpus", "dev.every", "dev.patience"}


@pytest.mark.parametrize("key", [key for key in SETTINGS if key != "objective.name"])
def test_the_words_that_set_a_setting_set_it(key: str, contrast: Contrast) -> None:
    owner = next(spec for spec in catalogue.built_in() if key in sections.settings_of(spec))
    words = [] if key in SIMCSE else SETTINGS["objective.name"].words(owner.name)
    value = spell(other(SETTINGS[key]))
    answer = contrast("config", "show", *words, *SETTINGS[key].words(value))
    shown = re.escape(str(SETTINGS[key].shown(value)))
    assert f"{key} has no effect" in answer.err or re.search(rf"^{key} +{shown} +--", answer.out, re.M)


def test_a_resume_may_change_what_says_so_and_nothing_else() -> None:
    before = config.resolve([])
    keys = [key for key in SIMCSE if key != "objective.name"]
    changed = {key: config.resolve([Layer.of({key: other(SIMCSE[key])}, "here")]) for key in keys}
    may_change = {key for key, after in changed.items() if key not in config.conflicts(before, after)}
    assert may_change == {key for key in keys if SIMCSE[key].resumable}


def test_runs_that_differ_in_execution_only_are_one_method() -> None:
    flat = config.resolve([]).flat()
    for key, setting in SIMCSE.items():
        changed = flat | {key: other(setting)}
        members = [Member(name, settings, "finished", {}) for name, settings in (("one", flat), ("two", changed))]
        assert len(group(members)) == (1 if setting.role == "execution" else 2), key


def test_a_form_has_the_essential_settings_whatever_the_objective() -> None:
    essential = [key for key, setting in SETTINGS.items() if setting.essential]
    assert essential[:3] == ["objective.name", "objective.similarity", "objective.margin"]
    for spec in catalogue.built_in():
        assert set(essential) <= set(Draft("", {"objective.name": spec.name}).fields)


# Reasons


SWITCHED_OFF = [
    ({"objective.similarity": "rbf"}, "margin", "no effect while similarity is rbf"),
    ({}, "mlm_probability", "no effect while mlm_weight is 0"),
    ({"objective.name": "rankcse", "objective.gamma": 0.0}, "teachers", "no effect while gamma is 0"),
    ({"objective.name": "rankcse"}, "teacher_tau", "no effect while distillation is listmle"),
    ({"objective.name": "pairsupcon", "objective.classification": False}, "beta", "no effect while classification is"),
    ({"objective.name": "supcon"}, "margin", "no effect while normalize is false"),
    ({"objective.name": "supcon"}, "similarity", "no effect while normalize is false"),
    ({"objective.name": "supcon", "objective.lambda": 0.0}, "tau", "no effect while lambda is 0"),
    ({"objective.name": "dcl"}, "margin", "no effect while similarity is cosine"),
    ({"objective.name": "dcl", "objective.similarity": "angle"}, "margin", "no effect while similarity is angle"),
    ({"objective.name": "pairsupcon", "objective.beta": 0.0}, "hard_negatives", "no effect while beta is 0"),
    ({"objective.name": "aoe", "objective.contrast_weight": 0.0}, "positive_from", "no effect while contrast_weight"),
    ({"objective.name": "aoe", "objective.angle_weight": 0.0}, "angle_tau", "no effect while angle_weight is 0"),
]


@pytest.mark.parametrize(("chosen", "name", "reason"), SWITCHED_OFF)
def test_the_form_a_note_and_an_error_give_the_same_reason(chosen: dict[str, Value], name: str, reason: str) -> None:
    key = f"objective.{name}"
    below = Layer.of(chosen, "a file")
    value = other(SETTINGS[key])
    with pytest.raises(UsageError, match=rf"^{key} has {reason}.* \(--set\)$"):
        config.resolve([below, Layer.of({key: value}, "--set", strict=True)])
    (note,) = config.resolve([below, Layer.of({key: value}, "another")]).notes
    assert note.startswith(f"{key} has {reason}") and note.endswith("(another)")
    draft = Draft("", {key: spell(value) for key, value in chosen.items()})
    assert draft.fields[key].off.startswith(reason)


@pytest.mark.parametrize("spec", catalogue.built_in(), ids=lambda spec: spec.name)
def test_a_reason_names_a_setting_and_the_value_that_it_has(spec: Spec) -> None:
    cases: list[dict[str, Value]] = [{}, {"similarity": "rbf"}, {"classification": False}]
    cases += [{"gamma": 0.0}, {"normalize": True}, {"mlm_weight": 0.1}]
    for chosen in cases:
        known = {name: value for name, value in chosen.items() if name in spec.describe()}
        settings = {"name": spec.name, **known}
        resolved = config.resolve([Layer.of({f"objective.{name}": value for name, value in settings.items()}, "here")])
        for reason in resolved.objective.inactive().values():
            name, value = reason.partition(";")[0].removeprefix("no effect while ").split(" is ")
            assert spell(resolved.flat()[f"objective.{name}"]) == value


# Errors


BAD: dict[str, Value] = {
    **{"objective.tau": 0.0, "objective.margin": 3.0, "objective.name": "simkse", "objective.nmae": "simcse"},
    **{"train.batchsize": 3, "train.lr": "quick", "objective.beta": 2.0, "objective.mlm_probability": 0.5},
}
"""The last two have no effect, which is an error for a flag alone."""


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_an_error_carries_the_setting_and_where_its_value_is_from(key: str, value: Value) -> None:
    with pytest.raises(UsageError) as raised:
        config.resolve([Layer.of({"train.seed": 1}, "below"), Layer.of({key: value}, "--flag", strict=True)])
    assert (raised.value.key, raised.value.source) == (key, "--flag")
    assert raised.value.what.endswith(" (--flag)") and raised.value.what == str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("model.lora", "5000.0"), ("train.batch_size", "2e6"), ("train.seed", "1e10"), ("train.seed", 10**23)],
        *[("train.weight_decay", "15,5"), ("objective.tau", "0,0"), ("objective.similarity", ["angle", "cosine"])],
        ("objective.margin", "0.2rad"),
    ],
)
def test_no_hint_gives_a_value_that_is_refused(key: str, value: object) -> None:
    with pytest.raises(UsageError) as raised:
        SETTINGS[key].check(value)
    (hint,) = raised.value.remedies
    several = "; for several: contrast sweep --grid objective.similarity=angle,cosine"
    assert str(hint).endswith(several) == isinstance(value, list)


def test_a_hint_gives_the_value_where_it_was_given() -> None:
    """Typed values are in commands/hints.txt."""
    margin = SETTINGS["objective.margin"]
    with pytest.raises(UsageError) as raised:
        margin.check("10°", margin.variable)
    assert raised.value.hint.startswith(f"export {margin.variable}=10, or")
