"""Runs that are damaged, missing, locked or ambiguous are an error of two lines on stderr with the right exit code."""

import json
import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from contrastcli import files
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Note
from support.command import LABELLED, SENTENCES, Contrast, failed, refused, train
from support.damage import flip_bit


@pytest.mark.parametrize("words", [("query", "a", "b", "--model", "simple"), ("export", "simple", "out")])
def test_one_bit_of_the_weights_is_an_error_with_a_remedy(contrast: Contrast, run: Run, words: tuple[str, ...]) -> None:
    shutil.copytree(run.checkpoint(), run.checkpoints_dir / "000002")  # another checkpoint
    flip_bit(run.checkpoint() / "model.safetensors", at=-10)
    shutil.copytree(run.checkpoint(), run.checkpoints_dir / "000003")  # one that is damaged too
    hint = "use the model runs/simple/checkpoints/000002 (--model, --backbone), or train again: contrast train --config"
    refused(contrast(*words), 3, "runs/simple/checkpoints/000004/model.safetensors is damaged", hint)


@pytest.mark.parametrize("folder", ["copy", "other/checkpoints/000004"])
def test_checksums_outside_of_a_run_are_those_of_another_program(contrast: Contrast, run: Run, folder: str) -> None:
    shutil.copytree(run.checkpoint(), folder)
    for text in ("{", '{"config.json": "0"}', '{"weights": {"sha256": "0"}}'):
        Path(folder, "checksums.json").write_text(text)
        assert contrast("query", "a", "b", "--model", folder).code == 0


def test_a_resume_with_another_teacher_is_refused_before_its_settings_are_written(contrast: Contrast, run: Run) -> None:
    shutil.copytree(run.checkpoint(), "teacher")
    words = ("--objective", "rankcse", "--teachers", "./teacher:cls", "--data", "tiny/sentences.jsonl")
    assert contrast(*train(*words, "--dev", "none", "--name", "student")).code == 0
    student = Run(Path("runs/student"))
    before = student.config_path.read_bytes()
    shutil.copy("tiny/backbone/model.safetensors", "teacher/model.safetensors")
    failed(contrast("train", "--resume", "student", "--max-steps", "3"), 3, "teacher has other weights than those")
    assert student.config_path.read_bytes() == before and student.status().state == "finished"


def test_a_position_of_another_step_is_not_resumed(contrast: Contrast, run: Run) -> None:
    training = run.checkpoint("last") / "training"
    (training / "checksums.json").unlink()
    (training / "position.json").write_text('{"step": 1000000}')
    failed(contrast("train", "--resume", "simple", "--max-steps", "6"), 3, "position.json is of step 1,000,000")


def test_a_resume_that_misses_its_checkpoint_deletes_no_other(contrast: Contrast, run: Run) -> None:
    run.checkpoints_path.write_text('{"last": "000099"}')
    answer = contrast("train", "--resume", "simple", "--max-steps", "6")
    failed(answer, 3, "000099 is missing", f"remove {run.checkpoints_path}")
    assert (run.checkpoints_dir / "000004" / "training").is_dir()
    shutil.rmtree(run.checkpoints_dir)
    answer = contrast("query", "a", "b", "--model", "simple")
    failed(answer, 3, "000099 is missing", "then contrast train --resume simple")


