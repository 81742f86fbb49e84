"""What the app remembers from one session to the next."""

from __future__ import annotations

import contextlib

import msgspec

from contrastcli.errors import DataError
from contrastcli.files import atomic_write, read_json, state_dir

_FILE = "app.json"


class State(msgspec.Struct):
    """Last choices and layout. A file that another version wrote in another form falls back to the defaults."""

    theme: str = "textual-dark"
    drafts: dict[str, tuple[str, dict[str, str]]] = {}
    """Setup: by runs directory the preset, and setting key → text that differs from it; the last one last."""
    more: bool = False  # Setup: whether every setting is shown
    log_scale: bool = False
    zoomed: str = ""  # Live: the panel that fills the screen, none where empty
    panels: tuple[str, ...] = ()  # Live: those that are shown, in their order; all where empty
    axis: str = "step"  # Live: what is along x
    smoothing: str = "not smoothed"
    baseline: str = ""  # Live: the path of the run to compare with
    columns: tuple[str, ...] = ()  # Runs: those of the table, the usual ones where empty
    sort: str = "newest"  # Runs: order of the table
    grouping: str = ""  # Runs: what has headings, nothing where empty
    unfolded: frozenset[tuple[str, ...]] = frozenset()  # Runs: the headings whose runs are shown
    metric: str = "score"  # Runs: the curve that is drawn
    data_dir: str = ""
    suites: tuple[str, ...] = ("sts",)
    model: str = ""
    second_model: str = "starter"
    show_second_model: bool = False  # Query: whether a second model is shown
    corpus: str = ""
    question: str = ""
    nearest: str = "10"
    sentences: tuple[str, str] = ("a dog runs", "a puppy sprints")


def load() -> State:
    """What was remembered; defaults where there is nothing, or nothing readable."""
    with contextlib.suppress(DataError):
        return read_json(state_dir() / _FILE, State) or State()
    return State()


def save(state: State) -> None:
    """Remember. A disk that cannot be written is no reason to fail."""
    with contextlib.suppress(OSError):
        state_dir().mkdir(parents=True, exist_ok=True)
        atomic_write(state_dir() / _FILE, msgspec.json.format(msgspec.json.encode(state)))
