"""`contrast suggest`: its table, the command that it prints, its trial, and what it says where something is missing."""

import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from contrastcli.commands import suggest
from contrastcli.errors import RunError
from contrastcli.runs.alerts import Webhook
from contrastcli.training import process
from contrastcli.training.loop import Trainer
from support.command import Answer, Contrast, refused
from support.contracts import write_embedder
from support.tiny import Tiny

BACKBONE = ("--backbone", "tiny/backbone")
PAIRS = ("suggest", "tiny/pairs.jsonl", *BACKBONE)


def command(answer: Answer) -> list[str]:
    """The words of the last line, which can be pasted."""
    assert answer.code == 0, answer.err
    return shlex.split(answer.out.splitlines()[-1])


def suggested(answer: Answer) -> dict[str, Any]:
    """The JSON of a suggestion, with the values of its settings by key."""
    assert answer.code == 0, answer.err
    made = json.loads(answer.out)
    return dict(made, values={one["key"]: one["value"] for one in made["settings"]})


def planned(contrast: Contrast, words: list[str]) -> dict[str, Any]:
    """What a dry run of a printed command says."""
    assert words[0] == "contrast"
    dry = contrast(*words[1:], "--dry-run", "--json")
    assert dry.code == 0, dry.err
    return dict(json.loads(dry.out))


@pytest.mark.parametrize(
    ("form", "objective", "dev"),
    [
        ("sentences", "simcse", "starter: 390 scored pairs"),
        ("pairs", "simcse", "nDCG@10 of 16 anchors among 160 texts"),
        ("triplets", "simcse", "nDCG@10 of 16 anchors among 320 texts"),
        ("labelled", "simcse", "nDCG@10 of 8 anchors among 160 texts"),
        ("grouped", "simcse", "starter: 390 scored pairs"),
        ("scored", "cosent", "16 scored pairs"),
    ],
)
def test_the_printed_command_trains_with_what_was_suggested(
    contrast: Contrast, form: str, objective: str, dev: str
) -> None:
    made = suggested(contrast("suggest", f"tiny/{form}.jsonl", *BACKBONE, "--no-trial", "--json"))
    plan = planned(contrast, shlex.split(made["command"]))
    assert {key: plan["settings"][key]["value"] for key in made["values"]} == made["values"]
    assert made["values"]["objective.name"] == objective and dev in plan["dev"]
    epochs = next(one["reason"] for one in made["settings"] if one["key"] == "train.epochs")
    assert f"{plan['steps']:,} in all" in epochs


def test_a_teachers_logits_are_trained_on_at_their_own_temperature(contrast: Contrast) -> None:
    row = {"anchor": "ba", "positive": "den", "negative": "fir", "negative_score": -1.2}
    rows = [json.dumps(row | {"anchor": f"ba {n}", "score": n / 10}) for n in range(30)]
    Path("logits.jsonl").write_text("\n".join(rows) + "\n")
    words = command(contrast("suggest", "logits.jsonl", *BACKBONE, "--no-trial"))
    plan = planned(contrast, words)
    assert plan["settings"]["objective.teacher_tau"]["value"] == 1
    other = planned(contrast, [*words, "--teacher-tau", "0.05"])
    note = "the teacher's scores are logits, and objective.teacher_tau is 0.05, as for cosines: --teacher-tau 1"
    assert note in other["notes"] and not any("teacher" in one for one in plan["notes"])


