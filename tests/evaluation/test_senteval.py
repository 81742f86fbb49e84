"""SentEval's STS files: what is read from them, what is wrong with them, and where they come from."""

import io
import tarfile
from pathlib import Path

import pytest

from contrastcli.evaluation.senteval import read_sts
from contrastcli.evaluation.suites import STS
from contrastcli.files import cache_dir
from support.hub import Hub, Repo
from support.sts_files import (
    FakeEncoder,
    measured,
    problem,
    some_rows,
    write_all,
    write_lines,
    write_sick,
    write_stsb,
    write_subset,
    write_year,
)


def test_pairs_without_gold_are_dropped_and_the_others_keep_their_own(tmp_path: Path) -> None:
    write_year(tmp_path, "STS15")
    rows = [
        ("one", "two", "1.5"),
        ("three", "four", ""),
        ("five", "six", "4"),
        ("six", "eight", " "),
        ("x", "y", "0"),
    ]
    write_subset(tmp_path, "STS15", "belief", rows)
    pairs = read_sts(tmp_path, "STS15")["belief"]
    scored = [("one", "two", 1.5), ("five", "six", 4.0), ("x", "y", 0.0)]
    assert list(zip(pairs.first, pairs.second, pairs.scores, strict=True)) == scored


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('He said "no" .', 'He said "no" .'),
        ('"unclosed', '"unclosed'),
        ("two  spaces and no-break\u00a0space ", "two spaces and no-break space"),
        ("a line\u2028separator, no end", "a line separator, no end"),
        ("é ü 漢", "é ü 漢"),
    ],
)
def test_sentences_are_read_literally_but_for_white_space(tmp_path: Path, written: str, read: str) -> None:
    write_year(tmp_path, "STS13")
    write_subset(tmp_path, "STS13", "FNWN", [(written, "other", "1"), *some_rows("more")])
    write_stsb(tmp_path, [(written, "other", "1"), *some_rows("more")])
    write_sick(tmp_path, [(written, "other", "1"), *some_rows("more")])
    subsets = {"STS13": "FNWN", "STS-B": "test", "SICK-R": "test"}
    for task, subset in subsets.items():
        pairs = read_sts(tmp_path, task)[subset]
        assert (pairs.first[0], pairs.second[0], len(pairs)) == (read, "other", 7)


def test_line_ends_of_windows_and_files_of_all_pairs_or_of_smt_leave_the_numbers_as_they_are(tmp_path: Path) -> None:
    rows = write_year(tmp_path, "STS13")
    before = measured(FakeEncoder(), tmp_path, "STS13").tasks
    for subset in rows:
        write_subset(tmp_path, "STS13", subset, rows[subset], end="\r\n")
    for subset in ("ALL", "SMT"):
        write_subset(tmp_path, "STS13", subset, some_rows(subset))
    assert measured(FakeEncoder(), tmp_path, "STS13").tasks == before


def test_columns_behind_the_sentences_are_not_text(tmp_path: Path) -> None:
    write_year(tmp_path, "STS16")
    write_subset(
        tmp_path, "STS16", "plagiarism", [(a, f"{b}\tsource\thttp://x", gold) for a, b, gold in some_rows("p")]
    )
    write_stsb(tmp_path, [(a, f"{b}\tlicence\tsource", gold) for a, b, gold in some_rows("b")])
    assert read_sts(tmp_path, "STS16")["plagiarism"].second == [b for _, b, _ in some_rows("p")]
    assert read_sts(tmp_path, "STS-B")["test"].second == [b for _, b, _ in some_rows("b")]


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("STS.gs.OnWN.txt", b"1\n2\nhigh\n4\n1\n2\n3\n4\n", "STS.gs.OnWN.txt, line 3: the score is 'high'"),
        ("STS.gs.OnWN.txt", b"1\nnan\n3\n4\n1\n2\n3\n4\n", "STS.gs.OnWN.txt, line 2: the score is 'nan'"),
        ("STS.gs.OnWN.txt", b"1\n2\n3\n", "STS.input.OnWN.txt has 8 lines, its STS.gs.OnWN.txt has 3"),
        ("STS.gs.OnWN.txt", b"\n" * 8, "STS.gs.OnWN.txt has no score"),
        ("STS.input.OnWN.txt", b"a\tb\n" * 7 + b"no second\n", "STS.input.OnWN.txt, line 8: no tab"),
        ("STS.input.OnWN.txt", b"a\tb\n" * 7 + b"caf\xe9\tb\n", "STS.input.OnWN.txt, line 8: not UTF-8"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, file: str, content: bytes, named: str) -> None:
    write_year(tmp_path, "STS13")
    (tmp_path / "STS" / "STS13-en-test" / file).write_bytes(content)
    what, hint = problem(measured(FakeEncoder(), tmp_path, "STS13"), "STS13")
    assert named in what
    assert hint


