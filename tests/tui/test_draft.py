"""A run that is being set up: what is kept and what is reset, the note of each setting, and the command."""

import json
from pathlib import Path

import pytest

from contrastcli.errors import ErrorRecord, UsageError, Use
from contrastcli.runs import directory as runs
from contrastcli.settings import catalogue, sections
from contrastcli.settings.objective import Spec
from contrastcli.settings.suggestions import Suggestion
from contrastcli.tui.setup.draft import Draft, fill_in, next_draft, with_error
from support.command import Contrast
from support.recorded import recorded

OBJECTIVES = [spec.name for spec in catalogue.built_in()]


def typed(preset: str, **settings: str) -> Draft:
    """A draft with settings typed as objective__tau="0.07"."""
    draft = Draft(preset, {})
    for key, text in settings.items():
        draft.type(key.replace("__", "."), text)
    return draft


def test_a_setting_that_an_objective_does_not_use_is_kept_for_one_that_does() -> None:
    draft = typed("starter", objective__beta="2", objective__name="simace")
    assert draft.words == ["--preset", "starter", "--objective", "simace"]
    draft.type("objective.name", "pairsupcon")
    assert draft.words == ["--preset", "starter", "--beta", "2"]


def test_a_preset_brings_its_objective_and_keeps_what_was_typed() -> None:
    draft = typed("starter", objective__name="supcon", train__lr="1e-4")
    draft.choose_preset("simace-bert-base")
    assert draft.config.spec.name == "simace"
    assert draft.words == ["--preset", "simace-bert-base", "--lr", "1e-4"]


def test_a_reset_is_undone_as_one_step_after_what_was_typed_since() -> None:
    draft = typed("starter", objective__tau="0.07", train__lr="1e-4")
    words = draft.words
    draft.reset()
    draft.reset()
    draft.type("train.seed", "7")
    draft.undo()
    assert draft.words == ["--preset", "starter"]
    draft.undo()
    assert draft.words == words


@pytest.mark.parametrize("text", ["", "0.05", " 0.050 "])
def test_a_setting_that_is_erased_or_as_in_the_preset_is_no_longer_typed(text: str) -> None:
    draft = typed("starter", objective__tau="0.07")
    assert draft.fields["objective.tau"].instead == "preset 0.05"
    assert " · u returns to preset 0.05): " in draft.fields["objective.tau"].about("u")
    draft.type("objective.tau", text)
    assert draft.typed == {} and draft.fields["objective.tau"].text == "0.05"


def test_a_text_may_be_emptied() -> None:
    draft = typed("starter", data__train="", dev__corpus="texts.txt")
    assert draft.config.data.train == "" and draft.fields["data.train"].instead == "preset starter"
    assert " · u returns to nothing): " in draft.fields["dev.corpus"].about("u")


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("train.lr", "quick", "must be a number above 0 and at most 10"),
        (
            "objective.margin",
            "3",
            "with these settings it must be within -2 and 2 cosine, or for degrees: similarity angle or arc",
        ),
    ],
)
def test_a_bad_value_is_named_at_its_field_and_the_rest_is_valid(key: str, text: str, words: str) -> None:
    draft = typed("starter", train__seed="7", **{key.replace(".", "__"): text})
    assert draft.fields[key].note == draft.fields[key].wrong == words
    about = draft.fields[key].about("u")
    assert about.startswith(f"{key} (typed · ") and "u returns to " in about, "what undoing leaves"
    assert not draft.can_run
    assert draft.config.train.seed == 7
    draft.type(key, "1")
    assert not draft.fields[key].wrong and draft.can_run


def test_a_margin_that_was_typed_in_another_unit_is_inherited() -> None:
    draft = typed("starter", objective__margin="0.2", objective__similarity="arc")
    assert draft.config.flat()["objective.margin"] == 10 and "objective.margin" not in draft.typed
    draft.type("objective.margin", "15")
    draft.type("objective.similarity", "angle")
    assert draft.config.flat()["objective.margin"] == 15
    draft.undo("objective.similarity")
    assert draft.words == ["--preset", "starter"], "of 15 degrees there is no margin in cosine"
    draft = typed("simace-bert-base", objective__margin="15", train__lr="1e-4")
    draft.choose_preset("pairsupcon-base")
    assert draft.typed == {"train.lr": "1e-4"}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_can_be_set_up(name: str) -> None:
    draft = typed("starter", objective__name=name)
    essential = {key for key, setting in draft.known.items() if setting.essential}
    assert draft.can_run and essential <= set(draft.fields)
    off = {key for key, field in draft.fields.items() if field.off}
    inactive = {f"objective.{key}" for key in draft.config.objective.inactive()}
    assert off == inactive | (essential - set(draft.config.flat()))
    before = draft.words
    for key, field in list(draft.fields.items()):
        if key.startswith("objective.") and not field.off:
            draft.type(key, field.text)  # unchanged
    assert draft.words == before


