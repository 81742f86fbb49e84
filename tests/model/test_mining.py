"""Hard negatives are those that a search by loops over single texts would choose."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from contrastcli.errors import UsageError
from contrastcli.model import mining, search
from contrastcli.model.mining import KEPT, JudgedBlock, Pool, Rule, mine, read_ranks

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


def test_a_negative_cosine_of_the_positive_does_not_admit_closer_texts() -> None:
    """0.95 times a negative number is more than that number."""
    assert Rule(below=0.95).limit(np.array([-0.5, 0.5])).tolist() == [-0.5, 0.475]


def test_without_candidates_there_are_no_negatives() -> None:
    pool = Pool.of(TEXTS, np.array([0]), np.array([1]), np.array([2]))  # the positive in another spelling
    (judged,) = mine(np.ones((len(TEXTS), WIDTH), np.float32), pool, Rule())
    assert not (judged.verdicts == KEPT).any()


def test_ranks_are_two_numbers_that_rise_from_one() -> None:
    assert read_ranks("1-60", "--ranks") == (1, 60)
    for text in ("", "5", "0-3", "9-3", "a-b", "-1-3", "1-2-3"):
        with pytest.raises(UsageError, match="--ranks is "):
            read_ranks(text, "--ranks")
