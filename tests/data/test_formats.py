"""Files are read as they stand, or refused with the line that is wrong and the remedy."""

import gzip
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from contrastcli.data import writing
from contrastcli.data.formats import Frame, read_file
from contrastcli.errors import DataError

Read = Callable[..., Frame]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes a file and reads it by the name alone."""

    def write_and_read(name: str, content: bytes, limit: int = 0) -> Frame:
        path = tmp_path / name
        path.write_bytes(content)
        return read_file(path, name, limit)

    return write_and_read


PAIRS: dict[str, list[object]] = {"anchor": ["one", "two"], "positive": ["eins", "zwei"]}

GOOD: dict[str, tuple[str, bytes, dict[str, list[object]]]] = {
    "txt": ("a.txt", b"one\ntwo\n", {"sentence": ["one", "two"]}),
    "txt without a last line end": ("a.txt", b"one\ntwo", {"sentence": ["one", "two"]}),
    "txt with tabs, commas and quotes": ("a.txt", b'a\tb,c\n"d\n', {"sentence": ["a\tb,c", '"d']}),
    "txt with separators of Unicode": ("a.txt", "a\u2028b\x85c\nd\n".encode(), {"sentence": ["a\u2028b\x85c", "d"]}),
    "a byte order mark": ("a.txt", b"\xef\xbb\xbfone\ntwo\n", {"sentence": ["one", "two"]}),
    "a byte order mark before JSON": ("a.jsonl", b'\xef\xbb\xbf{"text": "one"}\n', {"text": ["one"]}),
    "line ends of Windows": ("a.txt", b"one\r\ntwo\r\n", {"sentence": ["one", "two"]}),
    "csv": ("a.csv", b"anchor,positive\none,eins\ntwo,zwei\n", PAIRS),
    "csv below blank lines": ("a.csv", b"\n \r\nanchor,positive\none,eins\ntwo,zwei\n", PAIRS),
    "csv with a carriage return in a quoted name": ("a.csv", b'"a\rb",c\nx,y\n', {"a\rb": ["x"], "c": ["y"]}),
    "csv with a quote inside a field": ("a.csv", b'a,b\n5" disk,x\n', {"a": ['5" disk'], "b": ["x"]}),
    "csv of one column": ("a.csv", b"sentence\none\ntwo\n", {"sentence": ["one", "two"]}),
    "tsv with literal quotes": ("a.tsv", b'a\tb\n"x\t""y"\n', {"a": ['"x'], "b": ['""y"']}),
    "tsv with commas in a name": ("a.tsv", b"a (b, c, d)\te\nx\ty\n", {"a (b, c, d)": ["x"], "e": ["y"]}),
    "jsonl": ("a.jsonl", b'{"anchor": "one", "positive": "eins"}\n{"positive": "zwei", "anchor": "two"}\n', PAIRS),
    "jsonl that is one list": ("a.jsonl", b'[\n {"t": "a"},\n {"t": "b"}\n]\n', {"t": ["a", "b"]}),
    "jsonl that is one list on one line": ("a.jsonl", b'[{"t": "a"}, {"t": "b"}]', {"t": ["a", "b"]}),
    "jsonl with a number": ("a.jsonl", b'{"t": "a", "n": 1.5, "z": null}\n', {"t": ["a"], "n": [1.5], "z": [None]}),
    "jsonl with escapes": ("a.jsonl", b'{"t": "caf\\u00e9 \\ud83d\\ude00"}\n', {"t": ["caf\u00e9 \U0001f600"]}),
    "jsonl with a key less": ("a.jsonl", b'{"t": "a", "z": "b"}\n{"t": "c"}\n', {"t": ["a", "c"], "z": ["b", None]}),
    "jsonl with a key more": ("a.jsonl", b'{"t": "c"}\n{"z": "b", "t": "a"}\n', {"t": ["c", "a"], "z": [None, "b"]}),
    "csv that names its separator": ("a.csv", b"\xef\xbb\xbfsep=;\r\na;b,c\r\nx;y,z\r\n", {"a": ["x"], "b,c": ["y,z"]}),
    "a browser unpacked it": ("a.txt.gz", b"one\ntwo\n", {"sentence": ["one", "two"]}),
    "compressed by another name": ("a.txt", gzip.compress(b"one\ntwo\n"), {"sentence": ["one", "two"]}),
    "json": ("a.json", b'[{"anchor": "one", "positive": "eins"},\n {"anchor": "two", "positive": "zwei"}]', PAIRS),
    "json under data": ("a.json", b'{"data": [{"text": "one"}], "version": 1}', {"text": ["one"]}),
    "another suffix": ("a.tab", b"anchor\tpositive\none\teins\ntwo\tzwei\n", PAIRS),
    "UTF-32": ("a.tsv", "anchor\tpositive\none\teins\ntwo\tzwei\n".encode("utf-32"), PAIRS),
    "another of lines": ("a.ndjson", b'{"anchor": "one", "positive": "eins"}\n["two", "zwei"]\n', PAIRS),
    "a suffix in capitals": ("A.TSV", b"anchor\tpositive\none\teins\ntwo\tzwei\n", PAIRS),
    "SICK": (
        "a.txt",
        b"sentence_A\tsentence_B\tn\r\nx\ty\t1\r\n",
        {"sentence_A": ["x"], "sentence_B": ["y"], "n": ["1"]},
    ),
    "SNLI": ("a.txt", b"gold_label\tsentence1\tid\ne\tx\t1\n", {"gold_label": ["e"], "sentence1": ["x"], "id": ["1"]}),
    "seven columns": ("a.tsv", b"a\tb\tc\td\te\tf\tg\n" * 2, {letter: [letter] for letter in "abcdefg"}),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_file_is_read_verbatim(read: Read, case: str) -> None:
    name, content, columns = GOOD[case]
    assert read(name, content).columns == columns


@pytest.mark.parametrize("case", ["txt", "csv", "tsv with literal quotes", "jsonl", "json"])
def test_a_compressed_file_is_the_same(read: Read, case: str) -> None:
    name, content, columns = GOOD[case]
    assert read(name + ".gz", gzip.compress(content)).columns == columns


GZIP = gzip.compress(b"words\n" * 99)
BAD: dict[str, tuple[str, bytes, str, str]] = {
    "empty": ("a.txt", b"", "is empty", "sentences or pairs"),
    "a header alone": ("a.tsv", b"anchor\tpositive\n", "has no rows", "two rows"),
    "an empty list": ("a.json", b"[]", "has no rows", "two rows"),
    "Cyrillic": ("a.txt", "a\nГде мой заказ\n".encode("cp1251"), "line 2: not UTF-8 (byte 0xc3)", "Где мой заказ"),
    "no encoding has it": ("a.txt", b"one\n\x81\n", "line 2: not UTF-8 (byte 0x81)", "iconv"),
    "Japanese": ("a.txt", "犬が走る\n".encode("cp932"), "line 1: not UTF-8", "has '犬が走る': iconv -f cp932"),
    "Chinese": (
        "a.txt",
        ("如何退货,请联系我们\n你好世界\n" * 20).encode("gb18030"),
        "line 1: not UTF-8",
        "has '如何退货,请联系我们'",
    ),
    "half of UTF-16": ("a.txt", "one".encode("utf-16")[:-1], "damaged UTF-16", "copy"),
    "a NUL byte": ("a.tsv", b"anchor\tpositive\na\tb\nc\t\0\n", "line 3: holds a NUL byte", "Delete"),
    "too few fields": ("a.csv", b"a,b\n1,2\n3\n", "line 3: 1 fields where the header has 2", "commas"),
    "too many fields": ("a.csv", b"a,b\n1,2,3\n", "line 2: 3 fields where the header has 2", "commas"),
    "too many fields in tsv": ("a.tsv", b"a\tb\n1\t2\n1\t2\t3\n", "line 3: 3 fields", "name it .csv"),
    "ragged below a field of two lines": ("a.csv", b'a,b\n"1\n2",3\n4\n', "line 4: 1 fields", "fix"),
    "an unclosed quote": ("a.csv", b'a,b\n1,2\n3,"4\n5,6\n', "line 3: a quoted field", '"say ""we"" here"'),
    "unclosed below a closed quote": ("a.csv", b'a,b\n"1\n1",2\n3,"4\n5,6\n', "line 4: a quoted field", "close each"),
    "unclosed but for the next quote": ("a.csv", b'a,b\n1,"2\n3,"4"\n', "line 2: a quoted field", "close each"),
    "a column twice": ("a.csv", b"a,b,a\n1,2,3\n", "line 1: the column 'a' occurs twice", "its own"),
    "a key twice": ("a.jsonl", b'{"a": 1, "b": 2}\n{"a": 1, "a": 2}\n', "line 2: the key 'a' occurs", "once"),
    "JSON cut off": ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2: not JSON: Expecting value (column 7)", "fix"),
    "JSON cut off below": ("a.json", b'[{"a": 1},\n {"a": 2},\n {"a"\n', "line 4: not JSON", "correct it"),
    "JSON too deep": ("a.json", b"[" * 100_000, "line 1: JSON nested too deeply", "correct it"),
    "a number too long": ("a.jsonl", b'{"a": ' + b"9" * 9999 + b"}\n", "line 1: JSON nested", "fix"),
    "half a surrogate": ("a.jsonl", b'{"a": "\\ud83d"}\n', "line 1: half of a surrogate pair", "escape"),
    "a number a line": ("a.jsonl", b"3\n", "line 1: not an object", '{"sentence"'),
    "a list without texts": ("a.jsonl", b"[]\n", "line 1: not an object", '{"sentence"'),
    "lists of several lengths": (
        "a.jsonl",
        b'["a"]\n' * 1000 + b'["b", "c"]\n',
        "line 1001: the first 1,000 obj",
        "null",
    ),
    "an object and a word": ("a.json", b'[{"a": 1}, "b"]', "row 2: not an object", '{"sentence"'),
    "an object alone": ("a.json", b'{"a": [1]}', "is not a list of objects", "data"),
    "a key more": ("a.jsonl", b'{"a": 1}\n' * 1000 + b'{"a": 1, "b": 2}\n', "objects have no key 'b'", '"b": null'),
    "half a gzip file": ("a.txt.gz", GZIP[:-9], "is a damaged or truncated gzip", "again"),
    "gzip with damage": ("a.txt.gz", GZIP[:12] + b"\xff" * 40, "is a damaged or truncated gzip file", "again"),
    "no parquet": ("a.parquet", b"PAR1 and no more", "cannot be read as parquet", "again"),
    "an unknown suffix": ("a.xml", b"<a/>", "has an unknown format", ".jsonl"),
    "a workbook": ("a.xlsx", b"PK\3\4", "is a workbook", "save it as .csv"),
    "a workbook with another name": ("a.csv", b"PK\3\4\x14\0", "is a workbook or another zip", "save it as .csv"),
    "a parquet with another name": ("a.csv", b"PAR1\x15\x04", "is a parquet file", "mv a.csv a.csv.parquet"),
    "an old workbook with another name": ("a.txt", b"\xd0\xcf\x11\xe0\xa1", "is a workbook", "save it as .csv"),
    "a PDF with another name": ("a.txt", b"%PDF-1.7\n", "is a PDF", "pdftotext a.txt"),
    "a page of HTML": ("a.csv", b"<!DOCTYPE html>\n", "is a page of HTML", "download the file"),
    "another compression": ("a.csv.xz", b"\xfd7zXZ\0", "is compressed by xz", "unpack it: xz -dk a.csv.xz"),
    "a database": ("a b.db", b"SQLite format 3\0", "is a database", "sqlite3 -csv -header 'a b.db' 'select * from"),
    "compressed Cyrillic": (
        "a.csv.gz",
        gzip.compress("text\nГде мой заказ\n".encode("cp1251")),
        "line 2: not UTF-8",
        "gzip -dcf a.csv.gz | iconv -f cp1251 -t utf-8 > a-utf8.csv",
    ),
    "lines of an old Mac": (
        "a.csv",
        b"anchor,positive\rone,eins\rtwo,zwei\r",
        "line 1: a carriage return without a line feed",
        "end its lines with line feeds",
    ),
    "a row of many positives": (
        "a.jsonl",
        b'{"query": "a", "pos": ["' + b'b", "' * 200_001 + b'"]}',
        "line 1: longer than 1,000,000 bytes",
        "many positives of one anchor in rows of their own",
    ),
    "twice below sep=": ("a.csv", b"sep=;\na;a\n1;2\n", "line 2: the column 'a' occurs twice", "its own"),
    "parquet in gzip": ("a.parquet.gz", b"", "has an unknown format", ".parquet"),
    "STS-B cut off": ("a.csv", b"g\tf\ty\t1\t2.5\ta\tb\ng\tf\ty\t1\n", "line 2: 4 fields where STS-B has", "again"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_its_line_and_the_remedy(read: Read, case: str) -> None:
    name, content, what, hint = BAD[case]
    with pytest.raises(DataError) as caught:
        read(name, content)
    assert caught.value.what.startswith(name) and what in caught.value.what
    assert hint in caught.value.hint and caught.value.code == 3
    assert "\n" not in caught.value.what + caught.value.hint


@pytest.mark.parametrize("case", ["txt", "csv", "another suffix", "jsonl", "json"])
def test_a_limit_reads_the_first_rows(read: Read, case: str) -> None:
    name, content, columns = GOOD[case]
    assert read(name, content, 1).columns == {column: cells[:1] for column, cells in columns.items()}
    assert read(name, content, 100).columns == columns


def test_rows_beyond_the_limit_are_not_read(read: Read) -> None:
    assert len(read("a.txt", b"one\ntwo\n\xff\n", 2)) == 2


def test_a_row_is_named_by_the_line_in_which_it_starts(read: Read) -> None:
    frame = read("a.csv", b'text\n"one\nand a half"\ntwo\n"three\n\n3"\nfour\n')
    assert [frame.where(row) for row in range(4)] == [f"a.csv, line {line}" for line in (2, 4, 5, 8)]
    assert read("a.json", b'[{"text": "one"}, {"text": "two"}]').where(1) == "a.json, row 2"


@pytest.mark.parametrize("name", ["sts-dev.csv", "sts-dev.tsv"])
def test_the_published_form_of_stsb_is_known_by_its_content(read: Read, name: str) -> None:
    """Quotes open and never close, and some rows have two columns more."""
    more = ("\thttp://one\tAFP", "", "")
    lines = [f'news\tAFP\t15\t{n:04d}\t{n / 4:.3f}\t"Row {n}, he said\tRow "{n}" it is{more[n % 3]}' for n in range(20)]
    frame = read(name, "\n".join(lines).encode())
    assert frame.columns == {
        "score": [f"{n / 4:.3f}" for n in range(20)],
        "sentence1": [f'"Row {n}, he said' for n in range(20)],
        "sentence2": [f'Row "{n}" it is' for n in range(20)],
    }
    assert frame.where(19) == f"{name}, line 20"
    assert "published form" in frame.notes[0]


def test_a_sentence_with_a_tab_is_told(read: Read) -> None:
    frame = read("a.txt", b"one\ntwo\tthree\nfour\tfive\n")
    assert list(frame.columns["sentence"]) == ["one", "two\tthree", "four\tfive"]
    assert frame.notes == ("a.txt was read as: one sentence a line, though line 2 has a TAB; a table is a .tsv",)
    assert read("a.txt", b"sentence1\tsentence2\r\none\ttwo\r\n").columns.keys() == {"sentence1", "sentence2"}


def test_parquet_gives_columns_and_the_names_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    from pyarrow import parquet

    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = datasets.Features({"premise": datasets.Value("string"), "label": names})
    rows = datasets.Dataset.from_dict({"premise": ["a", "b", "c"], "label": [2, 0, -1]}, features=features)
    parquet.write_table(rows.data.table, tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "datasets", None)  # importing it takes seconds
    frame = read_file(tmp_path / "a.parquet", "a.parquet")
    assert frame.columns == {"premise": ["a", "b", "c"], "label": ["contradiction", "entailment", "-"]}
    assert frame.where(2) == "a.parquet, row 3"
    assert read_file(tmp_path / "a.parquet", "a.parquet", limit=2).columns["premise"] == ["a", "b"]
    spelled = rows.data.table.set_column(1, "label", [["neutral", "entailment", "neutral"]])
    assert b"ClassLabel" in spelled.schema.metadata[b"huggingface"]
    parquet.write_table(spelled, tmp_path / "b.parquet")
    assert read_file(tmp_path / "b.parquet", "b.parquet").columns["label"] == ["neutral", "entailment", "neutral"]


def test_parquet_keeps_the_types_of_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_PARQUET_GROUP_ROWS", 2)
    columns: dict[str, list[object]] = {
        "text": ["a", "b", "c"],
        "score": [1, None, 0.5],
        "late": [None, None, 7],
        "list": [[], [1.5], None],
        "day": [date(2020, 1, 1), None, None],
        "none": [None] * 3,
    }
    mixed = {"mixed": [1, "x", None], "huge": [2**64, 1, 2], "no keys": [{}] * 3}
    rows = zip(*columns.values(), *mixed.values(), strict=True)
    writing.WRITERS[".parquet"](tmp_path / "a.parquet", [*columns, *mixed], rows)
    as_texts = {"mixed": ["1", "x", None], "huge": [str(2**64), "1", "2"], "no keys": ["{}"] * 3}
    assert read_file(tmp_path / "a.parquet", "a.parquet").columns == columns | as_texts


@pytest.mark.parametrize(("suffix", "header"), [("txt", b""), ("csv", b"sentence\n"), ("tsv", b"sentence\n")])
def test_the_first_rows_of_a_file_that_would_fill_the_memory_are_read(
    read: Read, monkeypatch: pytest.MonkeyPatch, suffix: str, header: bytes
) -> None:
    monkeypatch.setattr("contrastcli.data.formats.UNPACKED_BYTES", 100_000)
    content = gzip.compress(header + b"ba\n" * 100_000)
    assert read(f"rows.{suffix}.gz", content, 1_000).columns == {"sentence": ["ba"] * 1_000}
    with pytest.raises(DataError, match="would fill the memory"):
        read(f"rows.{suffix}.gz", content)


def test_every_row_that_cannot_be_read_is_counted_in_one_error(read: Read) -> None:
    with pytest.raises(DataError) as caught:
        read("a.csv", b"a,b\n1,2\n3\n4,5,6\n7,8\n9\n")
    first = "a.csv, line 3: 1 fields where the header has 2"
    assert caught.value.what == f"{first}; 3 of 5 rows cannot be read: lines 3, 4, 6"
    with pytest.raises(DataError) as caught:
        read("a.jsonl", b'{"a": 1}\n{"b": 2}\n[3]\nfour\n' + b'{"a": 5}\nsix\n' * 4)
    assert caught.value.what.endswith("5 of 12 rows cannot be read: lines 4, 6, 8, 10, 12")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"a,b\n1,2\n\n3,4\n \n\n"),
        ("a.tsv", b"a\tb\n1\t2\n\n3\t4\n\t\n"),
        ("a.txt", b"1\n\n3\n\n\n"),
        ("a.jsonl", b'{"a": "1"}\n\n{"a": "3"}\n\n'),
    ],
)
def test_a_blank_line_is_a_row_of_blanks_and_none_at_the_end(read: Read, name: str, content: bytes) -> None:
    assert all(len(column) == 3 and not column[1] for column in read(name, content).columns.values())


def test_blank_lines_without_end_are_refused(read: Read) -> None:
    with pytest.raises(DataError, match="more than 100,000 lines from line 2 on are blank"):
        read("a.txt.gz", gzip.compress(b"one\n" + b"\n" * 200_000))


@pytest.mark.parametrize(
    ("encoding", "delimiter", "note"),
    [
        ("utf-8-sig", ";", "semicolons; UTF-8 with its mark"),
        ("utf-16", "\t", "tabs; UTF-16 with its mark"),
        ("utf-16-le", ";", "semicolons; UTF-16-LE without its mark"),
        ("utf-16-be", ";", "semicolons; UTF-16-BE without its mark"),
        ("cp1252", "|", "vertical bars; Windows-1252, as in line 3: 'es?\"|„5 €“ – für’s Erste…'"),
    ],
)
def test_what_excel_writes_is_read_as_it_was_typed(read: Read, encoding: str, delimiter: str, note: str) -> None:
    text = 'Frage;Antwort\r\n"Was; kostet\nes?";„5 €“ – für’s Erste…\r\nplain;text\r\n'.replace(";", delimiter)
    table, question = read("a.csv", text.encode(encoding)), f"Was{delimiter} kostet\nes?"
    assert table.columns == {"Frage": [question, "plain"], "Antwort": ["„5 €“ – für’s Erste…", "text"]}
    assert table.where(1) == "a.csv, line 4"
    assert table.notes == (f"a.csv was read as: fields separated by {note}",)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("kızım için kreş yeri yok\nEğitim pahalı\nİş yok\n" * 4 + "café\n", "cp1254"),
        ("Größe\nkızım için kreş yeri yok\n", "cp1254"),
        ("Það er gott\nþær eru hér\n", "cp1252"),
        ("Für Jan Novotný\nGröße\nStraße\n", "cp1252"),
    ],
)
def test_turkish_is_told_from_icelandic(read: Read, text: str, encoding: str) -> None:
    """The letters in which the encodings differ are of one or the other."""
    frame = read("a.txt", text.encode(encoding))
    assert frame.columns["sentence"] == text.splitlines()
    assert f"Windows-{encoding[2:]}, as in line 1: " in frame.notes[0]


def test_a_spreadsheets_quotes_in_a_tsv_are_told(read: Read) -> None:
    """There quotes are literal, and a text would keep those of the spreadsheet without a word."""
    content = b'a\tb\n"say ""we"" here"\t"x"\n"\t""\n'
    frame = read("a.tsv", content)
    assert frame.columns == {"a": ['"say ""we"" here"', '"'], "b": ['"x"', '""']}
    assert frame.notes == (
        "a.tsv was read as: quotes are literal; to read quoted fields, of which it has 1, name it .csv",
    )
    assert read("b.csv", content[:-5]).columns == {"a": ['say "we" here'], "b": ["x"]}
