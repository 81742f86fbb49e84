"""The Setup screen: its form, keys and states, the curve, the summary, the command and the start."""

import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, OptionList

from contrastcli.files import state_dir
from contrastcli.runs import directory as runs
from contrastcli.runs.events import Progress
from contrastcli.runs.results import Suggested
from contrastcli.settings.setting import spell
from contrastcli.settings.similarity import SIMILARITIES
from contrastcli.settings.suggestions import Suggestion
from contrastcli.show.curve import curve
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.chart_view import ChartView
from contrastcli.tui.fields.choice_field import ChoiceField
from contrastcli.tui.processes import Finished
from contrastcli.tui.setup.curve import VIEWS, similarity_picture
from contrastcli.tui.setup.draft import Draft
from contrastcli.tui.setup.form import SettingRow, SettingsForm
from contrastcli.tui.setup.screen import SetupScreen
from contrastcli.tui.widgets import PlainText
from support.command import Contrast
from support.commands import Commands, answer_commands
from support.recorded import recorded
from support.screens import (
    NARROW,
    WIDE,
    check_golden,
    choose,
    open_list,
    paste,
    press,
    row,
    says,
    screen_text,
    setting_up,
    show,
    until,
)

PREVIEW: dict[str, Any] = {
    "rows": [
        {"anchor": "a dog runs", "positive": "a puppy [sprints]", "label": "entailment"},
        {"anchor": "a dog runs", "positive": "a dog sleeps", "label": "contradiction"},
        {"anchor": "two men cook", "positive": "people make food", "label": "entailment"},
    ],
    "notes": ["720 of 2,160 rows labelled neutral were dropped"],
    "count": 1440,
    "steps": 138,
    "steps_per_epoch": 23,
    "sentences_per_step": 128,
    "negatives_per_anchor": 126,
    "dev_pairs": 390,
    "dev": "starter: 390 scored pairs",
    "disk": 119_517_184,
}


def answer(directory: Path, words: tuple[str, ...]) -> Finished:
    """What the command line answers to a dry run, and to a start."""
    if "--dry-run" in words:
        return Finished(json.dumps({"settings": {}, **PREVIEW}))
    return Finished(f"{recorded(directory, 'running').path}\n")


def fail(commands: Commands, error: str) -> None:
    """Let the commands fail from now on."""
    commands.answer = lambda directory, words: Finished("", f"{error}\nhint: fix it")


def started(commands: Commands) -> list[tuple[str, ...]]:
    """The commands that would have trained."""
    return [words for words in commands.calls if "--detach" in words]


