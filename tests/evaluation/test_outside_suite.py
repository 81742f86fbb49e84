"""A suite is added from outside by a file and a line, and is seen wherever suites are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from contrastcli.evaluation import suites
from contrastcli.runs.directory import Run
from contrastcli.tui.app import ContrastApp
from support.command import Contrast
from support.screens import screen_text, show, until
from support.toy_suite import SUITE

TESTS = Path(__file__).parents[1]


@pytest.fixture
def measured(contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of which the new suite was measured."""
    monkeypatch.setitem(suites.SUITES, "toy", SUITE)
    assert contrast("eval", "simple", "--suite", "toy").code == 0
    return run


def test_the_help_of_eval_names_it() -> None:
    code = (
        "from contrastcli.evaluation.suites import SUITES; from support.toy_suite import SUITE; SUITES['toy'] = SUITE;"
        "import sys; sys.argv[0] = 'contrast'; from contrastcli.__main__ import main; main()"
    )
    paths = f"import sys; sys.path[:0] = [{str(TESTS)!r}, {str(TESTS.parent)!r}];"
    words = [sys.executable, "-c", paths + code, "eval", "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    names = "sts, transfer, fewshot, clustering, retrieval, own, geometry, mteb, toy"
    assert f"What to measure: {names}, or another package's." in " ".join(text.split())


def test_some_of_its_tasks_are_partial_and_unknown_ones_are_refused(contrast: Contrast, measured: Run) -> None:
    some = json.loads(contrast("eval", "simple", "--suite", "toy", "--task", "dogs", "--json").out)["suites"]["toy"]
    assert "cats" not in some and some["average"] is None and some["partial"]
    refused = contrast("eval", "simple", "--suite", "toy", "--task", "dog")
    assert (refused.code, "'dogs'" in refused.err) == (2, True)


async def test_the_app_offers_it_and_shows_its_table(measured: Run) -> None:
    async with show(ContrastApp(measured.path.parent)) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: "toy         length of vectors" in screen_text(pilot.app))
        await until(pilot, lambda: "Task  Length  Longest  Texts" in screen_text(pilot.app))


def test_the_model_card_has_its_table(contrast: Contrast, measured: Run) -> None:
    assert contrast("export", "simple", "out").code == 0
    card = Path("out/README.md").read_text()
    assert "## Scores: toy, with seed 42\n\n| Task | Length | Longest | Texts |\n" in card and "| cats |" in card
