"""Columns get their role by name or by the user's word, never by order; labels, scores and sentences are checked."""

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from contrastcli.data.examples import Examples, preview
from contrastcli.data.relevance import documents_of
from contrastcli.data.roles import shape
from contrastcli.data.sources import load_examples, load_sentences, open_frame
from contrastcli.errors import ContrastError, DataError, UsageError
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Data
from contrastcli.settings.setting import join_items
from support.tables import scored_pairs

ANY: tuple[Form, ...] = ("sentences", "pairs", "triplets", "labelled")


pytestmark = pytest.mark.usefixtures("cwd")


def write(*lines: str, name: str = "a.tsv") -> str:
    """A file of these lines; each | of a .tsv is a tab."""
    text = "\n".join(lines) + "\n"
    Path(name).write_text(text.replace("|", "\t") if name.endswith(".tsv") else text, encoding="utf-8")
    return name


def load(
    *lines: str, name: str = "a.tsv", needs: tuple[Form, ...] = ANY, columns: str = "", labels: str = ""
) -> Examples:
    """The rows of such a file, in whatever form they have."""
    return load_examples(Data(train=write(*lines, name=name), columns=columns, labels=labels), needs, ())


def refused(error: type[ContrastError], *lines: str, what: str = "", hint: str = "", **words: Any) -> ContrastError:
    """The error of such a file."""
    with pytest.raises(error) as caught:
        load(*lines, **words)
    assert what in caught.value.what and hint in caught.value.hint
    assert "\n" not in caught.value.what + caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("TEXT", "sentences"),
        ("sent0", "sentences"),
        ("sentence1|sentence2", "pairs"),
        ("Premise|Hypothesis", "pairs"),
        ("sent0|sent1|hard_neg", "triplets"),
        ("anchor|positive|negative", "triplets"),
    ],
)
def test_the_names_of_columns_make_the_form(header: str, form: str) -> None:
    width = header.count("|") + 1
    rows = load(header, "|".join("abc"[:width]), "|".join("def"[:width]))
    assert (rows.form, rows.labels) == (form, None)
    assert list(rows.views.values()) == [["a", "d"], ["b", "e"], ["c", "f"]][:width]
    assert list(rows.views) == ["anchor", "positive", "negative"][:width]


def test_columns_that_the_user_names_precede_known_names() -> None:
    lines = ("sentence1|sentence2|question|answer", "a|b|c|d", "e|f|g|h")
    rows = load(*lines, columns="anchor=question, positive=answer")
    assert rows.views == {"anchor": ["c", "g"], "positive": ["d", "h"]}
    assert load(*lines, columns="premise=answer,hypothesis=sentence1").views["anchor"] == ["d", "h"]
    assert load(*lines, columns="sentence=answer").form == "sentences"
    columns = "anchor=question,positive=answer,negative_1=sentence2,negative_2=sentence1"
    assert load(*lines, columns=columns).views.items() >= {"negative": ["b", "f"], "negative_2": ["a", "e"]}.items()


REMEDIES = {
    "scored pairs": (
        ("score|sentence1|sentence2", "1|a|b", "2|c|d"),
        "a.tsv holds scored pairs ('score' is the score)",
        "anchor=sentence1,positive=sentence2",
        [("a", "b"), ("c", "d")],
    ),
    "triplets with one score": (
        ("anchor|positive|score|negative_1|negative_2", "a|b|1|c|d", "e|f|2|g|h"),
        "a.tsv holds scored pairs",
        "anchor=anchor,positive=positive,negative=negative_1,negative_2=negative_2",
        [("a", "b", "c", "d"), ("e", "f", "g", "h")],
    ),
    "two anchors": (
        ("anchor|premise|positive", "a|b|c", "d|e|f"),
        "'anchor' and 'premise' could both be the anchor",
        "anchor=anchor,positive=positive",
        [("a", "c"), ("d", "f")],
    ),
}


@pytest.mark.parametrize("case", REMEDIES)
def test_the_remedy_for_columns_that_are_not_clear_works(case: str) -> None:
    lines, what, columns, expected = REMEDIES[case]
    refused(DataError, *lines, what=what, hint=f"--columns {columns}")
    assert [*zip(*load(*lines, columns=columns).views.values(), strict=True)] == expected


