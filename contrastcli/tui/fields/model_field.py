"""The field that names a model: a run, a folder or a name on the hub."""

import asyncio
import os
from pathlib import Path

from textual import work

from contrastcli.errors import ContrastError
from contrastcli.model.locate import cached_names, default_word, resolve, word_for
from contrastcli.runs.directory import Run, list_runs
from contrastcli.tui.fields.choice_field import ChoiceField, Choices
from contrastcli.tui.fields.completion import ABSENT, complete_model

NO_MODEL = (
    "No model to use: no run here has ended with one. Press 1, then s, to train one; or press m for a run that still "
    "trains, a folder, a name on the hub, or starter, the small pretrained model that comes with contrast."
)


def default_model(directory: Path) -> str:
    """The model that is used where none is named: CONTRAST_MODEL, else the newest that finished or was stopped."""
    try:
        return default_word(directory)
    except (OSError, ContrastError):  # none, or one being deleted
        return ""


def checkpoint_in_words(directory: Path, model: str) -> str:
    """The checkpoint that is meant by a run; empty for other models."""
    try:
        run = resolve(model, directory).run if model else None
        saved = run.checkpoints() if run else {}
    except (OSError, ContrastError):
        return ""
    return next((f"{which}, step {int(saved[which]):,}" for which in ("best", "last") if which in saved), "")


def list_models(directory: Path) -> Choices:
    """The default, the runs that have a model, the newest first, and the models that are on this machine."""
    try:
        runs = [(word_for(run, directory), "a run here") for run in list_runs(directory) if run.is_saved]
    except (OSError, ContrastError):
        runs = []
    about_default = "CONTRAST_MODEL" if os.environ.get("CONTRAST_MODEL") else "the newest run finished or stopped"
    default = [("", about_default)] if default_model(directory) else []
    cached = [(name, "from the hub, on this machine") for name in cached_names()]
    return [*default, *runs, ("starter", "comes with contrast, pretrained only"), *cached]


class ModelField(ChoiceField):
    """The name of a model; left blank, the default is used. Posts `Changed` when another model is meant.

    A run that has saved another checkpoint is another model too.
    """

    def __init__(self, directory: Path, name: str, id: str) -> None:
        title = "A run, a folder, or a name on the hub"
        super().__init__(
            title, lambda: list_models(directory), name, blank="…", complete=complete_model, other=ABSENT, id=id
        )
        self._directory = directory
        self._default = ""
        self._posted: tuple[str, str, str] | None = None
        """Value, model and checkpoint of the last message."""

    def on_mount(self) -> None:
        self.poll()

    @property
    def model(self) -> str:
        """The model that is meant; empty where none is named and there is no default."""
        return self.value or self._default

    @property
    def ready(self) -> bool:
        return self._posted is not None

    def choose(self, value: str | None) -> None:
        self.show(self.value if value is None else value)
        self.poll()

    def choose_run(self, run: Run) -> None:
        self.choose(word_for(run, self._directory))

    @work(exclusive=True)
    async def poll(self) -> None:
        """Read which model is the default by now, and which checkpoint is meant."""
        self._default = await asyncio.to_thread(default_model, self._directory)
        self.blank = f"{Path(self._default).name} (default)" if self._default else "none yet"
        self.note = await asyncio.to_thread(checkpoint_in_words, self._directory, self.model)
        self.show(self.value)
        meant = (self.value, self.model, self.note)
        if meant != self._posted:
            self._posted = meant
            self.post_message(self.Changed(self, self.value))
