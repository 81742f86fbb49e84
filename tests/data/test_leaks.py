"""Texts of the dev set among the training texts: named, dropped or refused."""

from __future__ import annotations

import time

import pytest

from contrastcli.data.examples import Examples
from contrastcli.data.leaks import check_leaks
from contrastcli.errors import DataError

ROWS = Examples(
    "triplets",
    {
        "anchor": ["How do I pay?", "b", "c", "d"],
        "positive": ["p", "q", "By  card\t", "s"],
        "negative": ["", "x", "y", "z"],
    },
    None,
    "rows",
)
DEV = ["how do i PAY?", "by card", "unseen", ""]


def test_rows_with_a_dev_text_are_counted_and_named_whatever_their_case_and_spaces() -> None:
    rows = check_leaks(ROWS, DEV, "note")
    assert rows.views == ROWS.views
    (note,) = rows.notes
    assert note.startswith(
        "2 of 4 training rows hold a text of the dev set: 'How do I pay?', 'By  card\t'; --leaks drop"
    )


def test_dropped_rows_are_gone_and_counted() -> None:
    rows = check_leaks(ROWS, DEV, "drop")
    assert rows.views == {"anchor": ["b", "d"], "positive": ["q", "s"], "negative": ["x", "z"]}
    assert rows.notes[0].startswith("2 of 4 training rows") and rows.notes[0].endswith("they were dropped")


def test_a_leak_may_be_an_error() -> None:
    with pytest.raises(DataError, match="2 of 4 training rows hold a text") as caught:
        check_leaks(ROWS, DEV, "error")
    assert "--leaks drop" in caught.value.hint
    with pytest.raises(DataError, match="4 of 4 training rows"):
        check_leaks(ROWS, ["p", "q", "x", "y", "z", "How do I pay?"], "drop")


def test_three_texts_are_named_and_the_others_counted() -> None:
    rows = check_leaks(ROWS, ["p", "q", "s", "x", "y"], "note")
    assert "'p', 'q', 's' and 2 more texts" in rows.notes[0]


def test_clean_rows_are_left_as_they_are() -> None:
    assert check_leaks(ROWS, ["unseen"], "error") is ROWS


def test_a_million_texts_take_a_few_seconds() -> None:
    texts = [f"a sentence of some words, number {n}" for n in range(500_000)]
    rows = Examples("pairs", {"anchor": texts, "positive": texts}, None, "rows")
    began = time.process_time()
    check_leaks(rows, texts[:1000], "note")
    assert time.process_time() - began < 10