BAD_COLUMNS = {
    "no role": ("foo|bar", "", DataError, "its columns 'foo', 'bar' make neither", "--columns anchor=foo,positive=bar"),
    "a row as header": ("3|ba", "", DataError, "'3', 'ba' make neither", "if the first line is a row, write one above"),
    "a sentence as header": ("ba " * 20, "", DataError, "make neither", "write one above it"),
    "a place in a row": (f"{'ba ' * 99}|x", "anchor=1,text=2", DataError, f"but {'ba ' * 16}ba…, x", "write one above"),
    "a positive alone": ("positive|x", "", DataError, "'positive', 'x' make neither", "anchor=x,positive=positive"),
    "a label beside texts": ("label|a|b", "", DataError, "make neither", "anchor=a,positive=b,label=label"),
    "an anchor alone": ("x|y", "anchor=y", DataError, "half of a pair", "anchor=y,positive=x, or for sentences"),
    "a positive alone of others": ("x|y|z", "positive=y,id=z", DataError, "half of a pair", "anchor=x,positive=y,id=z"),
    "a negative without a positive": ("anchor|negative", "", DataError, "make neither", "--columns text=anchor"),
    "one column": ("foo", "", DataError, "its columns 'foo' make neither", "for sentences --columns text=foo"),
    "many": ("|".join(f"c{n}" for n in range(200)), "", DataError, "'c19' and 180 more make neither", "anchor=c"),
    "three of a role": ("Label|LABEL|anchor", "", DataError, "'Label' and 'LABEL' could both be", "label=Label"),
    "a sentence and an anchor": ("text|anchor", "", DataError, "'text' makes rows of one sentence", "text=text"),
    "a sentence and a positive": ("text|text_pos", "", DataError, "makes pairs", "anchor=text,positive=text_pos"),
    "no such column": ("anchor|positive", "anchor=ancor", DataError, "no column 'ancor'", "did you mean 'anchor'?"),
    "a column that is a role": ("anchor|positive", "anchor=query", DataError, "no column 'query'", "known: anchor"),
    "no such role": ("anchor|positive", "ancor=anchor", UsageError, "no role 'ancor'", "did you mean 'anchor'?"),
    "columns without roles": ("a|b", "a,b", UsageError, "data.columns is 'a,b'", "--columns anchor=a,positive=b"),
    "a role twice": ("a|b", "anchor=a,premise=b", UsageError, "the role 'anchor' twice", "one column"),
    "a key twice": ("a|b", "anchor=a,anchor=b", UsageError, "'anchor' twice", "anchor=a,positive=b"),
    "a label next to a score": (
        "a|b|c|d",
        "anchor=a,positive=b,label=c,score=d",
        UsageError,
        "scored pairs (sentence1, sentence2, score) have no label",
        "--columns anchor=a,positive=b,score=d, or keep it without the score: --columns anchor=a,positive=b,label=c",
    ),
    "a role of another form": ("a|b", "text=a,score=b", UsageError, "sentences have no score", "--columns sentence=a"),
    "no column": ("a|b", "anchor=", UsageError, "data.columns is 'anchor='", "anchor=a,positive=b"),
    "an empty item": ("a|b", "anchor=a,", UsageError, "data.columns is 'anchor=a,'", "anchor=a,positive=b"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_columns_without_a_clear_role_are_refused(case: str) -> None:
    header, columns, error, what, hint = BAD_COLUMNS[case]
    row = "|".join("x" * (header.count("|") + 1))
    assert refused(error, header, row, row, what=what, hint=hint, columns=columns).key == "data.columns"


@pytest.mark.parametrize("name", ["a, b", "a=b, c", 'say "a"', '"a"', "[bold]a[/]", "a;b", "ä ", "line\nbreak"])
def test_a_column_can_be_named_whatever_it_is_called(name: str) -> None:
    lines = [json.dumps({"x": n, name: f"text {n}"}) for n in range(3)]
    rows = load(*lines, name="a.jsonl", columns=join_items([f"text={name}"]))
    assert rows.views == {"anchor": ["text 0", "text 1", "text 2"]}


def test_a_column_without_a_name_is_called_by_its_number() -> None:
    rows = load("|positive||anchor", "7|b|x|a", "8|d|x|c", columns="anchor=anchor,positive=positive,id=column 1")
    assert list(rows.ids or ()) == ["7", "8"] and "columns not used: column 3" in rows.notes


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (["anchor|positive", "a|", "c|d"], "data.blank"),
        (["premise|hypothesis|label", "a|b|7", "c|d|8"], "data.labels"),
        (["text", "a"], "data.train"),
        (["score|sentence1|sentence2", "1|a|b", "2|c|d"], "objective.name"),
    ],
)
def test_other_errors_of_rows_carry_the_setting_that_helps(lines: list[str], key: str) -> None:
    assert refused(DataError, *lines).key == key


