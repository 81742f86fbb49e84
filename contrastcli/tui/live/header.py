"""The header of Live: the state of a run in words and shapes, its progress, and what to do next."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from textual.containers import Horizontal, Vertical

from contrastcli.boundary import printable, to_copy
from contrastcli.runs.directory import Run
from contrastcli.runs.status import Digest, State, Status, digest
from contrastcli.runs.text import duration, score
from contrastcli.runs.verdict import against
from contrastcli.settings.metrics import metric_title
from contrastcli.show.axes import number
from contrastcli.tui.history.history import History
from contrastcli.tui.live.view import LiveView
from contrastcli.tui.run_screen import SHAPES, RunView
from contrastcli.tui.widgets import PlainText, progress_bar

_COLOURS = {"running": "good", "finished": "good"} | dict.fromkeys(
    ("queued", "starting", "silent", "stopped"), "waiting"
)
QUIET_SECONDS = 8.0
"""How long after the last event it is said that the process lives."""
_LOG_LINES = 3


@dataclass(frozen=True, kw_only=True)
class Snapshot(RunView):
    """A run at one moment."""

    status: Status
    is_stopping: bool
    tells_end: bool  # in its events
    log: tuple[str, ...]  # where the process died or hangs
    resume_failed: bool = False
    """Whether a process was to resume the run, which had begun, and ended before its first event."""


def poll(run: Run, known: Digest, before: Snapshot | None) -> Snapshot:
    """Look at a run of which these events are known. Raises OSError where its directory no longer exists."""
    # Without its first event, the events are not known.
    status = run.status(known if known.started else None)
    # Without its end, that may still be unread.
    is_lost = status.ended or status.state == "silent"
    if is_lost and known.done is None and not (before and before.status.state == status.state):
        known = digest(run.events_path)
        status = run.status(known)
    resume_failed = (
        before is not None
        and before.status.steps > 0
        and status.ended
        and status.state != "finished"
        and status.updated == before.status.updated
        and (before.resume_failed or before.status.state == "starting")
    )
    shows_log = resume_failed or status.state in ("killed", "failed", "silent")
    return Snapshot(
        run=run,
        status=status,
        is_saved=run.is_saved,
        is_pruned=run.is_pruned,
        is_stopping=run.stop_path.exists(),
        tells_end=known.done is not None,
        log=_end_of_log(run) if shows_log else (),
        resume_failed=resume_failed,
    )


def _end_of_log(run: Run) -> tuple[str, ...]:
    """The end of train.log; nothing where training had a terminal."""
    if not run.log_path.exists():
        return ()
    with open(run.log_path, "rb") as file:
        file.seek(max(0, run.log_path.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").splitlines()
    return tuple(printable(line).rstrip() for line in lines if line.strip())[-_LOG_LINES:]


def summary(snapshot: Snapshot) -> str:
    """The state in a few words, for the bar of screens."""
    status = snapshot.status
    step = f" {status.step:,}/{status.steps:,}" if status.steps else ""
    return f"{SHAPES[status.state]} {status.state}{step}  {snapshot.run.name}"


class RunHeader(Vertical):
    """State, name and best score; progress; and advice, where there is any."""

    def __init__(self) -> None:
        self._texts = {name: PlainText(id=name) for name in ("state", "name", "best", "progress", "advice")}
        state, name, best, progress, advice = self._texts.values()
        super().__init__(Vertical(Horizontal(state, name, best), progress, id="header"), advice)

    def announce(self, run: Run) -> None:
        """Show a run of which nothing is read yet."""
        for name, text in zip(self._texts, ("◌ reading", run.name, "", "", ""), strict=True):
            self._texts[name].update(text)
        self._texts["state"].set_classes("waiting")
        self._texts["advice"].set_class(True, "-none")

    def show(self, snapshot: Snapshot, history: History, progress: str) -> None:
        state = snapshot.status.state
        colour = _COLOURS.get(state, "bad")
        texts = {
            "state": f"{SHAPES[state]} {state}{', stopping' if snapshot.is_stopping else ''}",
            "name": snapshot.run.name,
            "best": best_text(history),
            "advice": advice(snapshot),
        }
        for name, text in texts.items():
            self._texts[name].update(text)
        # Four times a second: no reason for a new layout.
        self._texts["progress"].update(progress, layout=False)
        self._texts["state"].set_classes(colour)
        is_bad = colour == "bad" or snapshot.resume_failed
        self._texts["advice"].set_class(is_bad, "bad").set_class(not texts["advice"], "-none")


def best_text(history: History) -> str:
    """The best dev score, and that of the model before training, which may be better; at the end what that says."""
    if verdict := history.verdict:
        worse = "; worse in general" if verdict.general and verdict.general.judgement == "worse" else ""
        return f"◆ {against(verdict.change.judgement, verdict.base)}: {verdict.change.scores}{worse}"
    best, before = history.best, history.untrained
    if best is None or best.score is None:
        return ""
    untrained = f"{score(before.score)} → " if before else ""
    return f"◆ dev {metric_title(best.metric)} {untrained}{score(best.score)} at step {best.step:,}"


def progress_text(snapshot: Snapshot, view: LiveView, width: int, notes: Mapping[str, bool]) -> str:
    """Progress, its bar if there is room, then how the view differs from the usual one: the notes that fit."""
    status, history, progress = snapshot.status, view.history, view.history.progress
    share, rest = -1.0, []
    if not status.ended and progress and progress.total and status.step <= progress.step:
        share, what = progress.done / progress.total, f"{progress.what} {progress.done:,} of {progress.total:,}"
    elif status.steps:
        share, what = status.step / status.steps, f"step {status.step:,} of {status.steps:,}"
        rest = [f"{100 * share:.0f} %"]
    else:
        loading = status.message or "loading the model and the data"
        what = "ended before its first event" if status.ended else loading
    if status.seconds_left is not None:
        rest.append(f"{duration(status.seconds_left)} left")
    silence, is_quiet = time.time() - status.updated, status.state == "running" and status.step == history.last_step
    place = number(view.step if view.axis == "step" else view.place)
    every = {
        f"values at {view.axis} {place}": view.cursor is not None,
        **notes,
        f"logged {duration(silence)} ago": is_quiet and silence > QUIET_SECONDS,
        view.share: view.share != "all steps",
        view.smoothing: view.smoothing != "not smoothed",
    }
    after = " · ".join(rest)
    for note in (note for note, holds in every.items() if holds):
        longer = " · ".join(filter(None, (after, note)))
        after = longer if len(what) + 2 + len(longer) <= width else after
    room = width - len(what) - len(after) - 4
    bar = progress_bar(share, room) if share >= 0 and room >= 4 else ""
    return "  ".join(filter(None, [what, bar, after]))


def advice(snapshot: Snapshot) -> str:
    """What to know of a state and what to do next; empty for a run that simply runs."""
    status, remedy = snapshot.status, snapshot.remedy
    log = "\n".join(["\ntrain.log ends with:", *(f"  {line}" for line in snapshot.log)]) if snapshot.log else ""
    uses = "e evaluates the model, u queries it"
    saved = f"Stopped and saved. {'t trains it anew' if snapshot.is_pruned else 'r resumes'}, {uses}."
    if snapshot.resume_failed:
        return f"The run could not be resumed: its process ended before the first step. r tries again.{log}"
    by_state: dict[State, str] = {
        "killed": f"The training process was killed; {remedy}.{log}",
        "failed": f"{status.message}\n{status.hint}\n{remedy}.{log}",
        "diverged": f"{status.message}\n{remedy}.{log}",
        "silent": f"The training process shows no sign of life: {status.hint}.{log}",
        "stopped": saved if snapshot.is_saved else f"Stopped: {remedy}.",
        "finished": f"Finished. {uses}; 3 compares it with other runs.",
    }
    return to_copy(by_state.get(status.state, "It saves and stops." if snapshot.is_stopping else ""))
