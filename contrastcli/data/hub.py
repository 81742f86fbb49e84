"""Data sets of the Hugging Face hub: `hf:owner/name[@revision][/file][?config=…&split=…]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl

from contrastcli.data.formats import Columnar, Table, from_dataset, read_file
from contrastcli.errors import DataError, UsageError, nearest

PREFIX = "hf:"

_FORM = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[^/?]+))?(/(?P<file>[^?]+))?(\?(?P<query>.*))?")
_PATIENCE = 5.0  # seconds


@dataclass(frozen=True)
class Reference:
    """What a hub name says; "" for what it leaves out. `split` is of data sets only, `file` of single files."""

    repo: str
    revision: str = ""
    file: str = ""
    config: str = ""
    split: str = ""


def parse(name: str) -> Reference:
    """A hub name's parts. Raises UsageError where it is malformed."""
    match = _FORM.fullmatch(name)
    if match is None:
        raise UsageError(f"'{name}' is not a hub name", "write hf:owner/name[@revision][/file][?config=…&split=…]")
    query = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    for key in query.keys() - {"config", "split"}:
        raise UsageError(f"'{name}': there is no option '{key}'", nearest(key, ("config", "split")))
    if match["file"] and query:
        raise UsageError(f"'{name}' names a file and a {next(iter(query))}", "a file has neither config nor split")
    words = {key: match[key] or "" for key in ("repo", "revision", "file")}
    return Reference(**words, **query)


def read(name: str, default_split: str, limit: int = 0) -> Table:
    """The first `limit` rows (0: all) of a data set, or of one file of it by our own readers.

    Raises DataError where the hub cannot be reached or has no such thing.
    """
    reference = parse(name)
    require_hub(name)
    if reference.file:
        return read_file(download(reference, name), name, limit)
    return from_dataset(_load(reference, name, reference.split or default_split), name, limit)


def require_hub(name: str) -> None:
    """Ask once, since the libraries would retry for half a minute. In offline mode they use their caches at once."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # of requests or of httpx, by the library's version
        what = f"{name}: the hub cannot be reached ({type(error).__name__})"
        raise DataError(what, "name a file, or set HF_HUB_OFFLINE=1 to use what was downloaded before") from None


def download(reference: Reference, name: str) -> Path:
    """The one file that a reference names, from the cache of the hub or from the hub. Raises DataError."""
    from huggingface_hub import hf_hub_download

    try:
        path = hf_hub_download(reference.repo, reference.file, repo_type="dataset", revision=reference.revision or None)
    except (OSError, ValueError) as error:
        raise _unavailable(name, error) from None
    return Path(path)


def _load(reference: Reference, name: str, split: str) -> Columnar:
    import datasets  # seconds to import

    try:
        found = datasets.load_dataset(
            reference.repo, reference.config or None, split=split, revision=reference.revision or None
        )
    except Exception as error:  # builders raise whatever the libraries below them do
        raise _unavailable(name, error) from None
    return cast(Columnar, found)


def _unavailable(name: str, error: Exception) -> DataError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DataError(f"{name}: {reason}", "check owner, name, config and split on huggingface.co/datasets")