def test_white_space_around_a_text_goes_and_within_stays() -> None:
    rows = load("text", "  one  two ", "\u00a0three\u3000")
    assert rows.views["anchor"] == ["one  two", "three"]


LABELLED = "premise|hypothesis|label"
HEADER = "query|positive|negative_1|negative_2|score|negative_score_1|negative_score_2"
SCORED_ROWS = ("a|b|c|d|9.5|-3|0.25", "e|f|g|h|1|2|3e-1")
TAUGHT: tuple[Form, ...] = ("scored-triplets",)
NAMES = "with entailment, neutral or contradiction for each …: --labels "
ALIKE = "if they say how alike the two are: --columns anchor=premise,positive=hypothesis,score=label"
NO_LABELS = ("0", "0=", "=entailment", "0=entailment,0=neutral", "0=entailment,")
NO_TEXTS = ("3", "true", "[3]", '[["a"]]', '{"a": 1}')

REFUSED: list[tuple[tuple[str, ...], dict[str, Any], str, str]] = [
    # Blank texts.
    *((("anchor|positive", "a|b", f"c|{blank}"), {}, "a.tsv, line 3: the sentence in the column 'positive' is", "fill")
      for blank in ("", "   ", "\u00a0\u2003")),
    # Labels that nobody named, and names that are none.
    ((LABELLED, "a|b|e", "c|d|0"), {}, "line 3: the label in the column 'label' is '0'", f"{NAMES}'0=…'"),
    ((LABELLED, "a|b|e", "c|d|0"), {}, "line 3: the label", ALIKE),
    ((LABELLED, "a|b|e", "c|d|"), {}, "line 3: the label in the column 'label' is ''", "write a label into each row"),
    ((LABELLED, "a|b|e", "c|d|related"), {}, "is 'related'", "--labels 'related=…'"),
    ((LABELLED, "a|b|0", "c|d|3"), {"labels": "0=entailment"}, "line 3: the label", "'0=entailment,3=…'"),
    ((LABELLED, "a|b|2", "c|d|0", "e|f|1"), {}, "the label in", "--labels 0=entailment,1=neutral,2="),
    ((LABELLED, "a|b|yes", "c|d|no"), {}, "the label in", "--labels 'no=…,yes=…'"),
    ((LABELLED, "a|b|Y", "c|d|N"), {}, "the label in", "--labels 'n=…,y=…'"),
    ((LABELLED, "a|b|yes", "c|d|N"), {}, "the label in", "--labels 'n=…,yes=…'"),
    ((LABELLED, "a|b|0"), {"labels": "0=maybe"}, "data.labels", "with entailment, neutral or contradiction for each"),
    *(((LABELLED, "a|b|0"), {"labels": labels}, "data.labels", "0=entailment,1=neutral") for labels in NO_LABELS),
    # Values that are no texts.
    *((('{"text": "a"}', f'{{"text": {cell}}}'), {"name": "a.jsonl"}, "a.jsonl, line 2: the column 'text' holds", "")
      for cell in NO_TEXTS),
    # Lists and objects, next to what can be read.
    (('[{"query": ["i", "a"], "pos": ["b"]}]',), {"name": "a.json"}, "the column 'query' are lists", "write"),
    (('[{"ids": [1, 2], "questions": ["a", "b"]}]',), {"name": "a.json"}, "", "--columns text=questions"),
    (('[{"query": "a", "answers": ["b"], "passages": {"text": ["c"]}}]',), {"name": "a.json"}, "", "positive=answers"),
    (('[{"query": "a", "all": ["b", "c d"], "one": "b"}]',), {"name": "a.json"}, "", "anchor=query,positive=one"),
    (('[{"paragraphs": [{"context": "c"}]}]',), {"name": "a.json"}, "", "--columns text=paragraphs"),
    # Half of a pair.
    (("premise|second|label", *["a dog runs|an animal moves|entailment"] * 3), {}, "neither sentences nor pairs",
     "--columns anchor=premise,positive=second"),
    # Negatives without scores of a teacher.
    ((HEADER, "a|b|c|d|9|1|2", "e|f|g||9|1|2"), {"needs": TAUGHT}, "not every negative has a score", "as many"),
    ((HEADER.removesuffix("|negative_score_2"), "a|b|c|d|9|1"), {"needs": TAUGHT}, "negative_score_1", "as many"),
    ((HEADER, "a|b|c|d|9|1|2", "e|f|g|h|9||2"), {"needs": TAUGHT}, "line 3: the score in the column", "finite"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "words", "what", "hint"), REFUSED)
