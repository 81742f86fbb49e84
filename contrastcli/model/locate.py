"""Where a model lies on this machine: a folder, a run, the embedded starter, or a model of the hub."""

from __future__ import annotations

import re
from pathlib import Path

from contrastcli.errors import DataError
from contrastcli.files import read_json

# What a model needs; neither pickles nor ONNX files
_FILES = ["*.json", "*.txt", "*.model", "model*.safetensors", "[0-9]_*/*.json", "[0-9]_*/*.safetensors"]
_HUB_NAME = re.compile(r"(?P<repo>\w[\w.-]*(/\w[\w.-]*)?)(@(?P<revision>[\w./-]+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def locate(name: str) -> Path:
    """The model folder of a name: `starter`, a folder, a run, or `owner/name[@revision]`, from the hub's cache first.

    A run means its best checkpoint, else its last. Raises DataError where there is none, at once where the name can
    only be a path.
    """
    folder = _local(name)
    if folder is not None:
        return folder
    if Path(name).expanduser().is_file():
        raise DataError(f"'{name}' is a file, and a model is a folder", "name the folder that holds config.json")
    match = _HUB_NAME.fullmatch(name)
    if match is None:
        raise DataError(f"there is no folder '{name}'", "check the path, or give a name on the hub: owner/name")
    return _from_hub(name, match["repo"], match["revision"])


def here(name: str) -> Path | None:
    """Like `locate`, but None where the model would have to be fetched or does not exist."""
    match = _HUB_NAME.fullmatch(name)
    return _local(name) or (_cached(match["repo"], match["revision"]) if match else None)


def _local(name: str) -> Path | None:
    if name == "starter":
        return Path(__file__).resolve().parents[1] / "starter" / "backbone"
    folder = Path(name).expanduser()
    if (folder / "checkpoints.json").is_file():
        return _checkpoint(folder)
    return folder if name and folder.is_dir() else None  # Path("") is the working folder


def _checkpoint(run: Path) -> Path:
    named = read_json(run / "checkpoints.json", dict[str, str]) or {}
    name = named.get("best") or named.get("last")
    if name is None:
        raise DataError(f"the run {run} has no checkpoint", "let it train until it has saved")
    folder = run / "checkpoints" / name
    if not folder.is_dir():
        raise DataError(f"the checkpoint {folder} is missing", f"{run / 'checkpoints.json'} names it: restore it")
    return folder


def revision(folder: Path) -> str | None:
    """The commit of a folder in the hub's cache, None for any other folder."""
    folder = folder.resolve()
    in_cache = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if in_cache else None


def _from_hub(name: str, repo: str, wanted: str | None) -> Path:
    from huggingface_hub import constants, snapshot_download  # a fifth of a second, and only these names need it
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    cached = _cached(repo, wanted)
    if cached is not None:
        return cached
    if constants.HF_HUB_OFFLINE:
        raise DataError(
            f"the model '{name}' is neither a folder nor in the hub cache, and HF_HUB_OFFLINE is set",
            "unset HF_HUB_OFFLINE, or use the model 'starter', which needs no network",
        )
    try:
        folder = Path(snapshot_download(repo, revision=wanted, allow_patterns=_FILES))
    except GatedRepoError:
        raise DataError(f"the model '{name}' needs its owner's consent", "ask for it on the hub, then log in") from None
    except RevisionNotFoundError:
        raise DataError(f"the hub has no revision '{wanted}' of '{repo}'", "check the part after the @") from None
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


def _cached(repo: str, wanted: str | None) -> Path | None:
    """The snapshot in the hub's cache, if it holds a model: other tools leave ones with a config or tokenizer only."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repo, revision=wanted, local_files_only=True, allow_patterns=_FILES))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _is_whole(folder) else None


def _is_whole(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(folder.glob("model*.safetensors"))