def test_a_resume_whose_rows_or_model_have_changed_says_what_to_do_with_all_that_was_typed(contrast: Contrast) -> None:
    shutil.copytree("tiny/backbone", "model")
    shutil.copy("tiny/pairs.jsonl", "rows.jsonl")
    shutil.copy("tiny/dev.jsonl", "dev.jsonl")
    words = ("--backbone", "./model", "--data", "rows.jsonl", "--objective", "simcse", "--dev", "dev.jsonl")
    assert contrast(*train(*words, "--name", "own", "--no-ui")).code == 0
    run, resume = Run(Path("runs/own")), ("train", "--resume", "own", "--max-steps", "3", "--no-ui")
    before = run.config_path.read_bytes()
    for file, hint in (
        ("rows.jsonl", "contrast train --config runs/own/config.toml --max-steps 3"),
        ("dev.jsonl", "runs/own/config.toml"),
    ):
        rows = Path(file).read_text()
        Path(file).write_text(rows.partition("\n")[2])
        failed(contrast(*resume), 3, f"the rows of {file} are not those that the run began with", hint)
        Path(file).write_text(rows)
    Path("model").rename("model-2")
    hint = "put it back, or link to it: ln -s FOLDER ./model"
    failed(contrast(*resume), 3, "'./model', which the run began from", hint)
    run.config_path.write_bytes(before.replace(b'"./model"', b'"model"'))
    failed(contrast(*resume), 3, "'model' is neither a folder nor in the hub cache", "link to it: ln -s FOLDER model")
    run.config_path.write_bytes(before)
    Path("model-2").rename("model")
    Path("rows.jsonl").rename("moved.jsonl")
    failed(contrast(*resume), 3, "there is no file or folder rows.jsonl")
    Path("other.jsonl").write_text("".join(reversed(Path("moved.jsonl").read_text().splitlines(keepends=True))))
    failed(contrast(*resume, "--data", "other.jsonl"), 3, "the rows of other.jsonl are not those", "restore them")
    assert run.config_path.read_bytes() == before
    assert contrast(*resume, "--data", "moved.jsonl").code == 0
    assert run.config().data.train == "moved.jsonl" and run.status().steps == 3


def test_a_resume_draws_as_many_rows_of_each_set_and_has_no_fewer(contrast: Contrast) -> None:
    shutil.copy("tiny/pairs.jsonl", "more.jsonl")
    words = ("--backbone", "tiny/backbone", "--objective", "simcse", "--dev", "none", "--no-ui")
    assert contrast(*train(*words, "--data", "tiny/pairs.jsonl=2,more.jsonl", "--name", "own")).code == 0
    Path("few.jsonl").write_text("".join(Path("more.jsonl").read_text().splitlines(keepends=True)[:2]))
    again = ("train", "--resume", "own", "--max-steps", "6", "--no-ui")
    for data, what in {
        "tiny/pairs.jsonl,more.jsonl": "of which an epoch draws other rows than when the run began",
        "few.jsonl": "but there are 2 rows to train on, fewer than the run began with",
    }.items():
        failed(contrast(*again, "--data", data), 3, what, f"--config runs/own/config.toml --data {data}")
    assert contrast(*again, "--data", "tiny/pairs.jsonl=2,more.jsonl").code == 0


def test_a_run_that_another_began_from_is_missed_by_its_path(contrast: Contrast, run: Run) -> None:
    words = ("--backbone", "simple", "--data", "tiny/labelled.jsonl", "--name", "second", "--no-ui")
    assert contrast(*train(*words)).code == 0
    assert contrast("runs", "rm", "simple", "--yes").code == 0
    again = contrast("train", "--resume", "second", "--max-steps", "3", "--no-ui")
    failed(again, 3, "there is no folder 'runs/simple', which the run began from", "ln -s FOLDER runs/simple")
    lost = contrast("query", "a", "b", "--model", "runs/simple")
    refused(lost, 3, "there is no folder or file 'runs/simple'", "name a run (runs/second)")


def test_a_run_in_which_another_process_trains_is_left_alone(contrast: Contrast, run: Run) -> None:
    before = run.config_path.read_bytes()
    with run.locked():
        answer = contrast("train", "--resume", "simple", "--max-steps", "6")
        refused(answer, 1, "training in runs/simple already", "watch")
        refused(contrast("runs", "rm", "simple", "--yes"), 1, "training in runs/simple already")
    assert run.config_path.read_bytes() == before


