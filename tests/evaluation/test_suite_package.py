"""A suite of another package, installed as the help says, is one like ours; a broken one harms nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from contrastcli import load
from contrastcli.runs.directory import Run
from contrastcli.tui.app import ContrastApp
from support.command import Contrast, failed, refused
from support.packages import files_of_topic, found_here, install, python
from support.screens import says, show, until

QUESTIONS = {"animals": ["cat dog horse hammer", "duck goose swan train"], "tools": ["saw hammer drill soup"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with the topic's in it."""
    folder = tmp_path_factory.mktemp("site")
    install(files_of_topic("suites"), folder)
    return folder


@pytest.fixture
def here(site: Path, contrast: Contrast) -> Iterator[Contrast]:
    """Runs a command line where it is installed."""
    with found_here(site):
        yield contrast


def test_it_is_measured_and_kept_like_the_others(here: Contrast, run: Run) -> None:
    measured = json.loads(here("eval", "simple", "--suite", "odd-one-out,sts", "--task", "animals", "--json").out)
    assert list(measured["suites"]) == ["odd-one-out"]
    assert "tools" not in (some := measured["suites"]["odd-one-out"]) and some["average"] is None and some["partial"]
    scores = json.loads(here("eval", "simple", "--suite", "odd-one-out", "--json").out)["suites"]["odd-one-out"]
    model, right = load(str(run.path)), {}
    for task, rows in QUESTIONS.items():
        vectors = [model.encode(row.split()).astype(float) for row in rows]
        units = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors]
        right[task] = 100 * np.mean([(each @ each.sum(0)).argmin() == 3 for each in units])
        assert scores[task] == {"accuracy": right[task], "questions": len(rows)}
    assert scores["average"] == np.mean([*right.values()])
    assert scores["protocol"] == "farthest from the sum of the four, pooling: mean"
    shown = here("runs", "show", "simple").out
    assert re.search(rf"^odd-one-out average +{scores['average']:.2f}$", shown, re.M)
    assert here("export", "simple", "out").code == 0
    card = Path("out/README.md").read_text()
    assert "## Scores: odd-one-out, with seed 42\n\n| Task | Accuracy | Questions |\n" in card and "| animals |" in card


def test_it_has_a_table_and_stands_in_the_help(here: Contrast) -> None:
    lines = here("eval", "tiny/backbone", "--suite", "odd-one-out").out.splitlines()
    assert [line.split()[0] for line in lines[2:7]] == ["odd-one-out", "Task", "animals", "tools", "Avg."]
    assert "odd-one-out  Of four words the last does not belong" in here("help", "suites").out
    assert "geometry, mteb, or another package's." in " ".join(here("eval", "--help").out.split())


async def test_the_app_offers_it_and_shows_its_table(here: Contrast, run: Run) -> None:
    assert here("eval", "simple", "--suite", "odd-one-out").code == 0
    async with show(ContrastApp(run.path.parent)) as pilot:
        await pilot.press("4")
        await until(pilot, lambda: says(pilot, "the word that does not", "Task Accuracy Questions"))


def test_of_this_package_it_imports_the_api_alone_and_its_suite_no_torch(site: Path) -> None:
    files = "".join(files_of_topic("suites").values())
    assert set(re.findall(r"(?:from|import) (contrastcli\S*)", files)) == {"contrastcli.api"}
    code = (
        "import sys; from contrastcli.evaluation.suites import all_suites; print(*all_suites(), 'torch' in sys.modules)"
    )
    *_, last, loaded = python(site, "-c", code).stdout.split()
    assert (last, loaded) == ("odd-one-out", "False")


def test_an_unknown_suite_or_task_is_answered_with_the_nearest_of_all(here: Contrast) -> None:
    words = ("eval", "tiny/backbone", "--suite")
    refused(here(*words, "odd-one"), 2, "no suite 'odd-one'", "did you mean 'odd-one-out'?")
    refused(here(*words, "odd-one-out", "--task", "animal"), 2, "no task 'animal'", "'animals'")


