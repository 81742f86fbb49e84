"""The model that a word names, and its folder: of a run, on disk, the embedded starter, or from the hub."""

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path

from contrastcli.data.downloads import Absent, Repo, Unreachable, check_reachable, fetch, named_by
from contrastcli.data.forms import FORMATS, OTHER_SUFFIXES
from contrastcli.errors import ContrastError, DataError, Remedy, Use
from contrastcli.files import cache_dir
from contrastcli.runs.directory import Run, find_run, list_runs

STARTER = Path(__file__).resolve().parents[1] / "starter" / "backbone"

PICKLED = "pytorch_model.bin"
"""The weights of models published before safetensors."""

# The files of a model that are used: no ONNX, and pickles only where there are no safetensors.
_FILES = ["*.json", "*.txt", "*.model", "model*.safetensors", "[0-9]_*/*.json", "[0-9]_*/*.safetensors"]
_PICKLES = [PICKLED, f"[0-9]_*/{PICKLED}"]
_TOKENIZER = ("tokenizer.json", "vocab.*", "merges.txt", "*.model")
_MEASURED = ("*.safetensors", PICKLED, "modules.json", "*config*.json", "[0-9]_*/*", *_TOKENIZER)
"""The files of a model that its embeddings depend on."""
_HUB_NAME = re.compile(r"(?!.*\.(?:txt|vec|gz|bin|safetensors|json|toml)$)\w[\w.-]*(/\w[\w.-]*)?(@[\w./-]+)?")
"""A name on the hub, but none with the ending of a file."""
_SHORT = re.compile("(all|paraphrase|multi-qa|msmarco|gtr|sentence-t5)-[^/]+$")
"""Names that sentence-transformers takes without their owner, which is itself."""
_MOST_RUNS = 3
"""Runs that an error names."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class ModelRef:
    """A model by a fixed name: a run's path (and `run`), a folder, `starter` or `owner/name[@revision]`."""

    name: str
    run: Run | None = None
    runs_dir: Path | None = field(default=None, compare=False)
    """Where an error looks for a run of a similar name."""

    @property
    def title(self) -> str:
        """What tells it from others; it names the model in a command."""
        return self.run.title if self.run else self.name

    @property
    def place(self) -> str:
        """Where it is, however it is spelled; of a model that is not on this machine one by its name."""
        return os.path.realpath(self.run.path if self.run else self.local_folder() or self.name)

    def folder(self) -> Path:
        """The model folder: of a run its best checkpoint, else its last; of a hub name from the cache, else downloaded.

        Raises DataError if there is none, without asking the hub if the name can only be a path.
        """
        if (folder := self._on_disk()) is not None:
            return folder
        if os.path.isfile(os.path.expanduser(self.name)):
            as_data = Use("--data", shlex.quote(self.name), "as data:")
            hint: list[Remedy] = [as_data, "name the model's folder, with its config.json"]
            is_data = self.name.endswith((*FORMATS, *OTHER_SUFFIXES, ".gz"))
            raise DataError(f"'{self.name}' is a file, and a model is a folder", hint if is_data else hint[1:])
        try:
            return _from_hub(self.name)
        except Absent as error:
            source = "CONTRAST_MODEL" if self.name == os.environ.get("CONTRAST_MODEL") else ""
            raise type(error)(error.what, _alike(self.name, self.runs_dir) + error.hint, source=source) from None

    def origin(self) -> str:
        """Where the weights are from, in words, if not from safetensors or if the name means two models."""
        folder = self.folder()
        if folder == self._on_disk() and not self.run and _cached(self.name):
            return f"the model {self.name} is the folder {folder.resolve()}, not the hub's model of that name"
        if any(folder.glob("model*.safetensors")) or not (folder / PICKLED).is_file():
            return ""
        return f"the weights of {self.name} are read from its {PICKLED}, as tensors only"

    def local_folder(self) -> Path | None:
        """The model folder; None if it would have to be downloaded or does not exist."""
        return self._on_disk() or _cached(self.name)

    def absence(self) -> str:
        """Why the model is not on this machine, or "". Asks the hub alone. Raises DataError if there is no model."""
        if self.local_folder():
            return ""
        if _is_path(self.name) or os.path.isfile(os.path.expanduser(self.name)):
            self.folder()
        try:
            fetch(_ask(self.name), [])  # nothing, but the hub's answer
        except Unreachable as error:
            return error.what
        return f"the model '{self.name}' is not on this machine; it will be downloaded"

    def scores_path(self, pooling: str | None = None, dim: int | None = None) -> Path:
        """The file of what was measured: in a run, else in the cache, as of another pooling or shorter embeddings.

        That is for the model's files as they are, by size and time: where they are replaced, nothing is measured yet.
        """
        if self.run and not (pooling or dim):
            return self.run.scores_path
        folder = self.local_folder()
        files = chain(*map(folder.glob, _MEASURED)) if folder else [Path(os.path.expanduser(self.name))]
        stamps: list[str] = []
        for file in filter(Path.is_file, files):
            # One that is being replaced has no stamp.
            with suppress(FileNotFoundError):
                stat = file.stat()
                stamps.append(f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns}")
        name = "\n".join([pooling or "", str(dim or ""), *(sorted(stamps) or [self.name])])
        return cache_dir() / "measured" / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"

    def _on_disk(self) -> Path | None:
        if self.run is not None:
            return self.run.checkpoint()
        if self.name == "starter":
            return STARTER
        folder = Path(os.path.expanduser(self.name))
        # Path("") is the working folder.
        return folder if self.name and os.path.isdir(folder) else None


