"""The progress of long work on data, and downloads from the Hugging Face hub: in words what goes wrong with them."""

import errno
import io
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from contrastcli.errors import ContrastError, DataError, Hint, error_text
from contrastcli.files import system_error, writing_to

T = TypeVar("T")

OnProgress = Callable[[str, int, int], None]
"""Called with the name of some work, the amount done, and the total."""

Show = Callable[[], AbstractContextManager[OnProgress | None]]

_show: ContextVar[Show] = ContextVar("show", default=nullcontext)
_REPORT_SECONDS = 0.5
_TIMEOUT_SECONDS = 5.0
_MEGABYTE = 1_000_000
_LARGE, _BUFFER_BYTES = 10, 1 << 18
"""Megabytes of a file that takes long to read, and what is read of it at once."""
_MANY, _EACH = 100_000, 10_000
"""Items that take long to look through, and those between two reports."""
_AGAIN = "run the same command again, which downloads only the files that are missing"
_PAGE = re.compile(
    r"https?://(?:huggingface\.co|hf\.co)/(?:datasets/)?([\w.-]+/[\w.-]+)"
    r"(?:/(?:tree|blob|resolve)/([^/?#]+)/?([^?#]*))?(?:[/?#].*)?$"
)
_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}


class Absent(DataError):
    """There is no such model or data set."""


class Unreachable(Absent):
    """There is none on this machine, and the hub cannot be asked."""


def named_by(link: str) -> tuple[str, str]:
    """What a link to a page of the hub names: owner/name[@revision] and a file in it, each "" where it has none."""
    match = _PAGE.match(link)
    name, revision, file = match.groups("") if match else ("", "", "")
    return name + (f"@{revision}" if revision not in ("", "main") else ""), file


