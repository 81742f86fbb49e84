"""Chunks of texts side by side on the cores of a CPU.

Torch's own threads share every operation and wait for one another at its end, for which most operations of a small
encoder are too short. Here a thread has chunks of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import Barrier, local
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


_THREAD = local()


def generator() -> torch.Generator:
    """What this thread draws its random numbers from: a worker has its own, and all other threads share torch's."""
    own: torch.Generator = getattr(_THREAD, "generator", torch.default_generator)
    return own


def count_workers(most: int) -> int:
    """How many workers `side_by_side` has for many items: as many as torch may use threads, but at most `most`."""
    return min(most, torch.get_num_threads())


def side_by_side(work: Callable[[T], R], items: Sequence[T], most: int) -> Iterator[R]:
    """The results of `work` for each item, in their order, with as many items at once as there are workers.

    Torch's threads are shared out among them. An error ends it once the items at work are done.
    """
    workers = min(count_workers(most), len(items))
    if workers <= 1:
        yield from map(work, items)
        return
    futures = [_pool(workers, torch.get_num_threads()).submit(work, item) for item in items]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes the body by the calling thread alone: operations that are too short for several wait for them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def _pool(workers: int, threads: int) -> ThreadPoolExecutor:
    """Threads that are kept, as are the products that torch's library has prepared for each."""

    def begin() -> None:
        # A thread's first question sets its number to that of all.
        torch.get_num_threads()
        torch.set_num_threads(threads // workers)
        _THREAD.generator = torch.Generator()

    pool = ThreadPoolExecutor(workers, initializer=begin)
    started = Barrier(workers)
    list(pool.map(lambda _: started.wait(), range(workers)))
    # For threads that start later; each of those above has its own number.
    torch.set_num_threads(threads)
    return pool