def test_rows_that_cannot_be_read_are_refused_with_the_remedy(
    lines: tuple[str, ...], words: dict[str, Any], what: str, hint: str
) -> None:
    refused(UsageError if what == "data.labels" else DataError, *lines, what=what, hint=hint, **words)


WORDS = [
    ("Entailment NEUTRAL Contradiction", "", [0, 1, 2]),
    ("c n e", "", [2, 1, 0]),
    ("0 1 2", "0=contradiction,1=neutral,2=entailment", [2, 1, 0]),
    ("yes no maybe", "Yes=entailment, no=contradiction, maybe=n", [0, 2, 1]),
    ("e n x", "x=contradiction", [0, 1, 2]),
    ("1 -1", "1=entailment,-1=contradiction", [0, 2]),
]


@pytest.mark.parametrize(("words", "labels", "expected"), WORDS)
def test_labels_by_their_names(words: str, labels: str, expected: list[int]) -> None:
    rows = load("premise|hypothesis|label", *(f"p{n}|h|{word}" for n, word in enumerate(words.split())), labels=labels)
    assert rows.form == "labelled"
    assert rows.labels == expected


@pytest.mark.parametrize("word", ["-", "-1"])
def test_rows_without_a_gold_label_are_dropped_and_counted(word: str) -> None:
    rows = load("premise|hypothesis|label", "a|b|e", f"c|d|{word}", "e|f|c")
    assert rows.views == {"anchor": ["a", "e"], "positive": ["b", "f"]}
    assert rows.labels == [0, 2]
    assert "1 of 3 rows without a gold label were dropped" in rows.notes


def classes(*labels: str) -> list[str]:
    """The positives of texts with these labels, as they stand in JSON."""
    lines = (f'{{"query": "q{n}", "label": {label}}}' for n, label in enumerate(labels))
    return list(load(*lines, name="a.jsonl").views["positive"])


def test_the_class_of_a_text_is_its_positive() -> None:
    """Also a code; it is no relation of two texts, which 11=entailment would claim."""
    lines = ("text|answer|code", *(f"t{n}|a{n}|{n}{n}" for n in (1, 2, 3, 4)))
    assert load(*lines, columns="text=answer,label=code").row(0) == {"anchor": "a1", "positive": "11"}
    assert classes("7", "8.0", '"9.0"', "true", "-1") == ["7", "8", "9", "True", "-1"]
    assert classes('["a", "b"]', '["c"]') == ["a", "b", "c"]
    assert classes('"-"', '"a"', '"b"') == ["a", "b"], "which datasets has for none"
    named = load("text|label", "a|0", "b|1.0", "c|2", labels="0=bad,1=good")
    assert list(named.views["positive"]) == ["bad", "good", "2"]
    assert named.notes[-1] == "classes that are numbers without a name: 1; --labels 2=NAME,… names them"
    typo = load("text|label", "a|sport", "b|news", labels="sport=Sports,nwes=News").notes[-1]
    assert typo == "no row has the label nwes that --labels names"
    assert "--labels 7=NAME,…" in load("text|label", "a|10", "b|7", "c|good").notes[-1]
    assert "--labels" not in load("text|label", "a|bad", "b|good").notes[-1]
    assert load("anchor|positive", "a|b", "c|d", labels="0=bad,1=good").form == "pairs", "such as a general set"
    columns = "anchor=text,positive=answer,label=code"
    refused(DataError, *lines, columns=columns, what="the label in", hint="--labels 0=contradiction,1=entailment")


@pytest.mark.parametrize("blank", ["null", '""', "NaN"])
def test_a_text_without_a_class_is_refused_or_left_out(blank: str) -> None:
    with pytest.raises(DataError, match=r"line 2: the label in the column 'label' is blank") as caught:
        classes('"a"', blank, '"b"')
    assert "--blank drop" in caught.value.hint and "--columns text=query" in caught.value.hint
    rows = load_examples(Data(train="a.jsonl", blank="drop"), ANY, ())
    assert rows.row(1) == {"anchor": "q2", "positive": "b"} and rows.row_numbers.tolist() == [1, 3]
    with pytest.raises(DataError, match="'label' are no two classes"):
        classes('"a"', '"a"')


