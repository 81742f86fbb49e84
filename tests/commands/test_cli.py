"""Commands that show what there is: runs, presets, settings, the machine, and help."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from contrastcli.cli import cli
from contrastcli.runs import sweeps as grid
from contrastcli.runs.directory import Run
from contrastcli.settings import config as configs
from support.command import Contrast
from support.tiny import Tiny


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that lead to it."""
    yield before, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield (*before, name), command


COMMANDS = dict(commands(cli))


@pytest.fixture
def runs_of_two(run: Run, tiny: Tiny) -> list[Run]:
    """runs/simple, and runs/other that was made after it with another rate."""
    shutil.copytree(run.path, "runs/other")
    other = Run(Path("runs/other"))
    other.config_path.write_text(tiny.config(train__max_steps=4, train__lr=2e-3).to_toml())
    events = other.events_path.read_text().splitlines()
    later = [json.dumps(json.loads(line) | {"time": json.loads(line)["time"] + 60}) for line in events]
    other.events_path.write_text("\n".join(later) + "\n")
    os.utime(other.config_path, (time.time() + 60,) * 2)
    return [run, other]


def test_runs_are_listed_the_newest_first(contrast: Contrast, runs_of_two: list[Run]) -> None:
    text = contrast("runs")
    assert text.code == 0 and text.out == contrast("runs", "list").out
    header, first, second = text.out.splitlines()
    assert header.split() == ["run", "state", "step", "best", "dev", "updated", "size"]
    assert [line.split()[:3] for line in (first, second)] == [
        ["other", "finished", "4/4"],
        ["simple", "finished", "4/4"],
    ]
    found = json.loads(contrast("runs", "list", "--json").out)
    assert [run["name"] for run in found] == ["other", "simple"]
    assert found[1]["best"] == runs_of_two[0].status().best and found[1]["path"] == "runs/simple"


def test_without_runs_the_list_says_how_to_make_one(contrast: Contrast) -> None:
    assert "contrast train --preset starter" in contrast("runs").out
    assert json.loads(contrast("runs", "list", "--json").out) == []


def test_a_run_shows_its_status_checkpoints_and_settings(contrast: Contrast, run: Run) -> None:
    text = contrast("runs", "show", "sim").out
    for word in ("finished", "4 of 4", "best checkpoint", "last checkpoint", "train.lr", "0.001"):
        assert word in text
    found = json.loads(contrast("runs", "show", "--json").out)
    assert found["state"] == "finished" and found["settings"]["train.lr"] == 1e-3
    assert found["checkpoints"] == {which: str(run.checkpoint(which)) for which in ("last", "best")}


def test_the_path_of_a_run_is_all_that_path_prints(contrast: Contrast, run: Run) -> None:
    assert contrast("runs", "path", "last").out == "runs/simple\n"
    assert contrast("--runs-dir", "elsewhere", "runs", "path", "runs/simple").out == "runs/simple\n"


def test_a_run_is_removed_once_it_was_agreed_to(contrast: Contrast, runs_of_two: list[Run]) -> None:
    kept = contrast("runs", "rm", "simple", stdin=b"n\n")
    assert (kept.code, kept.out) == (0, "") and "Delete runs/simple?" in kept.err
    assert runs_of_two[0].path.is_dir()
    assert contrast("runs", "rm", "simple", stdin=b"y\n").code == 0
    assert contrast("runs", "rm", "other", "--yes").code == 0
    assert not list(Path("runs").glob("*/config.toml"))


def test_asking_nobody_removes_nothing(contrast: Contrast, run: Run) -> None:
    assert contrast("runs", "rm", "simple", stdin=b"").code == 130
    assert run.path.is_dir()


def test_pruning_frees_room_and_keeps_the_model(contrast: Contrast, run: Run) -> None:
    before = run.size_bytes()
    answer = contrast("runs", "prune", "simple")
    assert answer.code == 0 and "freed" in answer.err and "B" in answer.err
    assert run.size_bytes() < before
    assert contrast("query", "a", "b").code == 0


def test_runs_are_compared_by_what_differs_and_what_came_of_it(contrast: Contrast, runs_of_two: list[Run]) -> None:
    lines = {line.split()[0]: line.split()[1:] for line in contrast("compare", "simple", "other").out.splitlines()}
    assert lines["train.lr"] == ["0.001", "0.002"] and "train.seed" not in lines
    found = json.loads(contrast("compare", "simple", "other", "--json").out)
    assert found["settings"] == {"train.lr": [1e-3, 2e-3]}
    assert [r["name"] for r in found["results"]] == ["simple", "other"]
    assert found["results"][0]["dev"] == found["results"][1]["dev"] is not None


