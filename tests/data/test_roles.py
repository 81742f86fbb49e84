"""Columns get their role by name or by the user's word, never by order; labels, scores and sentences are checked."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from datasets import Dataset

from contrastcli.data.examples import Examples, preview
from contrastcli.data.lines import likely_header
from contrastcli.data.roles import shape
from contrastcli.data.sources import load_examples, open_frame
from contrastcli.errors import ContrastError, DataError, UsageError
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Data
from contrastcli.settings.setting import join_items
from support.tables import scored_pairs

ANY: tuple[Form, ...] = ("sentences", "pairs", "triplets", "labelled")

Load = Callable[..., Examples]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Reads rows of a .tsv, given its lines with | for tabs, in whatever form they have."""
    monkeypatch.chdir(tmp_path)

    def write_and_load(*lines: str, columns: str = "", labels: str = "") -> Examples:
        Path("a.tsv").write_text("\n".join(lines).replace("|", "\t") + "\n", encoding="utf-8")
        return load_examples(Data(train="a.tsv", columns=columns, labels=labels), ANY, ())

    return write_and_load


def refused(error: type[ContrastError], load: Load, *lines: str, what: str, hint: str, **words: str) -> None:
    with pytest.raises(error) as caught:
        load(*lines, **words)
    assert what in caught.value.what and hint in caught.value.hint
    assert "\n" not in caught.value.what + caught.value.hint


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("sentence", "sentences"),
        ("TEXT", "sentences"),
        ("sent0", "sentences"),
        ("anchor|positive", "pairs"),
        ("sentence1|sentence2", "pairs"),
        ("sent0|sent1", "pairs"),
        ("Premise|Hypothesis", "pairs"),
        ("sent0|sent1|hard_neg", "triplets"),
        ("anchor|positive|negative", "triplets"),
    ],
)
def test_the_names_of_columns_make_the_form(load: Load, header: str, form: str) -> None:
    width = header.count("|") + 1
    rows = load(header, "|".join("abc"[:width]), "|".join("def"[:width]))
    assert (rows.form, rows.labels) == (form, None)
    assert list(rows.views.values()) == [["a", "d"], ["b", "e"], ["c", "f"]][:width]
    assert list(rows.views) == ["anchor", "positive", "negative"][:width]


def test_the_order_of_columns_does_not_matter(load: Load) -> None:
    rows = load("hard_neg|nr|sent1|sent0", "n|7|p|a", "n2|8|p2|a2")
    assert rows.views == {"anchor": ["a", "a2"], "positive": ["p", "p2"], "negative": ["n", "n2"]}
    assert "columns not used: nr" in rows.notes


def test_columns_that_the_user_names_precede_known_names(load: Load) -> None:
    lines = ("sentence1|sentence2|question|answer", "a|b|c|d", "e|f|g|h")
    rows = load(*lines, columns="anchor=question, positive=answer")
    assert rows.views == {"anchor": ["c", "g"], "positive": ["d", "h"]}
    assert load(*lines, columns="premise=answer,hypothesis=sentence1").views["anchor"] == ["d", "h"]
    assert load(*lines, columns="sentence=answer").form == "sentences"


def test_scored_pairs_train_only_where_the_user_says_how(load: Load) -> None:
    lines = ("score|sentence1|sentence2", "1|a|b", "2|c|d")
    suggestion = "--columns anchor=sentence1,positive=sentence2"
    refused(DataError, load, *lines, what="a.tsv holds scored pairs ('score' is the score)", hint=suggestion)
    rows = load(*lines, columns=suggestion.removeprefix("--columns "))
    assert rows.views == {"anchor": ["a", "c"], "positive": ["b", "d"]}


def test_the_remedy_for_triplets_with_one_score_keeps_their_negatives(load: Load) -> None:
    lines = ("anchor|positive|score|negative_1|negative_2", "a|b|1|c|d", "e|f|2|g|h")
    suggestion = "--columns anchor=anchor,positive=positive,negative=negative_1,negative_2=negative_2"
    refused(DataError, load, *lines, what="a.tsv holds scored pairs", hint=suggestion)
    assert load(*lines, columns=suggestion.removeprefix("--columns ")).form == "triplets"


def test_the_remedy_for_ambiguous_columns_works(load: Load) -> None:
    lines = ("anchor|premise|positive", "a|b|c", "d|e|f")
    suggestion = "--columns anchor=anchor,positive=positive"
    refused(DataError, load, *lines, what="'anchor' and 'premise' could both be the anchor", hint=suggestion)
    rows = load(*lines, columns=suggestion.removeprefix("--columns "))
    assert rows.views == {"anchor": ["a", "d"], "positive": ["c", "f"]}


