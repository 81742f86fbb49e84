"""`contrast watch`: follow a run, and say how it has ended."""

import contextlib
import sys
import time

from contrastcli.boundary import narrate
from contrastcli.errors import ContrastError
from contrastcli.runs.alerts import notice
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Alerts
from contrastcli.show import console


def watch(run: Run, json: bool) -> int:
    """Show the events of a run as they are written, and of one that has ended the last of each kind and its result.

    Returns its exit code. JSON has all events.
    """
    shown, begin, alerts = console.console(json), time.time(), Alerts()
    ended = not json and run.status().ended
    with contextlib.suppress(ContrastError):
        alerts = run.config().alerts
    try:
        for event in {event.kind(): event for event in run.events()}.values() if ended else run.follow():
            if event is not None:
                shown(event)
                if event.time >= begin and (text := notice(run.name, event, alerts)) and sys.stderr.isatty():
                    print(f"\a{console.notification(text)}", end="", file=sys.stderr, flush=True)
    finally:
        shown.close()
    status = run.status()
    # No event says that a run was killed.
    return report(run) if ended or status.state == "killed" else status.code


def report(run: Run) -> int:
    """Print the state of a run that was shown, and the next step; returns its exit code if it has ended."""
    status = run.status()
    if not status.ended:
        narrate(f"{run.name} is still training: contrast watch {run.word}")
    elif status.code and status.message:
        narrate(f"{run.name} {status.state}: {status.message}\nhint: {status.hint}")
    else:
        if status.state == "stopped":
            narrate(f"to continue: contrast train --resume {run.word}")
        model = f" --model {run.word}" if run.is_elsewhere else ""
        narrate(f'next: contrast query "a dog runs" "a puppy sprints"{model}')
    return status.code
