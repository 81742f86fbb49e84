"""Waiting in tests: for a condition, never for a time."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until a condition holds; fails where it never does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"the condition does not hold after {seconds} s"
        time.sleep(0.005)
