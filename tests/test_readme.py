"""The README says what there is, briefly."""

from __future__ import annotations

import re
from pathlib import Path

from contrastcli.cli import cli
from contrastcli.commands import help as topics
from contrastcli.tui.screen import SCREENS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def files_of_the_tree() -> list[str]:
    """The Python files that the tree names, as paths below the package: folders are told by the indentation."""
    files: list[str] = []
    folders: dict[int, str] = {}
    for line in re.findall(r"^ {4}(.+)$", section("The tree"), re.M):
        depth = len(line) - len(line.lstrip())
        above = next((folders[n] for n in sorted(folders, reverse=True) if n < depth), "")
        if folder := re.match(r" *(\w+)/(?= |$)", line):
            folders = {n: name for n, name in folders.items() if n < depth} | {depth: f"{above}{folder[1]}/"}
        files += [f"{above}{name}" for name in re.findall(r"(?:^ *|  )([\w/]+\.py)(?= |$)", line)]
    return files


def test_it_is_short() -> None:
    assert len(README.replace(section("The tree"), "").splitlines()) <= 135


def test_the_tree_names_every_file_with_a_comment() -> None:
    package = ROOT / "contrastcli"
    files = {str(path.relative_to(ROOT)) for path in package.rglob("*.py") if not path.name.startswith("__")}
    named = files_of_the_tree()
    assert (sorted(files - set(named)), sorted(set(named) - files)) == ([], []), "not in the tree, not in the package"
    assert len(named) == len(set(named))
    assert not re.findall(r"\w+\.py *$", section("The tree"), re.M), "without a comment"


def test_every_screen_is_named() -> None:
    screens = list(SCREENS.values())
    assert f"{', '.join(screens[:-1])} and {screens[-1]}" in section("The app")


def test_every_topic_of_help_is_named() -> None:
    paragraph = next(p for p in section("A first minute").split("\n\n") if p.startswith("`contrast help`"))
    assert re.findall(r"`(\w[\w-]*)`", paragraph) == list(topics.topics())


def test_topics_that_are_pointed_to_exist() -> None:
    pointed = set(re.findall(r"`contrast help ([\w-]+)`", README))
    assert pointed and pointed <= topics.topics().keys()


def test_every_command_in_it_exists() -> None:
    words = re.findall(r"(?:^ {4}|^.*&& \.venv/bin/|^ {4}\$ |`)contrast (\w+)", README, re.M)
    assert set(words) <= set(cli.commands)
    assert len(set(words)) >= 8


def test_there_is_a_command_for_the_main_job_and_one_for_the_tests() -> None:
    commands = re.findall(r"^ {4}python3 -m venv .*$", section("Two commands"), re.M)
    assert ["contrast train --preset starter --no-ui" in line for line in commands] == [True, False]
    assert commands[1].endswith(" && .venv/bin/python -m pytest -n 3")


def test_ci_runs_the_tests_as_it_says() -> None:
    assert '"$python" -m pytest -n 3' in (ROOT / ".ci" / "check").read_text(encoding="utf-8")
