"""The field that names a model: a run, a folder or a name on the hub."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from textual import work

from contrastcli.errors import ContrastError
from contrastcli.model.locate import default_word
from contrastcli.runs.directory import list_runs
from contrastcli.tui.choice_field import ChoiceField, Choices

NO_MODEL = (
    "No model to use: no run here has saved one yet. Press 1, then s, to train one; "
    "or press m and type a folder, a name on the hub, or starter, the small untrained model that comes with contrast."
)
_NEWEST = "the newest run that has ended"


@dataclass(frozen=True)
class Models:
    """The runs that have a model, the newest first; and the model that is used where none is named, if any."""

    runs: tuple[str, ...] = ()
    default: str = ""

    @property
    def choices(self) -> Choices:
        """What a list offers."""
        from_environment = bool(os.environ.get("CONTRAST_MODEL"))
        about_default = "CONTRAST_MODEL" if from_environment else "the newest run that has ended"
        default = [("", about_default)] if self.default else []
        return [*default, *((run, "") for run in self.runs), ("starter", "comes with contrast, untrained")]


def list_models(directory: Path) -> Models:
    """What may be named: CONTRAST_MODEL, else the newest run that has ended, is the default."""
    runs: tuple[str, ...] = ()
    try:
        runs = tuple(run.name for run in list_runs(directory) if run.checkpoints_path.is_file())
        return Models(runs, default_word(directory))
    except (OSError, ContrastError):  # no run has ended, or one is being deleted
        return Models(runs)


class ModelField(ChoiceField):
    """The name of a model; left blank, the default is used. Posts `Changed` when another model is meant."""

    def __init__(self, directory: Path, name: str, id: str) -> None:
        choices = lambda: list_models(directory).choices  # noqa: E731
        super().__init__("A run, a folder, or a name on the hub", choices, name, blank="…", free=True, id=id)
        self._directory = directory
        self._default = ""
        self._posted: tuple[str, str] | None = None  # value and model of the last message

    def on_mount(self) -> None:
        self.poll()

    @property
    def model(self) -> str:
        """The model that is meant; empty where none is named and there is no default."""
        return self.value or self._default

    @property
    def ready(self) -> bool:
        """Whether the default is known."""
        return self._posted is not None

    @work(exclusive=True)
    async def poll(self) -> None:
        """Look which model is the default now."""
        self._default = (await asyncio.to_thread(list_models, self._directory)).default
        self.blank = f"{Path(self._default).name} (default)" if self._default else "none yet"
        self.choose(self.value)

    def choose(self, value: str | None) -> None:
        """Take a name; None leaves the present one."""
        self.show(self.value if value is None else value)
        if (self.value, self.model) != self._posted:
            self._posted = self.value, self.model
            self.post_message(self.Changed(self, self.value))
