"""Questions to a model that stays: one at a time, and of those that wait only the newest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from contrastcli.tui.children import ChildEnded, Conversation


class Pair(msgspec.Struct, frozen=True):
    """How alike two sentences are: cosine in −1..1 and the angle in degrees."""

    cosine: float
    angle_deg: float


class Neighbour(msgspec.Struct, frozen=True):
    """A sentence of a corpus, its row counted from 1."""

    row: int
    text: str
    cosine: float
    angle_deg: float


class Nearest(msgspec.Struct, frozen=True):
    """What is nearest to a question, the nearest first."""

    query: str
    neighbours: list[Neighbour]


def line(*texts: str) -> str:
    """Sentences as a line of a conversation; empty where one is blank."""
    clean = [text.translate(_BREAKS).strip() for text in texts]
    return "\t".join(clean) if all(clean) else ""


_BREAKS = str.maketrans("\t\r\n", "   ")


class Asker:
    """Puts questions to one conversation, in the background, for as long as `run` is not cancelled."""

    def __init__(self, conversation: Conversation, answered: Callable[[str], None]) -> None:
        self._conversation, self._answered = conversation, answered
        self._waiting: asyncio.Queue[str] = asyncio.Queue(1)

    def ask(self, question: str) -> None:
        """Ask this next, in place of what was about to be asked."""
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(question)

    async def run(self) -> str:
        """Ask and answer until the child ends; returns why it has. Being cancelled ends the child."""
        try:
            while True:
                question = await self._waiting.get()
                self._answered((await self._conversation.ask(question))[0])
        except ChildEnded as ended:
            return str(ended)
        finally:
            await self._conversation.close()