@pytest.fixture(autouse=True)
def commands(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The commands that the screen runs, in a folder without files that its lists would offer."""
    monkeypatch.setattr("contrastcli.tui.setup.dry_run_panel.PAUSE_SECONDS", 0.0)
    return answer_commands(monkeypatch, answer)


def words_of(screen: SetupScreen, where: str) -> str:
    """What a text says."""
    return str(screen.query_one(where).render())


async def write(pilot: Pilot[None], key: str, text: str) -> None:
    """Put a setting's value in place of the present one."""
    field = row(pilot, key).value
    field.focus()
    await pilot.pause()
    if isinstance(field, Input):
        await pilot.press("ctrl+u")
        await paste(pilot, text)
    else:
        await choose(pilot, "enter", text)
    await pilot.pause()


@pytest.mark.parametrize(("name", "size"), [("narrow", NARROW), ("wide", WIDE)])
async def test_a_newcomer_sees_a_run_that_is_ready_and_starts_it_with_one_key(
    commands: Commands, name: str, size: tuple[int, int]
) -> None:
    async with setting_up(size) as (pilot, screen):
        assert screen.focused is None
        await pilot.pause()  # for the length of the scroll bar
        check_golden(f"setup-{name}", screen_text(pilot.app))
        await press(pilot, "s", then=lambda: pilot.app.current_mode == "live")
        assert started(commands) == [("train", "--preset", "starter", "--detach")]
        await until(pilot, lambda: "starter-running" in screen_text(pilot.app))


async def test_a_start_shows_what_is_downloaded_starts_once_and_leaving_asks_about_it(commands: Commands) -> None:
    commands.progress = [Progress(step=0, what="downloading bert-base-uncased (MB)", done=120, total=440)]
    async with setting_up() as (pilot, _):
        commands.held.clear()
        await pilot.click("#start")
        await until(pilot, lambda: says(pilot, "downloading bert-base-uncased (MB) 120 of 440"))
        await press(pilot, "s", "s", "q", shows="The start is not done yet: leaving ends it.")
        await pilot.press("escape")
        commands.held.set()
        await until(pilot, lambda: says(pilot, "started starter-running; 3 lists it"))
        assert pilot.app.return_code is None and pilot.app.current_mode == "setup"
        await press(pilot, "q", shows="starter-running is still training")
        await press(pilot, "k", then=lambda: pilot.app.return_code == 0)
    assert not commands.cancelled and len(started(commands)) == 1


async def test_errors_of_the_dry_run_and_of_the_start_and_a_missing_model_are_shown_and_s_tries_again(
    commands: Commands,
) -> None:
    fail(commands, "texts.txt is missing")
    async with setting_up() as (pilot, screen):
        assert "cannot start: texts.txt is missing" in screen_text(pilot.app)
        assert screen.query_one("#start", Button).disabled
        missing = "the model 'no/such' is not on this machine; it will be downloaded"
        preview = Finished(json.dumps({"settings": {}, **PREVIEW, "disk": None, "missing": [missing]}))
        commands.answer = lambda directory, words: preview
        await press(pilot, "s", shows=missing)
        assert "ready:" not in screen_text(pilot.app)
        commands.answer = answer
        await write(pilot, "train.batch_size", "8")
        await press(pilot, "escape", shows="ready: 138 steps")
        assert not started(commands)
        fail(commands, "runs cannot be written")
        await press(pilot, "s", shows="runs cannot be written")
        assert "hint: fix it" in screen_text(pilot.app) and pilot.app.current_mode == "setup"


async def test_choosing_simace_changes_the_form_the_curve_and_the_command_that_is_copied() -> None:
    async with setting_up() as (pilot, _):
        await choose(pilot, "o", "simace")
        await write(pilot, "objective.margin", "15")
        assert says(pilot, "2 changed: Ctrl+Z undo ─", " · Ctrl+Z returns to default 10)"), "u is a letter here"
        await press(pilot, "escape", shows="2 changed: u undo, r reset")
        row(pilot, "objective.name").value.focus()
        await until(pilot, lambda: says(pilot, "2 changed: u undo, r reset", "u returns to preset"))
        await until(pilot, lambda: "● margin m" in screen_text(pilot.app))
        assert "━━ angle, margin 15°" in screen_text(pilot.app) and "plain cosine" in screen_text(pilot.app)
        await pilot.press("y")
        await pilot.pause()
        command = "contrast train --preset starter --objective simace --margin 15"
        assert pilot.app.clipboard == command
        assert (state_dir() / "copied.txt").read_text() == command + "\n"


@pytest.mark.parametrize("view", VIEWS)
def test_each_curve_is_that_of_the_margin_and_the_temperature_next_to_the_plain_cosine(view: str) -> None:
    typed = {"objective.name": "simace", "objective.margin": "30", "objective.tau": "0.5"}
    shown = [series.y[1:-1] for series in similarity_picture(Draft("starter", typed), view).series]
    curves = curve(SIMILARITIES["angle"], 30, 0.5), curve(SIMILARITIES["cosine"], 0, 0.5)
    assert shown == [getattr(one, view)[1:-1] for one in curves]
    without_tau = similarity_picture(Draft("starter", {"objective.name": "pearson"}), view)
    assert "τ" not in without_tau.title


async def test_where_there_is_no_curve_one_line_says_why_and_what_brings_it() -> None:
    async with setting_up(NARROW) as (pilot, screen):
        for objective, why in (
            ("softmax", "softmax has no similarity: simcse, simace, … do"),
            ("supcon", "no effect while normalize is false; true compares angles, not raw dot products"),
        ):
            await choose(pilot, "o", objective)
            await until(pilot, lambda: words_of(screen, "#no-curve") == f"no curve – similarity: {why}")  # noqa: B023
            await until(pilot, lambda: says(pilot, "no curve"))
            assert not says(pilot, "similarity of positives") and not says(pilot, "degrees")
        await choose(pilot, "o", "simace")
        await until(pilot, lambda: says(pilot, "━━ angle") and not says(pilot, "no curve"))
        await write(pilot, "objective.tau", "1e-310")
        assert words_of(screen, "#no-curve") == "no curve – similarity: too large at this τ"
        await write(pilot, "objective.tau", "1e-299")
        await pilot.press("escape")
        for title in ("its gradient", "its slope", "similarity of positives"):
            await press(pilot, "g", shows=title)


async def test_where_it_is_narrow_the_summary_is_below_the_curve_and_g_shows_the_gradient_in_place() -> None:
    async with setting_up(NARROW) as (pilot, screen):
        assert says(pilot, "contrast train --preset", "Summary")
        await press(pilot, "pagedown", "pagedown", shows=("positive", "a puppy", "[sprints]"))
        await press(pilot, "pageup", "pageup", shows="━━ cosine")
        titles = []
        for _ in range(4):
            titles.append([str(chart.border_title) for chart in screen.query(ChartView) if chart.display])
            await pilot.press("g")
            await pilot.pause()
        assert [title.split()[1] for (title,) in titles] == ["of", "gradient", "slope", "of"]


async def test_arrows_go_through_the_fields_the_footer_keeps_within_eight_keys_and_a_bad_value_starts_nothing(
    commands: Commands,
) -> None:
    async with setting_up(NARROW) as (pilot, screen):
        await until(pilot, lambda: "s start" in screen_text(pilot.app).splitlines()[-1])
        assert screen_text(pilot.app).splitlines()[-1].endswith("? help")
        preset = screen.query_one(SettingsForm).preset
        await press(pilot, "down", then=lambda: screen.focused is preset)
        await press(pilot, "down", shows="model.backbone (preset")
        assert screen_text(pilot.app).count("≠ paper bert-base-uncased") == 1, "only the field with the focus says more"
        await press(pilot, "up", then=lambda: screen.focused is preset)
        assert len([active for active in screen.active_bindings.values() if active.binding.show]) <= 8
        await pilot.press(*["down"] * 3)
        await until(pilot, lambda: "q leave" not in screen_text(pilot.app), 5)  # where q is a letter
        await write(pilot, "objective.tau", "0")
        await pilot.press("escape", "s")
        await pilot.pause()
        assert "! tau τ" in screen_text(pilot.app) and screen_text(pilot.app).count("must be a number above 0") == 1
        assert "cannot start: tau τ (s goes there)" in screen_text(pilot.app)
        assert screen.focused is row(pilot, "objective.tau").value
        assert not started(commands) and screen.query_one("#start", Button).disabled


async def test_what_is_erased_undone_or_reset_is_inherited_again() -> None:
    """`u` undoes the field that has the focus, or the last one."""
    async with setting_up() as (pilot, screen):

        async def command_ends(words: str) -> None:
            await until(pilot, lambda: words_of(screen, "#command").endswith(words))

        for key, text in (("train.lr", "1e-4"), ("train.seed", "7"), ("train.lr", "2e-4"), ("data.train", "my.csv")):
            await write(pilot, key, text)
        await pilot.press("u")  # the focus is on the data, which is chosen from a list
        await command_ends("--seed 7 --lr 2e-4")
        await pilot.press("escape", "u")
        await command_ends("--preset starter --seed 7")
        assert row(pilot, "train.lr").value.value == "5e-05"
        await write(pilot, "train.epochs", "9")
        await pilot.press("ctrl+z")
        await command_ends("--preset starter --seed 7")
        await write(pilot, "train.lr", "1e-4")
        await write(pilot, "train.lr", "")
        await command_ends("--preset starter --seed 7")
        await press(pilot, "escape", then=lambda: row(pilot, "train.lr").value.value == "5e-05")
        await pilot.press("r")
        await command_ends("contrast train --preset starter")
        assert row(pilot, "train.seed").value.value == "42"


async def test_names_are_offered_completed_and_checked_as_they_are_typed() -> None:
    Path("texts").mkdir()
    Path("texts/train.csv").write_text("sentence\na dog runs\n")
    Path("no-model").mkdir()
    config = recorded(runs.runs_dir(None), "finished", "an-earlier-run").config_path
    config.write_text(config.read_text().replace('train = "starter"', 'train = "older.csv"'))
    async with setting_up() as (pilot, screen):
        row(pilot, "data.train").value.focus()
        await open_list(pilot, "enter")
        await until(pilot, lambda: "older.csv  used in an-earlier-run" in screen_text(pilot.app))
        assert pilot.app.screen.query_one(OptionList).highlighted == 0, "at one's own data, not at the starter's"
        await pilot.press(*"tex", "tab", *"tr", "tab", "enter")
        await until(pilot, lambda: words_of(screen, "#command").endswith("--data texts/train.csv"))
        row(pilot, "model.backbone").value.focus()
        await open_list(pilot, "enter")
        await until(pilot, lambda: "starter" in screen_text(pilot.app))
        await press(pilot, *"./no-model", shows="folder without a model")
        await press(pilot, "ctrl+u", *"no/such-model", shows="not on this machine")


async def test_a_tall_screen_shows_every_setting_and_a_short_one_says_how_many_it_hides() -> None:
    async with setting_up((200, 93)) as (pilot, _):
        await until(pilot, lambda: says(pilot, "webhook") and not says(pilot, "m shows them"))
        await pilot.resize_terminal(200, 130)
        await until(pilot, lambda: says(pilot, "webhook") and not says(pilot, "m hides most"))
        await pilot.resize_terminal(*NARROW)
        await until(pilot, lambda: says(pilot, " more: m shows them, / finds one"))


async def test_one_key_fills_in_what_suits_the_data_with_a_reason_beside_each_field(
    commands: Commands, contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(ContrastApp, "notify", lambda app, text, **how: told.append(text))
    asked = ("suggest", "tiny/pairs.jsonl", "--backbone", "tiny/backbone", "--blank", "drop", "--no-trial", "--json")
    printed = contrast(*asked).out
    made = msgspec.json.decode(printed, type=Suggested)
    commands.answer = lambda folder, words: Finished(printed) if words == asked else answer(folder, words)
    typed = {"data.train": "tiny/pairs.jsonl", "model.backbone": "tiny/backbone", "data.blank": "drop"}
    async with setting_up(typed=typed) as (pilot, screen):
        await press(pilot, "e", then=lambda: screen.draft.fields["train.warmup"].text == "0.1")
        assert told == ["what suits the data is filled in, in place of the preset starter"]
        fields = screen.draft.fields
        assert {one.key: fields[one.key].text for one in made.settings} == {
            one.key: spell(one.value) for one in made.settings
        }
        assert {one.key: fields[one.key].note for one in made.settings} == {
            one.key: one.reason for one in made.settings
        }
        await pilot.press("y")
        await pilot.pause()
        # What is the default anyway is not typed.
        command = made.command.replace("--objective simcse ", "")
        assert sorted(shlex.split(pilot.app.clipboard)) == sorted(shlex.split(command))
        await write(pilot, "train.lr", "1e-3")
        assert not screen.draft.fields["train.lr"].reason
        await press(pilot, "ctrl+z", then=lambda: screen.draft.fields["train.lr"].text == "3e-05")


async def test_what_is_said_of_an_earlier_draft_is_neither_filled_in_nor_shown_as_ready(commands: Commands) -> None:
    suggested = msgspec.json.encode(Suggested("starter", [Suggestion("train.epochs", 9, "few rows", "a paper")], ""))
    done = Finished(suggested.decode())
    commands.answer = lambda folder, words: done if "suggest" in words else answer(folder, words)
    async with setting_up() as (pilot, screen):
        commands.held.clear()
        await press(pilot, "e", then=lambda: "suggest" in commands.calls[-1])
        await write(pilot, "data.train", "other.csv")
        commands.held.set()
        await until(pilot, lambda: says(pilot, "what was suggested was for an earlier draft"))
        assert words_of(screen, "#command") == "contrast train --preset starter --data other.csv"
        await press(pilot, "escape", shows="ready:")
        fail(commands, "the disk is full")
        commands.held.clear()
        await press(pilot, "s", shows="starting…")
        await write(pilot, "train.epochs", "x")
        commands.held.set()
        await until(pilot, lambda: any("the disk is full" in one.message for one in pilot.app._notifications))
        await pilot.pause()
        assert "the disk is full" not in words_of(screen, "#ready")


async def test_presets_are_listed_with_nothing_among_them_and_a_choice_is_stepped_through_too() -> None:
    async with setting_up(NARROW) as (pilot, screen):
        await open_list(pilot, "p")
        await pilot.press(*"simace-b", "down")
        await pilot.pause()
        check_golden("setup-list-narrow", screen_text(pilot.app))
        await press(pilot, "enter", then=lambda: words_of(screen, "#command").endswith("--preset simace-bert-base-mlm"))
        await choose(pilot, "p", "nothing")
        assert words_of(screen, "#command") == "contrast train"
        similarity = row(pilot, "objective.similarity").value
        assert isinstance(similarity, ChoiceField)
        similarity.focus()
        for name in ("rbf", "angle", "arc", "cosine"):
            await press(pilot, "right", then=lambda: similarity.value == name)  # noqa: B023
        await open_list(pilot, "enter")
        assert all(f" {name} " in screen_text(pilot.app) for name in ("angle", "arc", "rbf"))
        await press(pilot, "escape", then=lambda: pilot.app.screen is screen)
        assert similarity.value == "cosine"


async def test_a_setting_is_found_by_its_name_and_m_shows_every_one_of_the_objective() -> None:
    async with setting_up() as (pilot, screen):
        await pilot.press("slash", *"warm", "enter")
        await pilot.pause()
        assert screen.focused is row(pilot, "train.warmup").value
        assert [row.field.label for row in screen.query(SettingRow) if row.display] == ["schedule", "warmup"]
        assert "Training" in screen_text(pilot.app) and "Dev set" not in screen_text(pilot.app)
        await pilot.press("escape")
        await pilot.pause()
        assert screen.focused is None and row(pilot, "model.backbone").display
        await pilot.press("slash", *"xyz")
        await pilot.pause()
        assert "no setting has this name" in screen_text(pilot.app)
        await pilot.press("escape")
        await press(pilot, "m", shows="hard negatives")
        headings = [str(heading.content) for heading in screen.query(".section .heading").results(PlainText)]
        assert headings[:3] == ["Encoder", "Objective", "Training data"]
        await choose(pilot, "o", "rankcse")
        await until(pilot, lambda: "teacher tau" in screen_text(pilot.app))
        assert "hard negatives" not in screen_text(pilot.app)
        keys = {row.field.setting.key for row in screen.query(SettingRow) if row.display}
        assert keys == set(Draft("starter", {"objective.name": "rankcse"}).config.flat()) | {"objective.lambda"}


async def test_what_was_typed_is_there_again_the_next_time_in_its_runs_directory(tmp_path: Path) -> None:
    async with setting_up() as (pilot, screen):
        await write(pilot, "data.train", "my texts.txt")
        await pilot.press("escape", "m")
    # It may hold a webhook.
    assert not (state_dir() / "app.json").stat().st_mode & 0o077
    async with show(ContrastApp(tmp_path / "other")) as pilot:
        other = pilot.app.screen
        assert isinstance(other, SetupScreen)
        await until(pilot, lambda: words_of(other, "#command").endswith("/other train --preset starter"))
    async with setting_up() as (pilot, screen):
        assert words_of(screen, "#command") == "contrast train --preset starter --data 'my texts.txt'"
        await until(pilot, lambda: "mask duplicates" in screen_text(pilot.app))


async def test_the_data_is_read_again_for_what_changes_it_alone_and_a_stale_reading_is_ended(
    commands: Commands,
) -> None:
    async with setting_up() as (pilot, screen):
        await write(pilot, "objective.tau", "0.2")
        assert len(commands.calls) == 1
        commands.held.clear()
        await write(pilot, "train.batch_size", "8")
        await until(pilot, lambda: commands.calls[-1][-4:-2] == ("--batch-size", "8"))
        assert words_of(screen, "#ready") == "reading the data…"
        await press(pilot, "0", then=lambda: commands.cancelled)
        commands.held.set()
        await until(pilot, lambda: "ready" in screen_text(pilot.app))
        assert commands.calls[-1][-4:] == ("--batch-size", "80", "--dry-run", "--json")


async def test_what_another_screen_adds_to_the_draft_is_kept_and_goes_with_a_run(commands: Commands) -> None:
    run, added = recorded(runs.runs_dir(None), "finished", train__lr=1e-3), ("starter", {"dev.probes": "a | b"})
    async with setting_up() as (pilot, screen):
        commands.held.clear()
        await write(pilot, "train.batch_size", "8")
        await until(pilot, lambda: "8" in commands.calls[-1])
        await press(pilot, "escape", "3", then=lambda: pilot.app.screen is not screen)
        screen.contrast.project.draft = added
        commands.held.set()
        await until(pilot, lambda: "ready" in words_of(screen, "#ready"))
        assert screen.contrast.project.draft == added
        await screen.contrast.open_run(run, "setup")
        await until(pilot, lambda: screen.draft.config.dev.probes == "a | b")
        await pilot.pause()
        assert screen.draft.config.train.lr == 1e-3


async def test_the_app_ends_while_the_data_is_read(commands: Commands) -> None:
    commands.held.clear()
    async with show(ContrastApp(runs.runs_dir(None))) as pilot:
        await until(pilot, lambda: commands.calls)
        assert "reading the data…" in screen_text(pilot.app)
        await pilot.press("3", "q")
    assert commands.cancelled == commands.calls
