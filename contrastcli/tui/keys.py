"""Keys one after the other: each has its effect before the next one.

So what is typed ahead reaches the field that its first key opens. Letters that arrive together are text, from a paste
or a stalled connection, and no commands.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from textual.app import App
from textual.events import Key
from textual.widgets import Input

_OPENS_FIELD = {"mode", "filter", "find", "edit", "open_list", "note", "baseline"}
"""Actions of keys that act inside a text too: what follows them may be meant for the field that they open."""
_LONGEST_SECONDS = 1.0  # from a key to the next


class KeyQueue:
    """Keys that wait; `gap` is the time in seconds from one to the next within which they arrive together."""

    def __init__(self, app: App[Any], gap: float) -> None:
        self._app, self.gap = app, gap
        self._waiting: asyncio.Queue[Key] = asyncio.Queue()
        self._next: Key | None = None
        self._before: Key | None = None
        self._in_text = False

    def put(self, key: Key) -> None:
        self._waiting.put_nowait(key)

    async def run(self, handle: Callable[[Key], Awaitable[None]]) -> None:
        """Give each key to the app, until cancelled."""
        while True:
            key, self._next = self._next or await self._waiting.get(), None
            self._in_text = self._is_letter(key) and await self._is_text(key)
            if not self._in_text or self._opens_field(key):
                await handle(key)
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._settle(), _LONGEST_SECONDS)
            self._before = key

    def _is_letter(self, key: Key) -> bool:
        """Whether it may be a command: no field takes it."""
        return (key.is_printable or key.key == "enter") and not isinstance(self._app.focused, Input)

    async def _is_text(self, key: Key) -> bool:
        """Whether another key arrives together with it; one that is held down repeats itself."""
        with suppress(asyncio.TimeoutError):
            self._next = await asyncio.wait_for(self._waiting.get(), self.gap)
        near = [other for other in (self._before, self._next) if other and abs(other.time - key.time) < self.gap]
        return any(other.key != key.key for other in near) or (self._in_text and self._before in near)

    def _opens_field(self, key: Key) -> bool:
        active = self._app.screen.active_bindings.get(key.key)
        return active is not None and active.binding.action.partition("(")[0].rpartition(".")[2] in _OPENS_FIELD

    async def _settle(self) -> None:
        """Wait until the key has passed from the focused widget up to the app, and what it opened is there."""
        app = self._app
        for way in ((app.focused or app.screen).ancestors_with_self, (app, app.screen)):
            for node in way:
                passed = asyncio.Event()
                if node.call_later(passed.set):
                    await passed.wait()