BROKEN = {
    "module": (("from contrastcli", "import no_such_module\nfrom contrastcli"), "No module named"),
    "name": (('"odd-one-out"', '"sts"'), "a suite cannot be called 'sts'"),
    "procedure": (("odd_one_out.score:PROCEDURE", "odd_one_out.score"), "which is not module:object"),
    "headline": (('headline="accuracy"', 'headline="hits"'), "its headline 'hits' is no column"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_package_is_a_note_and_stops_only_what_needs_it(contrast: Contrast, tmp_path: Path, kind: str) -> None:
    change, what = BROKEN[kind]
    files = files_of_topic("suites")
    files["odd_one_out/__init__.py"] = files["odd_one_out/__init__.py"].replace(*change)
    install(files, tmp_path)
    with found_here(tmp_path):
        own = contrast("eval", "tiny/backbone", "--data", "tiny/dev.jsonl")
        told = contrast("help", "suites")
        answer = contrast("eval", "tiny/backbone", "--suite", "odd-one-out")
    assert own.code == 0 and "note:" not in own.err
    assert (told.code, told.err.count("note:")) == (0, 1) and what in told.err
    assert told.err.startswith("note: 'odd-one-out' of contrast.suites (odd_one_out:SUITE) cannot be loaded: ")
    failed(answer, 2, what, "pip uninstall odd-one-out")


RIGHT = "100 * sum(right) / len(right)"
RETURNED = {
    "NaN": (RIGHT, "float('nan')", "", 0),
    "a number of NumPy": (RIGHT, "__import__('numpy').float32(50)", "", 0),
    "a word": (RIGHT, "'high'", "failed on animals: its accuracy is no number", 3),
    "a truth": (RIGHT, "True", "failed on animals: its accuracy is no number", 3),
    "a fault": (RIGHT, "1 / 0", "failed on animals: division by zero", 3),
    "an exit": (RIGHT, "exit(9)", "failed on animals: exit 9", 3),
    "no scores": ('return {"acc', 'return None and {"acc', "failed on animals: its scores are no dict", 3),
    "one text": ("row.split()", "row", "failed on animals: vectors takes a list of texts, not one text", 3),
    "a list of readers": ("return {task:", "return [] and {task:", "failed: 'list' object is not", 3),
    "no readers": ("for task in tasks}", "for task in ()}", "failed: its find returns none", 3),
    "a fingerprint of bytes": ("repr(self.rows)", "b'x'", "failed: Object of type bytes", 3),
    "no fingerprint": ("repr(self.rows)", "1 / 0", "failed: division by zero", 3),
    "no protocol": ('return "farthest', '"farthest', "failed: can only concatenate str", 3),
    "a fault in the protocol": ('"farthest', '1 / 0 * "farthest', "failed: division by zero", 3),
}


@pytest.mark.parametrize("kind", RETURNED)
def test_what_a_suite_returns_is_kept_as_json_or_said_to_be_its_fault(
    contrast: Contrast, run: Run, tmp_path: Path, kind: str
) -> None:
    right, returned, what, code = RETURNED[kind]
    files = files_of_topic("suites")
    assert right in files["odd_one_out/score.py"]
    files["odd_one_out/score.py"] = files["odd_one_out/score.py"].replace(right, returned)
    install(files, tmp_path)
    with found_here(tmp_path):
        answer = contrast("eval", "simple", "--suite", "odd-one-out", "--data", "tiny/dev.jsonl")
    assert answer.code == code and (f"the suite odd-one-out {what}" in answer.out + answer.err) == bool(what)
    scores = json.loads(run.scores_path.read_text())["suites"]
    assert scores["own"]["tiny/dev.jsonl"]["spearman"]
    kept = scores.get("odd-one-out", {}).get("animals", {})
    assert kept.get("accuracy") == (50 if kind == "a number of NumPy" else None)


CHANGED = {
    "its score": ("odd_one_out/score.py", "farthest from", "nearest to"),
    "a file that the score uses": ("odd_one_out/more/words.py", "cat", "dog"),
    "its version": ("odd_one_out-0.1.dist-info/METADATA", "0.1", "0.2"),
}


@pytest.mark.parametrize(("path", "old", "new"), CHANGED.values(), ids=CHANGED)
def test_scores_are_kept_until_the_package_changes(
    contrast: Contrast, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, old: str, new: str
) -> None:
    def accuracy(measured: int) -> object:
        monkeypatch.setenv("MEASURED", str(measured))
        with found_here(tmp_path):
            suites = json.loads(contrast("eval", "simple", "--suite", "odd-one-out", "--json").out)["suites"]
        return suites["odd-one-out"]["animals"]["accuracy"]

    files = files_of_topic("suites") | {"odd_one_out/more/words.py": "cat"}
    measured = "int(__import__('os').environ['MEASURED'])"
    files["odd_one_out/score.py"] = files["odd_one_out/score.py"].replace(RIGHT, measured)
    install(files, tmp_path)
    assert (accuracy(1), accuracy(2)) == (1, 1)
    (tmp_path / path).write_text((tmp_path / path).read_text().replace(old, new))
    assert accuracy(2) == 2


def test_a_suite_whose_second_file_is_broken_is_named(contrast: Contrast, tmp_path: Path) -> None:
    install(files_of_topic("suites") | {"odd_one_out/score.py": "import no_such_module\n"}, tmp_path)
    with found_here(tmp_path):
        answer = contrast("eval", "tiny/backbone", "--suite", "odd-one-out")
    failed(answer, 2, "the suite odd-one-out (odd_one_out.score:PROCEDURE) cannot be loaded: No module", "fix or")
