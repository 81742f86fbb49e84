"""Data of one's own: the scores of a dev set, recomputed by loops, next to those of other files and other models."""

import contextlib
import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import ndcg_score

from contrastcli import load
from contrastcli.data.dev_data import load_dev
from contrastcli.data.sources import load_examples
from contrastcli.runs.directory import Run
from contrastcli.runs.measured import Evaluated
from contrastcli.settings.sections import Data, Dev
from support.command import Contrast, failed
from support.tiny import told


def own(contrast: Contrast, *words: str) -> Any:
    """The JSON of the suite after an evaluation."""
    answer = contrast("eval", *words, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)["suites"]["own"]


def rows_of(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def unit_vectors(texts: list[str], model: str = "tiny/backbone") -> NDArray[np.float64]:
    vectors = load(model).encode(texts).astype(float)
    units: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def test_scored_pairs_have_the_correlations_that_a_training_logs(contrast: Contrast, run: Run) -> None:
    entry = own(contrast, "simple", "--data", "tiny/dev.jsonl")["tiny/dev.jsonl"]
    rows = rows_of("tiny/dev.jsonl")
    first, second = (unit_vectors([row[name] for row in rows], str(run.path)) for name in ("sentence1", "sentence2"))
    cosines, gold = (first * second).sum(1), [row["score"] for row in rows]
    assert entry["spearman"] == pytest.approx(100 * stats.spearmanr(cosines, gold).statistic, abs=1e-6)
    assert entry["pearson"] == pytest.approx(100 * stats.pearsonr(cosines, gold).statistic, abs=1e-3)
    assert (entry["pairs"], entry["metric"], entry["score"]) == (30, "spearman", entry["spearman"])
    best = max(event.score or 0 for event in told(run, Evaluated) if event.step)
    assert entry["score"] == pytest.approx(100 * best, abs=1e-2)


def test_pairs_are_ranked_as_in_a_dev_set_of_the_same_texts(contrast: Contrast) -> None:
    file = "tiny/pairs.jsonl"
    entry = own(contrast, "tiny/backbone", "--data", file)[file]
    rows = rows_of(file)
    cosines = unit_vectors([row["anchor"] for row in rows]) @ unit_vectors([row["positive"] for row in rows]).T
    ranks = (cosines >= cosines.diagonal()[:, None] - 1e-9).sum(1)
    assert entry["ndcg@10"] == entry["score"]
    assert entry["score"] == pytest.approx(100 * np.mean([1 / math.log2(1 + r) if r <= 10 else 0 for r in ranks]))
    assert entry["map"] == pytest.approx(100 * np.mean(1 / ranks))
    _, dev = load_dev(Dev(data=file), Data(), load_examples(Data(train=file), ("pairs",), ()))
    assert dev is not None and list(map(len, dev.columns)) == [entry["queries"], entry["documents"]] == [160, 160]


def test_all_anchors_are_measured_and_not_a_sample(contrast: Contrast) -> None:
    Path("many.tsv").write_text("anchor\tpositive\n" + "".join(f"ba {n}\tda {n}\n" for n in range(2001)))
    entry = own(contrast, "tiny/backbone", "--data", "many.tsv")["many.tsv"]
    assert (entry["queries"], entry["documents"]) == (2001, 2001)


def test_rows_that_repeat_an_anchor_or_have_it_as_their_positive_are_counted(contrast: Contrast) -> None:
    rows = [*(f"ba {n % 8}\tda {n}\n" for n in range(10)), "fa\tfa\n"]
    Path("faq.tsv").write_text("question\tanswer\n" + "".join(rows))
    entry = own(contrast, "tiny/backbone", "--data", "faq.tsv")["faq.tsv"]
    assert entry["queries"] == 8 and "1 of 11 rows whose anchor is its own positive were dropped" in entry["note"]
    assert entry["note"].endswith("; 2 of 10 rows repeat an anchor, and are one query with it")


def test_grades_of_relevance_are_ranked_as_sklearn_does(contrast: Contrast) -> None:
    texts = [row["sentence"] for row in rows_of("tiny/sentences.jsonl")[:12]]
    grades = {
        (query, document): (q + d) % 3 for q, query in enumerate(texts[:4]) for d, document in enumerate(texts[4:])
    }
    with open("rel.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("query", "document", "relevance"), *((*pair, x) for pair, x in grades.items())])
    entry = own(contrast, "tiny/backbone", "--data", "rel.csv")["rel.csv"]
    cosines = unit_vectors(texts[:4]) @ unit_vectors(texts[4:]).T
    gold = [[grades[query, document] for document in texts[4:]] for query in texts[:4]]
    assert (entry["metric"], entry["queries"], entry["documents"]) == ("ndcg@10", 4, 8)
    assert entry["score"] == pytest.approx(100 * ndcg_score(gold, cosines, k=10), abs=1e-6)
    correlation = own(contrast, "tiny/backbone", "--data", "rel.csv", "--metric", "spearman")["rel.csv"]
    assert (correlation["metric"], correlation["pairs"]) == ("spearman", 32)


def test_a_triplet_is_right_where_its_positive_is_nearer(contrast: Contrast) -> None:
    file = "tiny/triplets.jsonl"
    entry, rows = own(contrast, "tiny/backbone", "--data", file, "--metric", "accuracy")[file], rows_of(file)
    anchor, positive, negative = (unit_vectors([row[n] for row in rows]) for n in ("anchor", "positive", "negative"))
    right = (anchor * positive).sum(1) > (anchor * negative).sum(1)
    assert entry["accuracy"] == entry["score"] == pytest.approx(100 * right.mean())
    assert entry["triplets"] == len(rows) == entry["queries"]


def test_a_table_has_a_row_for_each_file_and_the_columns_that_they_fill(contrast: Contrast) -> None:
    out = contrast("eval", "tiny/backbone", "--data", "tiny/dev.jsonl").out.splitlines()
    assert out[2] == "own" and out[3].split() == ["Task", "Spearman", "Pearson", "Pairs"]
    assert out[4].split()[0] == "tiny/dev.jsonl" and out[-1] == "tiny/dev.jsonl: 30 scored pairs"
    out = contrast("eval", "tiny/backbone", "--data", "tiny/labelled.jsonl").out.splitlines()
    assert out[-1].endswith(f"{len(rows_of('tiny/labelled.jsonl'))} labelled pairs")
    out = contrast("eval", "tiny/backbone", "--data", "tiny/dev.jsonl", "--data", "tiny/pairs.jsonl").out.splitlines()
    assert [line.split()[0] for line in out[4:6]] == ["tiny/dev.jsonl", "tiny/pairs.jsonl"]
    assert "nDCG@10" in out[3] and "Accuracy" not in out[3]


def test_columns_of_any_name_are_measured(contrast: Contrast) -> None:
    lines = [f"{row['sentence1']}\t{row['sentence2']}\t{row['score']}\tx\n" for row in rows_of("tiny/dev.jsonl")]
    Path("odd.tsv").write_text("frage\tantwort\tnote\tlabel\n" + "".join(lines))
    roles = ("--columns", "anchor=frage,positive=antwort,score=note")
    entry = own(contrast, "tiny/backbone", "--data", "odd.tsv", *roles)["odd.tsv"]
    same = own(contrast, "tiny/backbone", "--data", "tiny/dev.jsonl")["tiny/dev.jsonl"]
    assert entry["spearman"] == same["spearman"] and entry["pairs"] == 30
    assert entry["note"] == "odd.tsv: 30 scored pairs; columns not used: label"
    failed(contrast("eval", "tiny/backbone", "--data", "odd.tsv"), 3, "not measured: odd.tsv", "--columns anchor=")
    both = contrast("eval", "tiny/backbone", "starter", "--data", "odd.tsv")
    failed(both, 3, "not measured: odd.tsv: its columns", "--columns anchor=")


def test_scores_are_known_by_the_files_content_and_what_was_left_out_is_said_again(
    contrast: Contrast, encoded: list[str]
) -> None:
    data, rows = Path("data.tsv"), "anchor\tpositive\nba\tda\nfa\tga\n"

    def measured(content: str, *words: str) -> tuple[int, bool]:
        """The texts that were encoded, and whether the note tells of rows that were left out."""
        before = len(encoded)
        data.write_text(content)
        out = contrast("eval", "tiny/backbone", "--data", "data.tsv", "--blank", "drop", *words).out
        return len(encoded) - before, "1 of 3 rows without a text in 'anchor' or 'positive' were left out" in out

    assert [measured(rows), measured(rows), measured(rows, "--fresh")] == [(4, False), (0, False), (4, False)]
    assert [measured(rows, "--metric", "map"), measured(rows)] == [(4, False), (0, False)]
    assert measured(rows.replace("ga", "ka")) == (4, False)
    assert measured(f"{rows}\tka\n")[1] and not measured(rows)[1]


def train_on(run: Run, path: Path) -> None:
    """Record a path among the data of a run."""
    environment = json.loads(run.environment_path.read_text())
    environment["data"]["files"].append(str(path.resolve()))
    run.environment_path.write_text(json.dumps(environment))


def test_a_model_that_was_trained_on_the_file_is_said_to_be_so(contrast: Contrast, run: Run) -> None:
    data = run.config().data
    for file, times in ((data.train, 1), (shutil.copy(data.train, "other.jsonl"), 0)):
        for _ in range(2):  # measured, and from the cache
            answer = contrast("eval", "simple", "--data", file, "--columns", data.columns)
            assert answer.out.count(f"{file}: the model was trained on it") == times, answer
        compared = contrast("compare", "simple", "starter", "--dev", file, "--columns", data.columns)
        assert compared.err.count(f"{file}: simple was trained on it") == times, compared
    train_on(run, Path("other.jsonl"))
    model = str(run.path.resolve())
    Path("elsewhere").mkdir()
    with contextlib.chdir("elsewhere"):
        shutil.copy("../other.jsonl", "other.jsonl")
        for file, times in (("../other.jsonl", 1), ("other.jsonl", 0)):
            answer = contrast("eval", model, "--data", file, "--columns", data.columns)
            assert answer.out.count(f"{file}: the model was trained on it") == times, answer


def test_the_test_split_of_a_set_was_not_trained_on(contrast: Contrast, run: Run) -> None:
    folder = Path("set")
    (folder / "qrels").mkdir(parents=True)
    for part in ("corpus", "queries"):
        (folder / f"{part}.jsonl").write_text('{"_id": "1", "text": "ba da"}\n{"_id": "2", "text": "fa ga"}\n')
    for split in ("train", "test"):
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n1\t2\t1\n")
    train_on(run, folder)
    assert "was trained on" not in contrast("eval", "simple", "--data", "set").out
    (folder / "qrels" / "test.tsv").unlink()
    assert "set: the model was trained on it" in contrast("eval", "simple", "--data", "set").out


def test_a_run_keeps_the_scores_of_all_its_files(contrast: Contrast, run: Run) -> None:
    own(contrast, "simple", "--data", "tiny/dev.jsonl")
    own(contrast, "simple", "--data", "tiny/pairs.jsonl", "--metric", "recall@1")
    assert {"tiny/dev.jsonl", "tiny/pairs.jsonl"} <= run.scores()["suites"]["own"].keys()
    shown = contrast("runs", "show", "simple").out
    assert "own tiny/dev.jsonl Spearman  " in shown and "own tiny/pairs.jsonl recall@1  " in shown


def test_several_models_are_side_by_side_and_written_for_sheets_and_documents(contrast: Contrast, run: Run) -> None:
    words: tuple[str, ...] = ("eval", "tiny/backbone", "simple", "--data", "tiny/dev.jsonl")
    documents = json.loads(contrast(*words, "--json").out)
    values = [document["suites"]["own"]["tiny/dev.jsonl"]["spearman"] for document in documents]
    header, row = contrast(*words).out.splitlines()[-2:]
    assert header.split() == ["tiny/backbone", "runs/simple"]
    assert row == f"own tiny/dev.jsonl Spearman  {values[0]:>13.2f}  {values[1]:>11.2f}"
    words += ("--format",)
    titles, *rows = list(csv.reader(contrast(*words, "csv").out.splitlines()))
    assert titles == ["model", "suite", "task", "column", "value"]
    assert [cells[:4] for cells in rows[:2]] == [
        ["tiny/backbone", "own", "tiny/dev.jsonl", column] for column in ("Spearman", "Pearson")
    ]
    Path("many.jsonl").write_text(100 * Path("tiny/dev.jsonl").read_text())
    of_many = contrast("eval", "simple", "--data", "many.jsonl", "--format", "csv").out.splitlines()
    assert of_many[-1] == "runs/simple,own,many.jsonl,Pairs,3000", "a program reads it as a number"
    latex = contrast(*words, "latex").out.splitlines()
    outside = [line for line in latex if line and not line.startswith(("\\", "%")) and not line.endswith(r"\\")]
    assert outside == [] and "% tiny/backbone" in latex and r"Task & Spearman & Pearson & Pairs \\" in latex
    assert "| Task | Spearman | Pearson | Pairs |" in contrast(*words, "markdown").out
