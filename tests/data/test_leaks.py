"""Texts of the dev set among the training texts: named, dropped or refused."""

import json
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from contrastcli.data.examples import Examples
from contrastcli.data.findings import check_leaks
from contrastcli.data.relevance import from_rows
from contrastcli.errors import DataError
from support.command import Contrast, refused, sentences, train
from support.tables import texts

VIEWS = {"anchor": ["How do I pay?", "b", "c", "d"], "positive": ["p", "q", "By  card\t", "s"]}
TRIPLETS = VIEWS | {"negative": ["", "x", "y", "z"]}
ROWS = Examples("triplets", texts(**TRIPLETS), None, "rows")
DEV = ["how do i PAY?", "by card", "unseen", ""]

LONG, SHARED = "Long " * 30, {"anchor": ["a", "b", "c", "d"], "positive": ["x", "y", "x", "y"]}
NOTES: dict[str, tuple[dict[str, list[str]], list[str], str]] = {
    "whatever the case and spaces": (VIEWS, DEV, "2 of 4 {}: 'How do I pay?', 'By card'; --leaks drop"),
    "more than are named": (TRIPLETS, ["b", "q", "x", "y", "c"], "2 of 4 {}: 'b', 'c', 'q' and 2 more; --leaks drop"),
    "Turkish capitals": ({"anchor": ["İŞTEKİ STRES", "Kira"]}, ["işteki stres"], "1 of 2 {}: 'İŞTEKİ STRES'"),
    "decomposed letters": ({"anchor": [normalize("NFD", "Lärm"), "Kira"]}, ["LÄRM"], "1 of 2 {}: "),
    # A held-out positive that was mined as a negative of other rows does less harm, and would be most of the note.
    "in a negative alone": (TRIPLETS, ["y", "z", "d", "b"], "3 of 4 {}, 1 of them in a negative alone: "),
    "names of classes, mined too": (SHARED | {"negative": ["y", "x", "y", "x"]}, ["x", "B"], "1 of 4 {}: 'b'; "),
    "every row": (VIEWS, [*VIEWS["anchor"]], "4 of 4 {}: 'How do I pay?', 'b', 'c' and 1 more; name other dev data"),
    "spellings of one, in one line": (
        {"anchor": ["How do I\nreset?", "how do i  RESET?", LONG]},
        ["how do I reset?", LONG],
        f"3 of 3 {{}}: 'How do I reset?', '{LONG[:59]}…'; ",
    ),
}


@pytest.mark.parametrize(("views", "dev", "told"), NOTES.values(), ids=NOTES)
def test_rows_that_hold_a_dev_text_are_counted_and_named(
    views: dict[str, list[str]], dev: list[str], told: str
) -> None:
    rows = check_leaks(Examples("triplets", texts(**views), None, "rows"), dev, "note")
    assert len(rows) == len(views["anchor"]) and rows.notes[0].startswith(
        told.format("training rows hold a text of the dev set")
    )


def test_dropped_rows_are_gone_and_counted() -> None:
    assert check_leaks(ROWS, ["unseen"], "error") is ROWS
    rows = check_leaks(ROWS, DEV, "drop")
    assert rows.views == {"anchor": ["b", "d"], "positive": ["q", "s"], "negative": ["x", "z"]}
    assert rows.notes[0].startswith("2 of 4 training rows") and rows.notes[0].endswith("they were dropped")


@pytest.mark.parametrize(
    ("dev", "leaks", "what", "hint"),
    [
        (DEV, "error", "2 of 4 training rows hold a text", "or leave these rows out with --leaks drop"),
        (VIEWS["anchor"], "error", "4 of 4 training rows", "name other dev data"),
        (VIEWS["anchor"], "drop", "too few are left to train on", "or train on these rows with --leaks note"),
    ],
)
def test_a_leak_may_be_an_error(dev: list[str], leaks: Literal["drop", "error"], what: str, hint: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        check_leaks(ROWS, dev, leaks)
    assert caught.value.hint.endswith(hint)


def test_an_answer_to_several_queries_is_known_to_all_and_no_leak() -> None:
    held = Examples("pairs", texts(anchor=["a", "b", "c"], positive=["shared", "shared", "own"]), None, "held")
    views = texts(anchor=["A", "x", "y", "z"], positive=["p", "shared", "OWN", "q"])
    rows = check_leaks(Examples("pairs", views, None, "rows"), from_rows(held, None, "map").texts, "drop")
    assert rows.views == {"anchor": ["x", "z"], "positive": ["shared", "q"]}


def test_a_resumed_run_has_the_rows_of_its_start(contrast: Contrast) -> None:
    rows = [json.loads(line) for line in Path("tiny/dev.jsonl").read_text().splitlines()]
    leaked = f"{rows[0]['sentence1'].upper()}\n{rows[1]['sentence2']}\n"
    Path("own.txt").write_text(leaked + "\n".join(sentences()) + "\n")
    words = train("--objective", "simcse", "--data", "own.txt", "--leaks")
    told = f"2 of 162 training rows hold a text of the dev set: '{rows[0]['sentence1'].upper()[:20]}"
    for choice, left in (("note", 162), ("drop", 160)):
        shown = " ".join(contrast(*words, choice, "--dry-run").out.split())
        assert f"note {told}" in shown and f"per epoch of {left} rows" in shown
    refused(contrast(*words, "error"), 3, told, "--leaks drop")
    assert contrast(*words, "drop", "--name", "one").code == 0
    refused(contrast("train", "--resume", "one", "--leaks", "note"), 2, "a resumed run cannot change data.leaks")
    assert contrast("train", "--resume", "one", "--max-steps", "4").code == 0
    assert told in Path("runs/one/events.jsonl").read_text()
