"""Runs."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from contrastcli.runs import Run
from contrastcli.tui.screen import ModeScreen


class RunsScreen(ModeScreen):
    """Runs."""

    mode = "runs"
    help_text = "Runs"

    def body(self) -> ComposeResult:
        yield Static("Runs")

    def attach(self, run: Run) -> None:
        """Show a run."""

    def choose(self, name: str) -> None:
        """Take a run or model."""
