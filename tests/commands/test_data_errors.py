"""Bad data is an error of two lines on stderr, with nothing on stdout and exit code 3."""

from pathlib import Path

import pytest

from contrastcli.boundary import report
from contrastcli.errors import DataError, Use
from support.command import Contrast, refused, train


def test_a_hint_names_only_options_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    error = DataError("wrong", [Use("--dev", "none"), Use("--columns", "text=a", "name it:")])
    assert report(error, debug=False, options={"--columns"}) == 3
    assert capsys.readouterr().err == "contrast: error: wrong\nhint: name it: --columns text=a\n"


@pytest.mark.parametrize("header", ["premise\thypothesis\tlabel", "sentence1\tsentence2\tscore"])
def test_a_search_reads_neither_labels_nor_scores(contrast: Contrast, header: str) -> None:
    Path("rows.tsv").write_text(f"{header}\na\tba den\t7\nb\tgo lum\t7\n")
    found = contrast("query", "ba den", "--corpus", "rows.tsv", "--model", "tiny/backbone", "-k", "1").out
    assert found.split()[-2:] == ["ba", "den"]


def test_blank_rows_are_counted_in_one_error_and_left_out_on_request(contrast: Contrast) -> None:
    blank = {n: ("q", " ") if n % 2 else ("", "a") for n in (3, 5, 6, 11, 12, 13)}
    rows = [blank.get(n, (f"q{n}", f"a{n}")) for n in range(2, 22)]
    Path("faq.csv").write_text("question,answer\n" + "".join(f"{q},{a}\n" for q, a in rows) + "\n\n")
    words = train("--objective", "simcse", "--data", "faq.csv", "--batch-size", "2", "--dry-run")
    what = "faq.csv, lines 3, 5, 6, 11, 12 …: the sentence in the column 'question' or 'answer' is blank (6 of 20 rows)"
    refused(contrast(*words), 3, what, "leave them out with --blank drop")
    answer = contrast(*words, "--blank", "drop")
    assert "of 14 rows" in " ".join(answer.out.split())
    assert "6 of 20 rows without a text in 'question' or 'answer' were left out" in answer.out


@pytest.mark.parametrize("word", ["N/A", "#NV", "null"])
def test_texts_that_stand_for_none_are_named_and_left_out_with_the_blank_ones(contrast: Contrast, word: str) -> None:
    Path("faq.csv").write_text(f"question,answer\na,b\nc,{word}\ne,f\n")
    words = train("--objective", "simcse", "--data", "faq.csv", "--batch-size", "2", "--dry-run")
    note = "faq.csv, line 3: a text is N/A or the like (1 of 3 rows); --blank drop leaves them out"
    assert note in contrast(*words).out
    assert "1 of 3 rows without a text" in contrast(*words, "--blank", "drop").out


def test_ids_in_place_of_texts_are_named(contrast: Contrast) -> None:
    Path("ids.csv").write_text("question,answer\n" + "".join(f"{n},how {n}\n" for n in range(9)))
    words = train("--objective", "simcse", "--data", "ids.csv", "--batch-size", "2", "--dry-run")
    assert "the texts in 'question' are numbers, as of ids" in contrast(*words).out


def test_a_file_of_a_spreadsheet_is_read_and_one_note_says_how(contrast: Contrast) -> None:
    table = 'question;answer\r\n"what; now?";soon\r\nhow much?;it costs 5 €, or „free“\r\né;à\r\n'
    Path("faq.csv").write_bytes(table.encode("cp1252") + "für;UTF-8\n".encode())
    out = contrast(*train("--objective", "simcse", "--data", "faq.csv", "--batch-size", "2", "--dry-run")).out
    note = "faq.csv was read as: fields separated by semicolons; UTF-8 and Windows-1252, as in line 3: "
    assert note in " ".join(out.split())
    assert "it costs 5 €, or „free“" in out and "é" in out


def test_the_columns_of_a_txt_are_those_of_a_table_of_another_name(contrast: Contrast) -> None:
    Path("from excel.txt").write_text("Frage\tAntwort\nWie?\tSo.\n", encoding="utf-16")
    answer = contrast("data", "from excel.txt", "--columns", "anchor=Frage,positive=Antwort")
    refused(answer, 3, "has no column 'Frage', but sentence", "if it is a table, name it .tsv")
