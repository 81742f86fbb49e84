"""The similarity of pairs, the nearest sentences of a corpus, and the hard negatives that loops would choose."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contrastcli.errors import UsageError
from contrastcli.model import mining, search
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.mining import KEPT, JudgedBlock, Pool, Rule, mine, read_ranks
from contrastcli.model.search import Index, similarities
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


Floats = NDArray[np.float32]
WIDTH = 6
TEXTS = [f"{word}{n}" for n in range(24) for word in ("a", "A", "a ")]  # three spellings of each
RULES = [
    Rule(count=1),
    Rule(first=3, last=9, count=2, below=None),
    Rule(below=None, margin=0.2, count=3),
    Rule(below=0.8, margin=0.1),
    Rule(below=None, last=500, count=4),
]


def cosine(a: Floats, b: Floats) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def same(a: str, b: str) -> bool:
    return a.lower().split() == b.lower().split()


def by_loops(
    vectors: Floats, rows: Sequence[tuple[int, int]], candidates: Sequence[int], rule: Rule, guard: Floats | None
) -> list[list[int]]:
    """The negatives of each row (anchor, positive)."""
    distinct = [c for n, c in enumerate(candidates) if not any(same(TEXTS[c], TEXTS[d]) for d in candidates[:n])]
    chosen = []
    for anchor, positive in rows:
        own = [anchor, *(p for a, p in rows if same(TEXTS[a], TEXTS[anchor]))]
        others = [c for c in distinct if not any(same(TEXTS[c], TEXTS[text]) for text in own)]
        others.sort(key=lambda c: -cosine(vectors[anchor], vectors[c]))
        limit = cosine(vectors[anchor], vectors[positive])
        kept: list[int] = []
        for candidate in others[rule.first - 1 : rule.last]:
            close = cosine(vectors[anchor], vectors[candidate])
            fits = rule.below is None or close <= min(limit, rule.below * limit)
            fits &= rule.margin is None or close <= limit - rule.margin
            if guard is not None:
                fits &= cosine(guard[anchor], guard[candidate]) < cosine(guard[anchor], guard[positive])
            if fits and len(kept) < rule.count:
                kept.append(candidate)
        chosen.append(kept)
    return chosen


def kept(judged: Sequence[JudgedBlock], rows: int) -> list[list[int]]:
    """The negatives of each row, in order."""
    negatives: list[list[int]] = [[] for _ in range(rows)]
    for block in judged:
        for row, texts, verdicts in zip(block.rows, block.candidates, block.verdicts, strict=True):
            negatives[row] = [int(text) for text in texts[verdicts == KEPT]]
    return negatives


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("guarded", [False, True])
def test_mining_equals_a_search_by_loops(rule: Rule, guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anchors with several positives, texts in several spellings, and blocks smaller than the corpus."""
    monkeypatch.setattr(search, "ROWS", 7)
    monkeypatch.setattr(mining, "ANCHORS", 5)
    draw = np.random.default_rng(3)
    vectors, second = draw.normal(size=(2, len(TEXTS), WIDTH)).astype(np.float32)
    rows = [(int(a), int(p)) for a, p in draw.integers(len(TEXTS), size=(40, 2))] + [(4, 9), (4, 30), (3, 12)]
    candidates = [int(c) for c in draw.permutation(len(TEXTS))[:50]]
    anchors, positives = np.array(rows).T
    pool = Pool.of(TEXTS, anchors, positives, np.array(candidates))
    guard = second if guarded else None
    expected = by_loops(vectors, rows, candidates, rule, guard)
    assert kept([*mine(vectors, pool, rule, guard)], len(rows)) == expected
    assert len({tuple(negatives) for negatives in expected}) > 5  # else equality would prove little
    some = np.array([7, 40, 3])
    again = kept([*mine(vectors, pool, rule, guard, only=some)], len(rows))
    assert again == [negatives if row in some else [] for row, negatives in enumerate(expected)]


def test_ranks_are_two_numbers_that_rise_from_one() -> None:
    assert read_ranks("1-60", "--ranks") == (1, 60)
    for text in ("", "5", "0-3", "9-3", "a-b", "-1-3", "1-2-3"):
        with pytest.raises(UsageError, match="--ranks is "):
            read_ranks(text, "--ranks")
