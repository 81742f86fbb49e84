"""The speed of training."""

from __future__ import annotations

import time


class Clock:
    """Counts the seconds and sentences of steps; `restart` leaves out evaluation and saving."""

    def __init__(self) -> None:
        self._seconds, self._steps, self._sentences = 0.0, 0, 0
        self._at_last_rate = (0.0, 0)  # seconds and sentences
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
        """Sentences a second since the last call."""
        seconds, sentences = self._at_last_rate
        self._at_last_rate = (self._seconds, self._sentences)
        passed = self._seconds - seconds
        return round((self._sentences - sentences) / passed, 1) if passed > 0 else None

    def seconds_left(self, steps: int) -> float | None:
        """The time that so many more steps take at the mean speed so far."""
        return round(steps * self._seconds / self._steps, 1) if self._steps else None
