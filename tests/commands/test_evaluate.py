"""`contrast eval`: the scores as JSON, what is missing, and what is refused before anything is measured."""

import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from contrastcli.evaluation import evaluate
from contrastcli.evaluation.suites import STS
from contrastcli.runs.directory import Run
from support import sts_files
from support.command import Contrast, failed, refused
from support.disks import full_disk
from support.sts_files import write_all
from support.tiny import WORDS


def test_scores_have_the_shape_that_scripts_rely_on(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [(WORDS[i % 37], WORDS[i % 23], str(i * 7 % 5)) for i in range(max(rows for (rows,) in STS.tasks.values()))]
    monkeypatch.setattr(sts_files, "few_sentences", lambda count: known[:count])
    sts_files.write_published_counts(Path("data"))
    answer = contrast("eval", "simple", "--data-dir", "data", "--json", "--out", "out")
    assert answer.code == 0
    scores = json.loads(answer.out)
    assert scores.pop("schema") == 1 and list(scores) == ["model", "suites"] and scores["model"] == "runs/simple"
    sts = scores["suites"]["sts"]
    for task in STS.tasks:
        assert (sts[task]["pairs"],) == STS.tasks[task]
        for kind in ("all", "mean", "wmean"):
            assert sts[task][kind].keys() == {"spearman", "pearson"}
            assert all(0 < abs(value) <= 100 for value in sts[task][kind].values())
    assert sts["average"] == pytest.approx(sum(sts[task]["all"]["spearman"] for task in STS.tasks) / 7)
    assert json.loads(Path("out/scores.json").read_text()) == scores == {name: run.scores()[name] for name in scores}
    rows = [line.split() for line in contrast("eval", "simple", "--data-dir", "data").out.splitlines()]
    assert ["Avg.", f"{sts['average']:.2f}", "80.8", "80.8"] in rows, "of all seven, so that nothing is remarked"
    assert f"sts average {sts['average']:.2f}" in " ".join(contrast("runs", "show", "simple").out.split())


def test_the_scores_of_an_earlier_checkpoint_go_with_it(contrast: Contrast, run: Run) -> None:
    assert contrast("eval", "simple", "--data", "tiny/dev.jsonl").code == 0
    assert contrast("train", "--resume", "simple", "--max-steps", "8", "--no-ui").code == 0
    better = run.status().best_step
    assert better and better > 4 and "suites" not in run.scores()
    compared = contrast("compare", "simple", "tiny/backbone", "--json")
    assert "own" not in json.loads(compared.out)["results"][0]["scores"].get("suites", {})


def test_a_set_that_is_missing_is_an_error_after_the_others_were_measured(contrast: Contrast) -> None:
    write_all(Path("data"))
    shutil.rmtree("data/SICK")
    answer = contrast("eval", "tiny/backbone", "--data-dir", "data", "--json")
    scores = json.loads(answer.out)["suites"]["sts"]
    assert answer.code == 3 and scores["average"] is None and "STS12" in scores and "SICK-R" not in scores
    failed(answer._replace(out=""), 3, "not measured: SICK-R", "--data-dir")
    shutil.rmtree("data/STS/STS12-en-test")
    broken = next(Path("data/STS/STS15-en-test").glob("STS.gs.*"))
    broken.write_text("very\n" * len(broken.read_text().splitlines()))
    answer = contrast("eval", "tiny/backbone", "--data-dir", "data", "--json")
    assert "'very'" in answer.err and "fix the line" in answer.err, "each of several is told"


def test_a_folder_that_cannot_be_is_refused_before_anything_is_measured(
    contrast: Contrast, run: Run, encoded: list[str]
) -> None:
    Path("taken").touch()
    words = ("eval", "simple", "--out", "taken", "--data", "tiny/dev.jsonl")
    refused(contrast(*words), 1, "cannot write taken: File exists")
    assert not encoded


def test_an_interrupted_evaluation_hints_that_the_same_command_continues(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "measure", Mock(side_effect=KeyboardInterrupt))
    refused(contrast("eval", "simple"), 130, "interrupted", "the same command continues")


def test_an_unknown_task_of_mteb_gets_a_hint_in_plain_words(contrast: Contrast, run: Run) -> None:
    pytest.importorskip("mteb")
    refused(contrast("eval", "simple", "--suite", "mteb", "--task", "STS12x"), 2, "'STS12x'", "did you mean 'STS12'?")
    unknown = contrast("eval", "simple", "--suite", "mteb", "--task", "Zzqqxyy")
    refused(unknown, 2, "'Zzqqxyy'", "python -c 'import mteb; print(mteb.get_tasks())' lists them")
    assert "KeyError" not in unknown.err


@pytest.mark.parametrize("models", [("simple", "tiny/backbone"), ("tiny/backbone", "simple"), ("tiny/backbone",)])
def test_the_training_sentences_of_a_run_are_drawn_wherever_it_stands(
    contrast: Contrast, run: Run, models: tuple[str, ...]
) -> None:
    answer = contrast("eval", *models, "--suite", "geometry")
    assert answer.code == 0, answer.err
    assert ("labelled.jsonl" in answer.out) == ("simple" in models)
    # As of a run that was copied from another machine.
    run.config_path.write_text(run.config_path.read_text().replace("labelled.jsonl", "elsewhere.jsonl"))
    answer = contrast("eval", *models, "--suite", "geometry")
    assert answer.code == 0 and "\ngeometry\n" in answer.out
    assert ("note: training sentences are not drawn: there is no file" in answer.err) == ("simple" in models)


def test_pictures_are_written_and_have_the_colour_of_their_own_pooling(contrast: Contrast, run: Run) -> None:
    words = ("eval", "simple", "--suite", "geometry", "--task", "starter")
    assert contrast(*words, "--out", "drawn").code == 0
    assert {path.suffix for path in Path("drawn").iterdir()} >= {".json", ".png", ".svg", ".csv"}
    suites = run.scores()["suites"]
    sts = {"average": 77.7, "vectors": suites["geometry"]["vectors"]}
    run.scores_path.write_text(json.dumps({"suites": {**suites, "sts": sts}}))
    assert "STS average" in contrast(*words).out
    pooled = contrast(*words, "--pooling", "last-mean")
    assert pooled.code == 0 and "pooling: last-mean" in pooled.out and "STS average" not in pooled.out
    assert run.scores()["suites"] == {**suites, "sts": sts}, "those of another pooling are not the run's"


def test_the_precision_is_in_the_table_the_protocol_and_the_json(contrast: Contrast) -> None:
    words = ("eval", "tiny/backbone", "--data", "tiny/dev.jsonl", "--precision", "bf16")
    out = contrast(*words).out
    assert out.startswith("tiny/backbone in bf16\n") and "\nvectors computed in bf16; cosine, pooling" in out
    assert json.loads(contrast(*words, "--json").out)["suites"]["own"]["precision"] == "bf16"
    full = contrast(*words[:-2])
    assert "fp32" not in full.out and "bf16" not in full.out
    assert json.loads(contrast(*words[:-2], "--json").out)["suites"]["own"]["precision"] == "fp32"


@pytest.mark.parametrize("model", ["simple", "tiny/backbone"])
def test_scores_that_cannot_be_kept_are_said_in_one_note(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    write_all(Path("data"))
    # A disk that is read-only.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or "out" in str(path))
    words = ("--data-dir", "data", "--json", "--out", "out")
    answer = contrast("eval", model, "--suite", "sts", "--data", "tiny/dev.jsonl", *words)
    assert answer.err.count("so that no scores are kept there") == 1
    assert json.loads(answer.out)["suites"].keys() == {"sts", "own"} and "suites" not in run.scores()


def test_a_disk_that_is_full_is_a_note_but_for_the_folder_that_was_named(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contrastcli.runs.scores.atomic_write", full_disk)
    words = ("eval", "simple", "--data", "tiny/dev.jsonl")
    answer = contrast(*words)
    assert answer.code == 0 and answer.out.startswith("runs/simple\n") and "scores.json: No space left" in answer.err
    failed(contrast(*words, "--out", "out"), 1, "cannot write out/scores.json: No space left", "make room")
