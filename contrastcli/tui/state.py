"""What the app remembers from one session to the next."""

import contextlib
from pathlib import Path
from typing import Annotated

import msgspec

from contrastcli.errors import DataError
from contrastcli.files import atomic_write, read_json, state_dir

_FILE = "app.json"
_MOST_DRAFTS = 20


class State(msgspec.Struct):
    """Last choices and layout; a name that is empty stands for the usual."""

    theme: str = "textual-dark"
    drafts: dict[str, tuple[str, dict[str, str]]] = {}
    """Setup: by runs directory the preset, and setting key → text that differs from it; the last one last."""
    more: bool = False  # Setup: every setting is shown

    # Live
    log_scale: bool = False
    zoomed: str = ""
    panels: tuple[str, ...] = ()
    axis: str = "step"
    smoothing: str = "not smoothed"
    one_batch: bool = False
    baseline: str = ""

    # Runs
    columns: tuple[str, ...] = ()
    sort: str = "newest"
    grouping: str = ""
    unfolded: frozenset[tuple[str, ...]] = frozenset()
    metric: str = "score"

    # Evaluate
    data_dir: str = ""
    own_data: str = ""
    own_columns: str = ""
    suites: tuple[str, ...] = ("sts",)

    # Query
    model: str = ""
    second_model: str = "starter"
    show_second_model: bool = False
    corpus: str = ""
    corpus_columns: str = ""
    question: str = ""
    nearest: Annotated[str, msgspec.Meta(pattern=r"^\d{0,3}\Z")] = "10"
    sentences: tuple[str, str] = ("a dog runs", "a puppy sprints")

    def draft(self, directory: Path) -> tuple[str, dict[str, str]]:
        """The draft of a runs directory, at first the preset for the first minute."""
        return self.drafts.get(str(directory.resolve()), ("starter", {}))

    def keep_draft(self, directory: Path, draft: tuple[str, dict[str, str]]) -> None:
        """Remember the draft of a runs directory, and those of the last few others."""
        self.drafts.pop(str(directory.resolve()), None)
        self.drafts[str(directory.resolve())] = draft
        for oldest in list(self.drafts)[:-_MOST_DRAFTS]:
            del self.drafts[oldest]


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
