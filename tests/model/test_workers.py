"""Several threads with a chunk each: the same results in the same order, and an end when one fails."""

import threading
import time

import pytest
import torch

from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.workers import count_workers, generator, one_thread, side_by_side
from support.rounding import assert_near
from support.tiny import WORDS, Tiny

pytestmark = pytest.mark.usefixtures("four_threads")


def test_results_come_in_the_order_of_the_items_though_all_are_at_work_at_once() -> None:
    meeting = threading.Barrier(4, timeout=300)
    ended = [threading.Event() for _ in range(5)]
    ended[4].set()

    def work(number: int) -> tuple[int, int]:
        meeting.wait()  # passes only with four of them
        assert ended[number + 1].wait(60)  # the last item is done first
        ended[number].set()
        return number, torch.get_num_threads()

    assert list(side_by_side(work, range(4), 4)) == [(number, 1) for number in range(4)]
    assert torch.get_num_threads() == count_workers(9) == 4


def test_few_workers_share_the_threads() -> None:
    assert count_workers(2) == 2
    assert [*side_by_side(lambda _: torch.get_num_threads(), range(3), 2)] == [2, 2, 2]
    assert [*side_by_side(lambda _: torch.get_num_threads(), range(2), 4)] == [2, 2]
    assert [*side_by_side(lambda _: torch.get_num_threads(), range(1), 4)] == [4]


def test_a_body_has_one_thread_and_leaves_as_many_as_there_were() -> None:
    def fail() -> float:
        return 1 / (torch.get_num_threads() - 1)

    with pytest.raises(ZeroDivisionError), one_thread():
        fail()
    assert torch.get_num_threads() == 4


def test_every_worker_has_its_own_random_numbers() -> None:
    meeting = threading.Barrier(4, timeout=300)

    def draw(_: int) -> float:
        generator().manual_seed(7)
        meeting.wait()
        return float(torch.rand(1, generator=generator()))

    state = torch.get_rng_state()
    assert len(set(side_by_side(draw, range(4), 4))) == 1
    assert torch.equal(torch.get_rng_state(), state)


def test_an_error_comes_after_the_items_at_work_are_done_and_the_rest_is_left() -> None:
    begun, done = [], []

    def work(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("nought")
        time.sleep(0.05)
        done.append(number)

    with pytest.raises(ValueError, match="nought"):
        list(side_by_side(work, range(100), 4))
    assert sorted(begun) == [0, *sorted(done)] and len(begun) < 20


def test_embeddings_do_not_depend_on_the_threads(tiny: Tiny) -> None:
    texts = [" ".join(WORDS[i % 50 : i % 50 + 1 + i % 9]) for i in range(700)]
    encoder: SentenceEncoder = load_encoder(tiny.backbone)
    told: list[int] = []
    several = encoder.encode(texts, on_progress=lambda done, total: told.append(done))
    assert len(told) >= 4 and told == sorted(set(told)) and told[-1] == 700
    torch.set_num_threads(1)
    assert_near(encoder.encode(texts), several)
