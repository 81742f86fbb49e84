"""Help: that of every command, with examples that parse, and the topics, as they read in a terminal."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from textwrap import dedent
from typing import Any

import click
import pytest

import contrastcli
from contrastcli import errors, options
from contrastcli.cli import cli
from contrastcli.commands import help as topics
from contrastcli.parsing import mistyped
from contrastcli.runs.directory import Run
from contrastcli.settings import presets
from contrastcli.settings.catalogue import all_objectives
from contrastcli.settings.other_names import our_name
from contrastcli.settings.sections import all_settings
from contrastcli.show.settings import objectives
from support.command import Contrast, refused

pytestmark = pytest.mark.usefixtures("described_once")
NAMES = sorted(topics.topics())
EXAMPLE = re.compile(r"^ .*$", re.M)
"""A line that is not wrapped: a command, a file."""


@pytest.fixture(scope="module")
def described_once() -> Iterator[None]:
    """What help says of the objectives is read from all presets, which takes a quarter of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("contrastcli.show.settings.objectives", cache(objectives))
        yield


@pytest.fixture
def parsed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are parsed, and not done."""
    monkeypatch.setattr(click.Command, "invoke", lambda self, ctx: None)
    monkeypatch.setattr(options.RunName, "convert", lambda *given: None)
    monkeypatch.setattr("os.execvp", lambda *given: None)  # ssh, for --host


def commands(group: click.Group, *before: str) -> Iterator[tuple[str, ...]]:
    """The words that lead to every command."""
    yield before
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield (*before, name)


COMMANDS = [*commands(cli)]


def test_without_arguments_the_command_prints_its_help(contrast: Contrast) -> None:
    assert contrast().out == contrast("--help").out
    assert contrast().code == 0 and "Commands:" in contrast().out


def test_the_version_is_that_of_the_package(contrast: Contrast) -> None:
    assert contrast("--version").out == f"contrast, version {contrastcli.__version__}\n"


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
    """The command lines in the help of a command, without what the shell does around them."""
    cut = (re.split(r" [|<>] ", line)[0] for line in mistyped.examples(" ".join(("contrast", *words))))
    matches = (re.search(r"^contrast .*|(?<=\$\()contrast [^)]*", line) for line in cut)
    return [shlex.split(match[0])[1:] for match in matches if match]


@pytest.mark.usefixtures("parsed_only")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_examples_of_help_parse(contrast: Contrast, words: tuple[str, ...]) -> None:
    lines = examples(words)
    assert 2 <= len(lines) <= 3
    for example in lines:
        assert tuple(example[: len(words)]) == words
        assert contrast(*example) == (0, "", "")
        if "--preset" in example:
            assert example[example.index("--preset") + 1] in {*presets.names(), *presets.sweep_names()}


def error_codes(kind: type[errors.ContrastError] = errors.ContrastError) -> set[int]:
    """The codes of an error and of all that derive from it."""
    return {kind.code}.union(*(error_codes(child) for child in kind.__subclasses__()))


def words(contrast: Contrast, topic: str) -> str:
    """A topic on one line, so that a phrase is found wherever it was wrapped."""
    return " ".join(contrast("help", topic).out.split())


@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize("name", NAMES)
def test_a_topic_is_plain_text_as_wide_as_the_terminal(
    name: str, columns: int, contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = contrast("help", name)
    assert shown.code == 0 and shown.err == ""
    assert " ".join(shown.out.split()).startswith(topics.topics()[name])
    assert "\x1b" not in shown.out and not re.search(r"\{\w+\}", shown.out)
    assert max(map(len, EXAMPLE.sub("", shown.out).splitlines())) <= columns


@pytest.mark.parametrize("name", NAMES)
def test_the_prose_of_a_topic_repeats_no_number(name: str) -> None:
    prose = EXAMPLE.sub("", (topics.FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    assert re.findall(r"(?<![\w@-])(?<!× )\d[\d.]*(?!\w)", prose) == []


@pytest.mark.usefixtures("parsed_only")
@pytest.mark.parametrize("name", NAMES)
def test_the_commands_in_a_topic_parse(name: str, contrast: Contrast) -> None:
    text = (topics.FOLDER / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", "")
    for line in re.findall(r"^ {4}contrast (.*?)(?:   .*| > .*)?$", text, re.M):
        if "--objective soft-triplet" in line:
            continue  # tests/settings/test_entry_point.py trains it
        assert contrast(*shlex.split(line)) == (0, "", ""), line


def test_the_python_of_a_topic_runs(run: Run, contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    code = dedent("\n".join(EXAMPLE.findall(contrast("help", "python").out)))
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["vectors"].shape == (2, names["model"].width)


def test_a_topic_on_runs_names_the_files_of_one(contrast: Contrast, run: Run) -> None:
    shown = contrast("help", "runs").out
    assert [path.name for path in run.path.iterdir() if path.name not in shown] == []


def test_every_error_has_an_exit_code_that_is_explained() -> None:
    assert error_codes() | {0} == set(errors.EXIT_CODES)


def test_a_setting_shows_its_bounds_unit_and_default(contrast: Contrast) -> None:
    shown = words(contrast, "settings")
    assert "train.lr peak learning rate of the encoder (a number above 0 and at most 10; default 3e-05)" in shown
    assert "dev.every steps between evaluations (a whole number at least 1, in steps; default 125)" in shown
    assert "train.schedule learning rate after warm-up (one of linear, constant, cosine; default linear)" in shown
    # Each value at the place of its meaning.
    assert "the released code's, Eq. 3's as printed, or none (one of importance, exponent, uniform; " in shown


def test_a_key_of_the_app_is_listed_under_its_screen(contrast: Contrast) -> None:
    shown = contrast("help", "app").out
    setup, live = shown.index("1 Setup"), shown.index("2 Live")
    assert re.search(r"^  s +train this, or go to what", shown[setup:live], re.M)
    assert re.search(r"^  ⏎ +show the run in Live;.*^  ← +go to the heading above", shown[live:], re.M | re.S)
    assert re.search(r"^  q ctrl\+q +leave the app", shown, re.M)


@pytest.mark.parametrize(("word", "key"), [("train.lr", "train.lr"), ("temperature", "objective.tau"), ("dcl", "dcl")])
def test_a_setting_or_an_objective_is_explained_by_its_name(word: str, key: str, contrast: Contrast) -> None:
    answer = contrast("help", word)
    assert answer.code == 0 and answer.out.split()[0] == key and len(answer.out.split()) > 9


@pytest.mark.parametrize(
    ("name", "needs", "setting", "published"),
    [
        ("simace", "sentences, triplets or pairs", "margin 10 (degrees)", "78.20 (one seed, simace-bert-base)"),
        ("met", "sentences or pairs", "margin 0.45 (distance)", "78.38 (mean of seeds, met-bert-base)"),
        ("pairsupcon", "labelled pairs", "hard_negatives importance", "80.8 (one seed, pairsupcon-base)"),
        ("softmax", "labelled pairs with neutral", "none", "74.89 (one seed, sbert-nli)"),
    ],
)
def test_an_objective_says_what_it_needs_takes_and_scored(
    contrast: Contrast, name: str, needs: str, setting: str, published: str
) -> None:
    takes = rf"\b{name} ((?!Rows:).)* Rows: {needs}\. Settings: ([^:]*, )?{re.escape(setting)}(, [^:]*)?"
    scored = rf"\. Published: {re.escape(published)}\. Measured: 56\.\d → \d\d\.\d\b"
    assert re.search(takes + scored, words(contrast, "objectives"))


def test_a_name_of_ours_means_itself() -> None:
    for key in (*all_settings(), *(spec.name for spec in all_objectives())):
        words = {key, key.rpartition(".")[2]} - topics.topics().keys()
        assert all(f"{key} " in topics.answer([word], 80, (), {}) for word in words), key


@pytest.mark.parametrize("command", [("train",), ("query",), ("runs", "prune"), ("help",)])
def test_the_help_of_a_command_is_that_of_its_option(command: tuple[str, ...], contrast: Contrast) -> None:
    assert contrast("help", *command).out == contrast(*command, "--help").out


def test_a_topic_with_the_name_of_a_command_says_where_its_options_are(contrast: Contrast) -> None:
    assert contrast("help", "data").out.endswith("The options of the command: contrast data --help\n")
    assert "options of the command" not in contrast("help", "models").out
    refused(contrast("help", "nosuchtopic"), 2, "there is no help on 'nosuchtopic'", "contrast help lists them")


def other_names() -> dict[str, Any]:
    """The table of what other software calls things."""
    return tomllib.loads((topics.FOLDER.parent / "settings" / "other_names.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("place", "names"), other_names()["in"].items())
def test_a_word_has_the_meaning_of_its_place(contrast: Contrast, place: str, names: dict[str, list[str]]) -> None:
    words = [word for others in names.values() for word in others]
    assert len(words) == len(set(words)) and {our_name(word, place) for word in words} == names.keys()
    group = {"contrast": (), "config": ("config",), "help": ("help",), "runs": ("runs",)}.get(place)
    if setting := all_settings().get(place):
        assert not setting.choices or names.keys() <= {*setting.choices}
    for word in words if setting is None and not place.startswith("--") else ():
        typed = (place, f"--{word}=1") if group is None else (*group, word)
        answer = contrast(*typed)
        refused(answer, 2, f"'--{word}'" if group is None else f"'{word}'")
        assert not re.search("hint: (see|known|such)", answer.err), "it is not answered"


def test_the_table_of_other_names_has_each_once_and_leads_to_what_there_is(contrast: Contrast) -> None:
    table = other_names()
    del table["in"]
    names = {name.partition(", ")[0] for name in table}
    words = [word for others in table.values() for word in others]
    assert len(words) == len(set(words)) and {our_name(word) for word in words} == table.keys()
    options = {"ssh HOST contrast …", "--name", "--resume", "--config", "--dim", "-k", "-n"}
    known = {spec.name for spec in all_objectives()} | all_settings().keys() | options
    commands = {name for group in (cli, *cli.commands.values()) for name in getattr(group, "commands", ())}
    # Of both an objective and, elsewhere, the command encode.
    assert names <= known | commands and {*words} & known == {"embed"}
    for word in words:
        assert contrast("train", f"--{word}=1").code == 2