def is_word_vectors(name: str) -> bool:
    """Whether a model's name is that of a file of word vectors: .txt or .vec, or .gz of these."""
    return name.removesuffix(".gz").endswith((".txt", ".vec")) and os.path.isfile(os.path.expanduser(name))


def resolve(word: str | None, runs_dir: Path | None = None) -> ModelRef:
    """The model that a word names; without a word CONTRAST_MODEL, else the newest run that finished or was stopped.

    A word names a run by its path and, with `runs_dir`, by its name, an unambiguous part of it, or `last`. A part names
    no run if the word is also a file, a folder, a cached model, or the backbone of such a run. Nothing is downloaded.
    Raises DataError if a part fits several runs, or if there is no run at all.
    """
    word = default_word(runs_dir or Path()) if word is None else word
    run = _run(word, runs_dir)
    return ModelRef(_path(run), run) if run else ModelRef(word, runs_dir=runs_dir)


def _alike(word: str, runs_dir: Path | None) -> str:
    """The run, or the model on disk, whose name is similar to a word; else the runs."""
    if "," in word:
        return f"name several with blanks between: {word.replace(',', ' ')}, or "
    path = Path(os.path.expanduser(word))
    place = path.parent if "/" in word else runs_dir
    runs = {run.name: str(run.path) if "/" in word else run.name for run in list_runs(place)} if place else {}
    named = {name: f"the run '{run}'" for name, run in runs.items()}
    with suppress(OSError, RuntimeError):
        models = (one for one in path.parent.iterdir() if is_word_vectors(str(one)) or (one / "config.json").is_file())
        named |= {one.name: f"'{one}'" for one in models}
    if above := next((one for one in path.parents if Run(one).exists()), None):
        return f"name the run: {above}. Else "
    close = get_close_matches(path.name, named, 1, 0.8)
    some = ", ".join([*runs.values()][:_MOST_RUNS]) + " …" * (len(runs) > _MOST_RUNS)
    listed = f"name a run ({some}), or " if runs else ""
    return f"did you mean {named[close[0]]}? Else " if close else listed


def default_word(runs_dir: Path) -> str:
    """CONTRAST_MODEL, else a word for the newest run that finished or was stopped. Raises DataError without either.

    One that was stopped before its first evaluation is meant only where there is no other.
    """
    if word := os.environ.get("CONTRAST_MODEL"):
        return word
    unmeasured = None
    for run in list_runs(runs_dir):
        # One that cannot be read is not meant.
        with suppress(ContrastError, OSError):
            state, saved = run.status().state, run.checkpoints()
            if saved and (state == "finished" or (state == "stopped" and "best" in saved)):
                return word_for(run, runs_dir)
            unmeasured = unmeasured or (run if saved and state == "stopped" else None)
    if unmeasured:
        return word_for(unmeasured, runs_dir)
    what = f"there is no model: no run in {runs_dir} has ended"
    raise DataError(what, ["contrast train --preset starter --no-ui", "name one: a folder, a hub name or starter"])


def word_for(run: Run, runs_dir: Path) -> str:
    """What means a run where a model is named: its name, or its path where the name means another model or none."""
    here = Path(run.name)
    named = here if Run(here).exists() else runs_dir / here
    is_meant = run.name not in ("last", "starter") and os.path.realpath(named) == os.path.realpath(run.path)
    return run.name if is_meant else _path(run)


