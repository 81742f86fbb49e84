"""Work in a child process as bars, each with the time that is left."""

from __future__ import annotations

import time

from contrastcli.runs.events import Progress
from contrastcli.runs.text import duration
from contrastcli.tui.widgets import progress_bar

_SOON = 2.0  # seconds of work before its time left is told


class Bars:
    """The last few kinds of work that reported progress."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._works: dict[str, tuple[Progress, float]] = {}  # with the time at which it began

    def update(self, event: Progress) -> str:
        """Take a report; returns the bars as text."""
        before, began = self._works.pop(event.what, (event, time.monotonic()))
        if event.done < before.done or before.total != event.total:  # begun again
            began = time.monotonic()
        self._works[event.what] = event, began
        return "\n".join(_bar(*work) for work in list(self._works.values())[-self._most :])


def _bar(event: Progress, began: float) -> str:
    share, seconds = event.done / max(1, event.total), time.monotonic() - began
    left = f"  {duration(seconds / share - seconds)} left" if share < 1 and share * seconds and seconds > _SOON else ""
    return f"{event.what}  {event.done:,} of {event.total:,}{left}\n{progress_bar(share)}"
