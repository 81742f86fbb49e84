"""`contrast query`: pairs, stdin and a corpus, which model answers, and questions that are refused."""

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from contrastcli.commands.query import read_pairs, read_questions
from contrastcli.model.folder import load_encoder
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Pooling
from support.command import MODEL, Contrast, refused, sentences
from support.rounding import assert_near

A, B = "bada boo", "foum den gir"


def cosine(a: str, b: str, model: str = "tiny/backbone", pooling: Pooling | None = None) -> float:
    u, v = load_encoder(Path(model), pooling).encode([a, b]).astype(np.float64)
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


def test_two_sentences_have_a_cosine_and_an_angle(contrast: Contrast) -> None:
    first, second = sentences()[:2]
    expected = cosine(first, second)
    shown = contrast("query", first, second, *MODEL)
    degrees = math.degrees(math.acos(expected))
    assert shown.out.split()[:2] == [f"{expected:.4f}", f"{degrees:.1f}°"]
    answer = json.loads(contrast("query", first, second, *MODEL, "--json").out)
    assert list(answer) == ["a", "b", "cosine", "angle_deg", "model", "tokens", "limit"]
    assert (answer["a"], answer["b"], answer["model"]) == (first, second, "tiny/backbone")
    assert answer["cosine"] == pytest.approx(expected, abs=1e-12)
    assert answer["angle_deg"] == pytest.approx(degrees, abs=1e-6)
    assert answer["cosine"] != round(answer["cosine"], 6)


def test_a_text_of_more_tokens_than_the_model_reads_is_said_to_be_cut(contrast: Contrast) -> None:
    tokenizer = Tokenizer.from_file("tiny/backbone/tokenizer.json")
    tokenizer.no_truncation()
    short, long = sentences()[0], " ".join(sentences())
    tokens = [len(tokenizer.encode(text).ids) for text in (short, long)]
    limit = json.loads(Path("tiny/backbone/config.json").read_text())["max_position_embeddings"]
    answer = json.loads(contrast("query", short, long, *MODEL, "--json").out)
    assert (answer["tokens"], answer["limit"]) == (tokens, limit)
    assert f"note: B is cut after {limit} of {tokens[1]:,} tokens\n" == contrast("query", short, long, *MODEL).err
    assert contrast("query", short, short, *MODEL).err == ""