def test_watching_an_ended_run_tells_it_and_ends_with_its_code(contrast: Contrast, run: Run) -> None:
    told = contrast("watch", "simple")
    assert (told.code, told.out) == (0, "") and "finished" in told.err
    assert contrast("watch", "simple", "--json").out.encode() == run.events_path.read_bytes()


def test_stopping_a_run_that_has_ended_is_no_error(contrast: Contrast, run: Run) -> None:
    answer = contrast("stop", "simple")
    assert (answer.code, answer.out, answer.err) == (0, "", "simple: finished at step 4\n")
    assert not run.stop_path.exists()


def test_presets_fit_a_terminal_and_name_every_file(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = contrast("presets").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*configs.preset_names(), *grid.preset_names()]
    assert max(map(len, lines)) <= 80
    assert contrast("presets", "list").out.splitlines() == lines
    whole = json.loads(contrast("presets", "list", "--json").out)
    assert list(whole) == [*configs.preset_names(), *grid.preset_names()] and all(whole.values())


def test_a_preset_is_shown_as_its_file(contrast: Contrast) -> None:
    for name in configs.preset_names():
        shown = contrast("presets", "show", name).out
        Path("copy.toml").write_text(shown, encoding="utf-8")
        assert shown == configs.preset_path(name).read_text(encoding="utf-8")
        answers = (contrast("config", "show", "--json", *at) for at in (("--preset", name), ("--config", "copy.toml")))
        shown_settings = [json.loads(answer.out)["settings"] for answer in answers]
        first, second = ({key: found["value"] for key, found in some.items()} for some in shown_settings)
        assert first == second


def test_settings_are_shown_with_their_places_and_symbols(contrast: Contrast) -> None:
    lines = {line.split()[0]: line.split()[1:] for line in contrast("config", "show", "--tau", "0.1").out.splitlines()}
    assert lines["objective.tau"] == ["0.1", "--tau", "τ"]
    assert lines["train.seed"] == ["42", "default"]
    shown = contrast("config", "show", "--objective", "mat", "--margin", "20").out
    assert re.search(r"^objective.margin +20 +--margin +m degrees$", shown, re.MULTILINE)
    assert contrast("config").out == contrast("config", "show").out


def test_the_users_file_has_a_path_before_it_exists(contrast: Contrast) -> None:
    path = Path(contrast("config", "path").out.strip())
    assert path == configs.user_file() and not path.exists()


def test_the_doctor_names_versions_device_and_folders(contrast: Contrast) -> None:
    found = json.loads(contrast("doctor", "--json").out)
    assert {"contrast", "python", "torch", "device", "precision", "runs", "cache", "hub"} <= found.keys()
    assert found["runs"] == "runs (writable)" and found["hub"].startswith("offline")
    text = contrast("doctor").out
    assert all(str(value) in text for value in found.values())


def test_without_a_word_the_command_gives_its_help(contrast: Contrast) -> None:
    assert contrast().out == contrast("--help").out
    assert contrast().code == 0 and "Commands:" in contrast().out


def test_the_version_is_that_of_the_package(contrast: Contrast) -> None:
    from contrastcli import __version__

    assert contrast("--version").out == f"contrast, version {__version__}\n"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_terminal_and_is_whole(
    contrast: Contrast, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    answer = contrast(*words, "--help")
    assert answer.code == 0 and answer.err == ""
    assert max(map(len, answer.out.splitlines())) <= 80
    assert not re.search(r"^  .*\.\.\.$", answer.out, re.MULTILINE), "a summary was cut"


def examples(words: tuple[str, ...]) -> list[list[str]]:
    """The command lines in a help text, without what the shell does around them."""
    lines = (COMMANDS[words].help or "").splitlines()
    cut = (re.split(r" [|<>] ", line.strip())[0] for line in lines)
    found = (re.search(r"^contrast .*|(?<=\$\()contrast [^)]*", line) for line in cut)
    return [shlex.split(match[0])[1:] for match in found if match]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_examples_of_help_parse(
    contrast: Contrast, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click.Command, "invoke", lambda self, ctx: None)  # parsed, and not done
    found = examples(words)
    assert 2 <= len(found) <= 3
    for example in found:
        assert tuple(example[: len(words)]) == words
        assert contrast(*example) == (0, "", "")
        if "--preset" in example:
            assert example[example.index("--preset") + 1] in {*configs.preset_names(), *grid.preset_names()}


def test_every_setting_of_training_has_an_option(contrast: Contrast) -> None:
    text = contrast("train", "--help").out
    for setting in configs.all_settings().values():
        if setting.section in ("objective", "model", "train"):
            assert re.search(rf"^  {setting.flag}\b", text, re.MULTILINE), setting.key
