"""Bootstrap tests of two runs, by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from contrastcli.runs.events import Progress
from contrastcli.runs.results import Bootstrap
from contrastcli.show.runs import bootstrap
from contrastcli.tui import processes


class PairTests:
    """Results or progress in words, by the names of the two runs; `changed` is called when there are new ones."""

    def __init__(self, directory: Path, changed: Callable[[], object]) -> None:
        self._directory, self._changed = directory, changed
        self._texts: dict[tuple[str, ...], str] = {}

    def text(self, names: Sequence[str]) -> str:
        """What is known of these runs; empty for others than two that are tested."""
        return self._texts.get(tuple(names), "")

    async def run(self, names: Sequence[str]) -> None:
        """Test the difference of two runs."""

        def show(text: str) -> None:
            self._texts[tuple(names)] = text
            self._changed()

        def show_progress(event: Progress) -> None:
            show(f"comparing: {event.what} {event.done:,} of {event.total:,}")

        show("comparing …")
        words = ("compare", *names, "--bootstrap", "--json")
        done = await processes.run_command(self._directory, *words, on_progress=show_progress)
        show(done.error or bootstrap(msgspec.convert(json.loads(done.stdout)["bootstrap"], Bootstrap)))
