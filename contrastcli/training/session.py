"""What ties a training to its surroundings: where its events go, who may stop it, and the other processes."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from contrastcli.runs.event import Event
from contrastcli.runs.events import Note, Progress
from contrastcli.runs.status import Writer
from contrastcli.training.distributed import World

Emit = Callable[[Event], None]


class StopRequested(Exception):
    """A stop was asked for. A step or an evaluation that is under way is dropped."""


@dataclass
class Session:
    """The surroundings of one training."""

    emit: Emit
    stop_requested: Callable[[], bool] = lambda: False
    check_place: Callable[[], None] = lambda: None
    world: World = field(default_factory=World)
    writer: Writer | None = None
    step: int = 0
    """That training continues from."""
    _told: dict[str, float] = field(default_factory=dict)
    """When loading was last reported, by the work."""

    def note(self, step: int, text: str) -> None:
        self.emit(Note(step=step, text=text))

    def should_stop(self) -> bool:
        """Whether a stop was asked for. Raises RunError where the run was moved or removed."""
        self.check_place()
        return self.stop_requested()

    def check_stop(self) -> None:
        """Raise StopRequested where a stop was asked for. Several processes agree on it after a step instead."""
        if self.world.size == 1 and self.should_stop():
            raise StopRequested

    def loading(self, what: str, done: int, total: int) -> None:
        """Report how much of what comes before the first step, or the next one of a resumed run, is done.

        Of the many reports of some work one a second is told, and the last.
        """
        now = time.monotonic()
        if done in (0, total) or now > self._told.get(what, -math.inf) + 1:
            self._told[what] = now
            self.emit(Progress(step=self.step, what=what, done=done, total=total))

    def progress(self, step: int, what: str, total: int) -> Callable[[int], None]:
        """A callback that counts texts, reports at once and each second, and may raise StopRequested."""
        self.emit(Progress(step=step, what=what, done=0, total=total))
        done, reported, begin = 0, 0.0, time.monotonic()

        def advance(more: int) -> None:
            nonlocal done, reported
            self.check_stop()
            done += more
            passed = time.monotonic() - begin
            if passed > reported + 1 or (reported and done == total):
                reported = passed
                self.emit(Progress(step=step, what=what, done=done, total=total))

        return advance
