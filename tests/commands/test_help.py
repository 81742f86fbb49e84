"""Help and version: every command has help that fits a terminal, with examples that parse."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from contrastcli import options
from contrastcli.cli import cli
from contrastcli.parsing import mistyped
from contrastcli.settings import presets
from support.command import Contrast


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that lead to it."""
    yield before, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield (*before, name), command


COMMANDS = dict(commands(cli))


def test_without_arguments_the_command_prints_its_help(contrast: Contrast) -> None:
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
    """The command lines in the help of a command, without what the shell does around them."""
    cut = (re.split(r" [|<>] ", line)[0] for line in mistyped.examples(" ".join(("contrast", *words))))
    matches = (re.search(r"^contrast .*|(?<=\$\()contrast [^)]*", line) for line in cut)
    return [shlex.split(match[0])[1:] for match in matches if match]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_examples_of_help_parse(
    contrast: Contrast, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click.Command, "invoke", lambda self, ctx: None)  # parsed, and not done
    monkeypatch.setattr(options.RunName, "convert", lambda *given: None)
    monkeypatch.setattr("os.execvp", lambda *given: None)  # ssh, for --host
    lines = examples(words)
    assert 2 <= len(lines) <= 3
    for example in lines:
        assert tuple(example[: len(words)]) == words
        assert contrast(*example) == (0, "", "")
        if "--preset" in example:
            assert example[example.index("--preset") + 1] in {*presets.names(), *presets.sweep_names()}