def test_a_document_has_the_number_of_its_row_in_the_file() -> None:
    documents = documents_of(load("anchor|positive|negative", "a|b|c", "d|e|f"))
    assert list(documents.views["anchor"]) == ["b", "e", "c", "f"] and documents.row_numbers.tolist() == [1, 2, 1, 2]


def test_texts_are_read_without_their_classes_where_those_are_not_learnt() -> None:
    lines = ("text|label", "a|x", "b|y")
    assert load(*lines, columns="text=text").form == "sentences"
    for rows in (load(*lines, needs=("sentences",)), load_sentences("a.tsv")):
        assert list(rows.views["anchor"]) == ["a", "b"] and "columns not used: label" in rows.notes


def test_the_label_of_a_text_beside_another_text_is_no_class() -> None:
    lines = ("text|text_pair|label", *(f"a dog runs {n}|an animal moves {n}|{n}" for n in range(3)))
    assert "columns not used: text_pair, label" in load(*lines).notes
    assert load(*lines, columns="text=text,label=label").read_as == "classes"


def test_labels_in_json_may_be_numbers() -> None:
    rows = [f'{{"premise": "p", "hypothesis": "h{label}", "label": {label}}}' for label in ("1", "1.0")]
    assert load(*rows, name="a.jsonl", labels="1=contradiction").labels == [2, 2]


def test_scores_are_not_rescaled() -> None:
    pairs = scored_pairs(write("sentence2|nr|score|sentence1", "b|1|4.75|a", "d|2|-1e-3|c"))
    assert (pairs.first, pairs.second, pairs.scores) == (["a", "c"], ["b", "d"], [4.75, -0.001])
    assert pairs.notes == ("columns not used: nr",)


@pytest.mark.parametrize("score", ["high", "", "nan", "inf", "-Infinity", "4,5,6"])
def test_a_score_that_is_no_finite_number_is_named_by_file_and_line(score: str) -> None:
    path = write("sentence1|sentence2|score", "a|b|1", f"c|d|{score}", "e|f|2")
    with pytest.raises(DataError) as caught:
        scored_pairs(path)
    assert f"a.tsv, line 3: the score in the column 'score' is '{score}'" in caught.value.what
    assert caught.value.hint == "write a finite number into each row, or leave them out with --blank drop"
    kept = scored_pairs(path, "drop")
    assert kept.scores == [1, 2] and kept.notes == ("1 of 3 rows without a number as score were dropped",)
    with pytest.raises(DataError) as caught:
        scored_pairs(write("sentence1|sentence2|score", f"a|b|{score}"), "drop")
    assert caught.value.hint == "write a finite number into each row"


def test_a_score_or_label_is_named_alone_where_the_other_columns_are_known_by_name() -> None:
    rows = load("premise|hypothesis|score|own", "a|b|1|0.5", "c|d|1|2", needs=("scored",), columns="score=own")
    assert rows.scores == [0.5, 2] and rows.views == {"anchor": ["a", "c"], "positive": ["b", "d"]}
    rows = load("sentence_A|sentence_B|score|judgment", "a|b|4.5|ENTAILMENT", "c|d|1|NEUTRAL", columns="label=judgment")
    assert rows.form == "labelled" and rows.labels == [0, 1]


def test_decimals_stand_behind_a_comma_too_unless_it_may_be_of_thousands() -> None:
    def scores(cells: str) -> list[float]:
        path = write("sentence1|sentence2|score", *(f"a|b|{cell}" for cell in cells.split()))
        return scored_pairs(path, "drop").scores

    assert scores("4,75 0 -0,5") == [4.75, 0, -0.5]
    assert scores("1 1,250 0,125") == [1, 1.25, 0.125]
    with pytest.raises(DataError, match=r"lines 3, 4: .* is '1,200' or '12,500'"):
        scores("950 1,200 12,500")


@pytest.mark.parametrize("score", ["null", "NaN", "[1]", "1" + "0" * 400])
def test_a_score_in_json_is_a_finite_number_too(score: str) -> None:
    lines = [f'{{"sentence1": "a", "sentence2": "b", "score": {one}}}' for one in ("1", score)]
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: "):
        scored_pairs(write(*lines, name="a.jsonl"))


