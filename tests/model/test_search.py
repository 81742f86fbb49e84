"""The similarity of pairs, and the nearest sentences of a corpus."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from contrastcli.model import search
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.search import Index, similarities
from contrastcli.settings.sections import Blank
from support.contracts import under
from support.rounding import assert_near
from support.tiny import WORDS, Tiny

SENTENCES = [f"{a} {b}" for a in WORDS[:12] for b in WORDS[12:37]]  # 300, all different


@pytest.fixture
def encoder(tiny: Tiny) -> SentenceEncoder:
    return load_encoder(tiny.backbone)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{text}\n" for text in SENTENCES))
    return path


def test_identical_sentences_are_exactly_alike_and_no_cosine_is_beyond_one(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = similarities(encoder, [(text, text) for text in SENTENCES])
    assert {(s.cosine, s.angle_deg) for s in answers} == {(1.0, 0.0)}
    draw = np.random.default_rng(0).normal(size=(300, 5))
    vectors = {f"{sign}{i}": list(length * row) for i, row in enumerate(draw) for sign, length in (("", 3), ("-", -1))}
    monkeypatch.setattr(encoder, "encode", lambda texts: np.array([vectors[text] for text in texts], np.float32))
    opposite = similarities(encoder, [(str(i), f"-{i}") for i in range(300)])
    assert all(s.cosine >= -1 and s.angle_deg == pytest.approx(180) for s in opposite)


def test_each_distinct_sentence_is_encoded_once(encoder: SentenceEncoder, encoded: list[str]) -> None:
    answers = similarities(encoder, [("ba", "den"), ("den", "ba"), ("ba", "ba")])
    assert encoded == ["ba", "den"]
    assert answers[0].cosine == answers[1].cosine and answers[2].cosine == 1.0


def by_hand(encoder: SentenceEncoder, text: str) -> list[tuple[float, int]]:
    """Cosine and row of the whole corpus, the nearest first."""
    vectors = encoder.encode([text, *SENTENCES]).astype(np.float64)
    cosines = [float(vectors[0] @ v / np.linalg.norm(vectors[0]) / np.linalg.norm(v)) for v in vectors[1:]]
    return sorted(((cosine, row) for row, cosine in enumerate(cosines, 1)), reverse=True)


@pytest.mark.parametrize("rows", [7, 300])
def test_the_nearest_are_those_of_a_full_search(
    encoder: SentenceEncoder, corpus: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(search, "ROWS", rows)
    index = Index(encoder, corpus)
    nearest = index.nearest("ba den fir", 9)
    expected = by_hand(encoder, "ba den fir")[:9]
    assert [n.row for n in nearest] == [row for _, row in expected]
    assert [n.text for n in nearest] == [SENTENCES[row - 1] for _, row in expected]
    assert_near([n.cosine for n in nearest], [cosine for cosine, _ in expected], scale=1)
    assert [n.angle_deg for n in nearest] == sorted(n.angle_deg for n in nearest)
    first, *others = index.nearest(SENTENCES[41], 1000)
    assert first.row == 42 and f"{first.angle_deg:.1f}" == "0.0" and first.cosine <= 1
    assert sorted(n.row for n in (first, *others)) == list(range(1, 301)), "more than all are all"


@pytest.mark.parametrize(
    ("lines", "blank", "expected"),
    [
        (["id,text", '1,"ba, den"', "2,go"], "error", [("go", 2), ("ba, den", 1)]),
        # Of pairs the positives are searched, by their rows in the file.
        (["question,answer", "ba,den", "ba,", "lum,go"], "drop", [("go", 3), ("den", 1)]),
    ],
)
def test_a_corpus_is_a_column_of_sentences_or_the_positives_of_pairs_by_their_rows(
    encoder: SentenceEncoder, tmp_path: Path, lines: list[str], blank: Blank, expected: list[tuple[str, int]]
) -> None:
    (tmp_path / "corpus.csv").write_text("\n".join(lines) + "\n")
    found = Index(encoder, tmp_path / "corpus.csv", blank=blank).nearest("go", 5)
    assert [(n.text, n.row) for n in found] == expected


def test_a_corpus_is_encoded_once(encoder: SentenceEncoder, corpus: Path, encoded: list[str]) -> None:
    steps: list[tuple[int, int]] = []
    first = Index(encoder, corpus, lambda done, total: steps.append((done, total))).nearest("ba", 5)
    assert sorted(encoded) == sorted([*SENTENCES, "ba"]) and steps[-1] == (300, 300)
    encoded.clear()
    assert Index(encoder, corpus).nearest("ba", 5) == first and encoded == ["ba"]
    corpus.rename(corpus.with_name("renamed.txt"))  # what it holds counts, not where
    assert Index(encoder, corpus.with_name("renamed.txt")).nearest("ba", 5) == first and encoded == ["ba"] * 2
    corpus.write_text("".join(f"{text}\n" for text in [*SENTENCES[:7], "ba"]))
    assert Index(encoder, corpus).nearest("ba", 1)[0].row == 8, "of another text it is encoded again"


CHANGES: dict[str, Callable[[SentenceEncoder], object]] = {
    "weights": lambda encoder: encoder.backbone.get_parameter("bert.norm.bias").data.add_(1),
    "prompt": lambda encoder: under(encoder, prompt="go "),
    "length": lambda encoder: setattr(encoder, "max_length", 3),
    "pooling": lambda encoder: under(encoder, pooling="cls"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_another_model_encodes_the_corpus_again(encoder: SentenceEncoder, corpus: Path, what: str) -> None:
    before = Index(encoder, corpus).nearest("ba den", 5)
    CHANGES[what](encoder)
    after = Index(encoder, corpus).nearest("ba den", 5)
    assert_near([n.cosine for n in after], [c for c, _ in by_hand(encoder, "ba den")[:5]], scale=1)
    assert [n.cosine for n in after] != [n.cosine for n in before]


def test_a_cache_that_cannot_be_written_costs_no_answer(
    encoder: SentenceEncoder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Index(encoder, corpus).nearest("ba", 5)
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONTRAST_CACHE", str(tmp_path / "file"))
    assert Index(encoder, corpus).nearest("ba", 5) == expected
