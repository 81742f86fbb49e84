"""The README says what there is, briefly."""

import ast
import re
from pathlib import Path
from textwrap import indent

import pytest

from contrastcli.cli import cli
from contrastcli.commands import help as topics
from contrastcli.tui.screen import SCREENS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "contrastcli"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_its_pictures_and_files_are_there() -> None:
    linked = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert len(linked) >= 2 and all((ROOT / path).is_file() for path in linked)


def test_every_room_is_named() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(re.findall(r"\b(\w+)/", section("Reading the code")))


def test_the_files_to_read_first_exist() -> None:
    named = re.findall(r"`(\w+/[a-z]\w+\.py)`", section("Reading the code"))
    assert len(named) == 5
    assert all((PACKAGE / name).is_file() for name in named)


FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_map_of_a_folder_names_every_file_with_a_comment(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = re.findall(r"^(\w+\.py(?:, \w+\.py)*)  +\S|  (\w+\.py)  +\S", text, re.M)
    files = [name for listed in named for names in listed if names for name in names.split(", ")]
    assert sorted(files) == sorted(path.name for path in folder.glob("*.py") if path.name != "__init__.py")


def test_every_screen_is_named() -> None:
    screens = list(SCREENS.values())
    assert f"{', '.join(screens[:-1])} and {screens[-1]}" in section("A first minute")


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


def test_the_loss_it_shows_is_that_of_the_whole_package() -> None:
    """Which a test of the topic installs and trains."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", section("Add your own objective"), re.M | re.S)
    source = (topics.FOLDER / "own-objective.txt").read_text(encoding="utf-8")
    assert indent(block, "    ") in source