def test_dev_data_needs_scores_that_differ() -> None:
    with pytest.raises(DataError, match="all 2 scores are 1, so that they rank nothing"):
        scored_pairs(write("sentence1|sentence2|score", "a|b|1", "c|d|1"))


@pytest.mark.parametrize("name", ["negative", "hard_neg"])
def test_several_hard_negatives_stand_in_numbered_columns(name: str) -> None:
    header = f"{name}_10|{name}_2|anchor|positive|{name}_1"
    rows = load(header, "j|c|a|p|b", "||d|q|e", "k||f|r|")
    assert rows.form == "triplets"
    assert {view: texts for view, texts in rows.views.items() if view.startswith("negative")} == {
        "negative": ["b", "e", "k"],
        "negative_2": ["c", "", ""],
        "negative_3": ["j", "", ""],
    }
    assert "each row has 1 to 3 hard negatives" in rows.notes
    assert preview(rows)[1] == {"anchor": "d", "positive": "q", "negative": "e"}


def test_several_hard_negatives_may_be_a_list() -> None:
    def pairs(*lists: str) -> list[str]:
        return [f'{{"anchor": "a", "positive": "p", "negatives": {negatives}}}' for negatives in lists]

    rows = load(*pairs('["b", " c "]', "[]"), name="a.jsonl")
    assert rows.views["negative"] == ["b", ""] and rows.views["negative_2"] == ["c", ""]
    assert "each row has 0 to 2 hard negatives" in rows.notes
    assert any(note.endswith("rows have no hard negative") for note in rows.notes)
    rows = load("anchor\tpositive\tnegative", "a\tb\tc", "d\te\t")
    assert rows.views["negative"] == ["c", ""] and "1 of 2 rows have no hard negative" in rows.notes
    scored = "anchor\tpositive\tnegative\tscore\tnegative_score", "a\tb\tc\t1\t0", "d\te\t\t1\t0"
    refused(DataError, *scored, what="the sentence in the column 'negative' is blank")
    with pytest.raises(DataError, match=r"line 1.* holds 3, which is not text"):
        load(*pairs('["b", 3]'), name="a.jsonl")
    refused(DataError, *pairs("[]"), name="a.jsonl", what="no row has a negative in negatives")


@pytest.mark.parametrize("cell", ["the cat sat on the mat", "猫はマットの上に座った"])
def test_an_anchor_next_to_other_texts_is_half_of_a_pair(cell: str) -> None:
    rows = "query|context", *(f"{n}|{cell}" for n in "abc")
    refused(DataError, *rows, what="make neither sentences nor pairs", hint="anchor=query,positive=context")
    assert load(*rows, columns="text=query").views == {"anchor": ["a", "b", "c"]}


def test_columns_of_numbers_alone_are_offered_as_no_texts() -> None:
    Dataset.from_dict({"uid": [1, 2], "value": [0.5, None]}).to_parquet("rows.parquet")
    with pytest.raises(DataError, match="make neither") as caught:
        load_examples(Data(train="rows.parquet"), ANY, ())
    assert "--columns" not in caught.value.hint and "these hold numbers" in caught.value.hint


@pytest.mark.parametrize("cell", ["2024-02-29 23:59:59", "https://example.org/a-page-of-letters", "Home", "", "0.5"])
def test_an_anchor_next_to_dates_links_or_classes_is_a_sentence(cell: str) -> None:
    assert load("query|more", *(f"{n}|{cell}" for n in "abc")).views == {"anchor": ["a", "b", "c"]}


@pytest.mark.parametrize(
    "names", [("question", "positive_ctxs", "hard_negative_ctxs"), ("query", "positive_passages", "negative_passages")]
)
def test_passages_are_read_as_dpr_and_tevatron_write_them(names: tuple[str, str, str]) -> None:
    anchor, positive, negative = names
    passages = [{"title": "T", "text": "b", "score": 1}, {"title": "", "text": "c"}, {"text": "d"}]
    rows = [
        {anchor: "a", positive: passages[:1], negative: passages[1:], "answers": ["x"]},
        {anchor: "e", positive: passages[1:2], negative: [], "answers": []},
    ]
    read = load(json.dumps(rows), name="a.json", needs=("triplets",))
    assert [*zip(*read.views.values(), strict=True)] == [("a", "T b", "c", "d"), ("e", "c", "", "")]
    assert "columns not used: answers" in read.notes


