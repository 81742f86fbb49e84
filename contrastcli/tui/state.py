"""What the app remembers from one session to the next."""

import contextlib
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from contrastcli.errors import DataError
from contrastcli.files import atomic_write, read_json, state_dir

_FILE = "app.json"
_MOST_KEPT = 20
T = TypeVar("T")


class State(msgspec.Struct):
    """Last choices and layout; a name that is empty stands for the usual."""

    theme: str = "textual-dark"
    drafts: dict[str, tuple[str, dict[str, str]]] = {}
    """Setup: by runs directory the preset, and setting key → text that differs from it; the last one last."""
    more: bool = False  # Setup: every setting is shown
    roles: dict[str, str] = {}
    """By data file what its columns were said to be, on any screen; the one said last last."""

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
    suites: tuple[str, ...] = ("sts",)

    # Query
    model: str = ""
    second_model: str = "starter"
    show_second_model: bool = False
    corpus: str = ""
    question: str = ""
    nearest: Annotated[str, msgspec.Meta(pattern=r"^\d{0,3}\Z")] = "10"
    sentences: tuple[str, str] = ("a dog runs", "a puppy sprints")

    def draft(self, directory: Path) -> tuple[str, dict[str, str]]:
        """The draft of a runs directory, at first the preset for the first minute."""
        return self.drafts.get(str(directory.resolve()), ("starter", {}))

    def keep_draft(self, directory: Path, draft: tuple[str, dict[str, str]]) -> None:
        """Remember the draft of a runs directory, and those of the last few others."""
        _keep(self.drafts, directory, draft)

    def roles_of(self, data: str) -> str:
        """What the columns of a data file are, as data.columns has it; empty for by their names."""
        return self.roles.get(str(Path(data).expanduser().resolve()), "") if data else ""

    def keep_roles(self, data: str, columns: str) -> None:
        """Remember what the columns of a data file are, and of the last few others."""
        _keep(self.roles, Path(data).expanduser(), columns)


def _keep(some: dict[str, T], path: Path, value: T) -> None:
    """Add a value for a path as the last one, and leave out the oldest where there are many."""
    some.pop(str(path.resolve()), None)
    some[str(path.resolve())] = value
    for oldest in list(some)[:-_MOST_KEPT]:
        del some[oldest]


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
