"""The suite retrieval: sets as BEIR and NanoBEIR publish them, and what is measured of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
from numpy.typing import NDArray

from contrastcli.data import folders, hub
from contrastcli.data.dev_data import load_dev, read_dev
from contrastcli.data.examples import Examples
from contrastcli.data.formats import Frame, read_file
from contrastcli.data.relevance import Retrieval
from contrastcli.data.sources import load_documents, load_examples
from contrastcli.data.texts import Texts
from contrastcli.errors import DataError, UsageError
from contrastcli.evaluation import retrieval
from contrastcli.evaluation.measure import SuiteResult, measure
from contrastcli.evaluation.procedure import Options, Subject
from contrastcli.evaluation.suites import RETRIEVAL, headlines
from contrastcli.settings.sections import Data, Dev

DOCUMENTS = ["red", "green", "blue", "grey"]
CORPUS = [{"_id": f"d{n}", "title": "" if n else "The", "text": text} for n, text in enumerate(DOCUMENTS)]
QUERIES = [{"_id": "q0", "text": "rouge"}, {"_id": "d2", "text": "bleu"}, {"_id": "q9", "text": "not judged"}]
QRELS = ["q0\td0\t1", "q0\td1\t2", "q0\td3\t0", "d2\td1\t1", "d2\td0\t-1"]
QRELS_HEADER = "query-id\tcorpus-id\tscore\n"
COSINES = {"rouge": [0.8, 0.5, 0.6, 0.2], "bleu": [0.1, 0.3, 0.9, 0.3]}
"""Of the queries with each document; the second query has the id of a document, which is left out."""
WANTED = {
    "ndcg@10": 100 * np.mean([(1 + 2 / np.log2(4)) / (2 + 1 / np.log2(3)), 1 / np.log2(3)]),
    "mrr@10": 75.0,
    "recall@1": 25.0,
    "recall@10": 100.0,
    "recall@100": 100.0,
    "map": 100 * np.mean([(1 + 2 / 3) / 2, 1 / 2]),
    "queries": 2,
    "documents": 4,
    "fingerprint": ANY,
    "note": "",
    "partial": False,
}


def write_set(folder: Path, layout: str) -> Path:
    """A set as BEIR publishes it, or as parquet files like those of the hub."""
    header = ["query-id", "corpus-id", "score"]
    if layout == "parquet":
        judged = [dict(zip(header, line.split("\t"), strict=True)) for line in QRELS]
        for name, rows in (("corpus", CORPUS), ("queries", QUERIES), ("qrels", judged)):
            write_parquet(folder / name, rows)
        return folder
    (folder / "qrels").mkdir(parents=True)
    for split, lines in (("test", QRELS), ("dev", ["q9\td0\t1"]), ("train", ["q9\td1\t1"])):
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["\t".join(header), *lines]) + "\n")
    for name, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({**row, "metadata": {}}) + "\n" for row in rows))
    return folder


def write_parquet(folder: Path, rows: Sequence[Mapping[str, str]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(list(rows)), folder / "train-00000-of-00001.parquet")


def vectors_of_colours() -> dict[str, NDArray[np.float64]]:
    """Documents of any length along the axes; queries with the COSINES, up to a factor."""
    axes = {text: (n + 1) * np.eye(4)[n] for n, text in enumerate(["The red", *DOCUMENTS[1:]])}
    return axes | {text: np.array(row) for text, row in COSINES.items()}


def measured(folder: Path | None, *tasks: str, texts: Mapping[str, NDArray[np.float64]] | None = None) -> SuiteResult:
    vectors = texts or vectors_of_colours()
    subject = Subject("fake", lambda wanted, kind: np.stack([vectors[text] for text in wanted]), "mean", "fake")
    return measure(RETRIEVAL, subject, Options(folder, tasks, fresh=True))


@pytest.mark.parametrize("layout", ["jsonl", "parquet"])
def test_a_set_is_measured_as_its_definitions_say(tmp_path: Path, layout: str) -> None:
    write_set(tmp_path / "colours", layout)
    (tmp_path / "corpus.txt").write_text("a list of what is here, which is no set\n")
    result = measured(tmp_path)
    assert result.tasks == {"colours": pytest.approx(WANTED)}
    assert result.averages == {"average": pytest.approx(WANTED["ndcg@10"])}
    assert measured(tmp_path / "colours").tasks == result.tasks
    assert measured(tmp_path, "colours").tasks == result.tasks


def test_sets_of_one_name_and_other_content_are_told_apart(tmp_path: Path) -> None:
    write_set(tmp_path / "a" / "colours", "jsonl")
    write_set(tmp_path / "b" / "colours", "parquet")
    judged = write_set(tmp_path / "c" / "colours", "jsonl") / "qrels" / "test.tsv"
    judged.write_text(judged.read_text().replace("q0\td1\t2", "q0\td1\t1"))
    a, b, c = ({"suites": {"retrieval": measured(tmp_path / one).tasks}} for one in "abc")
    assert len({*headlines(a, [b]), *headlines(b, [a])}) == 1, "the same set in another layout"
    assert len({*headlines(a, [c]), *headlines(c, [a])}) == 2


def test_without_a_folder_the_sets_are_those_of_nanobeir_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(tmp_path, "jsonl")
    asked = []

    def read(name: str, split: str, limit: int = 0) -> Frame:
        asked.append((name, split))
        part = name.partition("=")[2]
        file = tmp_path / ("qrels/test.tsv" if part == "qrels" else f"{part}.jsonl")
        return read_file(file, name, limit)

    monkeypatch.setattr(hub, "read", read)
    assert measured(None, "NanoNQ").tasks == {"NanoNQ": pytest.approx(WANTED)}
    parts = ("corpus", "queries", "qrels")
    assert asked == [(f"hf:zeta-alpha-ai/NanoNQ?config={part}", "train") for part in parts]
    assert len(retrieval.NANO) == 13 and len(measured(None).tasks) == 13


def test_sets_of_the_hub_have_neither_titles_nor_grades(tmp_path: Path) -> None:
    write_parquet(tmp_path / "Nano" / "corpus", [{"_id": str(n), "text": text} for n, text in enumerate(DOCUMENTS, 1)])
    write_parquet(tmp_path / "Nano" / "queries", [{"_id": "q", "text": "grey"}])
    write_parquet(tmp_path / "Nano" / "qrels", [{"query-id": "q", "corpus-id": "4"}])
    scores = measured(tmp_path, texts={text: np.eye(4)[n] for n, text in enumerate(DOCUMENTS)}).tasks["Nano"]
    assert (scores["ndcg@10"], scores["map"], scores["queries"], scores["documents"]) == (100, 100, 1, 4)


def test_of_the_judgements_test_is_read_else_dev_else_train(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "colours", "jsonl")
    relevant = []
    for split in ("test", "dev", "train"):
        data = folders.read_retrieval(folder)
        relevant.append([(data.queries[q], data.documents[d]) for q, d, grade in data.judged if grade])
        (folder / "qrels" / f"{split}.tsv").unlink()
    assert relevant[1:] == [[("not judged", "The red")], [("not judged", "green")]]
    assert len(relevant[0]) == 3


def test_judgements_of_several_splits_are_not_mixed(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "colours", "jsonl")
    for split in ("test", "dev", "train"):
        file = folder / "qrels" / f"{split}.tsv"
        file.rename(file.with_stem(f"{split}-00000-of-00001"))
    assert folders.read_retrieval(folder).queries == ["rouge", "bleu"]
    for part in ("corpus", "queries"):
        (folder / part).mkdir()
        for split, rows in zip(("train", "test"), (slice(2), slice(2, None)), strict=True):
            lines = (folder / f"{part}.jsonl").read_text().splitlines(keepends=True)[rows]
            (folder / part / f"{split}.jsonl").write_text("".join(lines))
        (folder / f"{part}.jsonl").unlink()
    assert folders.read_retrieval(folder).queries == ["rouge", "bleu"], "texts of all splits are one corpus"
    for n, file in enumerate((folder / "qrels").iterdir()):
        file.rename(file.with_stem(str(n)))
    with pytest.raises(DataError, match="qrels holds files of no known split"):
        folders.read_retrieval(folder)


@pytest.mark.parametrize("more", ["q0\td1\t0", "q0\td1\t1"])
def test_the_highest_of_several_grades_counts_wherever_it_stands(tmp_path: Path, more: str) -> None:
    judged = write_set(tmp_path / "colours", "jsonl") / "qrels" / "test.tsv"
    for lines in ([more, *QRELS], [*QRELS, more]):
        judged.write_text(QRELS_HEADER + "".join(f"{line}\n" for line in lines))
        note = "1 of 6 judgements are of pairs with a higher grade, and are left out"
        assert measured(tmp_path).tasks["colours"] == pytest.approx(WANTED | {"note": note})


def test_a_document_that_is_judged_and_not_there_is_not_found(tmp_path: Path) -> None:
    """The numbers are those of pytrec_eval, for a query of which the corpus lacks one of three relevant documents."""
    with (write_set(tmp_path / "colours", "jsonl") / "qrels" / "test.tsv").open("a") as file:
        file.write("q0\tnone\t1\nnobody\td0\t1\n")
    result = measured(tmp_path)
    q0 = {"ndcg@10": 0.6387878864795979, "recall@1": 1 / 3, "recall@10": 2 / 3, "recall@100": 2 / 3, "map": 5 / 9}
    other = {"ndcg@10": 1 / np.log2(3), "recall@1": 0, "recall@10": 1, "recall@100": 1, "map": 1 / 2}
    note = "2 of 7 judgements are of texts that the set lacks; such documents are not found"
    wanted = WANTED | {name: 50 * (value + other[name]) for name, value in q0.items()} | {"note": note}
    assert result.tasks["colours"] == pytest.approx(wanted, abs=1e-9)
    assert result.protocol.endswith(f"; colours: {note}")


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("qrels/test.tsv", f"{QRELS_HEADER}q0\tnone\t1\n", "no document of the corpus is relevant to a query"),
        ("qrels/test.tsv", f"{QRELS_HEADER}q0\td0\t0\nq0\td1\t-1\n", "no document of the corpus is relevant"),
        ("qrels/test.tsv", f"{QRELS_HEADER}d2\td2\t1\n", "no document of the corpus is relevant"),
        ("qrels/test.tsv", f"{QRELS_HEADER}q0\td1\t1\nq0\td0\thigh\n", "test.tsv, line 3: the score is 'high'"),
        ("qrels/test.tsv", f"{QRELS_HEADER}q0\td0\t0.5\n", "test.tsv, line 2: the score is '0.5'"),
        ("qrels/test.tsv", f"{QRELS_HEADER}q0\td0\t1e99\n", "test.tsv, line 2: the score is '1e99'"),
        ("qrels/test.tsv", f"{QRELS_HEADER}q0\td0\n", "test.tsv, line 2: 2 fields where the header has 3"),
        ("qrels/test.tsv", "query-id\tscore\nq0\t1\n", "there is no column 'corpus-id'"),
        ("queries.jsonl", '{"text": "a"}\n', "queries.jsonl, line 1: there is no column '_id'"),
        ("queries.jsonl", '{"_id": "q0", "text": "a"}\n{"text": "b"}\n', "queries.jsonl, line 2: the _id is blank"),
        ("queries.jsonl", '{"_id": "q0", "text": "a"}\n{"_id": null, "text": "b"}\n', "line 2: the _id is blank"),
        ("corpus.jsonl", '{"_id": "d", "text": "a"}\n' * 2, "corpus.jsonl, line 2: the _id 'd' occurs twice"),
        ("corpus.jsonl", '{"_id": "d", "text": \n', "corpus.jsonl, line 1: not JSON"),
    ],
)
def test_what_is_wrong_with_a_set_is_said(tmp_path: Path, file: str, text: str, what: str) -> None:
    (write_set(tmp_path / "colours", "jsonl") / file).write_text(text)
    assert what in measured(tmp_path).missing["colours"].what


def test_a_name_or_a_folder_of_no_set_is_answered_with_what_is_one(tmp_path: Path) -> None:
    (error,) = measured(None, "NanoMSMARC").missing.values()
    assert error.what == "NanoBEIR has no set 'NanoMSMARC'" and "'NanoMSMARCO'" in error.hint
    (error,) = measured(tmp_path).missing.values()
    assert error.what == f"{tmp_path} has no corpus" and "corpus.jsonl" in error.hint
    (error,) = measured(tmp_path / "none").missing.values()
    assert error.what == f"there is no folder {tmp_path}/none"
    (error,) = measured(write_set(tmp_path / "average", "jsonl")).missing.values()
    assert error.what == "a set cannot be called 'average'"


def test_the_training_split_gives_pairs_and_the_corpus_what_is_searched(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "colours", "jsonl")
    judged = "q9\td1\t1\nq0\td3\t0\nq0\td0\t2\nq0\tgone\t1\nq0\td2\t1\n"
    (folder / "qrels" / "train.tsv").write_text(QRELS_HEADER + judged)
    rows = load_examples(Data(train=str(folder)), ("pairs",), ())
    assert [*zip(*rows.views.values(), strict=True)] == [
        ("not judged", "green"),
        ("rouge", "The red"),
        ("rouge", "blue"),
    ]
    assert rows.notes[0].startswith("1 of 5 judgements are of texts that the set lacks")
    assert len(load_examples(Data(train=str(folder), limit=2), ("pairs",), ())) == 2
    assert [*load_documents(str(folder)).views["anchor"]] == ["The red", "green", "blue", "grey"]
    (folder / "qrels" / "train.tsv").unlink()
    with pytest.raises(
        DataError, match="colours has judgements for test and validation, and none to train on"
    ) as caught:
        load_examples(Data(train=str(folder)), ("pairs",), ())
    assert caught.value.hint == f"measure with them: contrast eval MODEL --data {folder}"


def test_a_set_is_dev_data_judged_by_its_own_dev_split(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "colours", "jsonl")
    rows = Examples("pairs", {"anchor": Texts.of("ab"), "positive": Texts.of("cd")}, None, "rows")
    rest, made = load_dev(Dev(data=str(folder)), Data(), rows)
    assert isinstance(made, Retrieval) and made.queries == ["not judged"] and made.metric == "ndcg@10"
    assert rest.views == rows.views and any("nDCG@10 of 1 anchors among 4 texts" in note for note in rest.notes)
    whole = read_dev(str(folder), metric="map")
    assert isinstance(whole, Retrieval) and whole.queries == ["rouge", "bleu"] and whole.metric == "map"
    with pytest.raises(UsageError, match=r"the metric is 'accuracy', and .* holds queries and judgements"):
        read_dev(str(folder), metric="accuracy")


def test_of_a_large_set_a_training_measures_a_part_with_all_that_is_relevant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "QUERIES", 10)
    monkeypatch.setattr(folders, "DOCUMENTS", 25)
    # Query n has the documents 3n and 3n + 1, and one that no search finds.
    judged = [row for n in range(30) for row in ((n, -1, 1), (n, 3 * n, 2), (n, 3 * n + 1, 1))]
    texts = [f"document {n}" for n in range(200)]
    data = Retrieval([f"query {n}" for n in range(30)], texts, np.array(judged), np.empty((0, 3), np.int64), "set")
    part = folders.limited(data)
    assert len(part.queries) == 10 and len(part.documents) == 25 and len(set(part.documents)) == 25
    found = {(part.queries[q], part.documents[d] if d >= 0 else "", grade) for q, d, grade in part.judged.tolist()}
    numbers = [int(text.split()[1]) for text in part.queries]
    assert found == {
        one
        for n in numbers
        for one in ((f"query {n}", "", 1), (f"query {n}", texts[3 * n], 2), (f"query {n}", texts[3 * n + 1], 1))
    }
    assert part.notes == ("of 30 queries 10, of 200 documents 25 are used",)
    assert folders.limited(data).documents == part.documents
    monkeypatch.setattr(folders, "QUERIES", 30)
    monkeypatch.setattr(folders, "DOCUMENTS", 200)
    assert folders.limited(data) is data
