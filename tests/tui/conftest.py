"""What tests of several screens need."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from contrastcli.tui import processes
from contrastcli.tui.app import ContrastApp
from contrastcli.tui.history import feed
from contrastcli.tui.live import screen as live
from contrastcli.tui.processes import Finished
from support import fake_query
from support.commands import Commands, answer_commands


@pytest.fixture(autouse=True, scope="session")
def styles_read_once() -> Iterator[None]:
    """The styles of all apps are the same: to read them takes a tenth of the time of showing one."""
    read, known = Stylesheet._parse_rules, dict[object, list[RuleSet]]()

    def read_once(self: Stylesheet, *words: Any, **named: Any) -> list[RuleSet]:
        key = (words, *named.items(), *self._variables.items())
        if key not in known:
            known[key] = read(self, *words, **named)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", read_once)
        yield


@pytest.fixture
def without_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Setup, which has tests of its own and runs commands."""
    monkeypatch.setitem(ContrastApp.MODES, "setup", Screen)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """No command that takes long: a model that answers at once, and others that fail."""
    monkeypatch.setenv(fake_query.LOG, str(tmp_path / "asked.jsonl"))
    monkeypatch.setattr(processes, "CONTRAST", (sys.executable, fake_query.__file__))
    return answer_commands(monkeypatch, Finished("", "no dry run"))


@pytest.fixture
def quick_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live looks and draws more often than a user would notice, so that tests wait less."""
    monkeypatch.setattr(live, "DRAW_SECONDS", 0.02)
    monkeypatch.setattr(live, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.05)
