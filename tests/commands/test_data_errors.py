"""Bad data is an error of two lines on stderr, with nothing on stdout and exit code 3."""

from pathlib import Path

import pytest

from support.command import LABELLED, Contrast, refused, train

# One of each kind; the tests of data/ have them all.
TRAINING_FILES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("rows.txt", b"", "rows.txt is empty"),
    "not UTF-8": ("rows.txt", b"one\ncaf\xe9\n", "rows.txt, line 2: not UTF-8"),
    "missing columns": ("rows.csv", b"foo,bar\na,b\nc,d\n", "'foo', 'bar' make neither"),
    "a blank sentence": ("rows.txt", b"one\n   \nthree\n", "rows.txt, line 2: the sentence"),
    "one sentence": ("rows.txt", b"one\n", "one sentence only"),
    "scored pairs": ("rows.csv", b"sentence1,sentence2,score\na,b,1\nc,d,2\n", "holds scored pairs"),
    "STS-B as published": ("rows.csv", b"g\tf\t2012\t1\t2.5\ta\tb\n" * 2, "holds scored pairs"),
    "SICK as published": (
        "rows.txt",
        b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t3\tNEUTRAL\n",
        "holds scored pairs",
    ),
}


@pytest.mark.parametrize("case", TRAINING_FILES)
def test_bad_training_data_is_named_by_file_and_line(contrast: Contrast, case: str) -> None:
    name, content, what = TRAINING_FILES[case]
    Path(name).write_bytes(content)
    refused(contrast(*train("--objective", "simcse", "--data", name)), 3, what)
    assert not Path("runs").exists()


def test_bad_dev_data_is_named_by_file_and_line(contrast: Contrast) -> None:
    Path("dev.csv").write_text("sentence1,sentence2,score\na,b,1\nc,d,high\n")
    refused(contrast(*train(*LABELLED, "--dev", "dev.csv")), 3, "dev.csv, line 3: the score")


def test_a_hint_names_only_options_of_its_command(contrast: Contrast) -> None:
    Path("odd.tsv").write_text("Frage\tAntwort\na\tb\n")
    for words in (("encode", "odd.tsv", "-o", "v.npy"), ("query", "a", "--corpus", "odd.tsv")):
        answer = contrast(*words, "--model", "tiny/backbone")
        refused(answer, 3, "odd.tsv", "name the columns sentence")
        assert "--" not in answer.err.splitlines()[1]
    refused(contrast(*train("--data", "odd.tsv")), 3, "odd.tsv", "--columns")


@pytest.mark.parametrize("header", ["premise\thypothesis\tlabel", "sentence1\tsentence2\tscore"])
def test_a_search_reads_neither_labels_nor_scores(contrast: Contrast, header: str) -> None:
    Path("rows.tsv").write_text(f"{header}\na\tba den\t7\nb\tgo lum\t7\n")
    found = contrast("query", "ba den", "--corpus", "rows.tsv", "--model", "tiny/backbone", "-k", "1").out
    assert found.split()[-2:] == ["ba", "den"]


def test_files_of_spreadsheets_are_told_by_their_form(contrast: Contrast) -> None:
    Path("semicolons.csv").write_text("question;answer\na;b\n")
    refused(contrast(*train("--data", "semicolons.csv")), 3, "'question;answer'", "separated by semicolons")
    Path("unicode.csv").write_text("question,answer\na,b\n", encoding="utf-16")
    refused(contrast(*train("--data", "unicode.csv")), 3, "not UTF-8", "iconv -f utf-16 -t utf-8")
