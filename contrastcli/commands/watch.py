"""`contrast watch` and `stop`: follow a run, or end it, and say how it has ended."""

import contextlib
import sys
import time

from contrastcli.boundary import narrate
from contrastcli.errors import ContrastError, RunError
from contrastcli.runs import process
from contrastcli.runs.alerts import notice
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Alerts
from contrastcli.show import console


def watch(run: Run, json: bool) -> int:
    """Show the events of a run as they are written, and of one that has ended the last of each kind and its result.

    Returns its exit code. JSON has all events.
    """
    shown, begin, alerts, told = console.console(json), time.time(), Alerts(), False
    ended = not json and run.status().ended
    with contextlib.suppress(ContrastError):
        alerts = run.config().alerts
    try:
        for event in {event.kind(): event for event in run.events()}.values() if ended else run.follow():
            if event is None:
                if (status := run.status()).state == "silent" and not told:
                    narrate(f"{run.name} is silent: {status.message}\nhint: {status.hint}")
                told = status.state == "silent"
            else:
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
        said = f" (see {run.log_path})" if status.state == "killed" and run.log_path.is_file() else ""
        narrate(f"{run.name} {status.state}: {status.message}{said}\nhint: {status.hint}")
    else:
        if status.state == "stopped":
            narrate(f"to continue: contrast train --resume {run.word}")
        # Before its first step it is the model that was given.
        if status.step:
            narrate(f'next: contrast query "a dog runs" "a puppy sprints" --model {run.word}')
    return status.code


def stop(run: Run, wait: float) -> None:
    """Ask a run to save and stop, and wait for its end, if at all. Raises RunError where that takes longer."""
    process.request_stop(run)
    if wait and not run.status().ended:
        narrate(f"{run.name} is asked to save and stop")
    status = process.wait_for_end(run, wait)
    what = f"{run.name}: {status.state} at step {status.step:,}"
    if wait and not status.ended:
        raise RunError(f"{what} after {wait:g} s", status.hint or f"wait longer: contrast watch {run.word}")
    narrate(what)