def test_a_file_of_other_columns_is_not_taken_for_sts_b(tmp_path: Path) -> None:
    write_stsb(tmp_path, [])
    write_lines(tmp_path / "STS" / "STSBenchmark" / "sts-test.csv", ["sentence,label", "a,1"])
    what, _ = problem(measured(FakeEncoder(), tmp_path, "STS-B"), "STS-B")
    assert "sts-test.csv" in what and "sentence1" in what


@pytest.mark.parametrize(
    ("task", "file"), [("STS-B", "STS/STSBenchmark/sts-test.csv"), ("SICK-R", "SICK/SICK_test_annotated.txt")]
)
def test_a_set_in_another_encoding_than_the_published_one_is_refused(tmp_path: Path, task: str, file: str) -> None:
    write_stsb(tmp_path, [("a café", "b", "1"), ("c", "d", "2")])
    write_sick(tmp_path, [("a café", "b", "1"), ("c", "d", "2")])
    path = tmp_path / file
    path.write_bytes(path.read_text().encode("cp1252"))
    what, hint = problem(measured(FakeEncoder(), tmp_path, task), task)
    assert "not UTF-8" in what and "café" in hint and "iconv -f" in hint


@pytest.mark.parametrize("above", ["", "downstream", "data/downstream", "sets"])
def test_the_folder_may_be_that_of_the_sets_or_one_above_downstream(tmp_path: Path, above: str) -> None:
    write_stsb(tmp_path / above, some_rows("stsb"))
    assert measured(FakeEncoder(), tmp_path, "STS-B").tasks["STS-B"]["pairs"] == 6


def publish(hub: Hub, folder: Path, *names: str, size: int | None = None) -> None:
    """Put an archive of these folders, or its first bytes, on a hub."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in names:
            tar.add(folder / name, name)
    hub.datasets["princeton-nlp/datasets-for-simcse"] = Repo({"senteval.tar": archive.getvalue()[:size]})


def test_without_a_folder_the_archive_of_the_hub_is_unpacked_once(tmp_path: Path, served_hub: Hub) -> None:
    write_all(tmp_path / "sets")
    publish(served_hub, tmp_path / "sets", "STS", "SICK")
    first = measured(FakeEncoder(), None)
    assert set(first.tasks) == set(STS.tasks)
    assert measured(FakeEncoder(), None).tasks == first.tasks
    assert len(served_hub.downloads()) == 1


def test_without_a_folder_that_of_the_variable_is_read(
    tmp_path: Path, served_hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all(tmp_path / "sets")
    monkeypatch.setenv("CONTRAST_SENTEVAL", str(tmp_path / "sets"))
    assert set(measured(FakeEncoder(), None).tasks) == set(STS.tasks)
    monkeypatch.setenv("CONTRAST_SENTEVAL", str(tmp_path / "nothing"))
    assert measured(FakeEncoder(), None).missing["STS12"].what == f"there is no folder {tmp_path / 'nothing'}"
    assert not served_hub.requests


def test_an_archive_that_is_cut_short_leaves_nothing_behind(tmp_path: Path, served_hub: Hub) -> None:
    write_all(tmp_path / "sets")
    publish(served_hub, tmp_path / "sets", "STS", size=5000)
    result = measured(FakeEncoder(), None)
    assert len(result.missing) == 7 and "cannot be unpacked" in result.missing["STS12"].what
    assert list(cache_dir().iterdir()) == []


@pytest.mark.usefixtures("served_hub")
def test_a_hub_that_has_no_archive_makes_every_set_missing_with_the_remedy() -> None:
    result = measured(FakeEncoder(), None)
    assert len(result.missing) == 7
    assert "senteval.tar" in result.missing["STS12"].what and "--data-dir" in result.missing["STS12"].hint
