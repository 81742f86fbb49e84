"""`contrast train` from the first word to the last: what is printed where, and what a run repeats."""

import hashlib
import json
import re
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from contrastcli import boundary
from contrastcli.commands import train as start
from contrastcli.commands.job import with_model_paths
from contrastcli.runs import process
from contrastcli.runs.directory import Run, create
from contrastcli.runs.measured import Step
from contrastcli.runs.status import this_process
from contrastcli.settings.config import Config
from contrastcli.training.setup import load_untrained
from contrastcli.tui import app
from support.command import COMMAND, LABELLED, SENTENCES, Contrast, failed, refused, sentences, train
from support.recorded import append
from support.settings import config, preset
from support.tiny import told


def weights(run: str) -> str:
    return hashlib.sha256((Run(Path(run)).checkpoint("last") / "model.safetensors").read_bytes()).hexdigest()


def test_training_prints_its_run_on_stdout_and_narrates_on_stderr(contrast: Contrast) -> None:
    answer = contrast(*train("--data", "tiny/triplets.jsonl", "--name", "mine", "--no-ui"))
    assert (answer.code, answer.out) == (0, "runs/mine\n")
    words = [line.split()[0] for line in answer.err.splitlines()]
    assert words[0] == "started" and {"dev", "step", "saved", "finished", "next:"} <= set(words)
    note = "160 triplets (anchor, positive, negative) became 320 labelled pairs (premise, hypothesis, label)"
    assert note in answer.err
    assert "\r" not in answer.err and "\x1b" not in answer.err
    assert Run(Path("runs/mine")).status().state == "finished"


@pytest.mark.parametrize("word", ["simple", "simp", "last"])
def test_a_run_is_a_backbone_and_a_teacher(contrast: Contrast, run: Run, word: str) -> None:
    teachers = ("--objective", "rankcse", *SENTENCES[2:], "--teachers", f"{word}:cls=0.4,tiny/backbone")
    answer = contrast(*train("--backbone", word, *teachers, "--dry-run", "--json"))
    settings = json.loads(answer.out)["settings"]
    assert settings["model.backbone"]["value"] == str(run.path)
    assert settings["objective.teachers"]["value"] == f"{run.path}:cls=0.4,tiny/backbone=1.0"


@pytest.mark.parametrize(("word", "kept"), [("s-tau=0.05", "runs/s-tau=0.05=1.0"), ("runs/s-tau=0.05", "")])
def test_a_run_of_a_sweep_is_a_teacher_with_the_value_in_its_name(
    contrast: Contrast, run: Run, word: str, kept: str
) -> None:
    shutil.copytree(run.path, "runs/s-tau=0.05")
    answer = contrast(*train("--objective", "rankcse", *SENTENCES[2:], "--teachers", word, "--dry-run", "--json"))
    assert answer.code == 0 and json.loads(answer.out)["settings"]["objective.teachers"]["value"] == (kept or word)


def test_a_backbone_without_a_language_model_head_makes_no_run(contrast: Contrast, run: Run) -> None:
    answer = contrast(*train(*SENTENCES, "--backbone", "simple", "--mlm-weight", "0.1"))
    refused(answer, 3, "the backbone has no language-model head")
    assert [*Path("runs").iterdir()] == [run.path]


def test_json_prints_the_bytes_of_the_events_and_nothing_else(contrast: Contrast) -> None:
    answer = contrast(*train(*LABELLED, "--name", "mine", "--json"))
    assert answer.code == 0
    assert answer.out.encode() == Path("runs/mine/events.jsonl").read_bytes()
    assert [json.loads(line)["event"] for line in answer.out.splitlines()][-1] == "done"