BAD_COLUMNS = {
    "no role": ("foo|bar", "", DataError, "its columns 'foo', 'bar' make neither", "--columns anchor=foo,positive=bar"),
    "a row as header": (
        "3|ba",
        "",
        DataError,
        "'3', 'ba' make neither",
        "if the first line is a row, write one above it",
    ),
    "a sentence as header": ("ba " * 20, "", DataError, "make neither", "write one above it"),
    "a positive alone": ("positive|x", "", DataError, "'positive', 'x' make neither", "anchor=x,positive=positive"),
    "a label beside texts": ("label|a|b", "", DataError, "make neither", "anchor=a,positive=b,label=label"),
    "an anchor alone": ("x|y", "anchor=y", DataError, "half of a pair", "anchor=y,positive=x, or for sentences"),
    "a positive alone of others": ("x|y|z", "positive=y,id=z", DataError, "half of a pair", "anchor=x,positive=y,id=z"),
    "a negative without a positive": ("anchor|negative", "", DataError, "make neither", "--columns text=anchor"),
    "one column": ("foo", "", DataError, "its columns 'foo' make neither", "for sentences --columns text=foo"),
    "three of a role": ("Label|LABEL|anchor", "", DataError, "'Label' and 'LABEL' could both be", "label=Label"),
    "a sentence and an anchor": (
        "text|anchor",
        "",
        DataError,
        "'text' makes rows of one sentence",
        "--columns text=text",
    ),
    "a sentence and a positive": (
        "text|text_pos|text_neg",
        "",
        DataError,
        "'text_pos' makes pairs",
        "--columns anchor=text,positive=text_pos,negative=text_neg",
    ),
    "no such column": ("anchor|positive", "anchor=ancor", DataError, "no column 'ancor'", "did you mean 'anchor'?"),
    "no such role": ("anchor|positive", "ancor=anchor", UsageError, "no role 'ancor'", "did you mean 'anchor'?"),
    "roles exchanged": ("a|b", "a=anchor,b=positive", UsageError, "role 'a'", "--columns anchor=a,positive=b"),
    "roles and columns": ("question|answer", "question=anchor", UsageError, "a column", "answer,anchor=question"),
    "columns without roles": ("a|b", "a,b", UsageError, "data.columns is 'a,b'", "--columns anchor=a,positive=b"),
    "a role twice": ("a|b", "anchor=a,premise=b", UsageError, "the role 'anchor' twice", "one column"),
    "a key twice": ("a|b", "anchor=a,anchor=b", UsageError, "'anchor' twice", "anchor=a,positive=b"),
    "no equals sign": ("a|b", "anchor", UsageError, "data.columns is 'anchor'", "anchor=a,positive=b"),
    "no column": ("a|b", "anchor=", UsageError, "data.columns is 'anchor='", "anchor=a,positive=b"),
    "an empty item": ("a|b", "anchor=a,", UsageError, "data.columns is 'anchor=a,'", "anchor=a,positive=b"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_columns_without_a_clear_role_are_refused(load: Load, case: str) -> None:
    header, columns, error, what, hint = BAD_COLUMNS[case]
    row = "|".join("x" * (header.count("|") + 1))
    refused(error, load, header, row, row, what=what, hint=hint, columns=columns)
    with pytest.raises(error) as caught:
        load(header, row, row, columns=columns)
    assert caught.value.key == "data.columns"


@pytest.mark.parametrize("name", ["a, b", "a=b, c", 'say "a"', '"a"', "[bold]a[/]", "a;b", "ä ", "line\nbreak"])
def test_a_column_can_be_named_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("".join(json.dumps({"x": n, name: f"text {n}"}) + "\n" for n in range(3)))
    rows = load_examples(Data(train="a.jsonl", columns=join_items([f"text={name}"])), ANY, ())
    assert list(rows.views["anchor"]) == ["text 0", "text 1", "text 2"]


def test_a_column_without_a_name_is_called_by_its_number(load: Load) -> None:
    rows = load("|positive||anchor", "7|b|x|a", "8|d|x|c", columns="anchor=anchor,positive=positive,id=column 1")
    assert list(rows.ids or ()) == ["7", "8"] and "columns not used: column 3" in rows.notes


def test_an_error_names_some_of_many_columns(load: Load) -> None:
    header = "|".join(f"c{n}" for n in range(200))
    refused(DataError, load, header, header, what="'c19' and 180 more make neither", hint="--columns anchor=c")


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (["anchor|positive", "a|", "c|d"], "data.blank"),
        (["premise|hypothesis|label", "a|b|7", "c|d|8"], "data.labels"),
        (["text", "a"], "data.train"),
        (["score|sentence1|sentence2", "1|a|b", "2|c|d"], "objective.name"),
    ],
)
def test_other_errors_of_rows_carry_the_setting_that_helps(load: Load, lines: list[str], key: str) -> None:
    with pytest.raises(DataError) as caught:
        load(*lines)
    assert caught.value.key == key


