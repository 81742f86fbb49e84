"""What a followed run calls for attention with: its alerts, its end, and a process that went silent."""

from __future__ import annotations

import time

from contrastcli.errors import ContrastError
from contrastcli.runs.alerts import notice
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Alert
from contrastcli.runs.status import IN_PROGRESS, State, Status
from contrastcli.settings.sections import Alerts
from contrastcli.tui.history.history import History


class Notices:
    """Gives each notice once, and none of what happened before the run was followed."""

    def __init__(self, run: Run) -> None:
        self._run = run.name
        self._last_time = time.time()
        self._last_state: State = "finished"
        try:
            self._settings = run.config().alerts
        except ContrastError:
            self._settings = Alerts()

    def new(self, history: History, status: Status) -> list[str]:
        """The texts of the notices since the last call."""
        events = [event for event in history.calls_for_attention if event.time > self._last_time]
        self._last_time = max([self._last_time, *(event.time for event in events)])
        if status.state in ("silent", "killed") and self._last_state in IN_PROGRESS:
            events.append(Alert(step=status.step, rule=status.state, text=status.message, hint=status.hint))
        self._last_state = status.state
        return [text for event in events if (text := notice(self._run, event, self._settings))]
