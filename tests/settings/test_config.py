"""Settings: which source takes precedence, errors for bad values, and how a run is repeated."""

from pathlib import Path

import platformdirs
import pytest

from contrastcli.errors import UsageError
from contrastcli.settings import catalogue, config, sections
from contrastcli.settings.config import Layer


@pytest.fixture(autouse=True)
def folder(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, and a user whose settings lie in it."""
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda name: str(cwd / "user" / name))


def file(toml: str, name: str | Path = "run.toml") -> Layer:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(toml, encoding="utf-8")
    return config.file_layer(path)


def flags(**typed: str) -> Layer:
    """What the command line gives: the flags that were typed, as text."""
    keys = {key.replace("__", "."): value for key, value in typed.items()}
    return Layer(keys, {key: f"--{key.split('.')[1]}" for key in keys}, text=True, strict=True)


def environment(**variables: str) -> Layer:
    return config.environment_layer(variables)


def complaint(*layers: Layer) -> tuple[str, str]:
    """(what, hint) of the error that the layers raise."""
    with pytest.raises(UsageError) as raised:
        config.resolve(layers)
    return raised.value.what, raised.value.hint


def objective(*layers: Layer) -> dict[str, object]:
    """The settings of the objective, by their names."""
    flat = config.resolve(layers).flat()
    return {key.removeprefix("objective."): value for key, value in flat.items() if key.startswith("objective.")}


# Choosing an objective


def test_choosing_another_objective_resets_what_was_inherited() -> None:
    own = file("[objective]\nmargin = 0.5")
    preset = file("[objective]\nname = 'simcse'\ntau = 0.9\nmlm_weight = 0.5\n[train]\nlr = 0.001")
    resolved = config.resolve([own, preset, flags(objective__name="simace")])
    assert (resolved.flat()["objective.tau"], resolved.flat()["objective.mlm_weight"]) == (0.06, 0.0)
    assert resolved.train.lr == 0.001
    assert sorted(resolved.notes) == [
        "objective.margin = 0.5 of run.toml was for another objective or similarity, and is 10",
        "objective.mlm_weight = 0.5 of run.toml was for another objective or similarity, and is 0",
        "objective.tau = 0.9 of run.toml was for another objective or similarity, and is 0.06",
    ]


def test_choosing_an_objective_keeps_what_was_stated_for_none() -> None:
    own, preset = file("[objective]\nsymmetric = true"), file("[objective]\nname = 'simcse'\ntau = 0.9")
    typed = environment(CONTRAST_OBJECTIVE_TAU="0.5", CONTRAST_OBJECTIVE_MARGIN="15")
    for layers in ([own, typed], [own, preset, typed]):
        made = objective(*layers, flags(objective__name="simace"))
        assert (made["tau"], made["margin"], made["symmetric"]) == (0.5, 15, True)
    chosen = environment(CONTRAST_OBJECTIVE_NAME="simcse", CONTRAST_OBJECTIVE_TAU="0.5")
    assert objective(chosen, flags(objective__name="simace"))["tau"] == 0.06


def test_naming_the_objective_that_a_file_has_already_keeps_the_files_settings() -> None:
    preset = file("[objective]\nname = 'simace'\ntau = 0.07")
    assert objective(preset, flags(objective__name="simace"))["tau"] == 0.07


# Unknown keys and bad values


OTHER_TYPES = (
    *("[train]\nbatch_size = '64'", "[train]\nbatch_size = true", "[train]\nbatch_size = 64.0", "[train]\nlr = [0.1]"),
    *("[model.head]\nsize = 3", "[train]\ndevice = 0", "[train]\nlr = 1" + 400 * "0"),
)


@pytest.mark.parametrize(
    ("toml", "hint"),
    [
        *((toml, "must be") for toml in OTHER_TYPES),
        ("[train]\nmax_steps = 10.0", "in [train] of run.toml write max_steps = 10, or another"),
        ("[train]\nprecision = 'FP32'", 'in [train] of run.toml write precision = "fp32", or another'),
        ("[train]\nprecision = fp32", "text in quotes"),
        ("[train\nlr = 1", "fix that line"),
        ("[train]\nlr = 1\nlr = 2", "a key stands once"),
        ("lr = 1", "write train.lr = …"),
        # A NaN differs from itself, as another objective would.
        ("[objective]\nname = nan", "known: aoe, arccon"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_what_is_written_there(toml: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        config.resolve([file(toml)])
    assert "run.toml" in raised.value.what and hint in raised.value.hint
    assert ("at line 3" in raised.value.what) == toml.endswith("lr = 2")


@pytest.mark.parametrize("toml", ["[train]\nclip = 2", "\ufeff[train]\nclip = 2.0"])
def test_a_file_may_begin_with_a_mark_and_a_whole_number_is_a_number(toml: str) -> None:
    assert config.resolve([file(toml)]).train.clip == 2.0


@pytest.mark.parametrize(("word", "value"), [("on", True), ("True", True), ("0", False), ("no", False)])
def test_flags_spell_true_and_false_in_the_usual_ways(word: str, value: bool) -> None:
    assert config.resolve([flags(data__mask_duplicates=word)]).data.mask_duplicates is value


# The margin follows the similarity


@pytest.mark.parametrize(
    ("similarity", "limit", "unit"), [("cosine", 2, "cosine"), ("angle", 180, "degrees"), ("arc", 180, "degrees")]
)
def test_a_margin_has_the_limits_and_the_unit_of_its_similarity(similarity: str, limit: int, unit: str) -> None:
    chosen = flags(objective__similarity=similarity)
    assert config.resolve([chosen]).objective.bounds()["margin"].unit == unit
    for margin in (-limit, limit):
        assert objective(chosen, flags(objective__margin=str(margin)))["margin"] == margin
    what, _ = complaint(chosen, flags(objective__margin=f"{limit}.1"))
    assert what == f"objective.margin is {limit}.1 (--margin)"


def test_a_presets_margin_in_degrees_is_not_taken_for_a_cosine() -> None:
    preset = file("[objective]\nname = 'simace'\nsimilarity = 'angle'\nmargin = 1.5")
    assert objective(preset, flags(objective__similarity="cosine"))["margin"] == 0.0
    assert objective(preset, flags(objective__similarity="angle"))["margin"] == 1.5
    assert objective(preset, flags(objective__tau="0.1"))["margin"] == 1.5
    typed = flags(objective__similarity="cosine", objective__margin="0.3")
    assert objective(preset, typed)["margin"] == 0.3


def test_a_similarity_that_is_the_objectives_own_resets_nothing() -> None:
    preset = file("[objective]\nname = 'simace'\nmargin = 5.0")
    for same in (flags(objective__similarity="angle"), environment(CONTRAST_OBJECTIVE_SIMILARITY="angle")):
        resolved = config.resolve([preset, same])
        assert (resolved.flat()["objective.margin"], resolved.notes) == (5.0, ())
    below = file("[objective]\nname = 'simcse'\nsimilarity = 'arc'")
    assert objective(below, preset, flags(objective__similarity="arc"))["margin"] == 10.0


# Settings without effect


def test_a_setting_of_another_objective_is_a_note_from_a_file_or_the_environment() -> None:
    resolved = config.resolve([file("[objective]\nbeta = 2.0"), environment(CONTRAST_OBJECTIVE_LAMBDA="0.5")])
    assert [note.split(" ")[0] for note in resolved.notes] == ["objective.beta", "objective.lambda"]
    assert "run.toml" in resolved.notes[0] and "CONTRAST_OBJECTIVE_LAMBDA" in resolved.notes[1]


# Repeating a run


@pytest.mark.parametrize("name", [spec.name for spec in catalogue.built_in()])
def test_a_run_can_be_repeated_from_what_it_writes(name: str) -> None:
    run = config.resolve([flags(objective__name=name, train__lr="1.25e-5", data__train='a "b" ü.txt')])
    again = config.resolve([file(run.to_toml())])
    assert again == run
    assert again.notes == ()
    assert again.sources == dict.fromkeys(run.flat(), "run.toml")


# Environment


def test_every_setting_has_its_environment_variable() -> None:
    variables = {"CONTRAST_" + key.replace(".", "_").upper(): "x" for key in sections.all_settings()}
    variables["CONTRAST_OBJECTIVE_NAME"] = "x"
    assert set(environment(**variables).values) == {"objective.name", *sections.all_settings()}


def test_an_empty_variable_and_those_of_other_programs_are_ignored_and_one_that_nothing_reads_is_a_note() -> None:
    ours = {"CONTRAST_RUNSDIR": "r", "CONTRAST_RUNS": "r", "CONTRAST_REMOTE": "r", "CONTRAST_TRAIN_LR": ""}
    layer = environment(**ours, PATH="/bin")
    assert layer.values == {}
    assert config.resolve([layer]).notes == ("nothing reads the variable CONTRAST_RUNSDIR",)


# What settings say of themselves


def test_every_setting_has_help() -> None:
    assert [key for key, setting in sections.all_settings().items() if not setting.help] == []


def test_every_default_is_a_value_that_the_setting_takes() -> None:
    for spec in catalogue.built_in():
        for setting in sections.settings_of(spec).values():
            assert setting.check(setting.default) == setting.default
            assert setting.parse(str(setting.default)) == setting.default


def test_one_flag_means_one_setting_outside_data_and_dev() -> None:
    shown = [s.flag for s in sections.all_settings().values() if s.section in ("objective", "model", "train")]
    assert len(shown) == len(set(shown))