def test_white_space_around_a_text_goes_and_within_stays(load: Load) -> None:
    rows = load("text", "  one  two ", "\u00a0three\u3000")
    assert rows.views["anchor"] == ["one  two", "three"]


@pytest.mark.parametrize("blank", ["", "   ", "\u00a0\u2003"])
def test_a_blank_sentence_is_named_by_file_and_line(load: Load, blank: str) -> None:
    lines = ("anchor|positive", "a|b", f"c|{blank}", "e|f")
    refused(DataError, load, *lines, what="a.tsv, line 3: the sentence in the column 'positive' is blank", hint="fill")


WORDS = [
    ("entailment neutral contradiction", "", [0, 1, 2]),
    ("Entailment NEUTRAL Contradiction", "", [0, 1, 2]),
    ("c n e", "", [2, 1, 0]),
    ("0 1 2", "0=entailment,1=neutral,2=contradiction", [0, 1, 2]),
    ("0 1 2", "0=contradiction,1=neutral,2=entailment", [2, 1, 0]),
    ("yes no maybe", "Yes=entailment, no=contradiction, maybe=n", [0, 2, 1]),
    ("0 1 e", "0=e,1=c", [0, 2, 0]),
    ("e n x", "x=contradiction", [0, 1, 2]),
]


@pytest.mark.parametrize(("words", "labels", "expected"), WORDS)
def test_labels_by_their_names(load: Load, words: str, labels: str, expected: list[int]) -> None:
    rows = load("premise|hypothesis|label", *(f"p{n}|h|{word}" for n, word in enumerate(words.split())), labels=labels)
    assert rows.form == "labelled"
    assert rows.labels == expected


@pytest.mark.parametrize("word", ["-", "-1"])
def test_rows_without_a_gold_label_are_dropped_and_counted(load: Load, word: str) -> None:
    rows = load("premise|hypothesis|label", "a|b|e", f"c|d|{word}", "e|f|c")
    assert rows.views == {"anchor": ["a", "e"], "positive": ["b", "f"]}
    assert rows.labels == [0, 2]
    assert "1 of 3 rows without a gold label were dropped" in rows.notes


def test_a_label_of_minus_one_may_also_have_a_name(load: Load) -> None:
    rows = load("premise|hypothesis|label", "a|b|1", "c|d|-1", labels="1=entailment,-1=contradiction")
    assert rows.labels == [0, 2]


@pytest.mark.parametrize(
    ("word", "labels", "hint"),
    [
        ("0", "", "with entailment, neutral or contradiction for each …: --labels '0=…'"),
        ("0", "", "if they say how alike the two are: --columns anchor=premise,positive=hypothesis,score=label"),
        ("", "", "write a label into each row"),
        ("entails", "", "--labels entails=entailment"),
        ("not_entailment", "", "--labels 'not_entailment=…'"),
        ("related", "", "--labels 'related=…'"),
        ("3", "0=entailment,1=neutral,2=contradiction", "'0=entailment,1=neutral,2=contradiction,3=…'"),
    ],
)
def test_a_label_that_nobody_named_is_refused_by_line(load: Load, word: str, labels: str, hint: str) -> None:
    lines = ("premise|hypothesis|label", f"a|b|{'e' if labels == '' else '0'}", f"c|d|{word}")
    what = f"a.tsv, line 3: the label in the column 'label' is '{word}'"
    refused(DataError, load, *lines, what=what, hint=hint, labels=labels)


UNNAMED = {
    "2 0 1": "0=entailment,1=neutral,2=",
    "yes no": "'no=…,yes=…'",
    "Y N": "'n=…,y=…'",
    "yes N": "'n=…,yes=…'",
    "duplicate not_duplicate": "not_duplicate=contradiction,duplicate=entailment",
}


