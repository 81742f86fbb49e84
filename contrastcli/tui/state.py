"""What the app remembers from one session to the next."""

import contextlib
import os
from pathlib import Path
from typing import Annotated

import msgspec

from contrastcli.errors import DataError
from contrastcli.files import atomic_write, decoding, read_bytes, state_dir

_FILE = "app.json"


class Project(msgspec.Struct):
    """What was chosen last for the runs of a directory, so that no project begins with another's data."""

    roles: dict[str, str] = {}
    """By data file what its columns were said to be, on any screen."""

    # Setup
    draft: tuple[str, dict[str, str]] = ("starter", {})
    """The preset, at first the one for the first minute, and setting key → text that differs from it."""

    # Live
    baseline: str = ""

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

    def roles_of(self, data: str) -> str:
        """What the columns of a data file are, as data.columns has it; empty for by their names."""
        return self.roles.get(_key(data), "") if data else ""

    def keep_roles(self, data: str, columns: str) -> None:
        self.roles[_key(data)] = columns


class State(msgspec.Struct):
    """The layout of every project; a name that is empty stands for the usual."""

    theme: str = "textual-dark"
    more: bool = False  # Setup: every setting is shown
    projects: dict[str, Project] = {}
    """By runs directory."""

    # Live
    log_scale: bool = False
    zoomed: str = ""
    panels: tuple[str, ...] = ()
    axis: str = "step"
    smoothing: str = "not smoothed"
    one_batch: bool = False

    # Runs
    columns: tuple[str, ...] = ()
    sort: str = "newest"
    grouping: str = ""
    unfolded: frozenset[tuple[str, ...]] = frozenset()
    metric: str = "score"

    def project(self, directory: Path) -> Project:
        return self.projects.get(_key(directory), Project())

    def keep(self, directory: Path, project: Project) -> None:
        """Keep the choices for a runs directory, and those of others as other apps have left them."""
        self.projects = load().projects | {_key(directory): project}


def _key(path: Path | str) -> str:
    # A path's own methods raise for a user who is not known, and for links in a circle.
    return os.path.realpath(os.path.expanduser(path))


def load() -> State:
    """What was remembered; defaults where there is nothing, or nothing readable."""
    path = state_dir() / _FILE
    with contextlib.suppress(DataError, FileNotFoundError), decoding(path):
        # No path may hold a NUL.
        return msgspec.json.decode(read_bytes(path).replace(rb"\u0000", b""), type=State)
    return State()


def save(state: State) -> None:
    """Remember. A disk that cannot be written is no reason to fail."""
    with contextlib.suppress(OSError):
        state_dir().mkdir(parents=True, exist_ok=True)
        atomic_write(state_dir() / _FILE, msgspec.json.format(msgspec.json.encode(state)), private=True)
