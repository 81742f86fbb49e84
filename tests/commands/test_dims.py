"""`--dim N`: query, encode, eval and export by the first numbers of every embedding."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import contrastcli
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.pooling import Normalize
from contrastcli.runs.directory import Run
from support.command import MODEL, Contrast, refused, sentences
from support.contracts import dense, under
from support.rounding import assert_near
from support.sts_files import write_all, write_stsb
from support.tiny import Tiny

TEXTS = ("ba den", "go bir")


@pytest.fixture
def nested(tiny: Tiny, contrast: Contrast) -> Run:
    """A run that was trained at 8 and at 32 numbers."""
    return tiny.trained(Path("runs/nested").absolute(), "simcse", "pairs", model__dims="8", train__max_steps=2)


def test_sentences_and_a_corpus_are_compared_at_that_size(contrast: Contrast) -> None:
    u, v = contrastcli.load("tiny/backbone").encode(TEXTS)[:, :5].astype(float)
    cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
    pair = json.loads(contrast("query", *TEXTS, *MODEL, "--dim", "5", "--json").out)
    assert pair["cosine"] == pytest.approx(cosine, abs=1e-5)
    Path("corpus.txt").write_text(f"{TEXTS[1]}\n")
    for dim in ("9", "5"):  # the vectors of both are cached
        nearest = contrast("query", TEXTS[0], "--corpus", "corpus.txt", *MODEL, "--dim", dim, "--json")
    assert json.loads(nearest.out)["neighbours"][0]["cosine"] == pytest.approx(cosine, abs=1e-5)


def test_a_size_that_was_not_trained_is_said_where_it_is_known(contrast: Contrast, nested: Run) -> None:
    note = "runs/nested was trained at 8, 32 numbers, not at 12"
    assert note in contrast("query", *TEXTS, "--model", "nested", "--dim", "12").err
    assert "trained" not in contrast("query", *TEXTS, "--model", "nested", "--dim", "8").err
    assert "trained" not in contrast("query", *TEXTS, *MODEL, "--dim", "8").err


def test_each_size_is_measured_for_itself_and_leaves_the_runs_scores_alone(contrast: Contrast, nested: Run) -> None:
    write_all(Path("data"))
    write_stsb(Path("data"), [(*pair, str(n * 7 % 5)) for n, pair in enumerate(pairwise(sentences()))])
    sizes = ("--dim", "8", "--dim", "32")
    answer = contrast("eval", "nested", *sizes, "--task", "STS12,STS-B", "--data-dir", "data", "--json", "--out", "out")
    small, whole = json.loads(answer.out)
    assert [small["dim"], whole["dim"]] == [8, 32] and "suites" not in nested.scores()
    assert small["suites"]["sts"]["STS-B"] != whole["suites"]["sts"]["STS-B"]
    assert json.loads(Path("out/nested@8/scores.json").read_text())["suites"] == small["suites"]
    both = ("--task", "STS12", "--task", "STS-B")
    own = json.loads(contrast("eval", "nested", *both, "--data-dir", "data", "--json").out)
    assert own["suites"]["sts"]["STS-B"] == whole["suites"]["sts"]["STS-B"]
    shown = contrast("eval", "nested", *sizes, "--task", "STS-B", "--data-dir", "data").out
    assert "nested@8" in shown and "the first 8 numbers" in shown


@pytest.mark.filterwarnings("ignore")  # of the other library
@pytest.mark.parametrize("full", [False, True])
def test_an_export_of_a_size_is_such_a_model_everywhere(tiny: Tiny, contrast: Contrast, full: bool) -> None:
    library = pytest.importorskip("sentence_transformers")
    encoder = load_encoder(tiny.backbone)
    if full:
        under(encoder, dense(encoder), Normalize())
    save_encoder(encoder, Path("source"))
    assert contrast("export", "source", "small", "--dim", "5").code == 0
    theirs = library.SentenceTransformer("small", device="cpu").encode([*TEXTS])
    whole = contrastcli.load("source").encode(TEXTS)[:, :5]
    lengths = np.linalg.norm(whole, axis=1, keepdims=True) if full else 1
    assert_near(theirs, whole / lengths)
    assert_near(contrastcli.load("small").encode(TEXTS), whole / lengths)


def test_an_export_knows_the_sizes_that_are_left(contrast: Contrast, nested: Run) -> None:
    assert contrast("export", "nested", "whole").code == contrast("export", "nested", "small", "--dim", "8").code == 0
    configs = [json.loads(Path(name, "config.json").read_text()) for name in ("whole", "small")]
    assert [config.get("matryoshka_dimensions") for config in configs] == [[8, 32], None]
    refused(contrast("export", "small", "other", "--dim", "9"), 2, "the embeddings of small have 8 numbers")


def test_a_run_tells_its_best_score_at_each_size(contrast: Contrast, nested: Run) -> None:
    details = json.loads(contrast("runs", "show", "nested", "--json").out)
    assert details["shorter"].keys() == {"8"}
    words = [line.split() for line in contrast("runs", "show", "nested").out.splitlines()]
    assert ["at", "8", "numbers", f"{100 * details['shorter']['8']:.2f}"] in words
