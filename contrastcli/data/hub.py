"""Data sets of the Hugging Face hub, `hf:owner/name[@revision][/file][?config=…&split=…]`, and saved to a folder."""

import re
from collections.abc import Mapping
from contextlib import ExitStack, chdir
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl

from contrastcli.data.downloads import Repo, check_reachable, explained, fetch
from contrastcli.data.formats import Frame, collect, of_batches, read_file
from contrastcli.errors import DataError, Remedy, UsageError, Use, failing_as, nearest

PREFIX = "hf:"

_NAME = re.compile(
    r"hf:(?P<repo>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>refs/[^/]+/[^/?]+|[^/?]+))?(/(?P<file>[^?]+))?(\?(?P<query>.*))?"
)
_ROWS_AT_ONCE = 1_000
_SAVED = ("dataset_info.json", "state.json")


@dataclass(frozen=True)
class Reference(Repo):
    """The parts of a hub name, "" for those that it leaves out. A data set may have a split, a single file has none."""

    kind: str = "dataset"
    file: str = ""
    config: str = ""
    split: str = ""


def parse(name: str) -> Reference:
    """The parts of a hub name, which is the title. Raises UsageError where it is malformed."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"'{name}' is not a hub name", "write hf:owner/name[@revision][/file][?config=…&split=…]")
    query = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    for key in query.keys() - {"config", "split"}:
        raise UsageError(f"'{name}': there is no option '{key}'", nearest(key, ("config", "split")))
    if match["file"] and query:
        raise UsageError(f"'{name}' names a file and a {next(iter(query))}", "a file has neither config nor split")
    return Reference(match["repo"], match["revision"] or "", name, file=match["file"] or "", **query)


def read(name: str, default_split: str, limit: int = 0) -> Frame:
    """The first `limit` rows (0: all) of a data set, or of one of its files, read by `formats`.

    Raises DataError where the hub cannot be reached or has no such data.
    """
    repo, option = parse(name), "--dev" if default_split == "validation" else "--data"
    if repo.file:
        return read_file(download(repo, option), name, limit)
    _require_hub(repo, option)
    import datasets
    from huggingface_hub import constants

    datasets.disable_progress_bars()
    if not constants.HF_HUB_OFFLINE:
        # Nothing, but what the hub refuses is known before the library tries for minutes.
        fetch(repo, [])
    # Builders raise whatever the libraries below them do.
    hint = f"check its name, config and split on {repo.page}, and if that asks for consent or a login: hf auth login"
    with explained(repo, "{}", hint), ExitStack() as elsewhere:
        if Path(repo.name).exists():
            # Here the library would read what has that path.
            elsewhere.enter_context(chdir(elsewhere.enter_context(TemporaryDirectory())))
        builder = datasets.load_dataset_builder(repo.name, repo.config or None, revision=repo.revision or None)
        _fetch_files(builder, repo)
        builder.download_and_prepare()
        dataset = builder.as_dataset(split=repo.split or default_split)
    return _frame(dataset, name, limit)


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` of `datasets` has written a folder."""
    return (folder / "dataset_dict.json").is_file() or all(map(Path.is_file, (folder / one for one in _SAVED)))


def read_saved(folder: Path, name: str, split: str, limit: int = 0) -> Frame:
    """The first `limit` rows (0: all) of a folder that `save_to_disk` wrote, of several splits those of one.

    Raises DataError where it is damaged or has no such split.
    """
    import datasets

    with failing_as(DataError, f"{name} cannot be read as a saved data set", "save it again"):
        saved = datasets.load_from_disk(str(folder))
    if isinstance(saved, datasets.DatasetDict):
        require_split(split, name, {one: one for one in saved})
        saved = saved[split]
    return _frame(saved, name, limit)


def require_split(split: str, name: str, paths: Mapping[str, str]) -> None:
    """Raise DataError where a folder has no such split, but others, each at a path in it."""
    if split not in paths:
        splits = " or ".join(str(Path(name) / path) for path in paths.values())
        raise DataError(f"{name} has no split '{split}'", f"name one that it has: {splits}")


def _frame(dataset: Any, name: str, limit: int) -> Frame:
    """The first `limit` rows (0: all) of a `datasets.Dataset`."""
    return collect(of_batches(dataset.iter(_ROWS_AT_ONCE), dataset.features.arrow_schema), name, limit)


def _fetch_files(builder: Any, repo: Reference) -> None:
    """Download what a builder will read, with progress, unless it is prepared already."""
    every = [str(file) for files in (builder.config.data_files or {}).values() for file in files]
    # Such as hf://datasets/owner/name@commit/data/train.parquet
    ours = [file.partition(f"{repo.name}@")[2].partition("/") for file in every if f"{repo.name}@" in file]
    if ours and not Path(builder.cache_dir).exists():
        fetch(replace(repo, revision=ours[0][0]), [escape(path) for _, _, path in ours])


def _require_hub(repo: Reference, option: str) -> None:
    """Raise DataError where the hub cannot be reached, at once: the libraries would retry for half a minute.

    A file may be given by the option in its place. In offline mode nothing is asked, and the caches are used.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return
    get = f"hf download --repo-type dataset --local-dir DIR {repo.name} {repo.file}".rstrip()
    remedies: list[Remedy] = [Use(option, "FILE", "give"), f"fetch it where there is a network: {get}"]
    if (Path(constants.HF_HUB_CACHE) / f"datasets--{repo.name.replace('/', '--')}").exists():
        remedies.append("set HF_HUB_OFFLINE=1 to use what was downloaded before")
    check_reachable(f"{repo.title}: the hub cannot be reached", remedies)


def download(repo: Reference, option: str = "--data") -> Path:
    """The single file of a reference, from the hub or its cache. Raises DataError, and RunError for a full disk."""
    _require_hub(repo, option)
    if not (path := fetch(repo, [escape(repo.file)]) / repo.file).is_file():
        hint = f"choose one of {repo.page}/tree/{repo.revision or 'main'}"
        raise DataError(f"{repo.title}: there is no such file", hint)
    return path