def _path(run: Run) -> str:
    """The path of a run, with a separator: `starter` and `last` alone mean others."""
    return os.path.join(run.path.parent, run.path.name)


def _run(word: str, runs_dir: Path | None) -> Run | None:
    if word in ("", "starter"):
        return None
    path = Path(os.path.expanduser(word))
    if word != "last" and Run(path).exists():
        return Run(path, runs_dir is not None and path.parent.resolve() != runs_dir.resolve())
    if runs_dir is None:
        return None
    if word == "last" or (word == path.name and Run(runs_dir / word).exists()):
        return find_run(word, runs_dir)
    similar = [run for run in list_runs(runs_dir) if word in run.name]
    # a run's name often has its backbone's
    is_model = os.path.exists(path) or any(_backbone(run) == word for run in similar)
    named = bool(similar) or os.path.isdir(runs_dir / word)
    return find_run(word, runs_dir) if named and not is_model and ModelRef(word).local_folder() is None else None


def _backbone(run: Run) -> str:
    # An unreadable run is an error only if it is the one that is named.
    with suppress(ContrastError):
        return run.config().model.backbone
    return ""


def revision(folder: Path) -> str | None:
    """The commit of a folder in the cache of the hub; None for other folders."""
    folder = folder.resolve()
    in_cache = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if in_cache else None


def cached_names() -> list[str]:
    """The models in the cache of the hub, by name."""
    from huggingface_hub import constants  # takes a fifth of a second

    folders = Path(constants.HF_HUB_CACHE).glob("models--*")
    names = [folder.name.removeprefix("models--").replace("--", "/") for folder in folders]
    return sorted(name for name in names if _cached(name))


def _is_path(name: str) -> bool:
    """Whether the hub has no such name, by its form or since it is one next to runs, such as runs/one."""
    return _HUB_NAME.fullmatch(name) is None or ("/" in name and bool(list_runs(Path(name).parent)))


def _from_hub(name: str) -> Path:
    if (folder := _cached(name)) is not None:
        return folder
    if _is_path(name):
        repo, _ = named_by(name)
        hint = f"did you mean {repo}?" if repo else "check the path, or give a name on the hub: owner/name"
        raise Absent(f"there is no folder or file '{name}'", hint)
    if (folder := _snapshot(partial(fetch, _ask(name)))) is None:
        what = f"the model '{name}' has no config.json and weights on the hub"
        raise DataError(what, f"choose another: weights are read from model.safetensors or {PICKLED}")
    return folder


def _ask(name: str) -> Repo:
    """The repository of a model that is not on this machine. Raises Unreachable where the hub must not be asked."""
    from huggingface_hub import constants

    neither = f"the model '{name}' is neither a folder nor in the hub cache, and"
    if constants.HF_HUB_OFFLINE:
        remedy = "unset HF_HUB_OFFLINE, or use the model 'starter', which needs no network"
        raise Unreachable(f"{neither} HF_HUB_OFFLINE is set", remedy)
    get = f"hf download {'sentence-transformers/' * bool(_SHORT.match(name))}{name.partition('@')[0]} --local-dir DIR"
    remedy = f"fetch it where there is a network and name DIR: {get}, or use the model 'starter', which needs none"
    check_reachable(f"{neither} the hub cannot be reached", remedy)
    return _repo(name)


def _repo(name: str) -> Repo:
    repo, _, revision = name.partition("@")
    return Repo(repo, revision, f"the model '{name}'")


def _cached(name: str) -> Path | None:
    if _HUB_NAME.fullmatch(name):
        from huggingface_hub import errors

        with suppress(errors.LocalEntryNotFoundError, errors.HFValidationError):
            return _snapshot(partial(_repo(name).snapshot, local_files_only=True))
    return None


def _snapshot(get: Callable[[Sequence[str]], Path]) -> Path | None:
    """The snapshot of a hub name if it holds a model; that of another tool may have a config or a tokenizer only."""
    for weights, files in (("model*.safetensors", _FILES), (PICKLED, _FILES + _PICKLES)):
        folder = get(files)
        # A published static model has them in the folder of its only module.
        if ((folder / "config.json").is_file() and any(folder.glob(weights))) or any(folder.glob(f"0_*/{weights}")):
            return folder
    return None
