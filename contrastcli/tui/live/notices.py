"""What of a followed run calls for attention: its alerts, its end, and that its process went silent."""

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
    """Tells each thing once, and nothing that happened before the run was followed."""

    def __init__(self, run: Run) -> None:
        self._run = run.name
        self._told = time.time()  # of the last event that was told
        self._state: State = "finished"  # as last seen
        try:
            self._settings = run.config().alerts
        except ContrastError:
            self._settings = Alerts()

    def new(self, history: History, status: Status) -> list[str]:
        """What there is to tell since the last call."""
        events = [event for event in history.calls if event.time > self._told]
        self._told = max([self._told, *(event.time for event in events)])
        if status.state in ("silent", "killed") and self._state in IN_PROGRESS:
            events.append(Alert(step=status.step, rule=status.state, text=status.message, hint=status.hint))
        self._state = status.state
        return [text for event in events if (text := notice(self._run, event, self._settings))]