@pytest.mark.parametrize(("cells", "form"), [(("3.8", "5"), "scored"), (("1", "0"), "labelled")])
def test_fractions_are_scores_whatever_their_column_is_called(cells: tuple[str, str], form: Form) -> None:
    path = write("sentence1|sentence2|label", *(f"a|b|{cell}" for cell in cells))
    assert shape(open_frame(path, "train"), "", "a.tsv")[0] == form


def test_the_command_of_a_hint_reads_a_compressed_file() -> None:
    Path("l.jsonl.gz").write_bytes(gzip.compress(b'{"set": {"text": "a b"}}\n'))
    with pytest.raises(DataError) as caught:
        load_examples(Data(train="l.jsonl.gz"), ANY, ())
    assert "gzip -dcf l.jsonl.gz | jq -c '" in caught.value.hint


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq")
@pytest.mark.parametrize(
    "turns",
    [
        [("role", "content"), ("system", "be very kind"), ("user", "hi"), ("assistant", "yes")],
        [("role", "content"), ("user", "hi"), ("assistant", "yes"), ("user", "why")],
        [("from", "value"), ("system", "be brief"), ("prompter", "hi"), ("model", "yes")],
    ],
)
def test_the_command_of_a_hint_pairs_a_question_with_its_answer(turns: list[tuple[str, str]]) -> None:
    chat = [dict(zip(turns[0], turn, strict=True)) for turn in turns[1:]]
    error = refused(DataError, *[json.dumps({"chat": chat})] * 2, name="chat.jsonl")
    subprocess.run(error.hint.partition(": ")[2], shell=True, check=True)
    assert json.loads(Path("texts.jsonl").read_text().splitlines()[0]) == {"anchor": "hi", "positive": "yes"}


LISTS = (
    '{"query": "a", "pos": ["p", "q"], "neg": ["b", "c"], "pos_scores": [9, 8.5], "neg_scores": [1, 2], "prompt": ""}',
    '{"query": "d", "pos": ["r"], "neg": ["e", "f"], "pos_scores": [7], "neg_scores": [0.5, 3], "prompt": ""}',
)
"""Rows as BGE's training reads them."""


def test_each_positive_of_a_list_is_a_row_with_its_score_and_the_negatives() -> None:
    rows = load(*LISTS, name="a.jsonl", needs=("triplets",))
    assert [*zip(*rows.views.values(), strict=True)] == [
        ("a", "p", "b", "c"), ("a", "q", "b", "c"), ("d", "r", "e", "f"),
    ]  # fmt: skip
    assert any("2 rows with lists in 'pos'" in note and "are 3 rows" in note for note in rows.notes)
    taught = load(*LISTS, name="a.jsonl", needs=TAUGHT)
    assert taught.candidate_scores is not None and taught.numbers is not None
    assert taught.numbers.tolist() == [1, 1, 2]
    assert taught.candidate_scores.tolist() == [[9, 1, 2], [8.5, 1, 2], [7, 0.5, 3]]
    several = "line 1: 'pos' or 'pos_scores' have lists of several lengths"
    refused(DataError, LISTS[0].replace("[9, 8.5]", "[9]"), LISTS[1], name="a.jsonl", needs=TAUGHT, what=several)
    none = LISTS[1].replace('["r"]', "[]").replace("[7]", "[]")
    blank = "line 2: the sentence in the column 'pos' is blank"
    refused(DataError, LISTS[0], none, name="a.jsonl", needs=("triplets",), what=blank)


@pytest.mark.parametrize("cell", ["['b', \"c\", 'd']", '["b"]', "[ 'a\\nb' ]"])
def test_lists_that_a_program_wrote_as_text_are_no_texts(cell: str) -> None:
    lines = ["anchor|positive", *(f"{number}|{cell}" for number in range(5))]
    refused(DataError, *lines, what="the column 'positive' holds lists written as text")
    assert load(*lines, "6|no list").views["positive"][5] == "no list"


def test_a_row_may_be_a_list_of_its_texts() -> None:
    lines = ['["a", "p", "b"]', '["d", "q", "e"]']
    for rows in (load(*lines, name="a.jsonl"), load(f"[{','.join(lines)}]", name="a.json")):
        assert rows.form == "triplets"
        assert [*zip(*rows.views.values(), strict=True)] == [("a", "p", "b"), ("d", "q", "e")]