def test_a_run_whose_process_was_killed_a_moment_ago_is_not_taken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system keeps the files of a process open until it has taken it down."""
    monkeypatch.setattr(files, "LOCK_WAIT_SECONDS", 1.0)
    hold = "import filelock, sys, time\nwith filelock.FileLock(sys.argv[1]): print(flush=True); time.sleep(0.3)"
    with run.locked():
        pass
    with subprocess.Popen([sys.executable, "-c", hold, str(run.lock_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline()
        with run.locked():
            assert holder.wait() == 0


def test_a_resume_takes_of_the_environment_what_it_may_change(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTRAST_TRAIN_LR", "4e-4")
    monkeypatch.setenv("CONTRAST_TRAIN_MAX_STEPS", "5")
    answer = contrast("train", "--resume-or-start", "simple")
    refused(answer, 2, "a resumed run cannot change train.lr (CONTRAST_TRAIN_LR)")
    Path("contrast.toml").write_text("[train]\nsave_every = 3\n")
    answer = contrast("train", "--resume", "simple")
    for place, key in (("contrast.toml", "train.save_every"), ("CONTRAST_TRAIN_LR", "train.lr")):
        assert f"note: {place} states another {key}, which a resume does not take\n" in answer.err
    assert answer.err.count("which a resume") == 2
    assert (answer.code, run.status().step) == (0, 5)
    assert contrast("train", "--resume", "simple", "--max-steps", "6").code == 0 and run.status().step == 6


def test_a_file_of_false_negatives_that_has_moved_is_named_for_a_resume(contrast: Contrast) -> None:
    Path("pairs.csv").write_text("anchor,negative\na,b\n")
    assert contrast(*train(*SENTENCES, "--false-negatives", "pairs.csv", "--name", "one", "--no-ui")).code == 0
    Path("pairs.csv").rename("moved.csv")
    resume = ("train", "--resume", "one", "--max-steps", "3", "--no-ui")
    hint = "name where they are now: contrast train --resume one --false-negatives PATH"
    refused(contrast(*resume), 3, "there is no file or folder pairs.csv", hint)
    assert contrast(*resume, "--false-negatives", "moved.csv").code == 0


def test_data_that_have_moved_are_named_for_a_resume_and_must_be_the_same(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("labelled", "dev"):
        shutil.copy(f"tiny/{name}.jsonl", f"{name}.jsonl")
    place = Path.cwd()
    usual = train("--data", "labelled.jsonl", "--name", "one", "--no-ui")
    words = [word.replace("tiny/dev", "dev").replace("tiny/", f"{place}/tiny/") for word in usual]
    assert contrast(*words).code == 0
    (place / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    resume = ["train", "--resume", "../runs/one", "--max-steps", "3", "--no-ui"]
    answer = contrast(*resume)
    named = f"name where they are now: contrast train --resume ../runs/one --data {place}/labelled.jsonl"
    refused(answer, 3, "there is no file or folder labelled.jsonl")
    assert answer.err.endswith(f"hint: {named}\n"), "and no other remedy"
    resume += ["--data", f"{place}/labelled.jsonl"]
    hint = "contrast train --resume ../runs/one --dev PATH"
    refused(contrast(*resume), 3, "there is no file or folder dev.jsonl", hint)
    refused(contrast(*resume, "--dev", "none"), 2, "a resumed run cannot change dev.data")
    refused(contrast(*resume, "--dev", "starter"), 3, "the rows of starter are not those that the run began with")
    assert contrast(*resume, "--dev", f"{place}/dev.jsonl").code == 0
    assert Run(place / "runs/one").status().step == 3
    others = {"one": "two", "dev.jsonl": "starter", "labelled.jsonl": f"{place}/labelled.jsonl"}
    assert contrast(*(others.get(word, word) for word in words), "--general", "auto").code == 0
    general = ("--general", f"{place}/dev.jsonl")
    answer = contrast("train", "--resume", "two", "--max-steps", "3", *general, "--no-ui")
    failed(answer, 3, f"the run began without {place}/dev.jsonl")


def test_a_dry_run_of_a_resume_says_what_the_resume_would(contrast: Contrast, run: Run) -> None:
    resume = ("train", "--resume", "simple", "--dry-run")
    assert "simple has finished its 4 steps; to extend it: --max-steps 5 or more" in contrast(*resume).out
    # As a kill leaves it.
    with closing(EventWriter(run.events_path)) as write:
        write(Note(step=5, text="a step that was not saved"))
    assert "simple goes on from its step 4" in contrast(*resume, "--max-steps", "6").out
    assert contrast("runs", "prune", "simple").code == 0
    refused(contrast(*resume, "--max-steps", "6"), 3, "position.json is missing, as after contrast runs prune")


RESUME = "train --resume simple --max-steps 6"
TRAIN_FROM_IT = "train --backbone simple --data tiny/labelled.jsonl --dev none --batch-size 8"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("config.toml", "{", "runs show simple"),
        ("config.toml", "{", "compare simple other"),
        ("config.toml", "{", RESUME),
        ("scores.json", "{", "runs show simple"),
        ("environment.json", "{", "runs show simple"),
        *(("environment.json", text, RESUME) for text in ("{", "[]", '{"data": [1]}')),
        ("checkpoints.json", "{", "export simple out"),
        ("checkpoints.json", "{", "runs show simple"),
        ("checkpoints.json", "{", RESUME),
        ("checkpoints.json", "{", TRAIN_FROM_IT),
    ],
)
def test_a_malformed_file_of_a_run_is_named(contrast: Contrast, run: Run, file: str, text: str, words: str) -> None:
    shutil.copytree(run.path, "runs/other")
    (run.path / file).write_text(text)
    failed(contrast(*words.split()), 2 if file == "config.toml" else 3, f"runs/simple/{file}")
    assert contrast("runs", "list").code == 0


@pytest.mark.parametrize(
    "words", ["runs show", "runs path", "runs rm", "runs prune", "watch", "stop", "train --resume"]
)
def test_a_run_that_is_not_there_is_missing(contrast: Contrast, run: Run, words: str) -> None:
    refused(contrast(*words.split(), "nothing"), 3, "there is no run 'nothing' in runs", "simple")
    shutil.rmtree("runs")
    refused(contrast(*words.split(), "nothing"), 3, "there is no run in runs", "contrast train")


def test_a_part_of_two_names_is_ambiguous(contrast: Contrast, run: Run) -> None:
    shutil.copytree(run.path, "runs/simpler")
    refused(contrast("runs", "show", "impl"), 3, "'impl' means 2 runs", "simple")
    names = contrast("runs", "rm", "impl").err.splitlines()[-1].removeprefix("hint: name what is meant: ").split()
    refused(contrast("query", "a", "b", "--model", "impl"), 3, "'impl' means 2 runs")
    assert contrast("runs", "rm", *names, "--yes").code == 0 and not list(run.path.parent.glob("simple*"))


def test_the_model_of_a_run_that_has_lost_its_settings_can_be_used(contrast: Contrast, run: Run) -> None:
    model = run.checkpoint()
    run.config_path.unlink()
    for words in (("query", "a", "b", "--model", "simple"), ("runs", "show", "simple")):
        refused(contrast(*words), 3, "runs/simple is no run: it has no config.toml", f"use its model {model}, or name")
    assert contrast("query", "a", "b", "--model", str(model)).code == 0


@pytest.mark.parametrize(
    ("model", "file"), [("simple", "model.safetensors"), ("simple", "config.json"), ("my model", "tokenizer.json")]
)
def test_a_file_of_a_model_that_is_closed_is_opened(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch, model: str, file: str
) -> None:
    shutil.copytree(run.checkpoint(), "my model")
    path = (run.checkpoint() if model == "simple" else Path("my model")) / file
    monkeypatch.setattr("os.access", lambda place, mode: Path(place) != path)
    answer = contrast("query", "a", "b", "--model", model)
    failed(answer, 3, f"{path} cannot be read: permission denied", f"chmod u+r {shlex.quote(str(path))}")
    assert contrast("runs", "path", "simple").out == "runs/simple\n"


def test_watching_a_failed_run_ends_with_its_code(contrast: Contrast, run: Run) -> None:
    (run.checkpoint("last") / "training" / "heads.safetensors").unlink()
    failed(contrast("train", "--resume", "simple", "--max-steps", "6"), 3, "heads.safetensors is missing")
    watched = contrast("watch", "simple")
    assert watched.code == 3
    assert json.loads(contrast("runs", "show", "simple", "--json").out)["state"] == "failed"


@pytest.mark.parametrize("damaged", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_backbone_or_teacher_that_cannot_be_read_is_found_before_there_is_a_run(
    contrast: Contrast, damaged: str
) -> None:
    shutil.copytree("tiny/backbone", "broken")
    Path("broken", damaged).write_bytes(Path("broken", damaged).read_bytes()[:40])
    usual = train(*LABELLED, "--backbone", "broken")
    teachers = ("--objective", "rankcse", "--data", "tiny/pairs.jsonl", "--teachers", "tiny/backbone,broken:cls")
    for words in (usual, (*usual, "--detach"), ("sweep", *usual[1:], "--seeds", "2"), train(*teachers)):
        refused(contrast(*words), 3, damaged if damaged != "tokenizer.json" else "tokenizer")
    assert not Path("runs").exists()
