"""Setup."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from contrastcli.runs import Run
from contrastcli.tui.screen import ModeScreen


class SetupScreen(ModeScreen):
    """Setup."""

    mode = "setup"
    help_text = "Setup"

    def body(self) -> ComposeResult:
        yield Static("Setup")

    def attach(self, run: Run) -> None:
        """Show a run."""

    def choose(self, name: str) -> None:
        """Take a run or model."""
