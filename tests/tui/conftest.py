"""What tests of several screens need."""

import pytest
from textual.screen import Screen

from contrastcli.tui.app import ContrastApp
from contrastcli.tui.history import feed
from contrastcli.tui.live import screen as live


@pytest.fixture
def without_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Setup, which has tests of its own and runs commands."""
    monkeypatch.setitem(ContrastApp.MODES, "setup", Screen)


@pytest.fixture
def quick_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live looks and draws more often than a user would notice, so that tests wait less."""
    monkeypatch.setattr(live, "DRAW_SECONDS", 0.02)
    monkeypatch.setattr(live, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.05)
