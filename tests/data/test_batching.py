"""Every row once an epoch, groups together, chunks within their budget."""

from itertools import pairwise

import numpy as np
import pytest

from contrastcli.data.batching import BatchOrder, Corpus, chunks, even_chunks
from contrastcli.data.examples import Examples
from support.tables import texts

GROUPS = np.random.default_rng(3).integers(0, 40, size=150)  # 150 rows of at most 40 premises, in no order
LENGTHS = np.random.default_rng(4).integers(3, 33, size=200)


def rows_of(batches: list[np.ndarray]) -> list[int]:
    return [int(row) for batch in batches for row in batch]


@pytest.mark.parametrize(
    ("rows", "size", "sizes"),
    [(34, 16, [16, 16, 2]), (32, 16, [16, 16]), (33, 16, [16, 17]), (17, 16, [17]), (3, 1, [1, 1, 1])],
)
def test_the_last_batch_holds_the_rest_and_a_row_that_would_be_alone_joins_the_one_before(
    rows: int, size: int, sizes: list[int]
) -> None:
    order = BatchOrder(rows, size, seed=1)
    assert [len(batch) for batch in order.epoch(0)] == sizes and len(order) == len(sizes)
    assert sorted(rows_of(order.epoch(0))) == [*range(rows)]


@pytest.mark.parametrize("epoch", range(5))
def test_a_premises_rows_stay_in_one_batch(epoch: int) -> None:
    batches = BatchOrder(150, 16, seed=1, groups=GROUPS).epoch(epoch)
    assert sorted(rows_of(batches)) == [*range(150)] and max(map(len, batches)) <= 16
    homes = [{number for number, batch in enumerate(batches) if group in GROUPS[batch]} for group in set(GROUPS)]
    assert all(len(home) == 1 for home in homes)
    for batch, after in pairwise(batches):
        next_group = GROUPS[after[0]] == GROUPS
        assert len(batch) + next_group.sum() > 16, "a batch was closed although the next group had room"


def test_a_group_larger_than_a_batch_is_cut_and_nothing_else_is() -> None:
    groups = np.array([9] * 11 + [1] * 2 + [2] * 3)
    for epoch in range(20):
        batches = BatchOrder(16, 4, seed=0, groups=groups).epoch(epoch)
        assert sorted(rows_of(batches)) == list(range(16))
        assert all(len(batch) <= 4 for batch in batches)
        assert sorted((groups[batch] == 9).sum() for batch in batches if 9 in groups[batch]) == [3, 4, 4]
        assert sum(1 in groups[batch] for batch in batches) == sum(2 in groups[batch] for batch in batches) == 1


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_the_order_is_a_function_of_seed_and_epoch_alone(groups: np.ndarray | None) -> None:
    order = BatchOrder(150, 16, seed=5, groups=groups)
    wanted = rows_of(order.epoch(3))
    order.epoch(0)
    np.random.seed(0)
    assert rows_of(order.epoch(3)) == wanted == rows_of(BatchOrder(150, 16, seed=5, groups=groups).epoch(3))
    others = [rows_of(order.epoch(2)), rows_of(BatchOrder(150, 16, seed=6, groups=groups).epoch(3))]
    assert wanted not in [*others, list(range(150))]


@pytest.mark.parametrize("budget", [32, 100, 1000, 100_000])
def test_chunks_hold_each_text_once_within_the_budget_longest_first(budget: int) -> None:
    batches = chunks(LENGTHS, budget)
    assert sorted(rows_of(batches)) == list(range(200))
    assert all(len(chunk) * LENGTHS[chunk].max() <= budget for chunk in batches)
    assert LENGTHS[np.concatenate(batches)].tolist() == sorted(LENGTHS, reverse=True)
    assert len(batches) <= 1 + 2 * LENGTHS.sum() // budget or budget == 32


@pytest.mark.parametrize(("parts", "least", "counts"), [(4, 1, {8, 12}), (1, 1, {7, 8, 9}), (64, 200, {16})])
def test_even_chunks_give_as_many_threads_the_same_work(parts: int, least: int, counts: set[int]) -> None:
    budget = int(LENGTHS.sum()) // 7
    batches = even_chunks(LENGTHS, budget, parts, least)
    assert sorted(rows_of(batches)) == list(range(200)) and len(batches) in counts
    sizes = [len(chunk) * int(LENGTHS[chunk].max()) for chunk in batches]
    assert max(sizes) <= budget and min(sizes) > 0.6 * max(sizes)


def test_few_texts_are_one_chunk_none_are_no_chunk_and_one_beyond_the_budget_is_alone() -> None:
    assert len(even_chunks(np.array([5, 9]), 1000, 4, 100)) == 1
    none = np.array([], dtype=np.int64)
    assert even_chunks(none, 1000, 4, 100) == chunks(none, 100) == []
    assert [chunk.tolist() for chunk in chunks(np.array([5, 90, 5, 80]), 20)] == [[1], [3], [0, 2]]


def test_equal_texts_have_equal_numbers_in_every_view() -> None:
    corpus = Corpus.of(Examples("labelled", texts(anchor=["a", "b", "a"], positive=["b", "c", "a"]), [0, 2, 1], "test"))
    assert corpus.texts == ["a", "b", "c"]
    assert [numbers.tolist() for numbers in corpus.views.values()] == [[0, 1, 0], [1, 2, 0]]
    assert corpus.labels is not None and corpus.labels.tolist() == [0, 2, 1]
    assert len(corpus) == 3


def test_a_text_that_a_row_does_not_have_has_no_number() -> None:
    views = {"anchor": ["a", "b"], "positive": ["c", "d"], "negative": ["e", "a"], "negative_2": ["f", ""]}
    corpus = Corpus.of(Examples("triplets", texts(**views), None, "test"))
    assert corpus.texts == ["a", "b", "c", "d", "e", "f"]
    assert corpus.views["negative_2"].tolist() == [5, -1]
    assert (corpus.texts_per_row, corpus.negatives_per_row) == (3.5, 1.5)
