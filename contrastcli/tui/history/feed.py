"""Follows a run's events into a History without delaying the app.

Files are read in a thread, and events are decoded in slices of a millisecond on the app's own loop: a thread that
decodes would make the loop wait for Python's lock, 5 ms at a time. The newest events of a large file come first, in a
History of their own; the whole is read meanwhile, and replaces it.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from textual.dom import DOMNode
from textual.worker import Worker

from contrastcli.runs.event_file import read_lines
from contrastcli.runs.events import Started, decode
from contrastcli.tui.history.history import History

POLL_SECONDS = 0.2
WINDOW_BYTES = 2 << 20
"""The end of a large file, which is shown before the rest has been read."""

BLOCK_BYTES = 1 << 17
_SLICE_SECONDS, _REST_SECONDS = 0.001, 0.002
"""How long events are decoded at a time, and the pause between two slices."""


class Feed:
    """A run's history as it grows. `changed` is called when there is something new."""

    def __init__(self, path: Path, changed: Callable[[], None]) -> None:
        self.path, self._changed = path, changed
        self.history = History()
        self.earlier: float | None = None
        """The share of the file that has been read, while only its end is shown."""
        self.is_read = False
        """Whether all that there was has been read."""

    def start(self, node: DOMNode, group: str) -> Worker[None]:
        """Follow in a worker of a screen or a widget, until that is cancelled."""
        return node.run_worker(self.follow, group=group)

    async def follow(self) -> None:
        """Read what there is, then what comes, until cancelled."""
        try:
            size = (await asyncio.to_thread(self.path.stat)).st_size
        except OSError:  # not made yet
            size = 0
        place = await self._show_window(size) if size > 2 * WINDOW_BYTES else 0
        whole, read = (History(), 0) if place else (None, 0)
        while True:
            before = place, read
            place = await self._read_block(place, self.history)
            if whole and place >= size - BLOCK_BYTES:
                read = await self._read_block(read, whole)
                self.earlier = min(1.0, read / max(1, place))
                # It may have been read beyond what is shown, where events arrive meanwhile.
                if read >= place:
                    self.history, self.earlier, whole, place = whole, None, None, read
                self._changed()
            if (place, read) == before:
                if not self.is_read:
                    self.is_read = True
                    self._changed()
                await asyncio.sleep(POLL_SECONDS)

    async def _show_window(self, size: int) -> int:
        """Show a large file's first line and the first block of its end; returns the place after that block."""
        first, _ = await asyncio.to_thread(read_lines, self.path, 0, BLOCK_BYTES)
        if first and isinstance(started := decode(first[0]), Started):
            self.history.add(started)
        torn, place = await asyncio.to_thread(read_lines, self.path, size - WINDOW_BYTES, BLOCK_BYTES)
        self.earlier = 0.0
        self.history.begin = next((event.step for line in torn[1:] if (event := decode(line))), 0)
        await self._decode(torn[1:], self.history)
        return place

    async def _read_block(self, place: int, history: History) -> int:
        """Add the events of the next block of whole lines; returns the place after it."""
        lines, place = await asyncio.to_thread(read_lines, self.path, place, BLOCK_BYTES)
        if lines:
            await self._decode(lines, history)
            self._changed()
        return place

    async def _decode(self, lines: list[bytes], history: History) -> None:
        pause = time.perf_counter() + _SLICE_SECONDS
        for line in lines:
            # A line that the history cannot take is left out, and the app stays.
            with suppress(Exception):
                if (event := decode(line)) is not None:
                    history.add(event)
            if time.perf_counter() > pause:
                await asyncio.sleep(_REST_SECONDS)
                pause = time.perf_counter() + _SLICE_SECONDS
