"""Numbers that events report, as curves over the steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from contrastcli.runs.events import Event
from contrastcli.show.pictures import HARDEST, NEGATIVE, POSITIVE, Series
from contrastcli.tui.history import History

_INKS = {"positive": POSITIVE, "negative": NEGATIVE, "hardest": HARDEST}


@dataclass(frozen=True)
class Metric:
    """What is drawn on one axis: a title, the kind of the events, and the names of their numbers."""

    title: str
    kind: str
    names: tuple[str, ...]

    def series(self, history: History, width: int, steps: tuple[float, float] = (0.0, math.inf)) -> list[Series]:
        """The numbers over a range of steps, as lines for a picture that is so many dots wide."""
        table = history.tables[self.kind]
        return [Series(name, *table.line(name, steps, width), ink=_INKS.get(name, 0)) for name in self.names]


def metrics() -> dict[str, Metric]:
    """Everything that may have a chart of its own, by name: the numbers that events have titles for."""
    return {
        name: Metric(title, event.kind(), (name,))
        for event in Event.__subclasses__()
        for name, title in event.titles.items()
    }
