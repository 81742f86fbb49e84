"""A stand-in for the command line that the app runs in child processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from contrastcli.runs.events import Progress
from contrastcli.tui import processes
from contrastcli.tui.processes import Finished, ShowProgress
from contrastcli.tui.widgets import Bars

Answer = Callable[[Path, tuple[str, ...]], Finished]


class Commands:
    """Reports progress, and answers each command at once, or when `held` is set again."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[tuple[str, ...]] = []
        self.cancelled: list[tuple[str, ...]] = []
        self.progress: list[Progress] = []
        self.held = asyncio.Event()
        self.held.set()

    async def __call__(self, directory: Path, *words: str, on_progress: ShowProgress | None = None) -> Finished:
        self.calls.append(words)
        for text in map(Bars().update, self.progress):
            if on_progress:
                on_progress(text)
        try:
            await self.held.wait()
        except asyncio.CancelledError:
            self.cancelled.append(words)
            raise
        return self.answer(directory, words)


def answer_commands(monkeypatch: pytest.MonkeyPatch, answer: Answer | Finished) -> Commands:
    """Let the app's commands be answered so from now on."""
    commands = Commands((lambda directory, words: answer) if isinstance(answer, Finished) else answer)
    monkeypatch.setattr(processes, "run_command", commands)
    return commands
