"""How a run is, in words and shapes: the lines above the panels of Live."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Evaluated
from contrastcli.runs.status import State, Status
from contrastcli.runs.text import duration, printable
from contrastcli.tui.history import History
from contrastcli.tui.live.panels import SHARE_WORDS, View

SHAPES: dict[State, str] = {
    "starting": "◌",
    "running": "●",
    "silent": "◍",
    "killed": "✖",
    "stopped": "■",
    "finished": "✔",
    "failed": "✖",
    "diverged": "▲",
}
"""A shape for each state, so that it is seen at a glance without colour too."""
RESUMABLE = ("killed", "stopped", "failed", "diverged")
"""States from which training can go on."""
IN_PROGRESS = ("starting", "running", "silent")

_GOOD, _WAITING = ("running", "finished"), ("starting", "silent", "stopped")
_LAST_WORDS = 3  # lines of train.log
_BAR = 24  # characters


@dataclass(frozen=True)
class Standing:
    """How a run is, whether it has been asked to stop, and the last words of a process that has gone.

    `unresumed`: a process was to go on with the run, and has ended before its first event.
    """

    status: Status
    stopping: bool
    last_words: tuple[str, ...]
    unresumed: bool = False


def look(run: Run, history: History, before: Standing | None) -> Standing | None:
    """How a run is; None where its directory has gone."""
    try:
        found = run.status(history.digest())
        if found.state == "killed" and not (before and before.status.state == "killed"):
            found = run.status()  # it may have said its last words since the history was read
        unresumed = _unresumed(found, before)
        said = _last_words(run) if unresumed or found.state in ("killed", "failed", "silent") else ()
        return Standing(found, run.stop_path.exists(), said, unresumed)
    except OSError:
        return None


def _unresumed(found: Status, before: Standing | None) -> bool:
    """Whether a run stands where it did before a process began to go on with it, with no word of that process."""
    if before is None or found.state not in RESUMABLE or found.updated != before.status.updated:
        return False
    return before.unresumed or before.status.state == "starting"


def in_brief(run: Run, standing: Standing) -> str:
    """The same in the few words that the bar of screens has room for."""
    found = standing.status
    step = f" {found.step:,}/{found.steps:,}" if found.steps else ""
    return f"{SHAPES[found.state]} {found.state}{step}  {run.name}"


class Above(Vertical):
    """State, name and best; how far training is; and what to know or to do, where there is something."""

    def __init__(self) -> None:
        super().__init__()
        self._state_shown = Static(id="state", markup=False)
        self._name_shown = Static(id="name", markup=False)
        self._best_shown = Static(id="best", markup=False)
        self._how_far_shown = Static(id="how-far", markup=False)
        self._words_shown = Static(id="words", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(id="standing"):
            with Horizontal():
                yield self._state_shown
                yield self._name_shown
                yield self._best_shown
            yield self._how_far_shown
        yield self._words_shown

    def say(self, run: Run, standing: Standing, best: Evaluated | None, how_far: str, words: str) -> None:
        """Show how a run is; `words` take the place of what would be said of its state."""
        state = standing.status.state
        bad = state not in _GOOD + _WAITING
        words = words or advice(standing)
        _update(self._state_shown, f"{SHAPES[state]} {state}{', stopping' if standing.stopping else ''}")
        self._state_shown.set_class(state in _GOOD, "good").set_class(state in _WAITING, "waiting").set_class(
            bad, "bad"
        )
        _update(self._name_shown, run.name)
        _update(self._best_shown, _best(best))
        if self._how_far_shown.content != how_far:  # four times a second, and no reason to lay out the screen anew
            self._how_far_shown.update(how_far, layout=False)
        _update(self._words_shown, words)
        self._words_shown.set_class(bad or standing.unresumed, "bad").display = bool(words)


def _update(shown: Static, text: str) -> None:
    if shown.content != text:
        shown.update(text)


def how_far(standing: Standing, history: History, view: View, *, paused: bool, earlier: float | None) -> str:
    """Step, bar and time left, or the work that goes on before training; then how the view differs from the usual."""
    found, progress = standing.status, history.progress
    live = found.state in IN_PROGRESS
    if live and progress and progress.total:
        parts = [f"{progress.what} {progress.done:,} of {progress.total:,}", bar(progress.done / progress.total)]
    elif found.steps:
        share = found.step / found.steps
        parts = [f"step {found.step:,} of {found.steps:,}", f"{bar(share)} {100 * share:.0f} %"]
    else:
        parts = ["loading the model and the data"] if live else ["it ended before its first word"]
    if found.state == "running" and history.step and history.step.seconds_left is not None:
        parts.append(f"{duration(history.step.seconds_left)} left")
    return "  ".join(parts) + "".join(f" · {word}" for word in _view_words(view, paused, earlier))


def bar(share: float) -> str:
    """A bar of text."""
    full = round(_BAR * min(max(share, 0.0), 1.0))
    return "━" * full + "╌" * (_BAR - full)


def advice(standing: Standing) -> str:
    """What to know of a state and what to do about it; empty for a run that simply runs."""
    found = standing.status
    said = "\n".join(["train.log ends with:", *(f"  {line}" for line in standing.last_words)])
    log = f"\n{said}" if standing.last_words else ""
    if standing.unresumed:
        return f"It could not be resumed: the process ended before its first step. r tries again.{log}"
    match found.state:
        case "killed":
            return f"The training process was killed. r resumes from the last checkpoint.{log}"
        case "failed" | "diverged":
            return f"{found.message}\n{found.hint}\nr resumes from the last checkpoint.{log}"
        case "silent":
            return f"There is no sign of life from the training process: {found.hint}.{log}"
        case "stopped":
            return "Stopped and saved. r goes on from there, u asks the model about sentences, e evaluates it."
        case "finished":
            return "Finished. u asks the model about sentences, e evaluates it; 3 compares it with other runs."
    return "It ends its step, saves and stops." if standing.stopping else ""


def _view_words(view: View, paused: bool, earlier: float | None) -> list[str]:
    words = ["view paused, p goes on"] if paused else []
    if view.share:
        words.append(SHARE_WORDS[view.share])
    if view.end is not None:
        words.append(f"as of step {view.end:,}, ] goes on")
    if earlier is not None:
        words.append(f"reading earlier events, {100 * earlier:.0f} %")
    return words


def _best(best: Evaluated | None) -> str:
    if best is None or best.spearman is None:
        return ""
    return f"◆ best dev {100 * best.spearman:.2f} at step {best.step:,}"


def _last_words(run: Run) -> tuple[str, ...]:
    """The end of train.log; nothing where training had a terminal."""
    if not run.log_path.exists():
        return ()
    with open(run.log_path, "rb") as file:
        file.seek(max(0, run.log_path.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").splitlines()
    return tuple(printable(line).rstrip() for line in lines if line.strip())[-_LAST_WORDS:]