@pytest.mark.parametrize("name", ["simace-bert-base", "simcse-sup-roberta-large", "pairsupcon-base", "supcon-medium"])
def test_a_published_preset_shows_what_its_paper_has(name: str) -> None:
    draft = Draft(name, {})
    assert not [key for key, field in draft.fields.items() if field.paper]
    draft.type("train.lr", "2.5e-4")
    assert draft.fields["train.lr"].note.startswith("≠ paper ") and draft.fields["train.lr"].brief == "≠"
    draft.undo()
    assert not draft.fields["train.lr"].note


def test_the_starter_shows_the_paper_of_its_objective_where_that_has_other_values() -> None:
    draft = Draft("starter", {})
    assert draft.fields["train.batch_size"].note == "≠ paper 1024"
    draft.type("objective.name", "simcse")
    assert not draft.fields["objective.tau"].paper and draft.fields["train.lr"].paper == "≠ paper 3e-05"
    assert "Gao et al. 2021" in draft.fields["objective.name"].about("u")


def test_a_field_says_what_0_means_and_doubts_what_is_hardly_meant() -> None:
    draft = typed("starter", objective__tau="1e-9")
    assert draft.fields["train.max_steps"].brief == "by epochs"
    assert draft.fields["dev.patience"].brief == "off" and draft.fields["train.lr"].doubt == ""
    assert draft.fields["objective.tau"].brief == "outside of what is usual, 0.01 to 10"
    assert draft.fields["objective.tau"].note.startswith("outside of what is usual, 0.01 to 10 · ")
    rbf = typed("starter", objective__similarity="rbf", objective__sigma="0.05")  # exp((cos θ − 1) / σ²) is 0 in fp32
    assert rbf.fields["objective.sigma"].brief == "outside of what is usual, 0.1 to 10"
    draft.type("train.max_steps", "7")
    assert draft.fields["train.max_steps"].brief == "steps"
    field = typed("starter", objective__name="simace", objective__margin="15").fields["objective.margin"]
    assert field.note == "≠ paper 10 · degrees · default 10" and field.brief == "≠ degrees"


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("starter", {}),
        ("", {"data.train": "my texts.txt", "dev.data": "none"}),
        ("starter", {"objective.name": "simace", "objective.margin": "-10", "dev.every": "50", "train.lr": "1e-4"}),
        ("simace-bert-base", {"objective.similarity": "rbf", "objective.margin": "12", "data.columns": "anchor=a b"}),
        ("supcon-medium", {"objective.lambda": "0.5", "objective.normalize": "true", "objective.similarity": "angle"}),
        ("pairsupcon-base", {"objective.classification": "false", "objective.beta": "3", "data.train": ""}),
    ],
)
def test_the_command_gives_the_settings_that_are_shown(
    contrast: Contrast, preset: str, settings: dict[str, str]
) -> None:
    draft = Draft(preset, settings)
    shown = json.loads(contrast("config", "show", "--json", *draft.words).out)["settings"]
    assert {key: setting["value"] for key, setting in shown.items()} == draft.config.flat()


def test_typed_values_override_files_and_the_environment(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("contrast.toml").write_text("[train]\nseed = 5\n[alerts]\nwebhook = 'https://example.org/secret'\n")
    monkeypatch.setenv("CONTRAST_TRAIN_LR", "2e-5")
    draft = Draft("", {})
    assert (draft.config.train.seed, draft.config.train.lr) == (5, 2e-5)
    draft.type("train.lr", "3e-5")
    draft.type("train.seed", "6")
    draft.type("alerts.webhook", "https://example.org/other")
    assert draft.fields["train.lr"].instead == "CONTRAST_TRAIN_LR 2e-05"
    assert draft.fields["train.seed"].instead == "contrast.toml 5"
    assert draft.fields["alerts.webhook"].instead == "contrast.toml https://example.org/…", "and no secret"


@pytest.mark.parametrize("text", ["[train]\nlr = 'quick'\n", "[train\n", "[train]\nspeed = 1\n"])
def test_a_bad_file_is_named_and_the_form_still_works(cwd: Path, text: str) -> None:
    Path("contrast.toml").write_text(text)
    draft = Draft("starter", {"train.lr": "1e-4"})
    assert "contrast.toml" in draft.error and not draft.can_run and draft.config.train.lr == 1e-4
    Path("contrast.toml").unlink()
    draft.reset()
    assert draft.can_run and draft.config.spec.name == "pairsupcon"


def test_a_value_of_a_file_that_conflicts_with_a_typed_one_is_valid_again_with_another(cwd: Path) -> None:
    Path("contrast.toml").write_text("[model]\ndims = '64'\n")
    draft = typed("", model__head="train-only")
    assert "model.dims" in draft.error and not draft.can_run
    draft.type("model.head", "keep")
    assert draft.can_run and draft.config.model.dims == "64"


def test_a_variable_of_no_setting_is_named_and_the_form_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_TRAIN_FOO", "1")
    draft = typed("starter", train__lr="1e-4")
    assert "CONTRAST_TRAIN_FOO" in draft.error and draft.config.train.lr == 1e-4


def test_defaults_that_are_wrong_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*words: str) -> Spec:
        raise UsageError("a package is broken", "remove it")

    monkeypatch.setattr(catalogue, "find_objective", broken)
    with pytest.raises(UsageError, match="a package is broken"):
        Draft("", {})