def test_each_of_several_hard_negatives_becomes_a_contradiction() -> None:
    path = write("anchor|positive|negative_1|negative_2", "a|p|b|c", "d|q|e|")
    rows = load_examples(Data(train=path), ("labelled",), (0, 2))
    assert list(zip(rows.views["anchor"], rows.views["positive"], rows.labels or (), strict=True)) == [
        ("a", "p", 0), ("a", "b", 2), ("a", "c", 2), ("d", "q", 0), ("d", "e", 2),
    ]  # fmt: skip
    sentences = load_examples(Data(train=path), ("sentences",), ()).views["anchor"]
    assert sentences == ["a", "p", "b", "c", "d", "q", "e"]


def test_scored_pairs_are_rows_for_an_objective_that_learns_from_scores() -> None:
    lines = ("score|sentence1|sentence2|genre", "5|a|b|x", "0|c|d|x", "2.5|a|e|x")
    rows = load(*lines, needs=("scored",))
    assert rows.form == "scored" and rows.views == {"anchor": ["a", "c", "a"], "positive": ["b", "d", "e"]}
    assert rows.scores == [5.0, 0.0, 2.5]
    assert preview(rows)[2] == {"anchor": "a", "positive": "e", "score": "2.5"}
    with pytest.raises(DataError, match=r"holds sentences.*, where scored pairs .* are needed"):
        load("one", "two", name="b.txt", needs=("scored",))


def test_a_teachers_scores_of_positive_and_negatives_make_scored_triplets() -> None:
    rows = load(HEADER, *SCORED_ROWS, needs=TAUGHT)
    assert (rows.form, [*rows.views]) == ("scored-triplets", ["anchor", "positive", "negative", "negative_2"])
    assert rows.candidate_scores is not None and rows.scores is None
    assert rows.candidate_scores.tolist() == [[9.5, -3, 0.25], [1, 2, pytest.approx(0.3)]]
    texts = {"anchor": "a", "positive": "b", "negative": "c", "negative_2": "d"}
    assert preview(rows)[0] == texts | {"score": "9.5, -3, 0.25"}
    header = "anchor|positive|hard_neg|score|neg_score"
    one, other = (load(header, "a|b|c|1|0", f"e|f|g|1|{score}", needs=TAUGHT) for score in (0, 2))
    assert one.candidate_scores is not None and one.candidate_scores.shape == (2, 2)
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("form", ["triplets", "labelled", "pairs", "sentences"])
def test_scored_triplets_become_what_triplets_do(form: Form) -> None:
    rows = load(HEADER, *SCORED_ROWS, needs=(form,))
    plain = load(*("|".join(line.split("|")[:4]) for line in (HEADER, *SCORED_ROWS)), needs=(form,))
    assert (rows.form, rows.views, rows.labels) == (form, plain.views, plain.labels)
    assert rows.candidate_scores is None and rows.fingerprint == plain.fingerprint


@pytest.mark.parametrize("columns", ["", "anchor=anchor,positive=positive,negative=negative,score=score"])
def test_one_score_of_a_triplet_is_its_pairs_or_for_a_teachers_student_the_difference_of_two(columns: str) -> None:
    lines = "anchor|positive|negative|score", "a|b|c|11.5", "e|f|g|-2"
    rows = load(*lines, needs=TAUGHT, columns=columns)
    assert rows.candidate_scores is not None and rows.candidate_scores.tolist() == [[11.5, 0], [-2, 0]]
    assert "score is read as the difference of the positive's and the negative's score" in rows.notes
    pairs = load(*lines, needs=("scored",))
    assert (pairs.form, pairs.scores, [*pairs.views]) == ("scored", [11.5, -2], ["anchor", "positive"])
    several = "anchor|positive|score|negative_1|negative_2", "a|b|1|c|d", "e|f|2|g|h"
    refused(
        DataError, *several, needs=TAUGHT, what="not every negative has a score", hint="as many negatives as scores"
    )


def test_a_missing_negative_of_several_is_left_out_with_blank_rows(tmp_path: Path) -> None:
    rows = ["anchor,positive,negative_1,negative_2", "a,b,N/A,c", "d,e,f,g", "h,i,null,"]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    read = load_examples(Data(train=str(tmp_path / "a.csv"), blank="drop"), ANY, ())
    assert [[*texts] for texts in [*read.views.values()][2:]] == [["c", "f", ""], ["", "g", ""]]
