"""The runs of a directory as the table of Runs shows them: read in a thread, and only if they have changed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contrastcli.errors import ContrastError
from contrastcli.runs import directory as runs
from contrastcli.runs.directory import Run
from contrastcli.runs.status import Status
from contrastcli.runs.text import MISSING, duration, score
from contrastcli.show.format import size
from contrastcli.tui.run_screen import SHAPES
from contrastcli.tui.widgets import has_words

BROKEN = "▣ broken"  # state of a run that cannot be read

_REST = 0.002  # seconds for other threads between two runs


@dataclass(frozen=True)
class Entry:
    """A run as it was when it was read; `problem` says why it could not be read in full."""

    run: Run
    status: Status | None = None
    objective: str = ""
    backbone: str = ""
    size: int = 0
    is_saved: bool = False
    problem: str = ""

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def state(self) -> str:
        return f"{SHAPES[self.status.state]} {self.status.state}" if self.status and not self.problem else BROKEN

    @property
    def remark(self) -> str:
        """What the line below the table says of it."""
        if self.problem or self.status is None:
            return self.problem
        end = " · ".join(filter(None, (self.status.message, self.status.hint)))
        return end or f"{self.objective} on {self.backbone}"

    def number(self, name: str) -> float:
        """A number of its status, to sort by: the highest first, and last where there is none."""
        value = getattr(self.status, name, None)
        return -value if value is not None else math.inf


@dataclass(frozen=True)
class Column:
    """A column of the table: `text` is what it shows; `rank` orders by it, what people look for first coming first."""

    title: str
    width: int
    text: Callable[[Entry], str]
    rank: Callable[[Entry], Any]
    right: bool = False
    wide: bool = False
    """Whether it is left out on a narrow screen."""


def _ago(entry: Entry) -> str:
    if entry.status is None:
        return ""
    age = duration(max(0.0, time.time() - entry.status.updated)).split()[0]
    hours = int(age[:-1]) if age.endswith("h") else 0
    return f"{hours // 24}d ago" if hours >= 48 else f"{age} ago"


def _step(entry: Entry) -> str:
    return f"{entry.status.step:,}/{entry.status.steps:,}" if entry.status and entry.status.steps else ""


def _best(entry: Entry) -> str:
    return score(entry.status.best) if entry.status else MISSING


NEWEST = "newest"  # the order of time, which no column shows

COLUMNS: tuple[Column, ...] = (
    Column("name", 0, lambda e: e.name, lambda e: e.name),
    Column("state", 10, lambda e: e.state, lambda e: e.state.split()[-1]),
    Column("step", 11, _step, lambda e: e.number("step"), right=True),
    Column("best dev", 8, _best, lambda e: e.number("best"), right=True),
    Column("objective", 11, lambda e: e.objective, lambda e: e.objective or "~", wide=True),
    Column("backbone", 18, lambda e: shortened(e.backbone, 18), lambda e: e.backbone or "~", wide=True),
    Column("updated", 8, _ago, lambda e: e.number("updated"), right=True),
    Column("size", 8, lambda e: size(e.size), lambda e: -e.size, right=True),
)
"""The columns; the name takes the room that the others leave."""
ORDERS = (NEWEST, *(column.title for column in COLUMNS))


def ordered(entries: Sequence[Entry], order: str) -> list[Entry]:
    """Entries, which come the newest first, in another order."""
    ranks = {column.title: column.rank for column in COLUMNS}
    return sorted(entries, key=ranks[order]) if order in ranks else list(entries)


def matching(entries: Sequence[Entry], typed: str) -> list[Entry]:
    """The entries that have all of the typed words in their name, state, objective or backbone."""
    return [e for e in entries if has_words(f"{e.name} {e.state} {e.objective} {e.backbone}", typed)]


def shortened(text: str, width: int) -> str:
    """The end of a text that is too long: names of runs begin alike."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


class Listing:
    """Reads the runs of a directory, again and again; a run that has ended and has not changed is not read again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[Run, tuple[object, Entry]] = {}

    def read(self) -> list[Entry]:
        """List all runs, the newest first. Raises OSError where the directory cannot be read."""
        known, self._known = self._known, {}
        entries = []
        for run in runs.list_runs(self._directory):
            try:
                stamp = _stamp(run)
                before, entry = known.get(run, (None, Entry(run)))
                if before == stamp and entry.status and entry.status.ended:
                    entry = replace(entry, size=run.size_bytes())
                else:
                    entry = _read(run)
                self._known[run] = stamp, entry
            except OSError as error:
                entry = Entry(run, problem=error.strerror or str(error))
            entries.append(entry)
            time.sleep(_REST)
        return entries


def _stamp(run: Run) -> object:
    """Equal only while a run's files are the same."""
    stats = [path.stat() if path.exists() else None for path in (run.config_path, run.events_path, run.alive_path)]
    return [(stat.st_mtime_ns, stat.st_size) if stat else None for stat in stats]


def _read(run: Run) -> Entry:
    status, size, is_saved = run.status(), run.size_bytes(), run.checkpoints_path.exists()
    try:
        config = run.config()
    except ContrastError as error:
        return Entry(run, status, size=size, is_saved=is_saved, problem=f"{error.what} · {error.hint}")
    return Entry(run, status, config.spec.name, config.model.backbone, size, is_saved)
