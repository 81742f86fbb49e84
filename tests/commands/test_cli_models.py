"""Commands that ask a model: query, encode, eval and export, and which model is meant."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import contrastcli
from contrastcli.evaluation.sts import EXPECTED, TASKS
from contrastcli.runs.directory import Run
from support import sts_files
from support.command import Contrast, failed
from support.sts_files import write_all
from support.tiny import WORDS, Tiny, train

MODEL = ("--model", "tiny/backbone")
A, B = "bada boo", "foum den gir"


def cosine(a: str, b: str, model: str = "tiny/backbone") -> float:
    u, v = contrastcli.load(model).encode([a, b]).astype(np.float64)
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


def texts() -> list[str]:
    return [json.loads(line)["sentence"] for line in Path("tiny/sentences.jsonl").read_text().splitlines()]


def test_two_sentences_have_a_cosine_and_an_angle(contrast: Contrast) -> None:
    first, second = texts()[:2]
    expected = cosine(first, second)
    shown = contrast("query", first, second, *MODEL)
    degrees = math.degrees(math.acos(expected))
    assert shown.out.split()[:2] == [f"{expected:.4f}", f"{degrees:.1f}°"]
    found = json.loads(contrast("query", first, second, *MODEL, "--json").out)
    assert list(found) == ["a", "b", "cosine", "angle_deg", "model"]
    assert (found["a"], found["b"], found["model"]) == (first, second, "tiny/backbone")
    assert found["cosine"] == pytest.approx(expected, abs=1e-12)
    assert found["angle_deg"] == pytest.approx(degrees, abs=1e-6)
    assert found["cosine"] != round(found["cosine"], 6)


def test_a_sentence_is_at_no_angle_to_itself(contrast: Contrast) -> None:
    found = json.loads(contrast("query", A, A, *MODEL, "--json").out)
    assert (found["cosine"], found["angle_deg"]) == (1.0, 0.0)
    assert contrast("query", A, A, *MODEL).out.split()[:2] == ["1.0000", "0.0°"]


def test_pairs_of_stdin_are_answered_in_their_order(contrast: Contrast) -> None:
    some = texts()
    pairs = [(some[i * 7 % 150], some[i * 11 % 150]) for i in range(1203)]  # more than are read at once
    stdin = "".join(f"{a}\t{b}\n" for a, b in pairs).encode()
    answer = contrast("query", "-", *MODEL, "--json", stdin=stdin)
    found = [json.loads(line) for line in answer.out.splitlines()]
    assert [(line["a"], line["b"]) for line in found] == pairs
    for line in found[:: len(found) // 5]:
        assert line["cosine"] == pytest.approx(cosine(line["a"], line["b"]), abs=1e-5)
    assert len(contrast("query", "-", *MODEL, stdin=stdin).out.splitlines()) == len(pairs)


def test_stdin_may_have_the_line_ends_of_windows_and_no_last_one(contrast: Contrast) -> None:
    answer = contrast("query", "-", *MODEL, "--json", stdin="\ufeffé\tb\r\nc\td".encode())
    assert [(x["a"], x["b"]) for x in map(json.loads, answer.out.splitlines())] == [("é", "b"), ("c", "d")]


def test_the_nearest_of_a_corpus_are_found_and_its_vectors_kept(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = texts()
    Path("corpus.txt").write_text("\n".join(some) + "\n")
    first = contrast("query", some[3], "--corpus", "corpus.txt", "-k", "4", *MODEL, "--json")
    found = json.loads(first.out)["neighbours"]
    by_hand = sorted(((cosine(some[3], text), -row, text) for row, text in enumerate(some, 1)), reverse=True)[:4]
    assert [(line["row"], line["text"]) for line in found] == [(-row, text) for _, row, text in by_hand]
    assert [line["cosine"] for line in found] == pytest.approx([c for c, _, _ in by_hand], abs=1e-5)
    assert found[0]["angle_deg"] == pytest.approx(0, abs=0.1) and "encoding" in first.err
    again = contrast("query", some[3], "--corpus", "corpus.txt", "-k", "4", *MODEL, "--json")
    assert (again.out, again.err) == (first.out, "")  # from the cache: nothing was encoded
    Path("corpus.txt").write_text("\n".join(some[:-1]) + "\n")
    assert "encoding" in contrast("query", some[3], "--corpus", "corpus.txt", *MODEL).err


def test_a_corpus_smaller_than_k_is_given_whole(contrast: Contrast) -> None:
    Path("corpus.txt").write_text("one\ntwo\nthree\n")
    assert len(contrast("query", "two", "--corpus", "corpus.txt", "-k", "99", *MODEL).out.splitlines()) == 3


def test_a_model_is_the_option_else_the_variable_else_the_newest_run(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*words: str) -> str:
        return str(json.loads(contrast("query", A, B, "--json", *words).out)["model"])

    assert asked() == "runs/simple"
    monkeypatch.setenv("CONTRAST_MODEL", "tiny/backbone")
    assert asked() == "tiny/backbone"
    assert asked("--model", "simp") == "runs/simple"
    assert asked("--model", "last") == "runs/simple"
    assert asked("--model", str(run.checkpoint())) == str(run.checkpoint())


def test_a_run_answers_with_its_best_checkpoint_else_its_last(contrast: Contrast, run: Run) -> None:
    shutil.copytree("tiny/backbone", run.checkpoints_dir / "000009")
    run.checkpoints_path.write_text(json.dumps({"last": "000004", "best": "000009"}))
    best = json.loads(contrast("query", *texts()[:2], "--json").out)["cosine"]
    run.checkpoints_path.write_text(json.dumps({"last": "000004"}))
    last = json.loads(contrast("query", *texts()[:2], "--json").out)["cosine"]
    assert best == pytest.approx(cosine(*texts()[:2]), abs=1e-6)
    assert last == pytest.approx(cosine(*texts()[:2], str(run.checkpoint("last"))), abs=1e-6) != best


@pytest.mark.parametrize("name", ["v.npy", "v.safetensors", "v.parquet"])
def test_the_sentences_of_a_file_become_vectors_in_their_order(contrast: Contrast, name: str) -> None:
    answer = contrast("encode", "tiny/sentences.jsonl", "-o", name, *MODEL)
    assert (answer.code, answer.out) == (0, "") and f"wrote {name}: 160 vectors of 32" in answer.err
    expected = contrastcli.load("tiny/backbone").encode(texts())
    assert np.array_equal(read(Path(name)), expected)
    assert [path.name for path in Path().iterdir() if path.name.startswith((".v", "v"))] == [name]


def read(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if path.suffix == ".npy":
        return np.asarray(np.load(path))
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return load_file(path)["vectors"]
    from pyarrow import parquet

    table = parquet.read_table(path)
    assert table["text"].to_pylist() == texts()
    return np.array(table["vector"].to_pylist(), dtype=np.float32)


def test_sentences_of_stdin_become_vectors(contrast: Contrast) -> None:
    stdin = "".join(f"{text}\n" for text in texts()).encode()
    assert contrast("encode", "-", "-o", "v.npy", *MODEL, stdin=stdin).code == 0
    assert np.array_equal(np.load("v.npy"), contrastcli.load("tiny/backbone").encode(texts()))


def test_half_precision_on_request_stays_near(contrast: Contrast) -> None:
    assert contrast("encode", "tiny/sentences.jsonl", "-o", "v.npy", *MODEL, "--precision", "bf16").code == 0
    found, expected = np.load("v.npy"), contrastcli.load("tiny/backbone").encode(texts())
    assert found.dtype == np.float32 and not np.array_equal(found, expected)
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


def test_scores_have_the_shape_that_scripts_rely_on(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [(WORDS[i % 37], WORDS[i % 23], str(i * 7 % 5)) for i in range(max(EXPECTED.values()))]
    monkeypatch.setattr(sts_files, "few_sentences", lambda count: known[:count])
    sts_files.write_published_counts(Path("data"))
    answer = contrast("eval", "simple", "--data-dir", "data", "--json", "--out", "out")
    assert answer.code == 0
    found = json.loads(answer.out)
    assert list(found) == ["model", "suites"] and found["model"] == "runs/simple"
    sts = found["suites"]["sts"]
    for task in TASKS:
        assert sts[task]["pairs"] == EXPECTED[task]
        for kind in ("all", "mean", "wmean"):
            assert sts[task][kind].keys() == {"spearman", "pearson"}
            assert all(0 < abs(value) <= 100 for value in sts[task][kind].values())
    assert sts["average"] == pytest.approx(sum(sts[task]["all"]["spearman"] for task in TASKS) / len(TASKS))
    assert json.loads(Path("out/scores.json").read_text()) == found == run.scores()
    assert "STS12" in contrast("eval", "simple", "--data-dir", "data").out
    assert f"STS average        {sts['average']:.2f}" in contrast("runs", "show", "simple").out


def test_another_pooling_is_measured_without_overwriting_the_runs_scores(contrast: Contrast, run: Run) -> None:
    write_all(Path("data"))
    answer = contrast("eval", "simple", "--data-dir", "data", "--pooling", "cls")
    assert answer.code == 0 and "pooling: cls" in answer.out
    assert run.scores() == {}


def test_a_set_that_is_missing_is_an_error_after_the_others_were_measured(contrast: Contrast) -> None:
    write_all(Path("data"))
    shutil.rmtree("data/SICK")
    answer = contrast("eval", "tiny/backbone", "--data-dir", "data", "--json")
    found = json.loads(answer.out)["suites"]["sts"]
    assert answer.code == 3 and found["average"] is None and "STS12" in found and "SICK-R" not in found
    failed(answer._replace(out=""), 3, "not measured: SICK-R", "--data-dir")


def test_an_export_is_a_model_that_answers_alike(contrast: Contrast, run: Run) -> None:
    answer = contrast("export", "simple", "out/mine")
    assert (answer.code, answer.out) == (0, "out/mine\n")
    assert "contrast query" in answer.err and "--model out/mine" in answer.err
    before, after = (contrastcli.load(place).encode(texts()) for place in ("runs/simple", "out/mine"))
    assert np.array_equal(before, after)
    assert not list(Path("out/mine").rglob("training"))
    card = Path("out/mine/README.md").read_text()
    assert "pairsupcon" in card and "train.lr" in card
    assert contrast("export", "simple", "out/mine").code == 2
    assert contrast("export", "simple", "out/mine", "--overwrite").code == 0


def test_an_export_keeps_the_pooling_of_the_run(contrast: Contrast, tiny: Tiny) -> None:
    run = tiny.run(Path("runs") / "cls", train__max_steps=1, model__pooling="cls", model__head="keep")
    train(run)
    assert contrast("export", "cls", "out").code == 0
    encoder = contrastcli.load("out")
    assert encoder.pooling == "cls" and encoder.dense is not None
    assert np.array_equal(encoder.encode([A, B]), contrastcli.load("runs/cls").encode([A, B]))