@pytest.mark.parametrize(("words", "hint"), UNNAMED.items())
def test_every_label_that_nobody_named_is_in_the_hint(load: Load, words: str, hint: str) -> None:
    lines = ("premise|hypothesis|label", *(f"a|b|{word}" for word in words.split()))
    refused(DataError, load, *lines, what="the label in the column", hint=f"--labels {hint}")


@pytest.mark.parametrize("labels", ["0", "0=", "=entailment", "0=maybe", "0=entailment,0=neutral", "0=entailment,"])
def test_malformed_names_of_labels_are_refused(load: Load, labels: str) -> None:
    lines = ("premise|hypothesis|label", "a|b|0", "c|d|0")
    hint = "with entailment, neutral or contradiction for each" if "maybe" in labels else "0=entailment,1=neutral"
    refused(UsageError, load, *lines, what="data.labels", hint=hint, labels=labels)


@pytest.mark.parametrize("cell", ["3", "true", "[3]", '[["a"]]', '{"a": 1}'])
def test_what_is_no_text_is_no_sentence(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "a"}}\n{{"text": {cell}}}\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: the column 'text' holds .*, which is not text"):
        load_examples(Data(train=str(path)), ANY, ())


@pytest.mark.parametrize("label", ["1", "1.0"])
def test_labels_in_json_may_be_numbers(tmp_path: Path, label: str) -> None:
    path = tmp_path / "a.jsonl"
    rows = [f'{{"premise": "{premise}", "hypothesis": "h", "label": {label}}}' for premise in ("p", "q")]
    path.write_text("\n".join(rows))
    assert load_examples(Data(train=str(path), labels="1=contradiction"), ANY, ()).labels == [2, 2]


def test_scores_are_not_rescaled(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("sentence2\tnr\tscore\tsentence1\nb\t1\t4.75\ta\nd\t2\t-1e-3\tc\n")
    pairs = scored_pairs(str(path))
    assert (pairs.first, pairs.second, pairs.scores) == (["a", "c"], ["b", "d"], [4.75, -0.001])
    assert pairs.notes == ("columns not used: nr",)


@pytest.mark.parametrize("score", ["high", "", "nan", "inf", "-Infinity", "4,5,6"])
def test_a_score_that_is_no_finite_number_is_named_by_file_and_line(tmp_path: Path, score: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"sentence1\tsentence2\tscore\na\tb\t1\nc\td\t{score}\ne\tf\t2\n")
    with pytest.raises(DataError) as caught:
        scored_pairs(str(path))
    assert f"a.tsv, line 3: the score in the column 'score' is '{score}'" in caught.value.what
    assert caught.value.hint == "write a finite number into each row, or leave them out with --blank drop"
    kept = scored_pairs(str(path), "drop")
    assert kept.scores == [1, 2] and kept.notes == ("1 of 3 rows without a number as score were dropped",)
    path.write_text(f"sentence1\tsentence2\tscore\na\tb\t{score}\n")
    with pytest.raises(DataError) as caught:
        scored_pairs(str(path), "drop")
    assert caught.value.hint == "write a finite number into each row"


def test_a_score_is_named_alone_where_the_texts_are_known_by_name(tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_text("premise,hypothesis,score,own\na,b,1,0.5\nc,d,1,2\n")
    rows = load_examples(Data(train=str(path), columns="score=own"), ("scored",), ())
    assert rows.scores == [0.5, 2] and rows.views == {"anchor": ["a", "c"], "positive": ["b", "d"]}


def test_a_label_is_named_alone_next_to_a_score_that_is_known_by_name(load: Load) -> None:
    rows = load("sentence_A|sentence_B|score|judgment", "a|b|4.5|ENTAILMENT", "c|d|1|NEUTRAL", columns="label=judgment")
    assert rows.form == "labelled" and rows.labels == [0, 1]


def test_decimals_stand_behind_a_comma_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sentence1;sentence2;score\na;b;4,75\nc;d;0\ne;f;-0,5\n")
    assert scored_pairs(str(path)).scores == [4.75, 0, -0.5]


@pytest.mark.parametrize(("cells", "read"), [("950 1,200 12,500", []), ("1 1,250 0,125", [1, 1.25, 0.125])])
def test_a_comma_that_may_be_of_thousands_is_refused(tmp_path: Path, cells: str, read: list[float]) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *(f"a\tb\t{cell}" for cell in cells.split())]))
    with nullcontext() if read else pytest.raises(DataError, match=r"lines 3, 4: .* is '1,200' or '12,500'"):
        assert scored_pairs(str(path), "drop").scores == read


