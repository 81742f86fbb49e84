"""Keys one after the other: each has its effect before the next one.

So what is typed ahead reaches the field that its first key opens, also of a screen that is still being opened.
"""

import asyncio
from collections.abc import Awaitable, Callable
from string import digits, punctuation
from types import SimpleNamespace
from typing import Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App, ScreenStackError
from textual.events import Key
from textual.keys import Keys, _character_to_key
from textual.message_pump import MessagePump

_LATER = {"note", "baseline", "leave", "stop", "delete", "export", "merge", "leave_out"}
"""Actions that have their effect, maybe a dialog, later than they return: each in a worker of its name."""
_LONGEST_SECONDS = 5.0  # from a key to the next
_POLL_SECONDS = 0.01


class KeyQueue:
    """Keys that wait."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._waiting: asyncio.Queue[Key] = asyncio.Queue()
        self.last: Key | None = None  # that was pressed
        sequences = cast(dict[str, Any], ANSI_SEQUENCES_KEYS)
        for character in digits:
            # For Textual Esc and a digit that arrive together are a letter such as ™, which one terminal writes so.
            sequences.pop(f"\x1b{character}", None)
        for character in punctuation.replace("[", ""):  # which begins what terminals write
            # Of Esc and a sign Textual leaves the sign alone.
            sign = SimpleNamespace(value=_character_to_key(character))
            sequences[f"\x1b{character}"] = (Keys.Escape, sign)

    def put(self, key: Key) -> None:
        """Add a key to those that wait; Alt and a letter are Esc and the letter, which terminals write alike."""
        if key.key.startswith("alt+") and (letter := key.character or "").isalnum():
            self._waiting.put_nowait(Key("escape", None))
            key = Key(letter, letter)
        self.last = key
        self._waiting.put_nowait(key)

    async def run(self, handle: Callable[[Key], Awaitable[None]]) -> None:
        """Give each key to the app, until cancelled."""
        while True:
            key = await self._waiting.get()
            try:
                async with asyncio.timeout(_LONGEST_SECONDS):
                    await self._until(lambda: self._is_ready(key))  # noqa: B023
                action = self._action(key)
                await handle(key)
                async with asyncio.timeout(_LONGEST_SECONDS):
                    await self._settle(action)
            except TimeoutError:
                # What was typed ahead may mean something else by now.
                self._waiting = asyncio.Queue()

    def _is_ready(self, key: Key) -> bool:
        """Whether the screen is there that a key is meant for; Esc and the app's own keys wait for none."""
        try:
            screen = self._app.screen
        except ScreenStackError:
            return False
        active = screen.active_bindings.get(key.key)
        is_of_app = active is not None and active.node is self._app
        # Most dialogs have no such property.
        return is_of_app or key.key == "escape" or getattr(screen, "is_ready", True)

    def _action(self, key: Key) -> str:
        """The name of what a key does here; empty where it does nothing."""
        active = self._app.screen.active_bindings.get(key.key)
        return active.binding.action.partition("(")[0].rpartition(".")[2] if active and active.enabled else ""

    async def _settle(self, action: str) -> None:
        """Wait until the key has passed from the focused widget up to the app, and what it opened is there."""
        app = self._app
        for node in (*(app.focused or app.screen).ancestors_with_self, app):
            await _processed(node)
        await _processed(app.screen)
        if action in _LATER:
            name = f"action_{action}"
            await self._until(lambda: app.screen.is_modal or all(worker.name != name for worker in app.workers))

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(_POLL_SECONDS)


async def _processed(node: MessagePump) -> None:
    """Wait until a node has processed the messages that it has; one that is closed has none."""
    passed = asyncio.Event()
    if node.call_later(passed.set):
        await passed.wait()
