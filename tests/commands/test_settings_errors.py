"""Bad settings are an error of two lines on stderr, with nothing on stdout and before there is a run."""

import json
import re
from pathlib import Path

import pytest

from support.command import LABELLED, SENTENCES, Contrast, refused, train


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        # hints.txt has those that are typed in a line and where there is a run.
        ((*LABELLED, "--batch-size", "9" * 5000), 2, "train.batch_size is"),
        (("--preset", "a" * 300), 2, "there is no preset 'aaa"),
        (("--resume", ""), 3, "there is no run in runs"),
        ((*LABELLED, "--backbone", "nobody/nothing"), 3, "HF_HUB_OFFLINE is set"),
        (("--data", ",".join(["tiny/pairs.jsonl"] * 1000)), 2, "and a file of them has at most 16,384"),
    ],
)
def test_a_bad_value_is_refused_before_there_is_a_run(
    contrast: Contrast, words: tuple[str, ...], code: int, what: str
) -> None:
    refused(contrast(*train(*words)), code, what)
    if "nobody/nothing" not in words:  # a dry run names what will be downloaded
        refused(contrast(*train("--dry-run", *words)), code, what)
    assert not Path("runs").exists()


@pytest.mark.parametrize("objective", ["simcse", "mpt"])
def test_a_margin_in_degrees_says_what_takes_degrees(contrast: Contrast, objective: str) -> None:
    words = ("config", "show", "--objective", objective, "--margin", "5")
    answer = contrast(*words)
    refused(answer, 2, "objective.margin is 5.0 (--margin)", "for degrees: --")
    option, *names = answer.err.splitlines()[-1].rpartition("for degrees: ")[2].replace(" or ", " ").split()
    for name in names:
        assert re.search(r"^objective.margin +5 +--margin +m degrees", contrast(*words, option, name).out, re.M)


@pytest.mark.usefixtures("hub_cache")
def test_an_unknown_backbone_without_network_is_not_taken_for_a_folder(contrast: Contrast) -> None:
    answer = contrast(*train(*LABELLED, "--backbone", "nobody/nothing"))
    refused(answer, 3, "hub cannot be reached", "hf download nobody/nothing --local-dir DIR, or use ")
    answer = contrast("query", "a", "b", "--model", "all-MiniLM-L6-v2")
    refused(answer, 3, "hub cannot be reached", "hf download sentence-transformers/all-MiniLM-L6-v2 --local-dir DIR")


def test_several_sets_may_be_given_one_by_one(contrast: Contrast) -> None:
    answer = contrast("config", "show", "--data", "a.csv", "--data", "b.csv")
    assert re.search(r"^data.train +a.csv,b.csv +--data", answer.out, re.M)


def test_a_batch_of_one_row_without_a_negative_is_a_note(contrast: Contrast) -> None:
    answer = contrast(*train(*SENTENCES, "--batch-size", "1", "--dry-run"))
    assert answer.code == 0 and "no anchor has a negative in a batch of 1: give more" in answer.out


@pytest.mark.parametrize("role", ["anchor", "positive"])
def test_the_negatives_of_an_anchor_are_counted_without_rows_that_share_a_text(contrast: Contrast, role: str) -> None:
    def counted(shared: int, *more: str) -> str:
        rows = ({"anchor": f"a{n}", "positive": f"p{n}"} | ({role: "one"} if n < shared else {}) for n in range(100))
        Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = ("--data", "rows.jsonl", "--dev", "none", "--batch-size", "11", *more)
        return contrast(*train(*words, "--objective", "simcse", "--dry-run")).out

    hint = "no anchor has a negative in a batch of 11 on average, since most rows share a text: give others"
    assert ", 10 negatives per anchor" in counted(0)
    # 50 · 49 of 100 · 99 pairs of rows share it.
    assert ", 8 negatives per anchor" in (half := counted(50)) and hint not in half
    assert ", 0 negatives per anchor" in (all_but_one := counted(99)) and hint in all_but_one
    assert ", 10 negatives per anchor" in counted(99, "--set", "data.mask_duplicates=false")


def test_rows_of_one_label_are_a_note_where_a_classification_learns_from_them(contrast: Contrast) -> None:
    Path("same.tsv").write_text("premise\thypothesis\tlabel\nba\tda\te\nfa\tga\te\n")
    words = train("--data", "same.tsv", "--dev", "none", "--objective", "pairsupcon", "--batch-size", "2", "--dry-run")
    note = "every row has the label entailment: a classification of the pairs learns nothing from it"
    answers = [contrast(*words), contrast(*words, "--classification", "false")]
    assert [(answer.code, note in answer.out) for answer in answers] == [(0, True), (0, False)]
