"""Comparisons, evaluations, sweeps and benchmarks that cannot be: two lines, before long work and any result."""

from __future__ import annotations

import logging
import shutil
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from contrastcli.commands import bench, gallery
from contrastcli.data.examples import Examples
from contrastcli.errors import nearest
from contrastcli.evaluation import sts
from contrastcli.evaluation.suites import Scores
from contrastcli.runs import process as control
from contrastcli.runs.directory import Run
from support.command import LABELLED, Contrast, refused, train

SWEEP = ("sweep", *train(*LABELLED)[1:], "--grid", "objective.tau=0.05,0.07", "--name", "mine")


@pytest.fixture
def other(run: Run) -> Run:
    """A second run, the same as the first."""
    return Run(Path(shutil.copytree(run.path, run.path.with_name("other"))))


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite that nothing may come to."""

    def measure(*_: object) -> None:
        raise AssertionError("it was measured")

    monkeypatch.setattr(sts, "measure", measure)


def test_a_run_named_twice_is_one_run(contrast: Contrast, run: Run) -> None:
    refused(contrast("compare", "simple", "simple"), 2, "only one run to compare")


def test_pairs_for_a_test_that_is_not_asked_for_are_refused(contrast: Contrast, other: Run) -> None:
    refused(contrast("compare", "simple", "other", "--dev", "tiny/dev.jsonl"), 2, "--dev", "--bootstrap")


@pytest.mark.parametrize("words", [("compare", "simple", "other", "--plot"), ("eval", "simple", "--suite", "geometry")])
def test_a_folder_for_pictures_that_cannot_be_is_refused_before_all_else(
    contrast: Contrast, other: Run, words: tuple[str, ...]
) -> None:
    pytest.importorskip("matplotlib")
    Path("file").touch()
    refused(contrast(*words, "--out", "file"), 1, "cannot write file: File exists")


@pytest.mark.usefixtures("unmeasured")
def test_a_folder_for_scores_that_cannot_be_is_refused_before_measuring(contrast: Contrast, run: Run) -> None:
    Path("file").touch()
    refused(contrast("eval", "simple", "--out", "file"), 1, "cannot write file: File exists")


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("word", ["no/such", "./nothing"])
def test_a_model_that_is_not_there_is_named_before_another_is_measured(contrast: Contrast, run: Run, word: str) -> None:
    refused(contrast("eval", "simple", word), 3, f"'{word}'")


@pytest.mark.usefixtures("unmeasured")
def test_no_task_is_not_all_tasks(contrast: Contrast, run: Run) -> None:
    refused(contrast("eval", "simple", "--task", ""), 2, "there is no task ''")


def test_an_interrupted_evaluation_says_that_it_goes_on(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sts, "measure", interrupt)
    refused(contrast("eval", "simple"), 130, "interrupted", "the same command goes on")


def test_one_model_named_twice_is_measured_once(contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def note(models: Sequence[str], *_: object) -> list[Scores]:
        measured.extend(models)
        return []

    measured: list[str] = []
    monkeypatch.setattr(gallery, "evaluate_each", note)
    contrast("eval", "simple", str(run.path), "simple")
    assert measured == [str(run.path)]


def test_names_in_a_legend_are_short_and_begin_with_a_letter_or_digit() -> None:
    long = [f"runs/2026-11-20-2325-pairsupcon-starter-4a8d-seed={seed}" for seed in (42, 43)]
    assert list(gallery.names(long).values()) == [f"20-2325-pairsupcon-starter-4a8d-seed={seed}" for seed in (42, 43)]
    assert list(gallery.names(long, whole=True).values()) == [Path(path).name for path in long]


def test_a_new_sweep_with_a_name_that_is_taken_is_refused_whatever_its_settings(contrast: Contrast, run: Run) -> None:
    shutil.move(run.path, run.path.with_name("mine-tau=0.05"))
    for words in ((), ("--dry-run",)):
        refused(contrast(*SWEEP, *words), 1, "mine-tau=0.05 exists", "choose another --name")


def test_a_cell_whose_process_says_nothing_ends_the_sweep(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(run: Run, arguments: list[str]) -> int:
        from support.tiny import train as train_here

        if len(said) < 2:
            train_here(run)
            stopped = run.events_path.read_text().replace('"status":"finished"', '"status":"stopped"')
            run.events_path.write_text(stopped)
        said.append(run.name)
        return 0

    said: list[str] = []
    monkeypatch.setattr(control, "launch", launch)
    contrast(*SWEEP)
    time.sleep(0.01)  # so that what was said before is before
    answer = contrast("sweep", "--resume", "mine")
    assert (answer.code, answer.out) == (1, "")
    assert "contrast: error: the process of mine-tau=0.05 ended without a word\nhint: see " in answer.err


def test_of_a_setting_its_last_part_is_enough_to_be_found(contrast: Contrast) -> None:
    answer = contrast("sweep", *train(*LABELLED)[1:], "--grid", "tau=0.05,0.07")
    refused(answer, 2, "there is no setting 'tau'", "did you mean 'objective.tau'?")
    assert nearest("every", ["dev.every", "train.log_every"]) == "did you mean 'dev.every'?"


def test_an_unknown_task_of_mteb_gets_a_hint_in_plain_words(contrast: Contrast, run: Run) -> None:
    pytest.importorskip("mteb")
    refused(contrast("eval", "simple", "--suite", "mteb", "--task", "STS12x"), 2, "'STS12x'", "did you mean: 'STS12'?")
    unknown = contrast("eval", "simple", "--suite", "mteb", "--task", "Nope")
    refused(unknown, 2, "'Nope'", "mteb.get_tasks()")
    assert "KeyError" not in unknown.err


def test_the_peer_of_a_benchmark_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Talkative:
        def __init__(self, *_: object, **__: object) -> None:
            self.encode([])

        def encode(self, texts: list[str], **_: object) -> np.ndarray:
            print("loading")
            print("50 %", file=sys.stderr)
            logging.getLogger("transformers").warning("report")
            warnings.warn("be careful", stacklevel=1)
            return np.zeros((len(texts), 2))

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Talkative))
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(Dataset=SimpleNamespace(from_dict=dict)))
    bench._Peer(tmp_path, ["a"], Examples("pairs", {"anchor": ["a"], "positive": ["b"]}, None, "here")).encode()
    assert tuple(capsys.readouterr()) == ("", "")