@pytest.mark.parametrize("score", ["null", "NaN", "[1]", "1" + "0" * 400])
def test_a_score_in_json_is_a_finite_number_too(tmp_path: Path, score: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(f'{{"sentence1": "a", "sentence2": "b", "score": {one}}}' for one in ("1", score)))
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: "):
        scored_pairs(str(path))


def test_dev_data_needs_scores_that_differ(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("sentence1\tsentence2\tscore\na\tb\t1\nc\td\t1\n")
    with pytest.raises(DataError, match="all 2 scores are 1, so that they rank nothing"):
        scored_pairs(str(path))


def test_a_preview_shows_the_first_rows_with_their_roles(load: Load) -> None:
    rows = load("premise|hypothesis|label", *(f"p{n}|h{n}|{'enc'[n % 3]}" for n in range(5)))
    assert preview(rows) == [
        {"anchor": "p0", "positive": "h0", "label": "entailment"},
        {"anchor": "p1", "positive": "h1", "label": "neutral"},
        {"anchor": "p2", "positive": "h2", "label": "contradiction"},
    ]
    assert preview(load("text", "a", "b")) == [{"anchor": "a"}, {"anchor": "b"}]


@pytest.mark.parametrize("name", ["negative", "hard_neg"])
def test_several_hard_negatives_stand_in_numbered_columns(load: Load, name: str) -> None:
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


def test_several_hard_negatives_may_be_a_list(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"anchor": "a", "positive": "p", "negatives": ["b", " c "]}\n'
        '{"anchor": "d", "positive": "q", "negatives": []}\n'
    )
    rows = load_examples(Data(train=str(path)), ANY, ())
    assert rows.views["negative"] == ["b", ""] and rows.views["negative_2"] == ["c", ""]
    assert "each row has 0 to 2 hard negatives" in rows.notes
    assert any(note.endswith("rows have no hard negative") for note in rows.notes)
    path.write_text('{"anchor": "a", "positive": "p", "negatives": ["b", 3]}\n')
    with pytest.raises(DataError, match=r"line 1.* holds 3, which is not text"):
        load_examples(Data(train=str(path)), ANY, ())
    path.write_text('{"anchor": "a", "positive": "p", "negatives": []}\n')
    with pytest.raises(DataError, match="no row has a negative in negatives"):
        load_examples(Data(train=str(path)), ANY, ())


@pytest.mark.parametrize("cell", ["the cat sat on the mat", "猫はマットの上に座った"])
def test_an_anchor_next_to_other_texts_is_half_of_a_pair(load: Load, cell: str) -> None:
    rows = "query|context", *(f"{n}|{cell}" for n in "abc")
    refused(DataError, load, *rows, what="make neither sentences nor pairs", hint="anchor=query,positive=context")
    assert load(*rows, columns="text=query").views == {"anchor": ["a", "b", "c"]}


