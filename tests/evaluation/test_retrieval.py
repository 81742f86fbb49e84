"""The suite retrieval: sets as BEIR and NanoBEIR publish them, and what is measured of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from contrastcli.data import hub
from contrastcli.data.formats import Table, read_file
from contrastcli.errors import DataError
from contrastcli.evaluation import retrieval
from contrastcli.evaluation.measure import measure
from contrastcli.evaluation.result import Options, Subject, SuiteResult
from contrastcli.evaluation.suites import RETRIEVAL

DOCUMENTS = ["red", "green", "blue", "grey"]
CORPUS = [{"_id": f"d{n}", "title": "" if n else "The", "text": text} for n, text in enumerate(DOCUMENTS)]
QUERIES = [{"_id": "q0", "text": "rouge"}, {"_id": "d2", "text": "bleu"}, {"_id": "q9", "text": "not judged"}]
QRELS = ["q0\td0\t1", "q0\td1\t2", "q0\td3\t0", "d2\td1\t1"]
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
    "partial": False,
}


def write_set(folder: Path, layout: str) -> Path:
    """A set as BEIR publishes it, or as parquet files like those of the hub, which have neither titles nor grades."""
    (folder / "qrels").mkdir(parents=True)
    lines = ["query-id\tcorpus-id\tscore", *QRELS]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    (folder / "qrels" / "train.tsv").write_text("\n".join([lines[0], "q9\td0\t1"]) + "\n")
    for name, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        if layout == "jsonl":
            (folder / f"{name}.jsonl").write_text("".join(json.dumps({**row, "metadata": {}}) + "\n" for row in rows))
        else:
            import pyarrow as pa
            from pyarrow import parquet

            (folder / name).mkdir()
            parquet.write_table(pa.Table.from_pylist(rows), folder / name / "train-00000-of-00001.parquet")
    return folder


def encode(texts: list[str]) -> np.ndarray:
    """Documents along the axes; queries with the COSINES, up to a factor."""
    axes = {text: np.eye(4)[n] for n, text in enumerate(["The red", *DOCUMENTS[1:]])}
    return np.stack([axes[text] if text in axes else np.array(COSINES[text]) for text in texts]).astype(np.float32)


def measured(folder: Path | None, *tasks: str) -> SuiteResult:
    return measure(RETRIEVAL, Subject("fake", encode, "mean", "fake"), Options(folder, tasks, fresh=True))


@pytest.mark.parametrize("layout", ["jsonl", "parquet"])
def test_a_set_is_measured_as_its_definitions_say(tmp_path: Path, layout: str) -> None:
    write_set(tmp_path / "colours", layout)
    result = measured(tmp_path)
    assert result.tasks == {"colours": pytest.approx(WANTED)}
    assert result.averages == {"average": pytest.approx(WANTED["ndcg@10"])}
    assert measured(tmp_path / "colours").tasks == result.tasks
    assert measured(tmp_path, "colours").tasks == result.tasks


def test_without_a_folder_the_sets_are_those_of_nanobeir_on_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(tmp_path, "jsonl")
    asked = []

    def read(name: str, split: str, limit: int = 0) -> Table:
        asked.append((name, split))
        part = name.partition("=")[2]
        file = tmp_path / ("qrels/test.tsv" if part == "qrels" else f"{part}.jsonl")
        return read_file(file, name, limit)

    monkeypatch.setattr(hub, "read", read)
    assert measured(None, "NanoNQ").tasks == {"NanoNQ": pytest.approx(WANTED)}
    parts = ("corpus", "queries", "qrels")
    assert asked == [(f"hf:zeta-alpha-ai/NanoNQ?config={part}", "train") for part in parts]
    assert len(retrieval.NANO) == 13 and len(measured(None).tasks) == 13


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\tnone\t1\n", "the document none, of which one is missing"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td0\thigh\n", "qrels have the score 'high'"),
        ("qrels/test.tsv", "query-id\tscore\nq0\t1\n", "has no column 'corpus-id'"),
        ("queries.jsonl", '{"text": "a"}\n', "has no column '_id'"),
    ],
)
def test_what_is_wrong_with_a_set_is_said(tmp_path: Path, file: str, text: str, what: str) -> None:
    (write_set(tmp_path / "colours", "jsonl") / file).write_text(text)
    (skipped,) = measured(tmp_path).missing
    assert skipped.task == "colours" and what in skipped.what


def test_a_folder_without_sets_is_refused(tmp_path: Path) -> None:
    (skipped,) = measured(tmp_path).missing
    assert skipped.what == f"{tmp_path} has no corpus" and "corpus.jsonl" in skipped.hint


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    (write_set(tmp_path / "colours", "jsonl") / "queries.jsonl").unlink()
    with pytest.raises(DataError, match="colours has no queries"):
        retrieval._read_folder(tmp_path / "colours")