def test_a_dry_run_shows_settings_rows_and_costs_and_makes_no_run(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contrastcli.model import adapters

    monkeypatch.setattr(adapters, "load_backbone", None)  # loading weights would fail
    text = contrast(*train(*LABELLED, "--dry-run"))
    preview = json.loads(contrast(*train(*LABELLED, "--dry-run", "--json")).out)
    assert text.code == 0 and not Path("runs").exists()
    assert preview["settings"]["train.batch_size"] == {"value": 8, "source": "--batch-size"}
    assert preview["settings"]["train.warmup"] == {"value": 0.0, "source": "default"}
    first = [json.loads(line) for line in Path("tiny/labelled.jsonl").read_text().splitlines()[:3]]
    wanted = [{"anchor": r["premise"], "positive": r["hypothesis"], "label": r["label"]} for r in first]
    assert preview["rows"][0] == wanted[0] and len(preview["rows"]) == 3
    assert {row["label"] for row in preview["rows"]} <= {"entailment", "contradiction"}
    facts = {key: preview[key] for key in ("steps", "sentences_per_step", "negatives_per_anchor", "dev_pairs")}
    assert facts == {"steps": 2, "sentences_per_step": 16, "negatives_per_anchor": 14, "dev_pairs": 30}
    for word in ("train.batch_size", "--batch-size", wanted[0]["anchor"], "negatives per anchor", "14", "disk"):
        assert word in text.out


def test_a_dry_run_tells_the_time_at_the_speed_of_an_earlier_run_like_it(contrast: Contrast) -> None:
    words = train(*LABELLED)
    assert "unknown: no run like it on this machine" in contrast(*words, "--dry-run").out
    contrast(*words, "--name", "before", "--no-ui")
    contrast(*words, "--batch-size", "4", "--name", "other", "--no-ui")
    run = Run(Path("runs/before"))
    step = told(run, Step)[-1]
    # One that was slow, as after an evaluation, does not count.
    append(run, *(msgspec.structs.replace(step, sentences_per_s=one) for one in (100.0, 100.0, 100.0, 100.0, 0.1)))
    preview = json.loads(contrast(*words, "--dry-run", "--json").out)
    assert preview["like"] == "before" and preview["seconds"] == round(preview["steps"] * 16 / 100, 1)
    assert ", at the speed of before" in contrast(*words, "--dry-run").out


def test_the_disk_that_a_dry_run_foretells_is_what_checkpoints_take(contrast: Contrast) -> None:
    words = train(*LABELLED, "--max-steps", "3", "--set", "dev.every=1", "--name", "mine")
    foretold = json.loads(contrast(*words, "--dry-run", "--json").out)["disk"]
    assert contrast(*words).code == 0
    run = Run(Path("runs/mine"))
    saved = [f for f in run.checkpoints_dir.rglob("*.safetensors") if "heads" not in f.name]
    took = sum(f.stat().st_size for f in saved) * (4 / 3 if len(run.checkpoints().values()) == 1 else 1)
    assert 0.6 * foretold < took < 1.4 * foretold


def test_a_disk_without_room_for_the_checkpoints_is_a_note_beforehand(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "disk_usage", lambda path: SimpleNamespace(free=1000))
    words, note = train(*LABELLED, "--name", "mine"), re.compile(r"checkpoints take about .+, and .+ has 1.0 KB free")
    assert note.search(contrast(*words, "--dry-run").out) and note.search(contrast(*words).err)
    assert not note.search(contrast("train", "--resume", "mine", "--dry-run").out), "it has its checkpoints"


def test_the_settings_of_a_run_repeat_it_bit_for_bit(contrast: Contrast) -> None:
    assert contrast(*train(*LABELLED, "--name", "one", "--seed", "7", "--tau", "0.07")).code == 0
    answer = contrast("train", "--config", "runs/one/config.toml", "--name", "two")
    assert answer.code == 0 and "note" not in answer.err
    assert weights("runs/one") == weights("runs/two")
    assert Path("runs/one/config.toml").read_bytes() == Path("runs/two/config.toml").read_bytes()
    assert contrast(*train(*LABELLED, "--name", "three", "--seed", "8", "--tau", "0.07")).code == 0
    assert weights("runs/one") != weights("runs/three")


def test_a_finished_run_says_so_and_is_extended_by_more_steps(contrast: Contrast, run: Run) -> None:
    before = run.config_path.read_bytes()
    for words in ((), ("--max-steps", "4"), ("--max-steps", "3")):
        finished = contrast("train", "--resume", "simple", *words)
        assert (finished.code, finished.out) == (0, "runs/simple\n"), "a script names the run by it"
        assert "has finished its 4 steps; to extend it: --max-steps 5 or more\n" in finished.err
    assert contrast("train", "--resume", "simple", "--json").out == ""
    assert run.config_path.read_bytes() == before
    assert contrast("train", "--resume", "simple", "--max-steps", "6").out == "runs/simple\n"
    assert (run.status().step, run.status().state) == (6, "finished")
    assert run.config().train.max_steps == 6
    changes = ("--max-steps", "7", "--token-budget", "512", "--log-every", "2", "--save-every", "1", "--device", "cpu")
    assert contrast("train", "--resume", "last", *changes).code == 0, "a resume takes what it may change"
    assert run.config().train.token_budget == 512
    by_epochs = [contrast("train", "--resume", "simple", "--max-steps", "0", "--epochs", "1").err for _ in range(2)]
    assert by_epochs[1] == "simple has finished its 20 steps; to extend it: --epochs 2 or more\n"


def test_a_finished_run_of_epochs_that_differ_in_length_is_extended_by_one_more(contrast: Contrast) -> None:
    """Of six premises, whose rows stay together, the second epoch has a batch less than the first."""
    rows = [f"p{n},h{n}{k},entailment\n" for n, count in enumerate([1, 3, 3, 1, 2, 3]) for k in range(count)]
    Path("nli.csv").write_text("".join(["premise,hypothesis,label\n", *rows]))
    length = ("--batch-size", "3", "--max-steps", "0", "--epochs", "2", "--name", "two", "--no-ui")
    assert contrast(*train("--objective", "supcon", "--data", "nli.csv", "--dev", "none", *length)).code == 0
    again = contrast("train", "--resume", "two").err
    assert again == "two has finished its 11 steps; to extend it: --epochs 3 or more\n"


def test_a_finished_run_that_has_lost_its_checkpoints_is_trained_again(contrast: Contrast, run: Run) -> None:
    shutil.rmtree(run.checkpoints_dir)
    run.checkpoints_path.unlink()
    assert contrast("train", "--resume", "simple").code == 0
    assert run.status().step == 4 and run.checkpoint().is_dir()


def test_an_error_before_training_is_the_end_of_a_run_that_was_launched(contrast: Contrast) -> None:
    shutil.copy("tiny/labelled.jsonl", "own.jsonl")
    assert contrast(*train("--data", "own.jsonl", "--name", "mine")).code == 0
    run = Run(Path("runs/mine"))
    Path("own.jsonl").unlink()
    run.alive_path.write_bytes(msgspec.json.encode(this_process()))
    failed(contrast("train", "--resume", "mine", "--max-steps", "3", "--no-ui"), 3, "own.jsonl")
    status = run.status()
    assert (status.state, status.step, status.code) == ("failed", 2, 3) and "own.jsonl" in status.message
    run.alive_path.write_bytes(msgspec.json.encode(this_process()))
    before = run.events_path.read_bytes()
    with run.locked():
        failed(contrast("train", "--resume", "mine", "--max-steps", "3", "--no-ui"), 3, "own.jsonl")
    assert run.events_path.read_bytes() == before and run.alive_path.exists(), "another process trains it by now"


def test_a_run_that_another_process_has_made_meanwhile_is_not_gone_on_with(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_meanwhile(*words: Any) -> Any:
        monkeypatch.setattr(start, "load_untrained", load_untrained)
        assert contrast(*train(*LABELLED, "--name", "mine")).code == 0
        return load_untrained(*words)

    monkeypatch.setattr(start, "load_untrained", made_meanwhile)
    failed(contrast(*train(*LABELLED, "--name", "mine")), 1, "runs/mine exists")


def test_paths_may_have_blanks_and_any_letters(contrast: Contrast) -> None:
    place = Path("größe und maß")
    place.mkdir()
    (place / "sätze 1.jsonl").write_bytes(Path("tiny/sentences.jsonl").read_bytes())
    words = train(*SENTENCES, "--data", str(place / "sätze 1.jsonl"), "--name", "läufer")
    answer = contrast("--runs-dir", str(place / "läufe"), *words)
    assert (answer.code, answer.out) == (0, "größe und maß/läufe/läufer\n")
    assert contrast("query", "a", "b", "--model", answer.out.strip()).code == 0


def test_a_detached_run_is_watched_and_stopped_from_elsewhere(contrast: Contrast) -> None:
    words = train(*LABELLED, "--max-steps", "0", "--epochs", "100000", "--set", "dev.every=1000000", "--name", "long")
    answer = contrast(*words, "--detach")
    assert (answer.code, answer.out) == (0, "runs/long\n")
    run = Run(Path("runs/long"))
    try:
        watching = subprocess.Popen(
            [*COMMAND, "watch", "long"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert watching.stderr is not None
        seen = [next(watching.stderr) for _ in range(2)]
        assert seen[0].startswith("started")
        stopped = contrast("stop", "long")
        assert stopped.code == 0 and "long: stopped at step" in stopped.err
        out, err = watching.communicate(timeout=300)
        assert (watching.returncode, out) == (0, "")
        assert "stopped" in err
    finally:
        process.request_stop(run)
        assert process.wait_for_end(run, 60).state == "stopped"
    again = contrast("stop", "long")
    assert (again.code, again.out, again.err) == (0, "", stopped.err.splitlines(keepends=True)[-1])
    events = contrast("watch", "long", "--json")
    assert events.out.encode() == Path("runs/long/events.jsonl").read_bytes()
    assert contrast("query", "a", "b", "--model", "long").code == 0


@pytest.mark.parametrize(
    ("words", "where"), [((), "app"), (("--no-ui",), "here"), (("--detach",), "background"), (("--json",), "here")]
)
def test_on_a_terminal_training_opens_the_app_unless_an_option_says_otherwise(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], where: str
) -> None:
    starting = Mock(return_value=0)
    monkeypatch.setattr(boundary, "on_a_terminal", lambda: True)
    monkeypatch.setattr(start, "start", starting)
    assert contrast(*train(*LABELLED, *words)).code == 0
    (how,) = (call.kwargs for call in starting.call_args_list)
    assert ("app" if how["show"] else "background" if how["detach"] else "here") == where
    # What is started from several processes would train as one alone.
    for variables in ({"WORLD_SIZE": "2"}, {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}):
        starting.reset_mock()
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            answer = contrast(*train(*LABELLED, *words))
        if "--detach" in words:
            assert "--detach starts one process\nhint: leave out --detach, or torchrun" in answer.err
            assert not starting.called
        else:
            (how,) = (call.kwargs for call in starting.call_args_list)
            assert not (how["show"] or how["detach"])


def test_the_app_shows_a_run_that_was_launched(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, launched: list[str]
) -> None:
    def show(directory: Path, run: Run, *, mouse: bool = True) -> None:
        assert launched == [run.name] and run.status().state == "finished"

    monkeypatch.setattr(start, "launch", process.launch)
    monkeypatch.setattr(boundary, "on_a_terminal", lambda: True)
    monkeypatch.setattr(app, "show", show)
    answer = contrast(*train(*LABELLED, "--name", "mine"))
    assert (answer.code, answer.out) == (0, "runs/mine\n")
    assert "next: contrast query" in answer.err


REQUEUED = ("--resume-or-start", "job", "--no-ui")


def test_one_command_starts_a_run_resumes_it_and_ends_once_it_has_finished(contrast: Contrast) -> None:
    settings = (*LABELLED, "--schedule", "constant", "--warmup", "0", "--token-budget", "256", *REQUEUED)
    words = train(*settings, "--max-steps", "5")
    first = contrast(*words)
    assert (first.code, first.out) == (0, "runs/job\n")
    whole = weights("runs/job")
    again = contrast(*words)
    assert (again.code, again.out) == (0, "runs/job\n") and "job has finished its 5 steps" in again.err
    assert "steps  5," in contrast(*words, "--dry-run").out

    shutil.rmtree("runs/job")
    assert contrast(*train(*settings)).code == 0
    resumed = contrast(*words)
    assert (resumed.code, resumed.out) == (0, "runs/job\n") and "from step 2" in resumed.err
    assert weights("runs/job") == whole


def test_of_two_first_starts_at_once_the_second_says_that_the_first_trains(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes the run a moment before this one does, and trains it."""
    seed = 0

    def second(config: Config, directory: Path, name: str | None, *, shared: bool) -> Run:
        first = replace(config, train=msgspec.structs.replace(config.train, seed=config.train.seed + seed))
        held.enter_context(create(first, directory, name).locked())
        return create(config, directory, name, shared=shared)

    monkeypatch.setattr(start, "create", second)
    with ExitStack() as held:
        refused(contrast(*train(*LABELLED, *REQUEUED)), 1, "a process is training in runs/job already", "watch job")
    shutil.rmtree("runs/job")
    seed = 1
    with ExitStack() as held:
        refused(contrast(*train(*LABELLED, *REQUEUED)), 1, "runs/job exists")


@pytest.mark.parametrize("state", ["created", "killed before it saved", "killed before it had settings"])
def test_a_run_without_a_checkpoint_starts_again_in_its_directory(contrast: Contrast, state: str) -> None:
    words = train(*LABELLED, *REQUEUED)
    run = Run(Path("runs/job"))
    if state == "killed before it had settings":
        run.path.mkdir(parents=True)
    else:
        assert contrast(*words).code == 0
        lines = run.events_path.read_bytes().splitlines(keepends=True)
        shutil.rmtree(run.checkpoints_dir)
        run.checkpoints_path.unlink()
        run.events_path.write_bytes(b"".join(lines[:3]) if "saved" in state else b"")
    assert contrast(*words).code == 0
    assert (run.status().state, run.status().step) == ("finished", 2)
    assert [path.name for path in Path("runs").iterdir() if path.is_dir()] == ["job"]


def test_a_requeued_command_may_name_a_run_or_preset_and_take_the_values_of_the_run(
    contrast: Contrast, run: Run
) -> None:
    Path("mine.toml").write_text("[objective]\nname = 'pairsupcon'\nsimilarity = 'angle'\nmargin = 5.0\n")
    words = train(*LABELLED, "--config", "mine.toml", "--backbone", "last", "--tau", "0.07", *REQUEUED)
    assert contrast(*words).code == 0
    before = Path("runs/job/config.toml").read_bytes()
    assert contrast(*words).code == contrast("train", *REQUEUED).code == 0
    assert Path("runs/job/config.toml").read_bytes() == before
    assert contrast(*words, "--max-steps", "3").code == 0
    assert Run(Path("runs/job")).status().step == 3
    refused(contrast(*words, "--margin", "6"), 2, "a resumed run cannot change objective.margin", "leave that")
    words = train("--data", "tiny/pairs.jsonl", "--objective", "simcse")
    for name, guide in {"guided": "last", "weighted": "last=2"}.items():
        own = (*words, "--resume-or-start", name, "--guide")
        assert contrast(*own, guide).code == contrast(*own, guide).code == 0
        refused(contrast(*own, "simple:last"), 2, "cannot change objective.guide", "leave that")


def test_a_name_that_is_no_folders_is_refused(contrast: Contrast) -> None:
    refused(contrast(*train(*LABELLED, "--name", "a\n")), 2, "a run cannot be named 'a")
    Path("runs").mkdir()
    too_long = contrast(*train(*LABELLED, "--name", 130 * "ä", "--dry-run"))
    refused(too_long, 1, "name too long", "choose a shorter name")


def test_a_dry_run_refuses_a_backbone_that_is_no_model_and_says_which_is_missing(contrast: Contrast) -> None:
    Path("empty").mkdir()
    words = ("train", "--preset", "starter", "--dry-run", "--backbone")
    for name, what in (("./empty", "has no config.json"), ("./nothing", "there is no folder")):
        refused(contrast(*words, name), 3, what)
    answer = contrast(*words, "bert-bas-uncased")
    assert answer.code == 0 and "note   the model 'bert-bas-uncased' is neither a folder nor" in answer.out
    assert "known once the backbone is here" in answer.out and "GPU " not in answer.out


def test_pairs_choose_their_checkpoint_by_a_share_of_themselves(contrast: Contrast, tmp_path: Path) -> None:
    rows = "".join(f"what is {text}?\t{text}\n" for text in dict.fromkeys(sentences()))
    Path("faq.tsv").write_text(f"question\tanswer\n{rows}")
    usual = train(*SENTENCES[:2], "--data", "faq.tsv", "--no-ui")
    words = [word for word in usual if word not in ("--dev", "tiny/dev.jsonl")]  # left to contrast
    chosen = "dev.data is auto, which for pairs (anchor, positive) is split:5%"
    shown = " ".join(contrast(*words, "--dry-run").out.split())
    assert f"note {chosen}" in shown and " dev 5% of faq.tsv: nDCG@10 of " in shown
    for name in ("job", "job", "other"):
        answer = contrast(*words, "--resume-or-start", name)
        assert answer.code == 0 and (f"note      {chosen}" in answer.err or "has finished" in answer.err)
        assert Run(Path("runs", name)).config().dev.data == "split:5%"
    assert contrast("train", "--resume", "job", "--max-steps", "3", "--no-ui").code == 0
    refused(contrast("train", "--resume", "job", "--dev", "none"), 2, "a resumed run cannot change dev.data")


def test_what_comes_with_contrast_means_no_run(contrast: Contrast, run: Run) -> None:
    """A run may have the name of a preset's backbone, or of the default one, which is not trained on then."""
    for name in ("starter", "bert-base-uncased"):
        shutil.copytree(run.path, f"runs/{name}")
    for made, name in ((config(), "bert-base-uncased"), (preset("starter"), "starter")):
        assert with_model_paths(made, Path("runs")).model.backbone == name
    dry = contrast(*train(*LABELLED, "--backbone", "starter", "--dry-run", "--json"))
    assert json.loads(dry.out)["settings"]["model.backbone"]["value"] == "starter"
    assert "runs/starter" not in contrast("eval", "starter", "--data", "tiny/dev.jsonl").out
    rows = (*SENTENCES[2:], "--dev", "none", "--batch-size", "8")
    sweep = contrast("sweep", "--preset", "simace-bert-base", *rows, "--seeds", "2", "--dry-run")
    refused(sweep, 3, "the model 'bert-base-uncased' is neither a folder nor in the hub cache")


def test_a_run_that_stopped_early_says_what_continues_it(contrast: Contrast) -> None:
    words = ("--data", "tiny/labelled.jsonl", "--name", "early", "--lr", "1e-9", "--max-steps", "8")
    settings = ("--set", "dev.every=1", "--set", "dev.patience=1")
    assert contrast(*train(*words, *settings)).code == 0
    stopped = Run(Path("runs/early")).status().step
    assert stopped < 5
    shutil.copytree("runs/early", "runs/pruned")
    contrast("runs", "prune", "pruned")
    for name, more in (("pruned", ()), ("early", ()), ("early", ("--max-steps", "9"))):
        again = contrast("train", "--resume", name, "--no-ui", *more)
        assert again.code == 0 and f"{name} stopped early at step {stopped}, by dev.patience" in again.err
        if name == "pruned":
            anew = again.err.partition("start a new run from its model: contrast ")[2].split()
            assert contrast(*anew, "--no-ui").code == 0
    command = again.err.partition("to go on: contrast ")[2].split()
    assert contrast(*command, "--no-ui").code == 0
    assert Run(Path("runs/early")).status().step == 8
