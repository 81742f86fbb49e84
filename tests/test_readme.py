"""The README says what is there."""

from __future__ import annotations

import re
from pathlib import Path

from contrastcli import errors
from contrastcli.cli import cli
from contrastcli.evaluation.suites import SUITES
from contrastcli.settings import presets
from contrastcli.tui.widgets import SCREENS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def expanded(name: str) -> list[str]:
    """`a-{b,c}` as a-b and a-c."""
    if match := re.search(r"\{([^}]*)\}", name):
        return [n for option in match[1].split(",") for n in expanded(name.replace(match[0], option, 1))]
    return [name]


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_preset_is_named() -> None:
    rows = [line.split("|")[1] for line in section("Presets").splitlines() if line.startswith("| `")]
    named = {name for row in rows for quoted in re.findall(r"`([^`]+)`", row) for name in expanded(quoted)}
    named |= {f"pairsupcon-{size}-stsb-dev" for size in ("distil", "base", "large")}
    assert named - {"-stsb-dev"} - {n for n in named if n.startswith("-")} == set(presets.names())


def test_every_sweep_preset_is_named() -> None:
    assert set(presets.sweep_names()) <= set(re.findall(r"`([\w-]+)`", section("Evaluation")))


def test_every_suite_is_named() -> None:
    assert re.findall(r"^\| `(\w+)` \|", section("Evaluation"), re.M) == list(SUITES)


def test_every_screen_is_named() -> None:
    assert re.findall(r"^\| `\d` \| (\w+) \|", section("The app"), re.M) == list(SCREENS.values())


def test_exit_codes_are_those_of_the_errors() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.M)}
    every: list[type[errors.ContrastError]] = [errors.ContrastError, *errors.ContrastError.__subclasses__()]
    assert codes == {0} | {error.code for error in every}


def test_the_tree_names_every_module() -> None:
    tree = section("The tree")
    named = sorted(re.findall(r"^\s+([\w.]+\.py)\b", tree, re.M))
    modules = sorted(path.name for path in (ROOT / "contrastcli").rglob("*.py") if not path.name.startswith("__"))
    assert named == modules


def test_every_command_in_it_exists() -> None:
    words = re.findall(r"^(?: {4}|.*&& \.venv/bin/)contrast (\w+)", README, re.M)
    assert set(words) <= set(cli.commands)
    assert len(set(words)) > 8


def test_there_is_a_command_for_the_main_job_and_one_for_the_tests() -> None:
    commands = re.findall(r"^ {4}python3 -m venv .*$", section("Two commands"), re.M)
    assert ["contrast train --preset starter --no-ui" in line for line in commands] == [True, False]
    assert "pytest" in commands[1]
