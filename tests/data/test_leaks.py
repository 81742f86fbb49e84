"""Texts of the dev set among the training texts: named, dropped or refused."""

import json
from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest

from contrastcli.data.examples import Examples
from contrastcli.data.findings import check_leaks
from contrastcli.data.relevance import from_rows
from contrastcli.errors import DataError
from support.command import Contrast, refused, sentences, train
from support.tables import texts

VIEWS = {"anchor": ["How do I pay?", "b", "c", "d"], "positive": ["p", "q", "By  card\t", "s"]}
ROWS = Examples("triplets", texts(**VIEWS, negative=["", "x", "y", "z"]), None, "rows")
DEV = ["how do i PAY?", "by card", "unseen", ""]


def test_rows_with_a_dev_text_are_counted_and_named_whatever_their_case_and_spaces() -> None:
    rows = check_leaks(ROWS, DEV, "note")
    assert rows.views == ROWS.views
    (note,) = rows.notes
    assert note.startswith("2 of 4 training rows hold a text of the dev set: 'How do I pay?', 'By card'; --leaks drop")
    (note,) = check_leaks(ROWS, ["p", "q", "s", "x", "y"], "note").notes
    assert "'p', 'q', 's' and 2 more" in note
    assert check_leaks(ROWS, ["unseen"], "error") is ROWS


def test_turkish_capitals_and_decomposed_letters_are_the_same_text() -> None:
    rows = Examples("sentences", texts(anchor=["İŞTEKİ STRES", normalize("NFD", "Lärm"), "Kira"]), None, "rows")
    (note,) = check_leaks(rows, ["işteki stres", "LÄRM"], "note").notes
    assert note.startswith("2 of 3 training rows")


def test_rows_that_hold_a_dev_text_in_a_negative_alone_are_counted_apart() -> None:
    """A held-out positive that was mined as a negative of other rows does less harm, and would be most of the note."""
    (note,) = check_leaks(ROWS, ["y", "z", "d", "b"], "note").notes
    assert note.startswith("3 of 4 training rows hold a text of the dev set, 1 of them in a negative alone: ")


def test_dropped_rows_are_gone_and_counted() -> None:
    rows = check_leaks(ROWS, DEV, "drop")
    assert rows.views == {"anchor": ["b", "d"], "positive": ["q", "s"], "negative": ["x", "z"]}
    assert rows.notes[0].startswith("2 of 4 training rows") and rows.notes[0].endswith("they were dropped")


def test_the_name_of_a_class_is_no_leak_nor_one_that_was_mined_as_a_negative() -> None:
    views = texts(anchor=["a", "b", "c", "d"], positive=["x", "y", "x", "y"], negative=["y", "x", "y", "x"])
    (note,) = check_leaks(Examples("triplets", views, None, "rows"), ["x", "B"], "note").notes
    assert note.startswith("1 of 4 training rows hold a text of the dev set: 'b'; ")


def test_a_leak_may_be_an_error() -> None:
    with pytest.raises(DataError, match="2 of 4 training rows hold a text") as caught:
        check_leaks(ROWS, DEV, "error")
    assert "--leaks drop" in caught.value.hint
    with pytest.raises(DataError, match=r"4 of 4 training rows.* too few are left") as caught:
        check_leaks(ROWS, ["p", "q", "x", "y", "z", "How do I pay?"], "drop")
    assert "--leaks note" in caught.value.hint


def test_where_all_rows_leak_none_are_offered_to_be_dropped() -> None:
    texts = [*VIEWS["anchor"], *VIEWS["positive"]]
    assert check_leaks(ROWS, texts, "note").notes[0].endswith("; name other dev data")
    with pytest.raises(DataError) as caught:
        check_leaks(ROWS, texts, "error")
    assert caught.value.hint == "name other dev data"


def test_spellings_of_a_text_are_one_and_a_note_is_one_line_of_beginnings() -> None:
    words = ["How do I\nreset?", "how do i  RESET?", "Long " * 30]
    rows = check_leaks(replace(ROWS, views=texts(anchor=words)), ["how do I reset?", words[2]], "note")
    cut = ("Long " * 30)[:59]
    assert rows.notes[0].startswith(f"3 of 3 training rows hold a text of the dev set: 'How do I reset?', '{cut}…'; ")


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