def test_the_table_has_each_setting_and_fits_the_terminal(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made, answer = suggested(contrast(*PAIRS, "--no-trial", "--json")), contrast(*PAIRS, "--no-trial")
    table, _ = answer.out.split("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    for one in made["settings"]:
        assert f"{one['key']} " in table
        assert set(one["reason"].split()) <= set(table.split())
    assert command(answer) == shlex.split(made["command"])


def test_what_says_how_to_read_the_data_is_part_of_the_command(contrast: Contrast) -> None:
    rows = [f'w{n} b{n};"d{n}; dir";{n % 2 * 2}' for n in range(80)]
    Path("my rows.csv").write_text("\n".join(["frage;antwort;art", *rows, "only;;0"]))
    labels = ("--labels", "0=entailment,2=contradiction")
    columns = ("--columns", "anchor=frage,positive=antwort,label=art")
    answer = contrast(
        "--runs-dir", "r", "suggest", "my rows.csv", *BACKBONE, *columns, *labels, "--blank", "drop", "--no-trial"
    )
    words = command(answer)
    assert words[:4] == ["contrast", "--runs-dir", "r", "train"] and "my rows.csv" in words
    assert planned(contrast, words)["count"] < 80
    assert "1 of 81 rows without a text in" in answer.err


def test_the_longest_of_many_texts_is_the_longest_of_all(contrast: Contrast) -> None:
    """A sample is encoded, and the longest text with it."""
    rows = [f"{n},{'dog ' * (60 if n == 1001 else 3)}{n}" for n in range(4000)]
    Path("many.csv").write_text("\n".join(["anchor,positive", *rows]))
    answer = contrast("suggest", "many.csv", "--backbone", "starter", "--no-trial")
    assert re.search(r"the\s+longest\s+6\d\b", answer.out), answer.out


def test_a_folder_of_judgements_is_measured_by_its_dev_split_here_and_in_training(contrast: Contrast) -> None:
    rows = [*map(json.loads, Path("tiny/pairs.jsonl").read_text().splitlines())]
    texts = {"queries": "anchor", "corpus": "positive"}
    for name, role in texts.items():
        lines = (json.dumps({"_id": f"{name}{n}", "text": row[role]}) for n, row in enumerate(rows))
        Path("set/qrels").mkdir(parents=True, exist_ok=True)
        Path(f"set/{name}.jsonl").write_text("\n".join(lines))
    for split, numbers in {"train": range(20, len(rows)), "dev": range(9)}.items():
        judged = "".join(f"queries{n}\tcorpus{n}\t1\n" for n in numbers)
        Path(f"set/qrels/{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    of_dev = f"set: nDCG@10 of 9 anchors among {len(rows)} texts"
    words = command(contrast("suggest", "set", *BACKBONE, "--no-trial"))
    assert planned(contrast, words)["dev"] == of_dev and words[words.index("--dev") + 1] == "set"
    assert planned(contrast, ["contrast", "train", "--data", "set", *BACKBONE, "--no-ui"])["dev"] == of_dev


def test_a_few_rows_are_no_reason_to_fail(contrast: Contrast) -> None:
    Path("two.tsv").write_text("anchor\tpositive\nba da\tga ka\nma na\tpa ra\n")
    answer = contrast("suggest", "two.tsv", *BACKBONE)
    assert planned(contrast, command(answer))["steps"] == 10
    assert "10 steps were tried here" in answer.out


def test_the_trial_says_what_all_steps_and_evaluations_take(contrast: Contrast) -> None:
    answer = contrast(*PAIRS, "--json")
    made = suggested(answer)
    trial, plan = made["trial"], planned(contrast, shlex.split(made["command"]))
    evaluations = 1 + -(-plan["steps"] // made["values"]["dev.every"])
    assert (trial["steps"], trial["tried"], trial["evaluations"]) == (plan["steps"], 20, evaluations)
    # 16 queries, 160 documents, and both texts of the starter's 390 pairs; each takes a third of a trained text.
    evaluation = trial["seconds"] * (16 + 160 + 780) / plan["sentences_per_step"] / 3
    assert trial["total"] == pytest.approx(plan["steps"] * trial["seconds"] + evaluations * evaluation, abs=0.2)
    assert 0.05 < trial["memory"] < 50 and trial["error"] == ""
    assert not Path("runs").exists(), "a trial leaves no run"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RunError("memory ran out with 64 tokens at once", "use a smaller batch"), "memory ran out with 64"),
        (RuntimeError("CUDA out of memory"), "memory ran out"),
    ],
)
def test_the_command_is_printed_although_the_trial_fails(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    monkeypatch.setattr(Trainer, "update", Mock(side_effect=error))
    answer = contrast(*PAIRS)
    said = answer.out.split("\n\n")[1]
    assert said.startswith(f"the trial of the first steps failed: {words}") and "\nhint: " in said
    assert "Traceback" not in answer.err and planned(contrast, command(answer))["steps"] > 0


def test_a_fault_in_the_trial_is_not_to_be_resumed(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "update", Mock(side_effect=ValueError("a fault")))
    answer = contrast(*PAIRS)
    assert answer.code == 1 and answer.err.endswith("error: ValueError: a fault\nhint: contrast --debug shows where\n")


def test_ctrl_c_ends_the_trial_alone(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    update = Trainer.update

    def interrupted(self: Trainer, batch: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return update(self, batch)

    monkeypatch.setattr(Trainer, "update", interrupted)
    answer = contrast(*PAIRS)
    assert "failed: interrupted" in answer.out and command(answer)[:2] == ["contrast", "train"]


def test_a_slow_trial_ends_early_and_posts_to_no_webhook(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    post = Mock(wraps=Webhook)
    monkeypatch.setenv("CONTRAST_ALERTS_WEBHOOK", "https://example.org/secret")
    monkeypatch.setattr(suggest, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(process, "Webhook", post)
    answer = contrast(*PAIRS, "--json")
    assert suggested(answer)["trial"]["tried"] == 5
    assert {call.args[0] for call in post.call_args_list} == {""} and "secret" not in answer.out + answer.err


def test_an_embedder_is_told_from_a_raw_encoder(contrast: Contrast, tiny: Tiny) -> None:
    write_embedder(tiny.backbone, Path("embedder"))
    for model, words in (("embedder", "an embedder"), ("tiny/backbone", "a raw encoder")):
        made = suggested(contrast("suggest", "tiny/pairs.jsonl", "--backbone", model, "--no-trial", "--json"))
        backbone = next(one for one in made["settings"] if one["key"] == "model.backbone")
        assert backbone["value"] == model and backbone["reason"].startswith(words)


def test_without_a_backbone_that_of_the_user_is_taken_or_one_is_asked_for(
    contrast: Contrast, hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("suggest", "tiny/pairs.jsonl", "--no-trial")
    refused(contrast(*words), 2, "no model to start from is on this machine", "--backbone starter")
    refused(contrast("suggest", "none.csv", "--no-trial"), 3, "there is no file or folder none.csv")
    monkeypatch.setenv("CONTRAST_MODEL_BACKBONE", "tiny/backbone")
    answer = contrast(*words)
    assert "tiny/backbone" in answer.out and "--backbone" not in command(answer)