def test_the_columns_of_data_are_undone_with_them_and_need_some() -> None:
    draft = typed("", data__train="rows.csv", data__columns="anchor=q", train__seed="7")
    draft.undo("data.train")
    assert draft.typed == {"train.seed": "7"}
    assert draft.fields["data.columns"].off == "there are no data yet"
    for text in ("rows.csv", ""):
        draft.type("data.train", text)
        draft.type("data.columns", "")
    assert draft.typed == {"train.seed": "7"}


def test_what_a_removed_package_had_and_the_app_remembered_does_not_matter() -> None:
    draft = Draft("a-preset-that-went", {"train.speed": "9", "objective.name": "gone", "train.seed": "1"})
    assert (draft.preset, draft.typed) == ("", {"train.seed": "1"})


def test_only_what_decides_what_it_says_asks_for_a_dry_run() -> None:
    draft = Draft("starter", {})
    before = draft.planned
    for key, text in {"objective.tau": "0.1", "train.lr": "1", "train.schedule": "cosine", "dev.every": "9"}.items():
        draft.type(key, text)
        assert draft.planned == before, key
    rows = {"data.limit": "9", "dev.data": "none", "train.batch_size": "9", "train.max_steps": "9"}
    model = {"model.lora": "8", "model.dims": "9,256", "model.freeze": "1", "model.prompts": "ask: "}
    for key, text in {**rows, **model, "objective.classification": "false"}.items():
        draft.type(key, text)
        assert draft.planned != before, key
        draft.reset()
    assert sections.OBJECTIVE.key in before


def test_what_the_command_line_refuses_stands_at_its_field_in_the_words_of_the_form() -> None:
    draft = Draft("starter", {})
    fields = with_error(draft.fields, ErrorRecord("rows.csv is odd", [Use("--labels", "0=…")], "data.labels"))
    wrong = {key: field.wrong for key, field in fields.items() if field.wrong}
    assert wrong == {"data.labels": "rows.csv is odd: labels 0=…"}
    assert with_error(draft.fields, ErrorRecord("the disk is full", ["make room"])) == draft.fields


def test_a_run_is_set_up_with_what_was_left_out_of_it_and_the_last_probes() -> None:
    run = recorded(runs.runs_dir(None), "finished")
    run.false_negatives_path.write_text('{"anchor":"a","negative":"b"}\n')
    last = ("starter", {"dev.probes": "a dog | a puppy", "train.lr": "1"})
    draft = next_draft(last, run)
    assert draft.config.data.false_negatives == str(run.false_negatives_path.resolve())
    assert draft.config.dev.probes == "a dog | a puppy" and draft.config.train.lr == run.config().train.lr
    run.write_config(run.config().with_values({"data.false_negatives": "mine.csv", "dev.probes": "x | y"}))
    config = next_draft(last, run).config
    assert (config.data.false_negatives, config.dev.probes) == ("mine.csv", "x | y")


@pytest.mark.parametrize(("key", "text"), [("data.train", "other.csv"), ("model.backbone", "other")])
def test_reasons_go_with_the_data_and_the_backbone_that_they_are_of(key: str, text: str) -> None:
    draft = Draft("", {"data.train": "rows.csv"})
    fill_in(draft, [Suggestion("train.epochs", 4, "900 rows are 15 steps", "a paper")])
    assert draft.fields["train.epochs"].note == "900 rows are 15 steps"
    draft.type("train.lr", "1e-4")
    assert draft.fields["train.epochs"].reason
    draft.type(key, text)
    assert not draft.fields["train.epochs"].reason and draft.fields["train.epochs"].text == "4"