def test_pairs_of_stdin_are_answered_in_order(contrast: Contrast) -> None:
    some = sentences()
    pairs = [(some[i * 7 % 150], some[i * 11 % 150]) for i in range(1203)]  # more than are read at once
    stdin = "\ufeff" + "\r\n".join(f"{a}\t{b}" for a, b in pairs)  # as Windows ends lines, and no last one
    answer = contrast("query", "-", *MODEL, "--json", stdin=stdin.encode())
    answers = [json.loads(line) for line in answer.out.splitlines()]
    assert [(line["a"], line["b"]) for line in answers] == pairs
    for line in answers[:: len(answers) // 5]:
        assert_near(line["cosine"], cosine(line["a"], line["b"]), scale=1)
    lines = "".join(f"{a}\t{b}\n" for a, b in [("é", "b"), *pairs]).encode()
    assert len(contrast("query", "-", *MODEL, stdin=lines).out.splitlines()) == len(pairs) + 1


def test_a_file_that_is_compared_as_a_sentence_is_told(contrast: Contrast) -> None:
    Path("some texts.txt").write_text("ba den\n")
    answer = contrast("query", "ba den", "some texts.txt", "--model", "tiny/backbone")
    assert answer.code == 0
    hint = "to search the file: contrast query 'ba den' --corpus 'some texts.txt'"
    assert f"note: 'some texts.txt' was compared as a sentence; {hint}" in answer.err


def test_the_nearest_sentences_of_a_corpus_are_listed_and_its_vectors_cached(contrast: Contrast) -> None:
    text = sentences()[3]
    words = ("query", text, "--corpus", "tiny/sentences.jsonl", "-k", "4", *MODEL, "--json")
    first = contrast(*words)
    nearest = json.loads(first.out)["neighbours"]
    assert len(nearest) == 4 and (nearest[0]["row"], nearest[0]["text"]) == (4, text)
    assert_near([line["cosine"] for line in nearest], [cosine(text, line["text"]) for line in nearest], scale=1)
    assert nearest[0]["angle_deg"] == pytest.approx(0, abs=0.1) and "encoding" in first.err
    assert contrast(*words) == first._replace(err="")  # from the cache: nothing was encoded


def test_titles_of_a_corpus_are_searched_and_encoded_before_their_texts(contrast: Contrast) -> None:
    rows = [{"_id": "d1", "title": "Cats", "text": "They purr."}, {"_id": "d2", "title": None, "text": "A dog."}]
    Path("corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert contrast("encode", "corpus.jsonl", "-o", "corpus.npy", *MODEL).code == 0
    answer = contrast("query", "cats", "--corpus", "corpus.jsonl", "--vectors", "corpus.npy", *MODEL, "--json")
    found = {one["id"]: one["text"] for one in json.loads(answer.out)["neighbours"]}
    assert found == {"d1": "Cats They purr.", "d2": "A dog."}
    assert "titles are read before their texts" in answer.err


def test_a_run_answers_with_its_best_checkpoint_else_its_last(contrast: Contrast, run: Run) -> None:
    shutil.copytree("tiny/backbone", run.checkpoints_dir / "000009")
    first, second = sentences()[:2]
    run.checkpoints_path.write_text(json.dumps({"last": "000004", "best": "000009"}))
    best = json.loads(contrast("query", first, second, "--json").out)["cosine"]
    run.checkpoints_path.write_text(json.dumps({"last": "000004"}))
    last = json.loads(contrast("query", first, second, "--json").out)["cosine"]
    assert_near(best, cosine(first, second), scale=1)
    assert_near(last, cosine(first, second, str(run.checkpoint("last"))), scale=1)
    assert best != last


def test_without_a_model_the_starter_is_suggested(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("texts.txt").write_text("one\ntwo\n")
    for words in [("query", "a", "b"), ("encode", "texts.txt", "-o", "x.npy"), ("eval",)]:
        refused(contrast(*words), 3, "there is no model", "--preset starter --no-ui, or name one: a folder, a hub")
    monkeypatch.setenv("CONTRAST_MODEL", "./nothing")
    refused(contrast("query", "a", "b"), 3, "file './nothing' (CONTRAST_MODEL)", "check the path")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        *((line, "TAB") for line in (b"a", b"a\t  ", b"a\tb\tc")),
        (b"a\t\xff", "UTF-8"),
        (b"", "stdin is empty"),
    ],
)
def test_a_bad_line_of_stdin_is_named(contrast: Contrast, line: bytes, what: str) -> None:
    answer = contrast("query", "-", "--model", "tiny/backbone", stdin=b"a\tb\n" + line + b"\n")
    assert answer.code == 3 and "stdin, line 2" in answer.err
    assert len(answer.out.splitlines()) == 1  # the line before is answered
    assert what in contrast("query", "-", "--model", "tiny/backbone", stdin=line).err


def test_utf_16_on_stdin_is_named_with_the_command_that_converts_it(contrast: Contrast) -> None:
    answer = contrast("query", "-", "--model", "tiny/backbone", stdin="a\tb\nc\td\n".encode("utf-16"))
    refused(answer, 3, "stdin is UTF-16", "… | iconv -f utf-16 -t utf-8 | contrast …")


def test_a_line_is_answered_before_the_next_has_come() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as sender:
        pairs, questions = read_pairs(stream), read_questions(stream)
        sender.write(b"a\tb\nc")
        assert next(pairs) == [("a", "b")]
        sender.write(b"\td\n")
        assert next(pairs) == [("c", "d")]
        sender.write(b"how so\nwhy\n")
        assert next(questions) == ["how so", "why"]


def test_another_pooling_may_be_asked_for_and_the_model_s_own_has_a_name(contrast: Contrast) -> None:
    own, auto, cls = (
        json.loads(contrast("query", A, B, *MODEL, *words, "--json").out)["cosine"]
        for words in ((), ("--pooling", "auto"), ("--pooling", "cls"))
    )
    assert own == auto != pytest.approx(cls, abs=1e-3)
    assert_near(cls, cosine(A, B, pooling="cls"), scale=1)


def test_a_corpus_of_other_columns_is_searched_and_its_ids_are_answered(contrast: Contrast) -> None:
    Path("faq.csv").write_text("nr;Frage;Antwort\nq7;ba den;go lum\nq8;fir;\nq9;go;den ba\n")
    words = ("query", "ba den", "--corpus", "faq.csv", *MODEL, "-k", "1", "--columns", "text=Frage,id=nr")
    assert contrast(*words).out.split()[2:] == ["q7", "ba", "den"]
    nearest = json.loads(contrast(*words, "--json").out)["neighbours"][0]
    assert (nearest["row"], nearest["id"], nearest["text"]) == (1, "q7", "ba den")
    answers = ("query", "ba den", "--corpus", "faq.csv", *MODEL, "--columns", "text=Antwort,id=nr")
    refused(contrast(*answers), 3, "faq.csv, line 3: the sentence in the column 'Antwort' is blank", "--blank drop")
    left = contrast(*answers, "--blank", "drop", "--json")
    assert "1 of 3 rows without a text in 'Antwort' were left out" in left.err
    assert [(one["row"], one["text"]) for one in json.loads(left.out)["neighbours"]] == [(1, "go lum"), (3, "den ba")]
    Path("triplets.csv").write_text("id,anchor,positive,negative\n1,ba,go lum,ba den\n2,den,ba den,fir\n")
    answer = contrast("query", "ba den", "--corpus", "triplets.csv", *MODEL, "--json")
    assert "note: hard negatives of triplets.csv are not searched" in answer.err
    found = json.loads(answer.out)["neighbours"]
    assert [(one["id"], one["text"]) for one in found] == [("2", "ba den"), ("1", "go lum")]
