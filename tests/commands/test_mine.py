"""`contrast mine` turns pairs into triplets, and says how."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import contrastcli
from contrastcli.data.formats import read_file
from contrastcli.data.sources import load_examples
from contrastcli.data.texts import Texts
from contrastcli.model.locate import ModelRef
from contrastcli.model.mining import load_scorer
from contrastcli.settings.sections import Data
from support.command import MODEL, Contrast, failed, refused

PAIRS = "tiny/pairs.jsonl"
EASY = ("--margin", "-2")  # any text may be a negative


def pairs() -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(PAIRS).read_text().splitlines()]


def nearest(anchor: str, texts: list[str]) -> list[str]:
    """The texts in the order of their cosine to the anchor."""
    encode = contrastcli.load("tiny/backbone").encode
    vectors = encode(texts)
    closeness = vectors @ encode([anchor])[0] / np.linalg.norm(vectors, axis=1)
    return [texts[i] for i in np.argsort(-closeness, kind="stable")]


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv", "t.tsv", "t.parquet"])
def test_each_pair_gets_the_nearest_other_positive(contrast: Contrast, name: str) -> None:
    answer = contrast("mine", PAIRS, "-o", name, *MODEL, *EASY)
    assert (answer.code, answer.out) == (0, "")
    assert f"wrote {name}: 160 of 160 rows, each with 1 negative\n" in answer.err
    command = f"contrast train --objective simcse --backbone tiny/backbone --data {name} --dev split:5%"
    assert f"next: {command}\n" in answer.err
    rows = load_examples(Data(train=name), ("triplets",), ())
    assert rows.form == "triplets" and [*rows.views] == ["anchor", "positive", "negative"]
    assert [rows.views["anchor"], rows.views["positive"]] == [[p[r] for p in pairs()] for r in ("anchor", "positive")]
    for row in (0, 7, 159):
        others = [text for text in rows.views["positive"] if text != rows.views["positive"][row]]
        assert rows.views["negative"][row] == nearest(rows.views["anchor"][row], others)[0]
    made = json.loads(Path(f"{name}.mined").read_text())
    assert (made["source"], made["model"], made["ranks"], made["margin"]) == (PAIRS, "tiny/backbone", [1, 1000], -2)
    assert len(made["model_sha256"]) == 64 and made["rows"] == 160 and made["candidates"] == 160
    assert sorted(path.name for path in Path().glob("*t.*")) == [name, f"{name}.mined"]


def test_that_an_earlier_file_is_replaced_is_said_before_the_work(contrast: Contrast) -> None:
    for words in (("mine", PAIRS, "-o", "t.jsonl", *MODEL, *EASY), ("data", PAIRS, "--clean", "c.jsonl")):
        note = f"note: {words[3]} is there, and will be replaced\n"
        assert [note in contrast(*words).err for _ in range(2)] == [False, True]


def test_of_labelled_pairs_only_entailments_are_mined_whatever_they_are_called(contrast: Contrast) -> None:
    rows = "a dog runs,a dog moves,0", "a cat sits,no cat sits,2", "a boy eats,a boy has food,0"
    Path("labelled.csv").write_text("\n".join(("premise,hypothesis,label", *rows)))
    words = ("mine", "labelled.csv", "-o", "t.jsonl", *MODEL, *EASY)
    refused(contrast(*words), 3, "the label in the column 'label' is '0' or '2'", "--labels")
    assert contrast(*words, "--labels", "0=entailment,2=contradiction").code == 0
    mined = [json.loads(line)["positive"] for line in Path("t.jsonl").read_text().splitlines()]
    assert mined == ["a dog moves", "a boy has food"]


def test_several_negatives_have_a_column_each_in_order(contrast: Contrast) -> None:
    assert contrast("mine", PAIRS, "-o", "t.jsonl", *MODEL, *EASY, "-n", "3", "--ranks", "2-9").code == 0
    row = json.loads(Path("t.jsonl").read_text().splitlines()[5])
    assert [*row] == ["anchor", "positive", "negative_1", "negative_2", "negative_3"]
    others = [pair["positive"] for pair in pairs() if pair["positive"] != row["positive"]]
    assert [*row.values()][2:] == nearest(row["anchor"], others)[1:4]


def test_candidates_of_a_corpus_leave_out_what_equals_a_positive(contrast: Contrast) -> None:
    positive = pairs()[0]["positive"]
    texts = [f"  {positive.upper()} ", pairs()[0]["anchor"], "ba den", "fir go ba"]
    Path("corpus.txt").write_text("".join(f"{text}\n" for text in texts))
    assert contrast("mine", PAIRS, "-o", "t.jsonl", *MODEL, *EASY, "-n", "2", "--corpus", "corpus.txt").code == 0
    first = json.loads(Path("t.jsonl").read_text().splitlines()[0])
    assert {first["negative_1"], first["negative_2"]} == {"ba den", "fir go ba"}


def test_rows_without_enough_negatives_are_left_out_and_counted(contrast: Contrast) -> None:
    answer = contrast("mine", PAIRS, "-o", "t.jsonl", *MODEL, "--json")
    made = json.loads(answer.out)
    assert 0 < made["rows"] < made["of"] == 160
    assert f"{160 - made['rows']:,} of 160 rows have fewer and were left out" in answer.err
    assert f"of {made['too_close']:,} rows the nearest candidate is too close" in answer.err
    assert len(Path("t.jsonl").read_text().splitlines()) == made["rows"]
    guarded = json.loads(contrast("mine", PAIRS, "-o", "t.jsonl", *MODEL, *EASY, "--guard", "starter", "--json").out)
    assert guarded["guarded"] > 0 and guarded["guard"] == "starter"


def test_the_hardest_are_shown_with_the_reasons(contrast: Contrast) -> None:
    answer = contrast("mine", PAIRS, "-o", "t.jsonl", *MODEL, "--show", "2", "--json")
    rows = json.loads(answer.out)["hardest"]
    assert len(rows) == 2
    for row in rows:
        for candidate in row["candidates"]:
            close = candidate["cosine"] > 0.95 * row["cosine"]
            assert candidate["verdict"] == ("too close" if close else "kept")
    assert "hardest" not in json.loads(Path("t.jsonl.mined").read_text())
    text = contrast("mine", PAIRS, "-o", "t.jsonl", *MODEL, "--show", "2").out
    assert text.count("\nrow ") + text.startswith("row ") == 2
    assert all(candidate["text"] in text for row in rows for candidate in row["candidates"])
    rows_with_long = [json.dumps(row | {"positive": row["positive"] + " very long" * 900}) for row in pairs()]
    Path("long.jsonl").write_text("\n".join(rows_with_long))
    text = contrast("mine", "long.jsonl", "-o", "t.jsonl", *MODEL, "--show", "2").out
    assert "very long" in text and max(map(len, text.splitlines())) < 400


def test_texts_that_a_tsv_cannot_hold_are_refused_before_the_work(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [json.dumps({"question": f"q {n}", "answer": f"ba\tden {n}"}) for n in range(4)]
    Path("tab.jsonl").write_text("\n".join(rows))
    Path("t.tsv").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr("contrastcli.model.mining.embed", lambda *_: pytest.fail("encoded"))
        failed(contrast("mine", "tab.jsonl", "-o", "t.tsv", *MODEL, *EASY), 3, "cannot hold a tab", "write a .jsonl")
    assert Path("t.tsv").read_text() == "before" and not [*Path().glob(".t*")] and not Path("t.tsv.mined").exists()
    assert contrast("mine", "tab.jsonl", "-o", "t.csv", *MODEL, *EASY).code == 0


@pytest.mark.parametrize(
    "words", [("mine", PAIRS, "-o", "closed/t.csv", *MODEL), ("data", PAIRS, "--clean", "closed/t.csv")]
)
def test_a_folder_that_is_closed_is_told_before_the_work(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    Path("closed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or str(path) != "closed")
    monkeypatch.setattr("contrastcli.data.sources.read_file", None)
    refused(contrast(*words), 1, "cannot write closed/t.csv: Permission denied", "chmod u+w closed")


def test_negatives_that_no_row_has_are_too_many(contrast: Contrast) -> None:
    Path("four.csv").write_text("question,answer\n" + "".join(f"q {n},a {n}\n" for n in range(4)))
    words = ("mine", "four.csv", "-o", "t.csv", *MODEL, "--below", "1", "--ranks", "1-4", "-n")
    failed(contrast(*words, "4"), 3, "has enough negatives by this rule: at most 3", "-n 3, or ")
    assert contrast(*words, "3").code == 0


def test_ids_of_pairs_and_of_a_corpus_are_answered_and_written_as_they_are(contrast: Contrast) -> None:
    Path("faq.csv").write_text("id,q,a\nr1,ba den,go lum\nr2,fir go,den ba\n")
    Path("more.csv").write_text("key;body\nc1;lum fir\nc2;go den fir\n")
    roles = "anchor=q,positive=a,text=body,id=key"
    words = ("mine", "faq.csv", "-o", "t.csv", *MODEL, *EASY, "--corpus", "more.csv", "--columns", roles)
    hardest = json.loads(contrast(*words, "--show", "2", "--json").out)["hardest"]
    assert {row["id"] for row in hardest} == {"r1", "r2"}
    by_text = {"lum fir": "c1", "go den fir": "c2"}
    assert all(by_text[one["text"]] == one["id"] for row in hardest for one in row["candidates"])
    assert [line.split(",")[-1] for line in Path("t.csv").read_text().splitlines()] == ["id", "r1", "r2"]
    Path("faq.jsonl").write_text('{"id": 7, "q": "ba den", "a": "go lum"}\n{"id": 8, "q": "fir go", "a": "den ba"}\n')
    assert contrast("mine", "faq.jsonl", "-o", "t.jsonl", *MODEL, *EASY, "--columns", "anchor=q,positive=a").code == 0
    assert [json.loads(line)["id"] for line in Path("t.jsonl").read_text().splitlines()] == [7, 8]


def test_rows_that_are_left_out_do_not_shift_those_that_are_shown(contrast: Contrast) -> None:
    Path("gap.csv").write_text("question,answer\nba den,go lum\n,fir go\nfir go,den ba\nsir,tum\n")
    words = ("mine", "gap.csv", "-o", "t.csv", *MODEL, *EASY, "--blank", "drop", "--show", "9", "--json")
    hardest = json.loads(contrast(*words).out)["hardest"]
    assert {row["row"]: row["anchor"] for row in hardest} == {1: "ba den", 3: "fir go", 4: "sir"}


def taught(path: str) -> list[tuple[list[str], list[float]]]:
    """The texts of each row, and the scores of all but its anchor."""
    rows = load_examples(Data(train=path), ("scored-triplets",), ())
    assert rows.form == "scored-triplets" and rows.candidate_scores is not None
    return [*zip(map(list, zip(*rows.views.values(), strict=True)), rows.candidate_scores.tolist(), strict=True)]


@pytest.mark.parametrize("name", ["my rows.jsonl", "t.csv"])
def test_an_embedders_scores_are_its_cosines(contrast: Contrast, name: str) -> None:
    words = ("mine", PAIRS, "-o", name, *MODEL, *EASY, "-n", "2", "--score-with", "starter")
    answer = contrast(*words)
    assert answer.code == 0 and "next: contrast train --objective kl --backbone" in answer.err
    assert f" --data {shlex.quote(name)} --dev split:5%\n" in answer.err
    assert json.loads(Path(f"{name}.mined").read_text())["teacher"] == "starter"
    score = read_file(Path(name), name).columns["score"][0]
    assert isinstance(score, float) == name.endswith("jsonl")
    encode, rows = contrastcli.load("starter").encode, taught(name)
    assert len(rows) == 160
    for row in (0, 159):
        anchor, *others = (vector / np.linalg.norm(vector) for vector in encode(rows[row][0]))
        assert rows[row][1] == pytest.approx([float(anchor @ other) for other in others], abs=2e-6)


def write_cross_encoder(folder: Path, labels: int = 1, kind: str = "bert") -> Path:
    """A BERT, or its kin, with random weights that classifies pairs, as transformers saves it."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    from support.tiny import SIZES, write_tokenizer

    folder.mkdir()
    write_tokenizer(folder)
    sizes: dict[str, Any] = {name: value for name, value in SIZES.items() if name != "model_type"}
    sizes |= {"num_labels": labels, "initializer_range": 0.5}
    family: Any = AutoModelForSequenceClassification
    family.from_config(AutoConfig.for_model(kind, **sizes)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("saved_by", ["transformers", "sentence-transformers"])
def test_a_cross_encoders_scores_are_its_logits(contrast: Contrast, saved_by: str) -> None:
    losses = pytest.importorskip("sentence_transformers")
    write_cross_encoder(Path("cross"))
    model = losses.CrossEncoder("cross", device="cpu", activation_fn=torch.nn.Identity())
    if saved_by == "sentence-transformers":
        model.save_pretrained("cross")
    answer = contrast("mine", PAIRS, "-o", "t.csv", *MODEL, *EASY, "-n", "2", "--score-with", "cross")
    assert answer.code == 0 and "next: contrast train --objective kl --teacher-tau 1 --backbone" in answer.err
    rows = taught("t.csv")
    pairs = [(texts[0], other) for texts, _ in rows[:40] for other in texts[1:]]
    expected = model.predict(pairs)
    assert np.ptp(expected) > 0.1
    assert [score for _, scores in rows[:40] for score in scores] == pytest.approx(list(map(float, expected)), abs=1e-4)


def test_a_cross_encoder_reads_as_many_tokens_as_it_has_positions_for(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path / "cross", kind="roberta")
    settings = json.loads((folder / "tokenizer_config.json").read_text()) | {"model_max_length": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    texts = Texts.of(["ba " * 100])
    (scores,) = load_scorer(ModelRef(str(folder)), "fp32")[0](texts, [texts], lambda done, count: None)
    assert np.isfinite(scores).all()


def test_a_teacher_that_cannot_score_is_refused_before_mining(contrast: Contrast) -> None:
    words = ("mine", PAIRS, "-o", "t.csv", *MODEL, *EASY, "--score-with")
    failed(contrast(*words, str(write_cross_encoder(Path("nli"), 3))), 3, "nli gives a pair 3 numbers", "of one label")
    config = json.loads((Path("nli") / "config.json").read_text())
    for change, what in (
        ({"id2label": {"0": "score"}, "num_labels": 1}, "lack 'classifier.bias', or have another shape"),
        ({"model_type": "own", "auto_map": {"AutoModel": "code.Model"}}, "the model in nli needs its own code"),
    ):
        (Path("nli") / "config.json").write_text(json.dumps(config | change))
        failed(contrast(*words, "nli"), 3, what, "")
    (write_cross_encoder(Path("cross")) / "tokenizer.json").write_text("{")
    failed(contrast(*words, "cross"), 3, "transformers cannot load cross as a cross-encoder", "use another model")
    assert not Path("t.csv").exists()


def test_a_classifier_taken_for_an_embedder_is_said_and_what_is_trained_from_it_is_an_embedder(
    contrast: Contrast,
) -> None:
    write_cross_encoder(Path("cross"))
    answer = contrast("query", "a dog", "a cat", "--model", "cross")
    assert answer.code == 0
    assert "note: cross is a classifier" in answer.err and "contrast mine PAIRS --score-with cross" in answer.err
    words = ("--backbone", "cross", "--data", PAIRS, "--dev", "none", "--max-steps", "1", "--batch-size", "8")
    trained = contrast("train", *words, "--name", "one", "--no-ui")
    assert trained.code == 0 and "the backbone is a classifier" in trained.err
    taught_by = ("--objective", "embed", "--teachers", "cross", "--data", "tiny/sentences.jsonl", *words[4:])
    assert "cross is a classifier" in contrast("train", "--backbone", "tiny/backbone", *taught_by, "--no-ui").err
    assert "note: cross is a classifier" in contrast("export", "cross", "whole").err
    saved = Path(contrast("export", "one", "out").out.strip())
    assert json.loads((saved / "config.json").read_text())["architectures"] == ["BertModel"]
    assert contrast("mine", PAIRS, "-o", "t.csv", *MODEL, *EASY, "-n", "1", "--score-with", "one").code == 0
    assert all(abs(score) <= 1 + 1e-6 for _, scores in taught("t.csv") for score in scores)
