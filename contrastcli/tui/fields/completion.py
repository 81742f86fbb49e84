"""What may be typed into a field of names apart from its list: paths, and models that are not in the list."""

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path

from contrastcli.data.forms import FORMATS, OTHER_SUFFIXES
from contrastcli.errors import ContrastError
from contrastcli.model.locate import ModelRef
from contrastcli.runs.directory import list_runs
from contrastcli.show.format import size
from contrastcli.tui.fields.choice_field import FOLDER, Choices

ABSENT = "not on this machine; on the hub, if it is a name there"
"""Of a model that is typed and is neither in a list nor here."""

_OF_DATA = (*FORMATS, *OTHER_SUFFIXES)
_MOST_ENTRIES, _MOST_RUNS = 200, 50
"""Entries of a folder that are offered, and runs that are looked through for values used before."""


def complete_path(typed: str, suffixes: tuple[str, ...] = ("",)) -> Choices:
    """Folders and files with these suffixes whose paths begin with what was typed, also one that is the text itself."""
    head, slash, start = typed.rpartition("/")
    choices = []
    with suppress(OSError):
        named = (one for one in Path(os.path.expanduser(head + slash)).iterdir() if one.name.startswith(start))
        shown = (one for one in named if start or not one.name.startswith("."))
        fitting = (one for one in shown if one.name.removesuffix(".gz").endswith(suffixes) or (typed and one.is_dir()))
        # A link may lead nowhere.
        for entry in sorted(islice(filter(os.path.exists, fitting), _MOST_ENTRIES)):
            about = FOLDER if entry.is_dir() else size(entry.stat().st_size)
            choices.append((f"{head}{slash}{entry.name}", about))
    return [*([(typed, FOLDER)] if typed and not start and choices else []), *choices]


def data_files() -> Choices:
    """The files of data in the working folder."""
    return complete_path("", _OF_DATA)


def complete_data(typed: str) -> Choices:
    """Folders and files of data that begin with what was typed, or with the last of several paths with commas."""
    before, _, last = typed.rpartition(",")
    further = ((f"{before},{path}", about) for path, about in complete_path(last.lstrip(), _OF_DATA))
    return complete_path(typed, _OF_DATA) or [*further]


def complete_model(typed: str) -> Choices:
    """Folders that begin with what was typed, also the text itself, where it is one or a model here."""
    folders = [(path, FOLDER) for path, about in complete_path(typed) if about == FOLDER and path != typed]
    folders = folders if "/" in typed else []
    place = ModelRef(typed).local_folder()
    if place is None:
        return folders
    is_model = (place / "config.json").is_file() or (place / "modules.json").is_file()
    return [(typed, "a model on this machine" if is_model else "a folder without a model, no config.json"), *folders]


def used_before(directory: Path, key: str) -> Choices:
    """The values of a setting in the newest runs, each with the run."""
    values: dict[str, str] = {}
    with suppress(OSError):
        for run in list_runs(directory)[:_MOST_RUNS]:
            with suppress(OSError, ContrastError):
                values.setdefault(str(run.config().flat().get(key, "")), f"used in {run.name}")
    return [(value, about) for value, about in values.items() if value]