def test_columns_of_numbers_alone_are_offered_as_no_texts(tmp_path: Path) -> None:
    Dataset.from_dict({"uid": [1, 2], "value": [0.5, None]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError) as caught:
        load_examples(Data(train=str(tmp_path / "rows.parquet")), ANY, ())
    assert "--columns" not in caught.value.hint and "these hold numbers" in caught.value.hint


@pytest.mark.parametrize("cell", ["2024-02-29 23:59:59", "https://example.org/a-page-of-letters", "Home", "", "0.5"])
def test_an_anchor_next_to_dates_links_or_classes_is_a_sentence(load: Load, cell: str) -> None:
    assert load("query|more", *(f"{n}|{cell}" for n in "abc")).views == {"anchor": ["a", "b", "c"]}


@pytest.mark.parametrize(
    "names", [("question", "positive_ctxs", "hard_negative_ctxs"), ("query", "positive_passages", "negative_passages")]
)
def test_passages_are_read_as_dpr_and_tevatron_write_them(tmp_path: Path, names: tuple[str, str, str]) -> None:
    anchor, positive, negative = names
    passages = [{"title": "T", "text": "b", "score": 1}, {"title": "", "text": "c"}, {"text": "d"}]
    rows = [
        {anchor: "a", positive: passages[:1], negative: passages[1:], "answers": ["x"]},
        {anchor: "e", positive: passages[1:2], negative: [], "answers": []},
    ]
    (path := tmp_path / "a.json").write_text(json.dumps(rows))
    read = load_examples(Data(train=str(path)), ("triplets",), ())
    assert [*zip(*read.views.values(), strict=True)] == [("a", "T b", "c", "d"), ("e", "c", "", "")]
    assert "columns not used: answers" in read.notes


def test_an_instruction_before_each_text_is_no_anchor_of_its_own(tmp_path: Path) -> None:
    (path := tmp_path / "medi.json").write_text(
        json.dumps([{"query": ["i", "a"], "pos": ["i", "b"], "neg": ["i", "c"]}])
    )
    with pytest.raises(DataError, match="the anchors in the column 'query' are lists") as caught:
        load_examples(Data(train=str(path)), ("triplets",), ())
    assert """jq -c '(.data? // .)[] | (.["query"], .["pos"], .["neg"]) |= last' """ in caught.value.hint


ROWS_OF_JSON = {
    "ids": ({"ids": [1, 2], "questions": ["a", "b"]}, "--columns text=questions"),
    "an object of lists": ({"query": "a", "answers": ["b"], "passages": {"text": ["c"]}}, "positive=answers, or"),
    "lists of both": ({"query": ["a", "b"], "pos": ["c", "d"]}, 'transpose[] | {"query": .[0], "pos": .[1]}'),
}


@pytest.mark.parametrize("case", ROWS_OF_JSON)
def test_rows_of_lists_and_objects_that_cannot_be_read_are_met_with_what_can(tmp_path: Path, case: str) -> None:
    row, hint = ROWS_OF_JSON[case]
    (path := tmp_path / "a.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError) as caught:
        load_examples(Data(train=str(path)), ANY, ())
    assert hint in caught.value.hint


@pytest.mark.parametrize(("cells", "form"), [(("3.8", "5"), "scored"), (("1", "0"), "labelled")])
def test_fractions_are_scores_whatever_their_column_is_called(
    tmp_path: Path, cells: tuple[str, str], form: Form
) -> None:
    (path := tmp_path / "a.csv").write_text("sentence1,sentence2,label\na,b,{}\nc,d,{}\n".format(*cells))
    assert shape(open_frame(str(path), "train"), "", "a.csv")[0] == form


@pytest.mark.parametrize(
    ("cells", "header"),
    {
        ("a b", "c d", "e"): "anchor,positive,negative",
        ("a b", "c d", "1"): "anchor,positive,label",
        ("entailment", "a b", "c d"): "label,anchor,positive",
        ("0.5", "a b", "c d"): "score,anchor,positive",
        ("1048585", "a b"): "id,text",
        ("1", "a b"): "id,text",
        ("17", "a b", "c d", "0"): "id,anchor,positive,label",
        ("7", "8", "9"): "",
        ("7", "8", "a b"): "",
    }.items(),
)
def test_a_header_is_guessed_from_the_cells_of_the_first_row(cells: tuple[str, ...], header: str) -> None:
    assert likely_header(cells, "a.csv") == header
    assert likely_header(cells, "a.tsv") == likely_header(cells, "a.tsv.gz") == header.replace(",", r"\t")


TABLE = "a text of a pair\tand the other one\nwhat is it\tthis is it\n"
COMMANDS = {
    "a.tsv.gz": (TABLE, r"gzip -dcf a.tsv.gz | sed '1i anchor\tpositive' > a-edited.tsv, and use a-edited.tsv; names"),
    "folder/a.tsv": (TABLE, r"sed -i '1i anchor\tpositive' folder/a.tsv; names"),
    "c.jsonl.gz": ('["a", "b"],\n["c", "d"],\n', "gzip -dcf c.jsonl.gz | sed 's/,$//' > rows.jsonl"),
    "l.jsonl.gz": ('{"set": ["a", "b"]}\n', "gzip -dcf l.jsonl.gz | jq -c '"),
    "l.parquet": ('{"set": ["a", "b"]}\n', """lines=True)' l.parquet | jq -c '"""),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_of_a_hint_reads_a_file_whatever_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text, command = COMMANDS[name]
    file = Path(name)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    if file.suffix == ".parquet":
        Dataset.from_list([json.loads(text)]).to_parquet(file)
    with pytest.raises(DataError) as caught:
        load_examples(Data(train=name.partition("/")[0]), ANY, ())
    assert command in caught.value.hint


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq")
@pytest.mark.parametrize(
    "turns",
    [
        [("role", "content"), ("system", "be very kind"), ("user", "hi"), ("assistant", "yes")],
        [("role", "content"), ("user", "hi"), ("assistant", "yes"), ("user", "why")],
        [("from", "value"), ("system", "be brief"), ("prompter", "hi"), ("model", "yes")],
        [("by", "text"), ("a person", "hi"), ("a machine", "yes")],
    ],
)
def test_the_command_of_a_hint_pairs_a_question_with_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: list[tuple[str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    chat = [dict(zip(turns[0], turn, strict=True)) for turn in turns[1:]]
    Path("chat.jsonl").write_text(f"{json.dumps({'chat': chat})}\n" * 2)
    with pytest.raises(DataError) as caught:
        load_examples(Data(train="chat.jsonl"), ANY, ())
    subprocess.run(caught.value.hint.partition(": ")[2], shell=True, check=True)
    assert json.loads(Path("texts.jsonl").read_text().splitlines()[0]) == {"anchor": "hi", "positive": "yes"}


def test_columns_names_several_hard_negatives(load: Load) -> None:
    rows = load("q|a|x|y", "a|p|b|c", "d|q|e|f", columns="anchor=q,positive=a,negative_1=y,negative_2=x")
    assert [*zip(rows.views["negative"], rows.views["negative_2"], strict=True)] == [("c", "b"), ("f", "e")]


LISTS = (
    '{"query": "a", "pos": ["p", "q"], "neg": ["b", "c"], "pos_scores": [9, 8.5], "neg_scores": [1, 2], "prompt": ""}\n'
    '{"query": "d", "pos": ["r"], "neg": ["e", "f"], "pos_scores": [7], "neg_scores": [0.5, 3], "prompt": ""}\n'
)
"""Rows as BGE's training reads them."""


def test_each_positive_of_a_list_is_a_row_with_its_score_and_the_negatives(tmp_path: Path) -> None:
    (path := tmp_path / "a.jsonl").write_text(LISTS)
    rows = load_examples(Data(train=str(path)), ("triplets",), ())
    assert [*zip(*rows.views.values(), strict=True)] == [
        ("a", "p", "b", "c"), ("a", "q", "b", "c"), ("d", "r", "e", "f"),
    ]  # fmt: skip
    assert any("2 rows with lists in 'pos'" in note and "are 3 rows" in note for note in rows.notes)
    taught = load_examples(Data(train=str(path)), ("scored-triplets",), ())
    assert taught.candidate_scores is not None and taught.numbers is not None
    assert taught.numbers.tolist() == [1, 1, 2]
    assert taught.candidate_scores.tolist() == [[9, 1, 2], [8.5, 1, 2], [7, 0.5, 3]]
    path.write_text(LISTS.replace("[9, 8.5]", "[9]"))
    with pytest.raises(DataError, match=r"line 1: 'pos' or 'pos_scores' have lists of several lengths"):
        load_examples(Data(train=str(path)), ("scored-triplets",), ())
    path.write_text(LISTS.replace('["r"]', "[]").replace("[7]", "[]"))
    with pytest.raises(DataError, match=r"line 2: the sentence in the column 'pos' is blank"):
        load_examples(Data(train=str(path)), ("triplets",), ())


@pytest.mark.parametrize("cell", ["['b', \"c\", 'd']", '["b"]', "[ 'a\\nb' ]"])
def test_lists_that_a_program_wrote_as_text_are_no_texts(tmp_path: Path, cell: str) -> None:
    rows = ["anchor\tpositive", *(f"{number}\t{cell}" for number in range(5))]
    (path := tmp_path / "a.tsv").write_text("\n".join(rows) + "\n")
    with pytest.raises(DataError, match="the column 'positive' holds lists written as text"):
        load_examples(Data(train=str(path)), ANY, ())
    path.write_text("\n".join([*rows, "6\tno list"]) + "\n")
    assert load_examples(Data(train=str(path)), ANY, ()).views["positive"][5] == "no list"


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_row_may_be_a_list_of_its_texts(tmp_path: Path, suffix: str) -> None:
    lines = ['["a", "p", "b"]', '["d", "q", "e"]']
    path = tmp_path / f"a.{suffix}"
    path.write_text("\n".join(lines) if suffix == "jsonl" else f"[{','.join(lines)}]")
    rows = load_examples(Data(train=str(path)), ANY, ())
    assert rows.form == "triplets" and rows.views == {
        "anchor": ["a", "d"],
        "positive": ["p", "q"],
        "negative": ["b", "e"],
    }


def test_each_of_several_hard_negatives_becomes_a_contradiction(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("anchor\tpositive\tnegative_1\tnegative_2\na\tp\tb\tc\nd\tq\te\t\n")
    rows = load_examples(Data(train=str(path)), ("labelled",), (0, 2))
    assert list(zip(rows.views["anchor"], rows.views["positive"], rows.labels or (), strict=True)) == [
        ("a", "p", 0), ("a", "b", 2), ("a", "c", 2), ("d", "q", 0), ("d", "e", 2),
    ]  # fmt: skip
    sentences = load_examples(Data(train=str(path)), ("sentences",), ()).views["anchor"]
    assert sentences == ["a", "p", "b", "c", "d", "q", "e"]


def test_scored_pairs_are_rows_for_an_objective_that_learns_from_scores(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("score\tsentence1\tsentence2\tgenre\n5\ta\tb\tx\n0\tc\td\tx\n2.5\ta\te\tx\n")
    rows = load_examples(Data(train=str(path)), ("scored",), ())
    assert rows.form == "scored" and rows.views == {"anchor": ["a", "c", "a"], "positive": ["b", "d", "e"]}
    assert rows.scores == [5.0, 0.0, 2.5]
    assert preview(rows)[2] == {"anchor": "a", "positive": "e", "score": "2.5"}
    (tmp_path / "b.txt").write_text("one\ntwo\n")
    with pytest.raises(DataError, match=r"holds sentences.*, where scored pairs .* are needed"):
        load_examples(Data(train=str(tmp_path / "b.txt")), ("scored",), ())


TAUGHT: tuple[Form, ...] = ("scored-triplets",)
HEADER = "query|positive|negative_1|negative_2|score|negative_score_1|negative_score_2"


def taught(tmp_path: Path, *lines: str, needs: tuple[Form, ...] = TAUGHT) -> Examples:
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(lines).replace("|", "\t") + "\n")
    return load_examples(Data(train=str(path)), needs, ())


def test_a_teachers_scores_of_positive_and_negatives_make_scored_triplets(tmp_path: Path) -> None:
    rows = taught(tmp_path, HEADER, "a|b|c|d|9.5|-3|0.25", "e|f|g|h|1|2|3e-1")
    assert (rows.form, [*rows.views]) == ("scored-triplets", ["anchor", "positive", "negative", "negative_2"])
    assert rows.candidate_scores is not None and rows.scores is None
    assert rows.candidate_scores.tolist() == [[9.5, -3, 0.25], [1, 2, pytest.approx(0.3)]]
    assert preview(rows)[0] == {
        "anchor": "a",
        "positive": "b",
        "negative": "c",
        "negative_2": "d",
        "score": "9.5, -3, 0.25",
    }
    one = taught(tmp_path, "anchor|positive|hard_neg|score|neg_score", "a|b|c|1|0", "e|f|g|1|0")
    assert one.candidate_scores is not None and one.candidate_scores.shape == (2, 2)
    assert (
        one.fingerprint
        != taught(tmp_path, "anchor|positive|hard_neg|score|neg_score", "a|b|c|1|0", "e|f|g|1|2").fingerprint
    )


@pytest.mark.parametrize("form", ["triplets", "labelled", "pairs", "sentences"])
def test_scored_triplets_become_what_triplets_do(tmp_path: Path, form: Form) -> None:
    lines = HEADER, "a|b|c|d|9.5|-3|0.25", "e|f|g|h|1|2|3e-1"
    rows = taught(tmp_path, *lines, needs=(form,))
    plain = taught(tmp_path, *("|".join(line.split("|")[:4]) for line in lines), needs=(form,))
    assert (rows.form, rows.views, rows.labels) == (form, plain.views, plain.labels)
    assert rows.candidate_scores is None and rows.fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("lines", "what", "hint"),
    [
        ((HEADER, "a|b|c|d|9|1|2", "e|f|g||9|1|2"), "not every negative has a score", "as many negatives as scores"),
        ((HEADER.removesuffix("|negative_score_2"), "a|b|c|d|9|1", "e|f|g|h|9|1"), "negative_score_1", "as many"),
        (
            (HEADER, "a|b|c|d|9|1|2", "e|f|g|h|9||2"),
            "line 3: the score in the column 'negative_score_1' is ''",
            "finite",
        ),
    ],
)
def test_a_negative_without_a_score_is_refused(tmp_path: Path, lines: tuple[str, ...], what: str, hint: str) -> None:
    with pytest.raises(DataError) as caught:
        taught(tmp_path, *lines)
    assert what in caught.value.what and hint in caught.value.hint


def test_a_score_without_scores_of_negatives_is_that_of_the_pair(tmp_path: Path) -> None:
    rows = taught(tmp_path, "anchor|positive|negative|score", "a|b|c|1", "e|f|g|0", needs=("scored",))
    assert (rows.form, rows.scores, [*rows.views]) == ("scored", [1, 0], ["anchor", "positive"])