@dataclass(frozen=True)
class Repo:
    """A repository of the hub, which errors call by its title."""

    name: str
    revision: str
    title: str
    kind: str = "model"

    @property
    def page(self) -> str:
        """Its address for a browser."""
        from huggingface_hub import constants

        return f"{constants.ENDPOINT}/{'datasets/' if self.kind == 'dataset' else ''}{self.name}"

    def snapshot(self, patterns: Sequence[str], **options: Any) -> Path:
        """The folder with its files that fit patterns. Raises whatever the hub's client does."""
        from huggingface_hub import snapshot_download as get
        from tqdm.std import tqdm

        # Its thread for bars that stand still waits for ever where a bar is collected while it starts.
        tqdm.monitor_interval = 0
        for module in ("_snapshot_download", "file_download"):
            # They warn of patterns that no file fits, and of each attempt of several.
            logging.getLogger(f"huggingface_hub.{module}").setLevel(logging.ERROR)
        revision = self.revision or None
        return Path(get(self.name, repo_type=self.kind, revision=revision, allow_patterns=[*patterns], **options))


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Have long work in the body report to what `show` opens: its name, the amount done and the total.

    Without it the hub's client shows bars of its own, and other work none.
    """
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)


@contextmanager
def reading(path: Path) -> Iterator[io.BufferedReader]:
    """A file that is open for reading; of a large one the progress is shown."""
    total = path.stat().st_size // _MEGABYTE
    with _show.get()() if total >= _LARGE else nullcontext() as report:
        what = f"reading {path.name} (MB)"
        # The end is that of the body, when the rows are there.
        raw = _Counted(path, lambda done: report and report(what, min(done // _MEGABYTE, total - 1), total))
        stream: io.BufferedReader = io.BufferedReader(raw, _BUFFER_BYTES)
        with stream:
            yield stream
        if report:
            report(what, total, total)


def counted(what: str, items: Sequence[T]) -> Iterator[T]:
    """The items; where they are many the progress is shown."""
    with _show.get()() if len(items) >= _MANY else nullcontext() as report:
        for done, item in enumerate(items, 1):
            if report and (not done % _EACH or done == len(items)):
                report(what, done, len(items))
            yield item


class _Counted(io.FileIO):
    """A file that tells the bytes read from it so far, which are not always from its start on."""

    def __init__(self, path: Path, tell: Callable[[int], object]) -> None:
        super().__init__(path)
        self._count, self._tell = 0, tell

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer) or 0
        self._count += count
        self._tell(self._count)
        return count


def fetch(repo: Repo, patterns: Sequence[str]) -> Path:
    """Download files of a repository that fit patterns and are not here yet; returns the folder of its snapshot.

    Without a network some may be missing. Raises DataError, and RunError where they cannot be written.
    """
    what = f"downloading {repo.name} (MB)"
    with _show.get()() as report, explained(repo):
        bars = _bars(what, report) if report else None
        folder = repo.snapshot(patterns, tqdm_class=bars)
        if report and bars and bars.total_reported:
            report(what, bars.total_reported, bars.total_reported)
    return folder


def _bars(what: str, report: OnProgress) -> Any:
    """A class for the bars of the hub's client that reports the bytes which it has written, and draws nothing."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        total_reported = 0

        def __init__(self, *args: object, **options: Any) -> None:
            # Others count files, and what the network sends.
            self.counts = options.get("unit") == "B" and not str(options.get("name")).endswith("transfer")
            fixed = {"disable": False, "leave": False, "file": io.StringIO(), "mininterval": _REPORT_SECONDS}
            super().__init__(*args, **options | fixed)  # type: ignore[no-untyped-call]

        def display(self, msg: str | None = None, pos: int | None = None) -> None:
            # The empty message is that of its end, when `report` may have ended.
            if self.counts and self.total and msg is None:
                # It grows with each file that begins, so that it is reached only at the end.
                total = Bar.total_reported = math.ceil(self.total / _MEGABYTE)
                report(what, min(int(self.n) // _MEGABYTE, total - 1), total)

        def refresh(self, nolock: bool = False, lock_args: tuple[object, ...] | None = None) -> None:
            # The library's own keeps the lock where `report` fails, and the other files' threads wait for ever.
            with self.get_lock():
                self.display()

    # All bars of a process share a lock: one that another library has not given back is none of these.
    Bar.set_lock(RLock())
    return Bar


def check_reachable(what: str, hint: Hint) -> None:
    """Raise Unreachable where the hub does not answer, at once: its client would try for half a minute."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_TIMEOUT_SECONDS)
    # Of requests or of httpx, by the library's version.
    except Exception as error:
        raise Unreachable(f"{what} ({type(error).__name__})", hint) from None


@contextmanager
def explained(
    repo: Repo, other: str = "the download of {} broke off", hint: Hint = _AGAIN, access: str = "read"
) -> Iterator[None]:
    """Turn errors in the body into DataErrors, or a RunError where the cache cannot be written.

    `other` is what is wrong, before its own words, where an error is neither an answer of the hub nor of the disk.
    """
    from huggingface_hub import constants

    try:
        yield
    except ContrastError:
        raise
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if ours := _answer(cause, repo, access):
                raise ours from None
            if (of_system := system_error(cause)) and of_system.errno in _OF_THE_DISK:
                with writing_to(Path(constants.HF_HUB_CACHE), "keep the cache on another disk: export HF_HOME=DIR"):
                    raise of_system from None
            if constants.HF_HUB_OFFLINE and isinstance(cause, ConnectionError):
                what = f"{repo.title} is not in the hub cache, and HF_HUB_OFFLINE is set"
                raise Unreachable(what, "unset HF_HUB_OFFLINE, or give a file of this machine") from None
            cause = cause.__cause__ or cause.__context__
        raise DataError(f"{other.format(repo.title)}: {error_text(error.__cause__ or error)}", hint) from None


def _answer(error: Any, repo: Repo, access: str) -> DataError | None:
    """What an answer of the hub means; None for another error."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return DataError(f"{repo.title} needs its owner's consent", f"ask on {repo.page}, then: hf auth login")
    if isinstance(error, errors.RevisionNotFoundError):
        what = f"the hub has no revision '{repo.revision}' of '{repo.name}'"
        return DataError(what, f"leave out @{repo.revision}, or choose one of {repo.page}/commits")
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        what = f"{repo.title} is {'neither a folder nor a model' if repo.kind == 'model' else 'not'} on the hub"
        return Absent(what, "check the spelling: owner/name, or if it is private: hf auth login")
    if not isinstance(error, errors.HfHubHTTPError) or isinstance(error, errors.EntryNotFoundError):
        return None
    status, headers = error.response.status_code, error.response.headers
    # Both end with the seconds, but for a date.
    wait = re.search(r"\d+$", headers.get("Retry-After") or headers.get("RateLimit") or "")
    limited = f"run the same command again {f'in {wait[0]} s' if wait else 'later'}, or log in for a higher limit"
    login = f"log in with a token that may {access} it: hf auth login"
    hints = {401: login, 403: login, 429: f"{limited}: hf auth login"}
    phrase = next((f" ({one.phrase})" for one in HTTPStatus if one == status), "")
    reason = f": {error.server_message}" if error.server_message else ""
    what = f"the hub answers {status}{phrase} for {repo.title}{reason}"
    return DataError(what, hints.get(status, "wait a few minutes, then run the same command again"))
