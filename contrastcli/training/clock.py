"""How fast training goes."""

from __future__ import annotations

import time


class Clock:
    """Counts sentences and steps over time; evaluation and saving are left out by `restart`."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._steps = 0
        self._sentences = 0
        self._since = (0.0, 0)  # seconds and sentences at the last reading
        self.restart()

    def restart(self) -> None:
        """Forget the time since the last step."""
        self._mark = time.monotonic()

    def tick(self, sentences: int) -> None:
        """A step is done."""
        now = time.monotonic()
        self._seconds += now - self._mark
        self._mark = now
        self._steps += 1
        self._sentences += sentences

    def rate(self) -> float | None:
        """Sentences a second since the reading before."""
        seconds, sentences = self._since
        self._since = (self._seconds, self._sentences)
        passed = self._seconds - seconds
        return round((self._sentences - sentences) / passed, 1) if passed > 0 else None

    def seconds_left(self, steps: int) -> float | None:
        """Time that this many more steps take at the mean rate so far."""
        return round(steps * self._seconds / self._steps, 1) if self._steps else None
