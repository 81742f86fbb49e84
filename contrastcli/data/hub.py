"""Data sets of the Hugging Face hub: `hf:owner/name[@revision][/file][?config=…&split=…]`."""

import re
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qsl

from contrastcli.data.formats import Frame, collect, of_batches, read_file
from contrastcli.errors import DataError, Remedy, UsageError, Use, error_text, nearest

PREFIX = "hf:"

_NAME = re.compile(
    r"hf:(?P<repo>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>refs/[^/]+/[^/?]+|[^/?]+))?(/(?P<file>[^?]+))?(\?(?P<query>.*))?"
)
_TIMEOUT_SECONDS = 5.0
_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Reference:
    """The parts of a hub name, "" for those that it leaves out. A data set may have a split, a single file has none."""

    repo: str
    revision: str = ""
    file: str = ""
    config: str = ""
    split: str = ""


def parse(name: str) -> Reference:
    """The parts of a hub name. Raises UsageError where it is malformed."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"'{name}' is not a hub name", "write hf:owner/name[@revision][/file][?config=…&split=…]")
    query = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    for key in query.keys() - {"config", "split"}:
        raise UsageError(f"'{name}': there is no option '{key}'", nearest(key, ("config", "split")))
    if match["file"] and query:
        raise UsageError(f"'{name}' names a file and a {next(iter(query))}", "a file has neither config nor split")
    return Reference(match["repo"], match["revision"] or "", match["file"] or "", **query)


def read(name: str, default_split: str, limit: int = 0) -> Frame:
    """The first `limit` rows (0: all) of a data set, or of one of its files, read by `formats`.

    Raises DataError where the hub cannot be reached or has no such data.
    """
    reference = parse(name)
    require_hub(name, "--dev" if default_split == "validation" else "--data")
    if reference.file:
        return read_file(download(reference, name), name, limit)
    import datasets

    config, split = reference.config or None, reference.split or default_split
    try:
        with _away_from(reference.repo):
            dataset = datasets.load_dataset(reference.repo, config, split=split, revision=reference.revision or None)
    # Builders raise whatever the libraries below them do.
    except Exception as error:
        raise _unavailable(name, error) from None
    classes = {column: kind.names for column, kind in dataset.features.items() if isinstance(kind, datasets.ClassLabel)}
    return collect(of_batches(dataset.iter(_ROWS_AT_ONCE), dataset.column_names, classes), name, limit)


@contextmanager
def _away_from(repo: str) -> Iterator[None]:
    """Work elsewhere where the working folder has that path, which the library would read in place of the hub's."""
    if not Path(repo).exists():
        yield
        return
    with TemporaryDirectory() as empty, chdir(empty):
        yield


def require_hub(name: str, option: str = "--data") -> None:
    """Raise DataError where the hub cannot be reached, at once: the libraries would retry for half a minute.

    A file may be given by the option in its place. In offline mode nothing is asked, and the caches are used.
    """
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=_TIMEOUT_SECONDS)
    # Of requests or of httpx, by the library's version.
    except Exception as error:
        what = f"{name}: the hub cannot be reached ({type(error).__name__})"
        reference = parse(name)
        fetch = f"hf download --repo-type dataset --local-dir DIR {reference.repo} {reference.file}".rstrip()
        remedies: list[Remedy] = [Use(option, "FILE", "give"), f"fetch it where there is a network: {fetch}"]
        if (Path(constants.HF_HUB_CACHE) / f"datasets--{reference.repo.replace('/', '--')}").exists():
            remedies.append("set HF_HUB_OFFLINE=1 to use what was downloaded before")
        raise DataError(what, remedies) from None


def download(reference: Reference, name: str) -> Path:
    """The single file of a reference, from the hub or its cache. Raises DataError."""
    from huggingface_hub import hf_hub_download

    try:
        path = hf_hub_download(reference.repo, reference.file, repo_type="dataset", revision=reference.revision or None)
    except (OSError, ValueError) as error:
        raise _unavailable(name, error) from None
    return Path(path)


def _unavailable(name: str, error: Exception) -> DataError:
    return DataError(f"{name}: {error_text(error)}", "check owner, name, config and split on huggingface.co/datasets")
