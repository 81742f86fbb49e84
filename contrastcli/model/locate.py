"""What a word for a model means, and where that model lies: a run, a folder, the embedded starter, or the hub."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contrastcli.errors import ContrastError, DataError
from contrastcli.runs.directory import Run, find, list_runs

STARTER = Path(__file__).resolve().parents[1] / "starter" / "backbone"

# What a model needs; neither pickles nor ONNX files
_FILES = ["*.json", "*.txt", "*.model", "model*.safetensors", "[0-9]_*/*.json", "[0-9]_*/*.safetensors"]
_HUB_NAME = re.compile(r"(?P<repo>\w[\w.-]*(/\w[\w.-]*)?)(@(?P<revision>[\w./-]+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class ModelRef:
    """A model by a name that does not change its meaning: a run's path, a folder, `starter` or `owner/name[@revision]`.

    `run` is set where the model is that of a run.
    """

    name: str
    run: Run | None = None

    @classmethod
    def of(cls, run: Run) -> ModelRef:
        """The model of a run."""
        return cls(str(run.path), run)

    def folder(self) -> Path:
        """The model folder: of a run its best checkpoint, else its last; of a hub name from the cache, else fetched.

        Raises DataError where there is none, at once where the name can only be a path.
        """
        if (folder := self._on_disk()) is not None:
            return folder
        if Path(self.name).expanduser().is_file():
            raise DataError(f"'{self.name}' is a file, and a model is a folder", "name the folder with its config.json")
        return _from_hub(self.name)

    def local_folder(self) -> Path | None:
        """The model folder; None where it would have to be fetched or does not exist."""
        return self._on_disk() or _cached(self.name)

    def _on_disk(self) -> Path | None:
        if self.run is not None:
            return self.run.checkpoint()
        if self.name == "starter":
            return STARTER
        folder = Path(self.name).expanduser()
        return folder if self.name and folder.is_dir() else None  # Path("") is the working folder


def resolve(word: str | None, runs_dir: Path | None = None) -> ModelRef:
    """The model that a word means; without a word CONTRAST_MODEL, else the newest run that finished or was stopped.

    A run goes by its path and, where `runs_dir` is given, by its name, an unambiguous part of it, or `last`. A part
    means no run where the whole word is a file, a folder or a cached model, or the backbone of such a run. Nothing is
    fetched. Raises DataError where a part means several runs, or there is no run at all.
    """
    word = default_word(runs_dir or Path()) if word is None else word
    run = _run(word, runs_dir)
    return ModelRef.of(run) if run else ModelRef(word)


def default_word(runs_dir: Path) -> str:
    """CONTRAST_MODEL, else the name of the newest run that finished or was stopped. Raises DataError without either."""
    if word := os.environ.get("CONTRAST_MODEL"):
        return word
    for run in list_runs(runs_dir):
        if run.status().state in ("finished", "stopped") and run.checkpoints():
            return run.name
    raise DataError(f"there is no model: no run in {runs_dir} has ended", "contrast train --preset starter --no-ui")


def _run(word: str, runs_dir: Path | None) -> Run | None:
    path = Path(word).expanduser()
    if word and word != "last" and Run(path).exists():
        return Run(path)
    if not word or runs_dir is None:
        return None
    similar = [run for run in list_runs(runs_dir) if word in run.name]
    named = word == "last" or any(run.name == word for run in similar)
    return find(word, runs_dir) if named or (similar and not _is_model(word, similar)) else None


def _is_model(word: str, similar: Sequence[Run]) -> bool:
    """Whether a part of runs' names is a model's own name. That of a run usually holds its backbone's."""
    on_disk = Path(word).expanduser().exists() or ModelRef(word).local_folder() is not None
    return on_disk or any(_backbone(run) == word for run in similar)


def _backbone(run: Run) -> str:
    try:
        return run.config().model.backbone
    except ContrastError:
        return ""  # a run that cannot be read is an error where it is meant


def revision(folder: Path) -> str | None:
    """The commit of a folder in the hub's cache, None for any other folder."""
    folder = folder.resolve()
    in_cache = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if in_cache else None


def _from_hub(name: str) -> Path:
    match = _HUB_NAME.fullmatch(name)
    if match is None:
        raise DataError(f"there is no folder '{name}'", "check the path, or give a name on the hub: owner/name")
    from huggingface_hub import constants, snapshot_download  # a fifth of a second, and only these names need it
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if (cached := _cached(name)) is not None:
        return cached
    if constants.HF_HUB_OFFLINE:
        raise DataError(
            f"the model '{name}' is neither a folder nor in the hub cache, and HF_HUB_OFFLINE is set",
            "unset HF_HUB_OFFLINE, or use the model 'starter', which needs no network",
        )
    try:
        folder = Path(snapshot_download(match["repo"], revision=match["revision"], allow_patterns=_FILES))
    except GatedRepoError:
        raise DataError(f"the model '{name}' needs its owner's consent", "ask for it on the hub, then log in") from None
    except RevisionNotFoundError:
        what = f"the hub has no revision '{match['revision']}' of '{match['repo']}'"
        raise DataError(what, "check the part after the @") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise DataError(
            f"the model '{name}' is neither a folder nor a model on the hub", "check the spelling: owner/name"
        ) from None
    except (LocalEntryNotFoundError, OSError):
        raise DataError(
            f"the model '{name}' is neither a folder nor in the hub cache, and the hub cannot be reached",
            "check the network, or use the model 'starter', which needs none",
        ) from None
    if not _is_whole(folder):  # without a network the hub's client returns what part it has
        raise DataError(
            f"the model '{name}' has no config.json and safetensors weights, in the hub cache or within reach",
            "check the network; a model published without safetensors must be converted first",
        )
    return folder


def _cached(name: str) -> Path | None:
    """The snapshot in the hub's cache, if it holds a model: other tools leave ones with a config or tokenizer only."""
    match = _HUB_NAME.fullmatch(name)
    if match is None:
        return None
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(
            snapshot_download(match["repo"], revision=match["revision"], local_files_only=True, allow_patterns=_FILES)
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _is_whole(folder) else None


def _is_whole(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(folder.glob("model*.safetensors"))
