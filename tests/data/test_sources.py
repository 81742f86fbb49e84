"""Data by name, what one form of rows becomes for an objective, and what is held out of it."""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from contrastcli.data.forms import FORMS
from contrastcli.data.sources import load_examples, open_dev
from contrastcli.data.texts import Texts
from contrastcli.errors import DataError
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Data
from support.tables import load, scored_pairs

LABELLED = [  # premise, hypothesis, label
    ("p", "e1", "entailment"),
    ("q", "e2", "entailment"),
    ("p", "c1", "contradiction"),
    ("p", "e3", "entailment"),
    ("p", "n1", "neutral"),
    ("p", "c2", "contradiction"),
    ("p", "e4", "entailment"),
    ("r", "c3", "contradiction"),
]


def write(path: Path, header: str, rows: Sequence[tuple[str, ...]]) -> str:
    path.write_text("\n".join("\t".join(row) for row in [tuple(header.split()), *rows]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A file of each form."""
    return {
        "sentences": write(tmp_path / "s.tsv", "text", [("a",), ("b",), ("a",), ("c",)]),
        "pairs": write(tmp_path / "p.tsv", "anchor positive", [("a", "b"), ("c", "d"), ("a", "d")]),
        "triplets": write(tmp_path / "t.tsv", "sent0 sent1 hard_neg", [("a", "b", "c"), ("d", "e", "c")]),
        "labelled": write(tmp_path / "l.tsv", "premise hypothesis label", LABELLED),
    }


@pytest.mark.parametrize("form", ["sentences", "pairs", "triplets"])
def test_rows_that_an_objective_takes_stay_as_they_are(files: dict[str, str], form: str) -> None:
    rows = load(files[form], "simcse")
    assert (rows.form, rows.source) == (form, files[form])
    assert not any("became" in note for note in rows.notes)
    if form == "sentences":
        assert rows.views["anchor"] == ["a", "b", "a", "c"]
        assert "1 of 4 rows repeat an earlier one" in rows.notes


CONVERTED: dict[tuple[str, Form], list[str]] = {
    ("pairs", "sentences"): ["a", "b", "c", "d"],
    ("triplets", "sentences"): ["a", "b", "c", "d", "e"],
    ("labelled", "sentences"): ["p", "e1", "q", "e2", "c1", "e3", "n1", "c2", "e4", "r", "c3"],
    ("triplets", "pairs"): ["a b", "d e"],
    ("labelled", "pairs"): ["p e1", "q e2", "p e3", "p e4"],
    ("triplets", "labelled"): ["a b", "a c", "d e", "d c"],
    ("labelled", "triplets"): ["p e1 c1", "p e3 c2", "p e4 c1"],
}
"""The rows, with blanks between their texts."""


@pytest.mark.parametrize(("form", "needed"), CONVERTED)
def test_rows_become_what_is_needed_with_a_note(files: dict[str, str], form: str, needed: Form) -> None:
    rows, expected = load_examples(Data(train=files[form]), (needed,), ()), CONVERTED[form, needed]
    assert rows.form == needed and [*map(" ".join, zip(*rows.views.values(), strict=True))] == expected
    assert rows.labels == ([0, 2, 0, 2] if needed == "labelled" else None)
    assert any(f"became {len(expected)} {FORMS[needed]}" in note for note in rows.notes)


def test_labelled_pairs_without_contradictions_become_pairs_for_a_contrast(tmp_path: Path) -> None:
    entailed = [("p", "e1", "e"), ("p", "n1", "n"), ("q", "e2", "e")]
    rows = load(write(tmp_path / "a.tsv", "premise hypothesis label", entailed), "simcse")
    assert rows.form == "pairs" and rows.views == {"anchor": ["p", "q"], "positive": ["e1", "e2"]}


def test_labels_that_the_objective_has_no_use_for_are_dropped_and_counted(files: dict[str, str]) -> None:
    rows = load(files["labelled"], "pairsupcon")
    assert Counter(rows.labels) == {0: 4, 2: 3}
    assert "n1" not in rows.views["positive"]
    assert "1 of 8 rows labelled neutral were dropped" in rows.notes
    assert len(load(files["labelled"], "supcon")) == 8
    assert load(files["labelled"], "supcon", limit=3).views["positive"] == ["e1", "e2", "c1"]
    assert len(load(files["labelled"], "pairsupcon", limit=5)) == 4, "a limit counts rows of the file"


def test_no_row_left_and_one_row_only_are_refused(tmp_path: Path) -> None:
    neutral = write(tmp_path / "n.tsv", "premise hypothesis label", [("a", "b", "n"), ("c", "d", "n")])
    with pytest.raises(DataError, match="no row is left") as caught:
        load(neutral, "pairsupcon")
    assert "entailment, contradiction" in caught.value.hint
    with pytest.raises(DataError, match="no row is left"):
        load_examples(Data(train=neutral), ("pairs",), ())
    for times, of_texts, of_pairs in (
        (1, "one sentence only was", "one row only was"),
        (3, "3 equal sentences were", "3 equal rows were"),
    ):
        with pytest.raises(DataError, match=f"{of_texts} read, and nothing to contrast with"):
            load(write(tmp_path / "o.tsv", "text", [("a",), (" a ",), ("a",)][:times]), "simcse")
        with pytest.raises(DataError, match=f"{of_pairs} read, and nothing to contrast with"):
            load(write(tmp_path / "o.tsv", "anchor positive", [("a", "b")] * times), "simcse")


def test_a_fingerprint_changes_with_the_rows_alone(files: dict[str, str], tmp_path: Path) -> None:
    rows = load(files["labelled"], "supcon")
    moved = shutil.copy(files["labelled"], tmp_path / "moved.tsv")
    assert load(str(moved), "supcon").fingerprint == rows.fingerprint
    assert len(rows.fingerprint) == 64
    texts = rows.views["positive"]
    others = [
        replace(rows, labels=[2, *(rows.labels or [])[1:]]),
        replace(rows, views={**rows.views, "positive": Texts.of(["other", *texts[1:]])}),
        replace(rows, views={**rows.views, "positive": Texts.of([*texts[1:], texts[0]])}),
        replace(rows, views={"anchor": texts, "positive": rows.views["anchor"]}),
        replace(rows, form="pairs", labels=None),
    ]
    assert len({other.fingerprint for other in [rows, *others]}) == 6


def test_a_folder_is_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    write(folder / "b.tsv", "anchor positive", [("c", "d"), ("e", "f")])
    write(folder / "a.tsv", "positive anchor", [("b", "a")])
    for name in ("README.md", ".gitattributes", "LICENSE", "load.py", "b.tsv.mined"):
        (folder / name).write_text("no data")
    rows = load(str(folder), "simcse")
    assert not any("not read" in note for note in rows.notes)
    for name in ("intro.md", "faq.md"):
        (folder / name).write_text("Turn it off and on again.")
    assert f"files of {folder} that are not read: 2 (.md)" in load(str(folder), "simcse").notes
    assert rows.views == {"anchor": ["a", "c", "e"], "positive": ["b", "d", "f"]}
    assert load(str(folder), "simcse", limit=2).views["anchor"] == ["a", "c"]
    write(folder / "c.tsv", "anchor positive", [("g", "h"), ("i", "")])
    with pytest.raises(DataError, match=r"rows/c\.tsv, line 3: the sentence"):
        load(str(folder), "simcse")
    assert len(load(str(folder), "simcse", limit=3)) == 3
    (folder / "c.tsv").rename(folder / "test.tsv")
    assert f"of {folder} every file is read, test.tsv too" in load(str(folder), "simcse", limit=3).notes


def test_of_the_splits_in_a_folder_one_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for n, name in enumerate(("train-0-of-2", "train-1-of-2", "dev", "test", "._train")):
        write(tmp_path / "data" / f"{name}.tsv", "anchor positive", [(f"a{n}", "b"), (f"c{n}", "d")])
    rows = load(str(tmp_path), "simcse")
    assert rows.views["anchor"] == ["a0", "c0", "a1", "c1"]
    assert any(note.endswith("data the split train is read, not validation, test") for note in rows.notes)
    assert open_dev(str(tmp_path)).columns["anchor"] == ["a2", "c2"]
    (tmp_path / "data" / "dev.tsv").unlink()
    with pytest.raises(DataError, match="has no split 'validation'") as caught:
        open_dev(str(tmp_path))
    assert caught.value.hint == f"name one that it has: {tmp_path}/data/train-0-of-2.tsv or {tmp_path}/data/test.tsv"


def test_a_folder_of_files_that_do_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no data file"):
        load(str(tmp_path), "simcse")
    write(tmp_path / "a.tsv", "anchor positive", [("a", "b")])
    write(tmp_path / "b.tsv", "anchor positive negative", [("a", "b", "c")])
    with pytest.raises(DataError, match=r"the columns of .*a\.tsv \(anchor, positive\) and .*b\.tsv .* differ"):
        load(str(tmp_path), "simcse")
    (tmp_path / "c.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"mixes formats: a\.tsv, b\.tsv, c\.txt"):
        load(str(tmp_path), "simcse")


def test_a_missing_file_names_the_nearest_one(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sentences.txt.gz").write_bytes(b"")
    for name, hint in {
        "sentence.txt": f"did you mean {tmp_path}/sentences.txt.gz?",
        "s.tsv=0": f"did you mean {tmp_path}/s.tsv?",
        "missing.tsv": "the folder holds l.tsv, p.tsv",
        "something-else": "the folder holds l.tsv, p.tsv",
        "no/such.txt": "hf:owner/name",
        "x" * 5000: "the folder holds l.tsv",
    }.items():
        with pytest.raises(DataError, match="there is no file or folder") as caught:
            load(str(tmp_path / name), "simcse")
        assert hint in caught.value.hint
    with pytest.raises(DataError, match="there is no training data"):
        load("", "simcse")


@pytest.fixture
def senteval(tmp_path: Path) -> Path:
    folder = tmp_path / "SentEval" / "data" / "downstream" / "STS" / "STSBenchmark"
    folder.mkdir(parents=True)
    for split, score in {"train": "1", "dev": "2", "test": "3"}.items():
        rows = [f"g\tf\ty\t{n}\t{score}.{n}\tone, {split}\tother {n}, {split}" for n in range(3)]
        (folder / f"sts-{split}.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "SentEval"


@pytest.mark.parametrize("below", ["", "data", "data/downstream"])
def test_senteval_gives_stsbs_sentences_to_train_and_its_dev_pairs(senteval: Path, below: str) -> None:
    name = f"senteval:{senteval / below}"
    rows = load(name, "simcse")
    assert rows.form == "sentences"
    assert rows.views["anchor"] == ["one, train", "other 0, train", "other 1, train", "other 2, train"]
    dev = scored_pairs(name)
    assert dev.scores == [2.0, 2.1, 2.2]
    scored = load(name, "cosent")
    assert scored.form == "scored" and scored.scores == [1.0, 1.1, 1.2]


def test_stsb_comes_from_the_senteval_folder_of_the_environment(
    senteval: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="stsb") as caught:
        scored_pairs("stsb")  # offline
    assert "give --dev FILE, or name SentEval's folder" in caught.value.hint
    monkeypatch.setenv("CONTRAST_SENTEVAL", str(senteval))
    assert scored_pairs("stsb").second == ["other 0, dev", "other 1, dev", "other 2, dev"]
    (senteval / "data" / "downstream").rename(tmp_path / "unpacked")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTRAST_SENTEVAL", "~")
    assert scored_pairs("stsb").scores == [2.0, 2.1, 2.2]
    monkeypatch.setenv("CONTRAST_SENTEVAL", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"there is no file .*elsewhere/STS/STSBenchmark/sts-dev\.csv"):
        scored_pairs("stsb")


def test_real_nli_wikipedia_and_sick_keep_every_row(data_folder: Path) -> None:
    rows = load(str(data_folder / "nli" / "pairs.jsonl.gz"), "supcon")
    assert Counter(rows.labels) == {0: 30050, 1: 30317, 2: 30792}
    assert len(load(str(data_folder / "nli" / "triplets.csv"), "simcse")) == 10579
    assert len(load(str(data_folder / "wiki" / "sentences.txt.gz"), "simcse")) == 250_000
    sick = scored_pairs(str(data_folder / "senteval" / "SICK" / "SICK_test_annotated.txt"))
    assert len(sick) == 4927
